"""Records as JSON, a line or a document each: safe to show, with none of the user's keys."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection
from typing import Any, NoReturn

import msgspec

from clawgauge.characters import repair_value
from clawgauge.json_limits import RECORD_LIMITS, find_excess
from clawgauge.secrets import SecretMask, mask_strings

KEY_WITHHELD = (
    "key_withheld: the reply held one of your keys, recorded as ***; "
    "the verdict is of the reply as it came"
)
# As UTF-8: DEL, the C1 controls and the separators, which raw end a line for some reader or move a
# terminal's cursor, and what `characters.UNSEEN` names. Nothing is looked behind: the search would
# take ten times as long.
_UNSAFE_BYTES = re.compile(
    rb"\x7f|\xc2[\x80-\x9f\xad]|\xcd\x8f|\xd8\x9c"
    rb"|\xe1(?:\x85[\x9f\xa0]|\x9e[\xb4\xb5]|\xa0[\x8b-\x8f])"
    rb"|\xe2(?:\x80[\x8b-\x8f\xa8-\xae]|\x81[\xa0-\xaf]|\xa0\x80)|\xe3\x85\xa4"
    rb"|\xef(?:\xb8[\x80-\x8f]|\xbb\xbf|\xbe\xa0|\xbf[\xb9-\xbb])"
    rb"|\xf0(?:\x9b\xb2[\xa0-\xa3]|\x9d\x85[\xb3-\xba])|\xf3\xa0[\x80-\xbf]{2}"
)
_JOINERS = ("\u200c".encode(), "\u200d".encode())
_VARIATION_LEAD = b"\xef\xb8"
_FIRST_NON_ASCII = 0x80
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding raises of bytes that are not what they should be."""
# The one mask of this process, where it has secrets to mask.
_mask: list[SecretMask] = []


def encode_line(record: Any) -> bytes:
    """`record` as one line, newline included. Broken Unicode is repaired, never an error."""
    try:
        encoded = msgspec.json.encode(record)
    except UnicodeEncodeError:
        repaired, has_lost_text = repair_value(msgspec.to_builtins(record))
        if has_lost_text and isinstance(repaired, dict) and "text_repaired" in repaired:
            repaired["text_repaired"] = True
        encoded = msgspec.json.encode(repaired)
    if not encoded.isascii() or b"\x7f" in encoded:
        encoded = _UNSAFE_BYTES.sub(_escape, encoded)
    return encoded + b"\n"


def encode_document(record: Any, *, pretty: bool = True) -> bytes:
    """`record` as a whole file, indented for a person unless `pretty` is false."""
    encoded = encode_line(record)
    return msgspec.json.format(encoded, indent=2) + b"\n" if pretty else encoded


def _escape(match: re.Match[bytes]) -> bytes:
    """An unsafe character as a JSON escape, or as it is where it joins or varies its neighbours."""
    character = match.group()
    # Within a JSON string there is always a byte on either side.
    follows_text = match.string[match.start() - 1] >= _FIRST_NON_ASCII
    leads_text = match.string[match.end()] >= _FIRST_NON_ASCII
    if follows_text and character.startswith(_VARIATION_LEAD):
        return character
    if follows_text and leads_text and character in _JOINERS:
        return character
    return json.dumps(character.decode())[1:-1].encode()


def decode_object(data: bytes) -> dict[str, Any] | None:
    """The JSON object in `data`, or None.

    Lone surrogate escapes, which msgspec refuses, are read as U+FFFD. How much the object may hold
    is for the caller to look at first.
    """
    try:
        value = msgspec.json.decode(data)
    except REFUSALS:
        if not _SURROGATE_ESCAPE.search(data):
            return None
        try:
            text = data.decode()
            value = repair_value(json.loads(text, parse_constant=_refuse_constant))[0]
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def decode_line(line: bytes) -> dict[str, Any] | None:
    """The JSON object of one line, or None where there is none, or more in it than a record has.

    What a reader that skips a value would not see does not spoil the line: bytes that are no UTF-8
    become U+FFFD, and numbers that no machine holds become None.
    """
    if find_excess(line, RECORD_LIMITS) is not None:
        return None
    try:
        value = msgspec.json.decode(line)
    except REFUSALS:
        try:
            text = line.decode("utf-8", "replace")
            value = json.loads(
                text,
                parse_constant=_refuse_constant,
                parse_int=_parse_number,
                parse_float=_parse_number,
            )
            value = repair_value(value)[0]
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def _parse_number(text: str) -> int | float | None:
    try:
        if "." in text or "e" in text or "E" in text:
            number = float(text)
            return number if math.isfinite(number) else None
        return int(text)
    except ValueError:  # more digits than Python converts
        return None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def withhold(secrets: Collection[str], own_words: str = "") -> None:
    """Nothing that this process writes from now on holds one of these secrets.

    What only looks like one, and stands in `own_words`, may pass.
    """
    # In one step: another thread may be writing.
    _mask[:] = [SecretMask(secrets, own_words)] if secrets else []


def clean(data: bytes, warning: str = "") -> bytes:
    """A whole file, JSON or text, or one line of JSON, with every known secret as `***`.

    A record out of which one was taken is given the `warning`, so that nobody takes the masked
    text for what the model wrote, or judges it again.
    """
    if not _mask or not _mask[0].finds(data):
        return data
    mask = _mask[0].mask
    try:
        document = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return mask(data.decode("utf-8", "replace")).encode()
    # Masked in its texts and not in its bytes: half an escape left over would break the file.
    masked = mask_strings(document, mask)
    if masked == document:
        return data
    if warning:
        masked["warnings"].append(warning)
    return encode_document(masked, pretty=data.count(b"\n") > 1)
