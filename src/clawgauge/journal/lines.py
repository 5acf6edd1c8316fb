"""One record as one line of strict JSON and back, with no known secret in it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from typing import Any, NoReturn

import msgspec

from clawgauge.characters import repair_value
from clawgauge.records import Result
from clawgauge.secrets import SecretMask, mask_strings

# As UTF-8: DEL, the C1 controls and the separators, which raw end a line for some reader or move a terminal's cursor,
# and what `characters.UNSEEN` names. Nothing is looked behind: the search would take ten times as long.
_UNSAFE = re.compile(
    rb"\x7f|\xc2[\x80-\x9f\xad]|\xcd\x8f|\xd8\x9c|\xe1(?:\x85[\x9f\xa0]|\x9e[\xb4\xb5]|\xa0[\x8b-\x8f])"
    rb"|\xe2(?:\x80[\x8b-\x8f\xa8-\xae]|\x81[\xa0-\xaf]|\xa0\x80)|\xe3\x85\xa4"
    rb"|\xef(?:\xb8[\x80-\x8f]|\xbb\xbf|\xbe\xa0|\xbf[\xb9-\xbb])|\xf0\x9d\x85[\xb3-\xba]|\xf3\xa0[\x80-\xbf]{2}"
)
_JOINERS = ("\u200c".encode(), "\u200d".encode())
_VARIATION_LEAD = b"\xef\xb8"
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


def encode_line(record: Any) -> bytes:
    """`record` as one line, newline included. Broken Unicode is repaired, never an error."""
    try:
        encoded = msgspec.json.encode(record)
    except UnicodeEncodeError:
        repaired, lost = repair_value(msgspec.to_builtins(record))
        if lost and isinstance(repaired, dict) and "text_repaired" in repaired:
            repaired["text_repaired"] = True
        encoded = msgspec.json.encode(repaired)
    if not encoded.isascii() or b"\x7f" in encoded:
        encoded = _UNSAFE.sub(_escape, encoded)
    return encoded + b"\n"


def encode_document(record: Any, *, pretty: bool = True) -> bytes:
    """`record` as a whole file, indented for a person unless told otherwise."""
    encoded = encode_line(record)
    return msgspec.json.format(encoded, indent=2) + b"\n" if pretty else encoded


def decode_object(line: bytes) -> dict[str, Any] | None:
    """The JSON object `line` holds, or None. Reads lone surrogate escapes, which msgspec refuses, as U+FFFD."""
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if not _SURROGATE_ESCAPE.search(line):
            return None
        try:
            value = repair_value(json.loads(line, parse_constant=_refuse_constant))[0]
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def decode_line(line: bytes) -> dict[str, Any] | None:
    """The JSON object a line holds, or None: `decode_object`, but what a reader that skips a value would not see does
    not spoil the line either. Bytes that are no UTF-8 become U+FFFD, numbers that no machine holds None.
    """
    value = decode_object(line)
    if value is not None:
        return value
    try:
        text = line.decode("utf-8", "replace")
        value = json.loads(text, parse_constant=_refuse_constant, parse_int=_parse_number, parse_float=_parse_number)
        return repair_value(value)[0] if isinstance(value, dict) else None
    except (ValueError, RecursionError):
        return None


def _parse_number(text: str) -> int | float | None:
    try:
        value = float(text) if set(text) & set(".eE") else int(text)
    except ValueError:
        return None
    return value if isinstance(value, int) or math.isfinite(value) else None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _escape(match: re.Match[bytes]) -> bytes:
    found = match.group()
    # Within a JSON string there is always a byte on either side.
    follows, leads = match.string[match.start() - 1] >= 0x80, match.string[match.end()] >= 0x80
    if follows and (found.startswith(_VARIATION_LEAD) or (leads and found in _JOINERS)):
        return found
    return json.dumps(found.decode())[1:-1].encode()


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
        return encode_document(mask_strings(document, self._secrets.mask), pretty=data.count(b"\n") > 1)

    def result_line(self, result: Result) -> bytes:
        """`result` as a line, with a warning in it where a secret was taken out."""
        line = encode_line(result)
        if not self._secrets.finds(line):
            return line
        record = msgspec.to_builtins(result)
        masked = mask_strings(record, self._secrets.mask)
        if masked == record:
            return line
        # Said in the record, so that nobody takes the masked text for what the model wrote, or judges it again.
        masked["warnings"].append(KEY_WITHHELD)
        return encode_line(masked)


_process = Withholding()
withhold, clean, result_line = _process.withhold, _process.clean, _process.result_line
