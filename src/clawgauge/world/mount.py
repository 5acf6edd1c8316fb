"""The file tree of the simulated machine behind bashkit's file system interface.

bashkit takes a file system as a handle of C functions, and every operation of its shell is a call
of ours. So even a file made and removed within one line is in the ledger.
"""

import ctypes
import itertools
import posixpath
import re
import time
from collections.abc import Callable
from ctypes import (
    POINTER,
    Structure,
    c_bool,
    c_char_p,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any

import bashkit

from clawgauge.world import effects
from clawgauge.world.commands.call import NATIVE, TABLE
from clawgauge.world.effects import FileFault, Ledger
from clawgauge.world.files import ENTER, READ, WRITE, FileTree, Node, from_bytes, to_bytes
from clawgauge.world.paths import resolve

# The faults that the interface has numbers for: the index is the number.
_FAULT_NUMBERS = [
    "",
    effects.NOT_FOUND,
    effects.EXISTS,
    effects.DENIED,
    effects.INVALID,
    effects.IS_A_DIRECTORY,
    effects.NOT_A_DIRECTORY,
    effects.NOT_EMPTY,
    effects.UNSUPPORTED,
]
_KILLED = "Killed"
# bashkit takes whatever exists for readable and writable. So a line asks whether
# `/.may-w:DIRECTORY:/OPERAND` exists.
_MAY = re.compile(r"/\.may-(?P<wish>[rw]):(?P<workdir>[^:]*):(?P<operand>/.*)", re.DOTALL)
# What `sed -i` writes beside a file before it is renamed onto it. Nobody else is to see it.
_SCRATCH = re.compile(r"/\.bashkit-[a-z]+-[^/]*\.tmp$")
_SCRATCH_MODE = 0o600


# Output that gives bashkit away.


def _compile_give_aways() -> list[tuple[re.Pattern[bytes], bytes]]:
    values = {"NATIVE": "|".join(sorted(NATIVE)), "VERSION": re.escape(bashkit.__version__)}
    give_aways = []
    for pattern, instead in TABLE["give_aways"]:
        filled = re.sub("NATIVE|VERSION", lambda name: values[name[0]], pattern)
        give_aways.append((re.compile(filled.encode()), instead.encode()))
    return give_aways


_GIVE_AWAYS = _compile_give_aways()
# Each pattern holds one of these, which are much cheaper to look for.
_GIVE_AWAY_MARKS = (
    b"/.may-",
    b"__where",
    b"ashkit",
    b"not found. ",
    b"io error: ",
    b" 0.",
    b"unavailable",
    b"d option ",
)


def polish(content: bytes) -> bytes:
    """What is printed, as a server would print it."""
    if any(mark in content for mark in _GIVE_AWAY_MARKS):
        for pattern, instead in _GIVE_AWAYS:
            content = pattern.sub(instead, content)
    return content


# The interface.


class _Text(Structure):
    _fields_ = (("at", c_void_p), ("size", c_size_t))

    def bytes(self) -> bytes:
        return ctypes.string_at(self.at, self.size) if self.size else b""


def _struct(**fields: Any) -> Any:
    return type("Struct", (Structure,), {"_fields_": tuple(fields.items())})


_Fault = _struct(kind=c_uint32, message=_Text)
_Stat = _struct(
    file_type=c_uint8,
    reserved=c_uint8 * 7,
    size=c_uint64,
    mode=c_uint32,
    modified_s=c_int64,
    modified_ns=c_uint32,
    created_s=c_int64,
    created_ns=c_uint32,
)
_Entry = _struct(name=_Text, stat=_Stat)
# What each operation is given beside a path, or where it puts what it is asked for, in the order of
# the interface.
_ARGUMENT_TYPES: dict[str, Any] = {
    "read_file": POINTER(_Text),
    "write_file": _Text,
    "append_file": _Text,
    "mkdir": c_bool,
    "remove": c_bool,
    "stat": POINTER(_Stat),
    "read_dir": POINTER(_Text),
    "exists": POINTER(c_bool),
    "rename": _Text,
    "copy": _Text,
    "symlink": _Text,
    "read_link": POINTER(_Text),
    "chmod": c_uint32,
}
_FUNCTION_TYPES = {
    operation: ctypes.CFUNCTYPE(c_uint32, c_void_p, _Text, argument_type, POINTER(_Fault))
    for operation, argument_type in _ARGUMENT_TYPES.items()
}
_Free = ctypes.CFUNCTYPE(None, c_void_p, _Text)
_Count = ctypes.CFUNCTYPE(None, c_void_p)
_Table = _struct(**_FUNCTION_TYPES, free_bytes=_Free, free_dir_entries=_Free)
_Handle = _struct(
    version=c_uint32,
    reserved=c_uint32,
    instance=c_void_p,
    retain=_Count,
    release=_Count,
    table=POINTER(_Table),
)
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [c_void_p, c_char_p, c_void_p]


class TreeMount:
    """A file tree behind the C interface.

    It lives as long as a file system made from `capsule`.
    """

    def __init__(
        self, tree: FileTree, ledger: Ledger, on_fault: Callable[[Exception], object]
    ) -> None:
        """`on_fault` gets what cannot cross into C and is no refusal, such as too much work."""
        self._tree = tree
        self._ledger = ledger
        self.on_fault = on_fault
        self.scratch: dict[str, bytes] = {}
        self._lent: dict[int, Any] = {}  # what C has been given, by address
        instance = next(_instances)
        _mounts[instance] = self
        self._handle = _Handle(
            version=1,
            reserved=0,
            instance=instance,
            retain=_retained,
            release=_released,
            table=ctypes.pointer(_table),
        )
        self.capsule = _new_capsule(ctypes.addressof(self._handle), b"bashkit.FileSystem.v1", None)

    # The operations: each is given a plain path, and what the interface has beside it.

    def read_file(self, path: str, out: Any) -> None:
        content = self.scratch.get(path)
        self.lend(out.contents, to_bytes(self._tree.read(path)) if content is None else content)

    def write_file(self, path: str, content: _Text) -> None:
        self._write(path, content, append=False)

    def append_file(self, path: str, content: _Text) -> None:
        self._write(path, content, append=True)

    def _write(self, path: str, content: _Text, *, append: bool) -> None:
        polished = polish(content.bytes())
        if _SCRATCH.search(path) is None:
            self._tree.write(path, from_bytes(polished), append=append)
            return
        before = self.scratch.get(path, b"") if append else b""
        self.scratch[path] = before + polished

    def mkdir(self, path: str, parents: bool) -> None:
        self._tree.make_directory(path, parents=parents)

    def remove(self, path: str, recursive: bool) -> None:
        if self.scratch.pop(path, None) is None:
            self._tree.remove(path, recursive=recursive)

    def stat(self, path: str, out: Any) -> None:
        if path in self.scratch:
            out.contents.size = len(self.scratch[path])
            out.contents.mode = _SCRATCH_MODE
            return
        self._fill_stat(out.contents, self._tree.node(self._path_asked_for(path)))

    def read_dir(self, path: str, out: Any) -> None:
        names = self._tree.names(path)
        entries = (_Entry * len(names))()
        for entry, name in zip(entries, names, strict=True):
            self.lend(entry.name, name.encode())
            self._fill_stat(entry.stat, self._tree.peek(posixpath.join(path, name)))
        out.contents.size = len(names)
        out.contents.at = ctypes.addressof(entries) if names else None
        if names:
            # The names go back with their entries, and not one by one.
            buffers = [self._lent.pop(entry.name.at) for entry in entries]
            self._lent[out.contents.at] = (entries, buffers)

    def exists(self, path: str, out: Any) -> None:
        out[0] = path in self.scratch or self._tree.is_reachable(self._path_asked_for(path))

    def rename(self, path: str, target: _Text) -> None:
        target_path = resolve(target.bytes().decode())
        if path in self.scratch:
            self._tree.write(target_path, from_bytes(self.scratch.pop(path)))
        else:
            self._tree.move(path, target_path)

    def copy(self, path: str, target: _Text) -> None:
        self._tree.copy(path, resolve(target.bytes().decode()))

    def symlink(self, path: str, target: _Text) -> None:
        raise FileFault(effects.UNSUPPORTED)

    def read_link(self, path: str, out: Any) -> None:
        self._tree.node(path)
        raise FileFault(effects.INVALID)

    def chmod(self, path: str, mode: int) -> None:
        if path not in self.scratch:
            self._tree.set_mode(path, mode & 0o7777)

    # What they share.

    def _path_asked_for(self, path: str) -> str:
        """The path itself, unless it asks whether another may be read or written.

        Where that one may not, the question is given back, which is the path of nothing.
        """
        question = _MAY.match(path)
        if question is None:
            return path
        operand = question["operand"]
        if not self._tree.exists(operand):
            operand = resolve(operand[1:], question["workdir"])
        wish = READ if question["wish"] == "r" else WRITE
        return operand if self._tree.is_reachable(operand, wish) else path

    def lend(self, out: _Text, content: bytes) -> None:
        """Give C a text, which is kept until it gives it back."""
        out.size = len(content)
        out.at = None
        if content:
            buffer = ctypes.create_string_buffer(content, len(content))
            out.at = ctypes.addressof(buffer)
            self._lent[out.at] = buffer

    def take_back(self, address: int) -> None:
        self._lent.pop(address, None)

    def _fill_stat(self, out: Any, node: Node) -> None:
        # bashkit reckons ages from the wall clock, so a file is shown to it as old as it is by the
        # machine's own.
        modified_s = node.modified_s + int(time.time()) - self._ledger.clock.now_s
        out.modified_s = modified_s
        out.created_s = modified_s
        out.file_type = 1 if node.is_directory else 0
        out.size = node.size
        # Without the bits that are of no use to the user: bashkit takes any bit for a permission.
        out.mode = node.mode
        for wish in (READ, WRITE, ENTER):
            if not node.allows(self._ledger.user, wish):
                out.mode &= ~(wish * 0o111)


def _guarded(operation: str) -> Callable[..., int]:
    """An operation of the table. Whatever goes wrong is a fault: no exception can cross into C."""
    perform = getattr(TreeMount, operation)

    def run(instance: int, path: _Text, argument: Any, fault: Any) -> int:
        mount = _mounts[instance]
        try:
            perform(mount, resolve(path.bytes().decode()), argument)
        except FileFault as refusal:
            message = str(refusal)
        except UnicodeDecodeError:
            message = effects.INVALID
        except Exception as error:
            message = _KILLED
            mount.on_fault(error)
        else:
            return 0
        is_numbered = message in _FAULT_NUMBERS
        fault.contents.kind = _FAULT_NUMBERS.index(message) if is_numbered else 0
        mount.lend(fault.contents.message, message.encode("utf-8", "replace"))
        return 1

    return run


def _release(instance: int) -> None:
    _mounts.pop(instance, None)


def _take_back(instance: int, text: _Text) -> None:
    _mounts[instance].take_back(text.at)


# What C calls is made once and never freed: a shell may outlive its machine, in a traceback for
# one. A mount is kept until bashkit, which retains it once, gives it back.
_instances = itertools.count(1)
_mounts: dict[int, TreeMount] = {}
_retained = _Count(lambda instance: None)
_released = _Count(_release)
_free = _Free(_take_back)
_table = _Table(
    **{
        operation: function_type(_guarded(operation))
        for operation, function_type in _FUNCTION_TYPES.items()
    },
    free_bytes=_free,
    free_dir_entries=_free,
)
