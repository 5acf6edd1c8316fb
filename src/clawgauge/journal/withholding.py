"""What this process must not write into any run folder.

Owns: the one set of secrets that every byte on its way into a run folder is checked against. It belongs to the process
and not to a folder, as the environment does that the secrets come from: no writer of a file can forget to pass it on.
Refuses: finding secrets; it is told them, once, when a run is planned.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from clawgauge.journal.lines import encode_document, encode_line
from clawgauge.records import Result
from clawgauge.redaction import SecretMask, mask_strings

KEY_WITHHELD = "key_withheld: the reply held one of your keys, recorded as ***; the verdict is of the reply as it came"


class Withholding:
    """Takes known secrets out of what is about to be written. Knows none until it is told."""

    def __init__(self) -> None:
        self._secrets = SecretMask()

    def withhold(self, secrets: Iterable[str], own_words: str = "") -> None:
        """From now on nothing that is written holds one of `secrets`; earlier ones are forgotten.

        What merely looks like a piece of one and stands in the user's `own_words` is let through.
        """
        self._secrets = SecretMask(secrets, own_words)

    def clean(self, data: bytes) -> bytes:
        """A whole file, JSON or text, or one line of JSON, with every secret replaced by `***`."""
        if not self._secrets.finds(data):
            return data
        try:
            document = msgspec.json.decode(data)
        except msgspec.DecodeError:
            return self._secrets.mask(data.decode("utf-8", "replace")).encode()
        # Masked in its texts and not in its bytes: half an escape left over would break the file.
        return encode_document(self._masked(document), pretty=data.count(b"\n") > 1)

    def result_line(self, result: Result) -> bytes:
        """`result` as a line, with a warning in it where a secret was taken out."""
        line = encode_line(result)
        if not self._secrets.finds(line):
            return line
        record = msgspec.to_builtins(result)
        masked = self._masked(record)
        if masked == record:
            return line
        # Said in the record, so that nobody takes the masked text for what the model wrote, or judges it again.
        masked["warnings"].append(KEY_WITHHELD)
        return encode_line(masked)

    def _masked(self, value: Any) -> Any:
        return mask_strings(value, self._secrets.mask)


_process = Withholding()
withhold, clean, result_line = _process.withhold, _process.clean, _process.result_line
