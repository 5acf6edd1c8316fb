"""The simulated file tree as bashkit sees it: every operation of its shell is a call of ours.

bashkit takes a foreign file system as a handle of C functions in a capsule named `bashkit.FileSystem.v1`. So nothing
the shell does to a file goes unseen, not even for a moment: a file made and removed within one line is in the log. The
structures below follow that interface field by field.
"""

from __future__ import annotations

import ctypes
import re
import time
from collections.abc import Callable
from ctypes import POINTER, Structure, c_bool, c_char_p, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any

from clawgauge.world import paths
from clawgauge.world.clock import Clock
from clawgauge.world.files import READ, WRITE, FileTree, Node
from clawgauge.world.refusals import (
    DENIED,
    EXISTS,
    INVALID,
    IS_A_DIRECTORY,
    NOT_A_DIRECTORY,
    NOT_EMPTY,
    NOT_FOUND,
    UNSUPPORTED,
    FileFault,
    OutOfFuel,
)

_CAPSULE = b"bashkit.FileSystem.v1"
_KINDS = {
    NOT_FOUND: 1, EXISTS: 2, DENIED: 3, INVALID: 4, IS_A_DIRECTORY: 5, NOT_A_DIRECTORY: 6, NOT_EMPTY: 7, UNSUPPORTED: 8,
}  # fmt: skip
# bashkit takes whatever exists for readable and writable. So a line asks whether `/.may-w:DIRECTORY:/OPERAND` exists.
_MAY = re.compile(r"/\.may-(?P<wish>[rw]):(?P<workdir>[^:]*):(?P<operand>/.*)", re.DOTALL)
# What `sed -i` writes beside a file before it is renamed onto it. Nobody else is to see it.
_SCRATCH = re.compile(r"/\.bashkit-[a-z]+-[^/]*\.tmp$")


class _Text(Structure):
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


class _Entries(Structure):
    _fields_ = (("at", c_void_p), ("size", c_size_t))


_ToFault = POINTER(_Fault)
_Give = ctypes.CFUNCTYPE(c_uint32, c_void_p, _Text, POINTER(_Text), _ToFault)
_Two = ctypes.CFUNCTYPE(c_uint32, c_void_p, _Text, _Text, _ToFault)
_Flagged = ctypes.CFUNCTYPE(c_uint32, c_void_p, _Text, c_bool, _ToFault)
_Look = ctypes.CFUNCTYPE(c_uint32, c_void_p, _Text, POINTER(_Stat), _ToFault)
_List = ctypes.CFUNCTYPE(c_uint32, c_void_p, _Text, POINTER(_Entries), _ToFault)
_Ask = ctypes.CFUNCTYPE(c_uint32, c_void_p, _Text, POINTER(c_bool), _ToFault)
_Mode = ctypes.CFUNCTYPE(c_uint32, c_void_p, _Text, c_uint32, _ToFault)
_FreeText = ctypes.CFUNCTYPE(None, c_void_p, _Text)
_FreeEntries = ctypes.CFUNCTYPE(None, c_void_p, _Entries)
_Count = ctypes.CFUNCTYPE(None, c_void_p)

# In the order of the interface.
_TABLE: tuple[tuple[str, Any], ...] = (
    ("read_file", _Give), ("write_file", _Two), ("append_file", _Two), ("mkdir", _Flagged), ("remove", _Flagged),
    ("stat", _Look), ("read_dir", _List), ("exists", _Ask), ("rename", _Two), ("copy", _Two), ("symlink", _Two),
    ("read_link", _Give), ("chmod", _Mode), ("free_bytes", _FreeText), ("free_dir_entries", _FreeEntries),
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
    """A file tree behind the C interface. Keep it as long as a shell may use `capsule`."""

    def __init__(self, tree: FileTree, clock: Clock, polish: Callable[[bytes], bytes]) -> None:
        self._tree = tree
        self._clock = clock
        self._polish = polish
        # Called when the tree has done all the work that one call may cost.
        self.on_exhausted: Callable[[], None] = lambda: None
        self._scratch: dict[str, bytes] = {}
        self._lent: dict[int, Any] = {}
        functions = {name: kind(getattr(self, f"_{name}")) for name, kind in _TABLE}
        # Nothing to count: the tree lives as long as its machine.
        self._counted = _Count(lambda instance: None)
        self._table = _Table(**functions)
        self._handle = _Handle(1, 0, 1, self._counted, self._counted, ctypes.pointer(self._table))

    def capsule(self) -> Any:
        return _new_capsule(ctypes.addressof(self._handle), _CAPSULE, None)

    # --- the table ---------------------------------------------------------------------------------------------------

    def _read_file(self, instance: int, path: _Text, out: Any, fault: Any) -> int:
        def work(name: str) -> None:
            if name in self._scratch:
                self._lend(out.contents, self._scratch[name])
            else:
                self._lend(out.contents, self._tree.read_bytes(name))

        return self._guard(path, fault, work)

    def _write_file(self, instance: int, path: _Text, content: _Text, fault: Any) -> int:
        return self._guard(path, fault, lambda name: self._write(name, self._polish(content.bytes()), append=False))

    def _append_file(self, instance: int, path: _Text, content: _Text, fault: Any) -> int:
        return self._guard(path, fault, lambda name: self._write(name, self._polish(content.bytes()), append=True))

    def _write(self, name: str, content: bytes, *, append: bool) -> None:
        if _SCRATCH.search(name):
            self._scratch[name] = (self._scratch.get(name, b"") if append else b"") + content
        else:
            self._tree.write_bytes(name, content, append=append)

    def _mkdir(self, instance: int, path: _Text, recursive: bool, fault: Any) -> int:
        return self._guard(path, fault, lambda name: self._tree.make_directory(name, parents=recursive))

    def _remove(self, instance: int, path: _Text, recursive: bool, fault: Any) -> int:
        def work(name: str) -> None:
            if self._scratch.pop(name, None) is None:
                self._tree.remove(name, recursive=recursive)

        return self._guard(path, fault, work)

    def _stat(self, instance: int, path: _Text, out: Any, fault: Any) -> int:
        def work(name: str) -> None:
            if name in self._scratch:
                out.contents.size, out.contents.mode = len(self._scratch[name]), 0o600
            else:
                self._fill(out.contents, self._tree.node(self._meant(name)))

        return self._guard(path, fault, work)

    def _read_dir(self, instance: int, path: _Text, out: Any, fault: Any) -> int:
        def work(name: str) -> None:
            names = self._tree.names(name)
            entries = (_Entry * len(names))()
            buffers = []
            for entry, inner in zip(entries, names, strict=True):
                encoded = inner.encode()
                buffers.append(ctypes.create_string_buffer(encoded, len(encoded)))
                entry.name.at, entry.name.size = ctypes.addressof(buffers[-1]), len(encoded)
                self._fill(entry.stat, self._tree.peek(paths.join(name, inner)))
            if names:
                at = ctypes.addressof(entries)
                self._lent[at] = (entries, buffers)
                out.contents.at, out.contents.size = at, len(names)
            else:
                out.contents.at, out.contents.size = None, 0

        return self._guard(path, fault, work)

    def _exists(self, instance: int, path: _Text, out: Any, fault: Any) -> int:
        def work(name: str) -> None:
            out[0] = name in self._scratch or self._tree.is_reachable(self._meant(name))

        return self._guard(path, fault, work)

    def _rename(self, instance: int, source: _Text, target: _Text, fault: Any) -> int:
        def work(name: str) -> None:
            goal = paths.resolve(target.bytes().decode())
            if name in self._scratch:
                self._tree.write_bytes(goal, self._scratch.pop(name))
            else:
                self._tree.move(name, goal)

        return self._guard(source, fault, work)

    def _copy(self, instance: int, source: _Text, target: _Text, fault: Any) -> int:
        return self._guard(source, fault, lambda name: self._tree.copy(name, paths.resolve(target.bytes().decode())))

    def _symlink(self, instance: int, target: _Text, link: _Text, fault: Any) -> int:
        def work(name: str) -> None:
            raise FileFault(UNSUPPORTED)

        return self._guard(link, fault, work)

    def _read_link(self, instance: int, path: _Text, out: Any, fault: Any) -> int:
        def work(name: str) -> None:
            self._tree.node(name)
            raise FileFault(INVALID)

        return self._guard(path, fault, work)

    def _chmod(self, instance: int, path: _Text, mode: int, fault: Any) -> int:
        def work(name: str) -> None:
            if name not in self._scratch:
                self._tree.set_mode(name, mode & 0o7777)

        return self._guard(path, fault, work)

    def _free_bytes(self, instance: int, text: _Text) -> None:
        self._lent.pop(text.at, None)

    def _free_dir_entries(self, instance: int, entries: _Entries) -> None:
        self._lent.pop(entries.at, None)

    def _meant(self, name: str) -> str:
        """The path itself; for a question whether it may be read or written, one that is not there where it may not."""
        asked = _MAY.match(name)
        if asked is None:
            return name
        operand = asked["operand"]
        meant = operand if self._tree.exists(operand) else paths.resolve(operand[1:], asked["workdir"])
        return meant if self._tree.allows(meant, READ if asked["wish"] == "r" else WRITE) else name

    # --- what they share ---------------------------------------------------------------------------------------------

    def _guard(self, path: _Text, fault: Any, work: Callable[[str], None]) -> int:
        """Do the work on a plain path; whatever goes wrong is a fault, for an exception cannot cross into C."""
        try:
            work(paths.resolve(path.bytes().decode()))
        except FileFault as refused:
            words = str(refused)
        except OutOfFuel:
            words = "Killed"
            self.on_exhausted()
        except Exception as error:  # the boundary to C: an exception here would be printed and lost
            words = f"{type(error).__name__}: {error}"
        else:
            return 0
        fault.contents.kind = _KINDS.get(words, 0)
        self._lend(fault.contents.message, words.encode("utf-8", "replace"))
        return 1

    def _lend(self, out: _Text, content: bytes) -> None:
        if not content:
            out.at, out.size = None, 0
            return
        buffer = ctypes.create_string_buffer(content, len(content))
        at = ctypes.addressof(buffer)
        self._lent[at] = buffer
        out.at, out.size = at, len(content)

    def _fill(self, out: _Stat, node: Node) -> None:
        # bashkit reckons ages from the wall clock, so a file is shown to it as old as it is in the world.
        shown_s = node.modified_s + int(time.time()) - self._clock.now_s
        out.file_type = 1 if node.is_directory else 0
        out.size = node.size
        out.mode = node.mode_for(self._tree.user)
        out.modified_s = out.created_s = shown_s
