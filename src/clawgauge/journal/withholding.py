"""What this process must not write into any run folder.

Owns: the one set of secrets that every byte on its way into a run folder is checked against. It belongs to the process
and not to a folder, as the environment does that the secrets come from: no writer of a file can forget to pass it on.
Refuses: finding secrets; it is told them, once, when a run is planned.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from clawgauge.journal.lines import encode_line
from clawgauge.records import Result
from clawgauge.redaction import SecretMask

KEY_WITHHELD = "key_withheld: the reply held one of your keys, recorded as ***; the verdict is of the reply as it came"

# The caps on answers and reasoning are 64 KB, so a text of fewer characters was not cut in the middle of a key.
_MAYBE_CUT_CHARS = 65_536 // 4


class Withholding:
    """Takes known secrets out of what is about to be written. Knows none until it is told."""

    def __init__(self) -> None:
        self._secrets = SecretMask()

    def withhold(self, secrets: Iterable[str]) -> None:
        """From now on nothing that is written holds one of `secrets`; earlier ones are forgotten."""
        self._secrets = SecretMask(secrets)

    def clean(self, data: bytes) -> bytes:
        """`data` with every secret replaced by `***`."""
        return self._secrets.mask(data)

    def result_line(self, result: Result) -> bytes:
        """`result` as a line, with a warning in it where a secret was taken out."""
        kept = self._without_cut_secret(result)
        line = encode_line(kept)
        if kept is result and self.clean(line) == line:
            return line
        # Said in the record, so that nobody takes the masked text for what the model wrote, or judges it again.
        return self.clean(encode_line(msgspec.structs.replace(kept, warnings=[*kept.warnings, KEY_WITHHELD])))

    def _without_cut_secret(self, result: Result) -> Result:
        texts = {"raw_output": result.raw_output, "reasoning_text": result.reasoning_text}
        long = {name: text for name, text in texts.items() if text and len(text) >= _MAYBE_CUT_CHARS}
        masked = {name: self._secrets.mask_cut_end(text) for name, text in long.items()}
        return result if masked == long else msgspec.structs.replace(result, **masked)


_process = Withholding()
withhold, clean, result_line = _process.withhold, _process.clean, _process.result_line
