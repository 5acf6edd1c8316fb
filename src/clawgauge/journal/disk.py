"""What is in a run folder, the one way to open it, bytes that last; one record as one line of JSON, with no secret.

A run folder may come from anyone, so nothing in it is followed or waited for: a name is looked up in the folder's own
descriptor (on Windows by its path, before and after), and only a regular file is read or written."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import re
import secrets
import stat
import unicodedata
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import msgspec

from clawgauge.characters import repair_value
from clawgauge.errors import ClawgaugeError, DiskFailure, RunFolderError
from clawgauge.json_limits import RECORD_LIMITS, find_excess
from clawgauge.records import Target
from clawgauge.secrets import SecretMask, mask_strings

CONFIG, INVENTORY, RESULTS, SUMMARY = "config.json", "inventory.json", "results.jsonl", "summary.json"
EVENTS, SUPERSEDED, TORN, LOCK = "events.jsonl", "superseded.jsonl", "results.torn", ".lock"

RECORDS = frozenset({CONFIG, INVENTORY, RESULTS, SUMMARY, EVENTS, SUPERSEDED, TORN, LOCK})

LATEST = "latest"
"""The word that stands for the most recent run on the command line, so no run may bear it."""

MAX_RUN_ID_CHARS, _MAX_NAME_BYTES = 120, 240
_WINDOWS_CHARACTERS = frozenset('<>:"|?*')
_DOS_DEVICES = frozenset({"con", "prn", "aux", "nul"} | {f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10)})
# Control, format (bidi marks among them), surrogate, line and paragraph separator: a name a person cannot read back.
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
MAX_TAG_CHARS, _HASH_CHARS = 120, 16
# A plain tag can be read back in one way only: the model has no '_', so the last '_' ends the provider; '@' and '~' are
# in neither; and there are no capitals, so file systems that ignore case tell plain tags apart.
_PLAIN_TARGET = re.compile(r'\["[a-z0-9][a-z0-9_.-]*", "[a-z0-9.-]+", (?:null|"[a-z]+")\]')
_UNSAFE_RUN = re.compile(r"[^a-z0-9_.@-]+")
READ_BUFFER_BYTES = 1 << 18
LINE_CAP_BYTES = 16 << 20

APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})

# macOS and Windows have no fdatasync.
sync_data: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)
# The files `Directory.staged` makes, by the names it gives them, and version 0.1.0 gave.
LEFTOVER = re.compile(r"\..+\.[0-9]+-[0-9a-f]+\.tmp", re.DOTALL)
_BY_DESCRIPTOR = {os.open, os.stat, os.unlink, os.rename} <= os.supports_dir_fd and os.listdir in os.supports_fd
# Those of the flags that this system has.
_FOLDER_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_DIRECTORY", "O_CLOEXEC"))
# A FIFO without a writer is opened at once instead of waited for, and is then seen to be one.
_FILE_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY"))
_KINDS = {
    stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
}  # fmt: skip
# As UTF-8: DEL, the C1 controls and the separators, which raw end a line for some reader or move a terminal's cursor,
# and what `characters.UNSEEN` names. Nothing is looked behind: the search would take ten times as long.
_UNSAFE_BYTES = re.compile(
    rb"\x7f|\xc2[\x80-\x9f\xad]|\xcd\x8f|\xd8\x9c|\xe1(?:\x85[\x9f\xa0]|\x9e[\xb4\xb5]|\xa0[\x8b-\x8f])"
    rb"|\xe2(?:\x80[\x8b-\x8f\xa8-\xae]|\x81[\xa0-\xaf]|\xa0\x80)|\xe3\x85\xa4"
    rb"|\xef(?:\xb8[\x80-\x8f]|\xbb\xbf|\xbe\xa0|\xbf[\xb9-\xbb])"
    rb"|\xf0(?:\x9b\xb2[\xa0-\xa3]|\x9d\x85[\xb3-\xba])|\xf3\xa0[\x80-\xbf]{2}"
)
_JOINERS = ("\u200c".encode(), "\u200d".encode())
_VARIATION_LEAD = b"\xef\xb8"
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")

KEY_WITHHELD = "key_withheld: the reply held one of your keys, recorded as ***; the verdict is of the reply as it came"
# The one mask of this process, where it has secrets to mask.
_mask: list[SecretMask] = []


def write_all(fd: int, data: bytes) -> None:
    """Write all of `data`, however little the system takes at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of `file`, newlines included, split at newlines alone; one over the cap comes in pieces."""
    return iter(partial(file.readline, LINE_CAP_BYTES), b"")


def disk_failure(path: Path, error: OSError) -> DiskFailure:
    why = f"Cannot write {path} ({error.strerror or error})"
    return DiskFailure(f"{why}; what was recorded before stands: {way_out(error)}, then go on with --resume.")


def way_out(error: BaseException | None) -> str:
    refused = isinstance(error, OSError) and error.errno in (errno.EROFS, errno.EACCES, errno.EPERM)
    return "give this user leave to write there" if refused else "make room on the disk"


def folder_failure(path: Path, error: OSError) -> ClawgaugeError:
    """The error for a folder that cannot be made or written: a full disk, or a place the user must change."""
    if error.errno in FULL:
        return disk_failure(path, error)
    why = f"Cannot write to {path} ({error.strerror or error})"
    instead = (
        "work on a copy of the run (show only reads it)" if stat_file(path, CONFIG) else "choose another --runs-dir"
    )
    return RunFolderError(f"{why}; give this user leave to write there, or {instead}.")


class Directory:
    """A run folder's directory, held open. With `search_only` its files can be read by name and nothing else."""

    def __init__(self, path: Path, *, search_only: bool = False) -> None:
        self.path = path
        flags = getattr(os, "O_PATH", 0) | _FOLDER_FLAGS if search_only else _FOLDER_FLAGS
        self.fd: int | None = os.open(path, flags) if _BY_DESCRIPTOR else None
        # What stands before a name in the folder, for the system's calls.
        self.prefix = "" if self.fd is not None else f"{path}{os.sep}"
        # Some network file systems number a file anew at every look: there nothing can be told of it later.
        self._has_identity = self.fd is not None and is_same(path, self.fd)

    def open(self, name: str, flags: int, *, cap_bytes: int | None = None) -> int:
        """A descriptor of the regular file `name`; `RunFolderError` for anything else, or what is over its cap."""
        self._refuse_foreign(name)
        fd = os.open(self.prefix + name, flags | _FILE_FLAGS, 0o666, dir_fd=self.fd)
        try:
            self._refuse_foreign(name, fd)
            found = os.fstat(fd)
            if cap_bytes is not None and found.st_size > cap_bytes:
                much = f"{found.st_size:,} bytes, and no run writes more than {cap_bytes:,} there"
                raise RunFolderError(f"{self.path / name} has {much}; restore it from a copy.")
            if flags & (os.O_WRONLY | os.O_RDWR) and found.st_nlink > 1:
                why = "a hard link: writing it would change another file too"
                raise RunFolderError(f"{self.path / name} is {why}; put a copy in its place, and try again.")
        except BaseException:
            os.close(fd)
            raise
        return fd

    def entries(self) -> dict[str, os.stat_result]:
        """What bears each name, itself and not what it may point to."""
        found = {}
        for name in os.listdir(self.path if self.fd is None else self.fd):  # noqa: PTH208  # a descriptor has no Path
            with suppress(FileNotFoundError):
                found[name] = os.stat(self.prefix + name, dir_fd=self.fd, follow_symlinks=False)
        return found

    def unlink(self, name: str) -> None:
        os.unlink(self.prefix + name, dir_fd=self.fd)

    def sync(self) -> None:
        """Make the names in the folder last. Windows offers no such thing and needs none."""
        if self.fd is not None:
            os.fsync(self.fd)

    @contextmanager
    def staged(self, name: str) -> Iterator[BinaryIO]:
        """A file that takes the place of `name`, whole and synced, once the block ends well; else leaves no trace."""
        self._refuse_foreign(name)
        temp = f".{name}.{os.getpid()}-{secrets.token_hex(6)}.tmp"
        fd = self.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            with os.fdopen(fd, "wb", buffering=READ_BUFFER_BYTES) as file:
                yield file
                file.flush()
                os.fsync(fd)
            self.require_present()
            os.replace(self.prefix + temp, self.prefix + name, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except BaseException:
            with suppress(OSError):
                self.unlink(temp)
            raise
        self.sync()

    def require_present(self, name: str | None = None, fd: int | None = None) -> None:
        """Raise `DiskFailure` unless the path still leads to this folder, and `name` in it to the open file `fd`."""
        if self.fd is None or not self._has_identity:
            return
        why, what = f"Run folder {self.path} is no longer there: it was deleted, moved or replaced.", "folder"
        if is_same(self.path, self.fd):
            if name is None or fd is None or is_same(name, fd, self.fd):
                return
            why, what = f"{self.path / name} was deleted or replaced while the run was writing it.", "files"
        more = f"Nothing more is asked, because nothing more could be recorded; leave a run its {what} until it ends."
        raise DiskFailure(f"{why} {more}")

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)
            self.fd, self.prefix = None, f"{self.path}{os.sep}"

    def _refuse_foreign(self, name: str, fd: int | None = None) -> None:
        """Raise where `name`, or the open file, is something else than a file; there may be none."""
        try:
            found = os.stat(self.prefix + name, dir_fd=self.fd, follow_symlinks=False) if fd is None else os.fstat(fd)
        except FileNotFoundError:
            return
        if not stat.S_ISREG(found.st_mode):
            kind = _KINDS.get(stat.S_IFMT(found.st_mode), "no regular file")
            why = f"{self.path / name} is {kind}, and nothing in a run folder but files is read or written"
            raise RunFolderError(f"{why}; take it away, and try again.")


def open_file(folder: Path, name: str, cap_bytes: int | None = None) -> io.BufferedReader:
    with closing(Directory(folder, search_only=True)) as directory:
        fd = directory.open(name, os.O_RDONLY, cap_bytes=cap_bytes)
    return io.BufferedReader(io.FileIO(fd, "rb"), READ_BUFFER_BYTES)


def read_file(folder: Path, name: str, cap_bytes: int) -> bytes | None:
    """The whole of `name`; None where there is none, or no folder. Refused unread where larger than `cap_bytes`."""
    try:
        with open_file(folder, name, cap_bytes) as file:
            # Of a file that somebody makes longer meanwhile no more than was looked at.
            return file.read(os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        return None


@contextmanager
def replace_beside_records(path: Path) -> Iterator[BinaryIO]:
    """A file in a run folder that nobody holds, put there at one stroke; the records themselves are refused."""
    if path.name.casefold() in RECORDS:
        raise RunFolderError(f"{path} is a run's own record, and nothing else is written there; choose another name.")
    with closing(Directory(path.parent)) as directory, directory.staged(path.name) as file:
        yield file


def stat_file(folder: Path, name: str) -> os.stat_result | None:
    """What bears `name` in `folder`; None where nothing does, or nobody may look."""
    try:
        return (folder / name).lstat()
    except (OSError, ValueError):
        return None


def is_barren(path: Path) -> bool:
    """Whether nothing was ever written into folder `path`: what a kill leaves in the first instant of a run."""
    try:
        with closing(Directory(path)) as directory:
            entries = directory.entries()
    except OSError:
        return False
    if (results := entries.get(RESULTS)) is not None and results.st_size:
        return False
    spare = all(name in (LOCK, RESULTS) or LEFTOVER.fullmatch(name) for name in entries)
    return spare and all(stat.S_ISREG(found.st_mode) for found in entries.values())


def is_same(name: str | Path, fd: int, dir_fd: int | None = None) -> bool:
    """Whether `name`, in the folder `dir_fd` if one is given, still leads to the open file `fd`."""
    try:
        return os.path.samestat(os.stat(name, dir_fd=dir_fd, follow_symlinks=dir_fd is None), os.fstat(fd))
    except OSError:
        return False


def check_run_id(run_id: str) -> None:
    """Raise `RunFolderError` for a run id that is not one plain, portable folder name."""
    faults = {
        "is empty": not run_id,
        "has a control or invisible character in it": any(unicodedata.category(one) in _UNPRINTABLE for one in run_id),
        "has a path separator in it": "/" in run_id or "\\" in run_id,
        "starts with a dot": run_id.startswith("."),
        "starts or ends with a space or a dot": run_id != run_id.strip() or run_id.endswith("."),
        'has one of < > : " | ? * in it': not _WINDOWS_CHARACTERS.isdisjoint(run_id),
        "is a device name on Windows": run_id.partition(".")[0].rstrip().lower() in _DOS_DEVICES,
        f"is longer than {_MAX_NAME_BYTES} bytes": len(run_id.encode("utf-8", "replace")) > _MAX_NAME_BYTES,
        f"is longer than {MAX_RUN_ID_CHARS} characters": len(run_id) > MAX_RUN_ID_CHARS,
        "starts with a dash": run_id.startswith("-"),
        "is the word for the most recent run": run_id.lower() == LATEST,
    }
    if (fault := next((words for words, holds in faults.items() if holds), None)) is not None:
        shown = run_id if len(run_id) <= MAX_RUN_ID_CHARS else run_id[:40] + "…"
        raise RunFolderError(f"The run id {shown!r} {fault}; use letters, digits, '_', '-' and '.'.")


def resource_tag(target: Target) -> str:
    """The target's name where that is unmistakable, otherwise a readable likeness, `~` and a hash of the target."""
    name = f"{target.provider}_{target.model}"
    name += "" if target.thinking_level is None else f"@{target.thinking_level}"
    identity = json.dumps([target.provider, target.model, target.thinking_level])
    if _PLAIN_TARGET.fullmatch(identity) and len(name) <= MAX_TAG_CHARS:
        return name
    digest = hashlib.sha256(identity.encode()).hexdigest()[:_HASH_CHARS]
    likeness = _UNSAFE_RUN.sub("-", name.lower()).lstrip(".@-")[: MAX_TAG_CHARS - _HASH_CHARS - 1]
    return f"{likeness}~{digest}"


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
        encoded = _UNSAFE_BYTES.sub(_escape, encoded)
    return encoded + b"\n"


def encode_document(record: Any, *, pretty: bool = True) -> bytes:
    """`record` as a whole file, indented for a person unless told otherwise."""
    encoded = encode_line(record)
    return msgspec.json.format(encoded, indent=2) + b"\n" if pretty else encoded


def decode_object(line: bytes, *, lenient: bool = False) -> dict[str, Any] | None:
    """The JSON object `line` holds, or None. Reads lone surrogate escapes, which msgspec refuses, as U+FFFD. With
    `lenient`, what a reader that skips a value would not see does not spoil the line either: bytes that are no UTF-8
    become U+FFFD, numbers that no machine holds None."""
    # A whole document has been looked at by its reader, by its own limits.
    if lenient and find_excess(line, RECORD_LIMITS) is not None:
        return None
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        if not lenient and not _SURROGATE_ESCAPE.search(line):
            return None
        numbers: Any = dict.fromkeys(("parse_int", "parse_float"), _parse_number if lenient else None)
        try:
            text = line.decode("utf-8", "replace" if lenient else "strict")
            value = repair_value(json.loads(text, parse_constant=_refuse_constant, **numbers))[0]
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


decode_line = partial(decode_object, lenient=True)


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


def withhold(secrets: Collection[str], own_words: str = "") -> None:
    """Nothing that this process writes from now on holds one; what but looks like it in `own_words` may pass."""
    _mask[:] = [SecretMask(secrets, own_words)] if secrets else []


def clean(data: bytes, warning: str = "") -> bytes:
    """A whole file, JSON or text, or one line of JSON, with every known secret replaced by `***`. A record where one
    was taken out is given the `warning`, so that nobody takes the masked text for what the model wrote, or judges it
    again."""
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
