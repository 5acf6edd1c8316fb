"""The simulated file tree as bashkit sees it: every operation of its shell is a call of ours.

bashkit takes a foreign file system as a handle of C functions in a capsule named `bashkit.FileSystem.v1`. So nothing
the shell does to a file goes unseen, not even for a moment: a file made and removed within one line is in the log. The
structures below follow that interface field by field.
"""

from __future__ import annotations

import ctypes
import itertools
import re
import time
import weakref
from collections.abc import Callable
from ctypes import POINTER, Structure, c_bool, c_char_p, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any

from clawgauge.world import paths, refusals
from clawgauge.world.effects import Clock
from clawgauge.world.files import ENTER, READ, WRITE, FileTree, Node, from_bytes, to_bytes
from clawgauge.world.refusals import FileFault, OutOfFuel

_CAPSULE = b"bashkit.FileSystem.v1"
_KINDS = {
    refusals.NOT_FOUND: 1, refusals.EXISTS: 2, refusals.DENIED: 3, refusals.INVALID: 4, refusals.IS_A_DIRECTORY: 5,
    refusals.NOT_A_DIRECTORY: 6, refusals.NOT_EMPTY: 7, refusals.UNSUPPORTED: 8,
}  # fmt: skip
# bashkit takes whatever exists for readable and writable. So a line asks whether `/.may-w:DIRECTORY:/OPERAND` exists.
_MAY = re.compile(r"/\.may-(?P<wish>[rw]):(?P<workdir>[^:]*):(?P<operand>/.*)", re.DOTALL)
# What `sed -i` writes beside a file before it is renamed onto it. Nobody else is to see it.
_SCRATCH = re.compile(r"/\.bashkit-[a-z]+-[^/]*\.tmp$")


class _Text(Structure):
    """Bytes, or the entries of a directory, by their place and number."""

    _fields_ = (("at", c_void_p), ("size", c_size_t))

    def bytes(self) -> bytes:
        return ctypes.string_at(self.at, self.size) if self.size else b""


class _Fault(Structure):
    _fields_ = (("kind", c_uint32), ("message", _Text))


class _Stat(Structure):
    _fields_ = (
        ("file_type", c_uint8), ("reserved", c_uint8 * 7), ("size", c_uint64), ("mode", c_uint32),
        ("modified_s", c_int64), ("modified_ns", c_uint32), ("created_s", c_int64), ("created_ns", c_uint32),
    )  # fmt: skip


class _Entry(Structure):
    _fields_ = (("name", _Text), ("stat", _Stat))


_ToFault = POINTER(_Fault)
_Give = ctypes.CFUNCTYPE(c_uint32, c_void_p, _Text, POINTER(_Text), _ToFault)
_Two = ctypes.CFUNCTYPE(c_uint32, c_void_p, _Text, _Text, _ToFault)
_Flagged = ctypes.CFUNCTYPE(c_uint32, c_void_p, _Text, c_bool, _ToFault)
_Look = ctypes.CFUNCTYPE(c_uint32, c_void_p, _Text, POINTER(_Stat), _ToFault)
_Ask = ctypes.CFUNCTYPE(c_uint32, c_void_p, _Text, POINTER(c_bool), _ToFault)
_Mode = ctypes.CFUNCTYPE(c_uint32, c_void_p, _Text, c_uint32, _ToFault)
_Free = ctypes.CFUNCTYPE(None, c_void_p, _Text)
_Count = ctypes.CFUNCTYPE(None, c_void_p)

# In the order of the interface.
_TABLE: tuple[tuple[str, Any], ...] = (
    ("read_file", _Give), ("write_file", _Two), ("append_file", _Two), ("mkdir", _Flagged), ("remove", _Flagged),
    ("stat", _Look), ("read_dir", _Give), ("exists", _Ask), ("rename", _Two), ("copy", _Two), ("symlink", _Two),
    ("read_link", _Give), ("chmod", _Mode), ("free_bytes", _Free), ("free_dir_entries", _Free),
)  # fmt: skip


class _Table(Structure):
    _fields_ = _TABLE


class _Handle(Structure):
    _fields_ = (
        ("version", c_uint32), ("reserved", c_uint32), ("instance", c_void_p), ("retain", _Count), ("release", _Count),
        ("table", POINTER(_Table)),
    )  # fmt: skip


_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [c_void_p, c_char_p, c_void_p]


class TreeMount:
    """A file tree behind the C interface; it lives as long as a file system made from `capsule`."""

    def __init__(
        self, tree: FileTree, clock: Clock, polish: Callable[[bytes], bytes], on_exhausted: Callable[[], object]
    ) -> None:
        """`on_exhausted` is called when the tree has done all the work that one call may cost."""
        self._tree = tree
        self._clock = clock
        self._polish = polish
        self.on_exhausted = on_exhausted
        # What went wrong on the way that is no refusal: it cannot cross into C, and must not pass for one.
        self.faults: list[BaseException] = []
        self._scratch: dict[str, bytes] = {}
        self._lent: dict[int, Any] = {}
        self._instance = next(_instances)
        _known[self._instance] = self
        self._handle = _Handle(1, 0, self._instance, _retained, _released, ctypes.pointer(_functions))

    def capsule(self) -> Any:
        return _new_capsule(ctypes.addressof(self._handle), _CAPSULE, None)

    # --- the table: each with a plain path, and what else is given or asked for --------------------------------------

    def _read_file(self, name: str, out: Any) -> None:
        content = self._scratch.get(name)
        self._lend(out.contents, to_bytes(self._tree.read(name)) if content is None else content)

    def _write_file(self, name: str, content: _Text, *, append: bool = False) -> None:
        polished = self._polish(content.bytes())
        if _SCRATCH.search(name):
            self._scratch[name] = (self._scratch.get(name, b"") if append else b"") + polished
        else:
            self._tree.write(name, from_bytes(polished), append=append)

    def _append_file(self, name: str, content: _Text) -> None:
        self._write_file(name, content, append=True)

    def _mkdir(self, name: str, recursive: bool) -> None:
        self._tree.make_directory(name, parents=recursive)

    def _remove(self, name: str, recursive: bool) -> None:
        if self._scratch.pop(name, None) is None:
            self._tree.remove(name, recursive=recursive)

    def _stat(self, name: str, out: Any) -> None:
        if name in self._scratch:
            out.contents.size, out.contents.mode = len(self._scratch[name]), 0o600
        else:
            self._fill(out.contents, self._tree.node(self._meant(name)))

    def _read_dir(self, name: str, out: Any) -> None:
        names = self._tree.names(name)
        entries = (_Entry * len(names))()
        buffers = []
        for entry, inner in zip(entries, names, strict=True):
            encoded = inner.encode()
            buffers.append(ctypes.create_string_buffer(encoded, len(encoded)))
            entry.name.at, entry.name.size = ctypes.addressof(buffers[-1]), len(encoded)
            self._fill(entry.stat, self._tree.peek(paths.join(name, inner)))
        out.contents.at, out.contents.size = ctypes.addressof(entries) if names else None, len(names)
        if names:
            self._lent[out.contents.at] = (entries, buffers)

    def _exists(self, name: str, out: Any) -> None:
        out[0] = name in self._scratch or self._tree.is_reachable(self._meant(name))

    def _rename(self, name: str, target: _Text) -> None:
        goal = paths.resolve(target.bytes().decode())
        if name in self._scratch:
            self._tree.write(goal, from_bytes(self._scratch.pop(name)))
        else:
            self._tree.move(name, goal)

    def _copy(self, name: str, target: _Text) -> None:
        self._tree.copy(name, paths.resolve(target.bytes().decode()))

    def _symlink(self, name: str, link: _Text) -> None:
        raise FileFault(refusals.UNSUPPORTED)

    def _read_link(self, name: str, out: Any) -> None:
        self._tree.node(name)
        raise FileFault(refusals.INVALID)

    def _chmod(self, name: str, mode: int) -> None:
        if name not in self._scratch:
            self._tree.set_mode(name, mode & 0o7777)

    # --- what they share ---------------------------------------------------------------------------------------------

    def _meant(self, name: str) -> str:
        """The path itself; for a question whether it may be read or written, one that is not there where it may not."""
        asked = _MAY.match(name)
        if asked is None:
            return name
        operand = asked["operand"]
        meant = operand if self._tree.exists(operand) else paths.resolve(operand[1:], asked["workdir"])
        return meant if self._tree.is_reachable(meant, READ if asked["wish"] == "r" else WRITE) else name

    def _lend(self, out: _Text, content: bytes) -> None:
        out.at, out.size = None, len(content)
        if content:
            buffer = ctypes.create_string_buffer(content, len(content))
            out.at = ctypes.addressof(buffer)
            self._lent[out.at] = buffer

    def _fill(self, out: _Stat, node: Node) -> None:
        # bashkit reckons ages from the wall clock, so a file is shown to it as old as it is in the world.
        out.modified_s = out.created_s = node.modified_s + int(time.time()) - self._clock.now_s
        out.file_type = 1 if node.is_directory else 0
        out.size = node.size
        # Without the bits that are of no use to the user: bashkit takes any bit for a permission.
        denied = sum(wish for wish in (READ, WRITE, ENTER) if not node.allows(self._tree.user, wish))
        out.mode = node.mode & ~(denied * 0o111)


def _guarded(name: str) -> Callable[..., int]:
    """A function of the table, on a plain path. Whatever goes wrong is a fault: no exception can cross into C."""

    def run(instance: int, path: _Text, given: Any, fault: Any) -> int:
        mount = _held[instance]
        try:
            getattr(mount, name)(paths.resolve(path.bytes().decode()), given)
        except FileFault as refused:
            words = str(refused)
        except OutOfFuel:
            words = "Killed"
            mount.on_exhausted()
        except UnicodeDecodeError:
            words = refusals.INVALID
        except Exception as error:
            words = type(error).__name__
            mount.faults.append(error)
        else:
            return 0
        fault.contents.kind = _KINDS.get(words, 0)
        mount._lend(fault.contents.message, words.encode("utf-8", "replace"))
        return 1

    return run


# What C calls is made once and never freed: a shell may outlive its world, in a traceback for one. While bashkit holds
# a file system, its mount is held here.
_instances = itertools.count(1)
_known: weakref.WeakValueDictionary[int, TreeMount] = weakref.WeakValueDictionary()
_held: dict[int, TreeMount] = {}
_retained = _Count(lambda instance: _held.update({instance: _known[instance]}))
_released = _Count(lambda instance: _held.pop(instance, None) and None)
_functions = _Table(
    **{name: kind(_guarded(f"_{name}")) for name, kind in _TABLE[:-2]},
    **{name: kind(lambda instance, text: _held[instance]._lent.pop(text.at, None)) for name, kind in _TABLE[-2:]},
)
