"""The simulated file tree as bashkit sees it: every operation of its shell is a call of ours. And what is shown of it.

bashkit takes a foreign file system as a handle of C functions in a capsule named `bashkit.FileSystem.v1`. So nothing
the shell does to a file goes unseen, not even for a moment: a file made and removed within one line is in the log. The
structures below follow that interface field by field.
"""

import ctypes
import itertools
import posixpath
import re
import time
from collections.abc import Callable
from ctypes import POINTER, Structure, c_bool, c_char_p, c_int64, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any

import bashkit

from clawgauge.world import effects
from clawgauge.world.commands.call import NATIVE
from clawgauge.world.effects import FileFault, Ledger
from clawgauge.world.files import ENTER, READ, WRITE, FileTree, Node, from_bytes, resolve, to_bytes

_KINDS = {
    effects.NOT_FOUND: 1, effects.EXISTS: 2, effects.DENIED: 3, effects.INVALID: 4, effects.IS_A_DIRECTORY: 5,
    effects.NOT_A_DIRECTORY: 6, effects.NOT_EMPTY: 7, effects.UNSUPPORTED: 8,
}  # fmt: skip
# bashkit takes whatever exists for readable and writable. So a line asks whether `/.may-w:DIRECTORY:/OPERAND` exists.
_MAY = re.compile(r"/\.may-(?P<wish>[rw]):(?P<workdir>[^:]*):(?P<operand>/.*)", re.DOTALL)
# What `sed -i` writes beside a file before it is renamed onto it. Nobody else is to see it.
_SCRATCH = re.compile(r"/\.bashkit-[a-z]+-[^/]*\.tmp$")


# Whole lines as bashkit words them, and nothing that a file or a log of the world might say.
_GIVE_AWAYS = (
    # A test of permissions that was only quoted, such as in a script being written, becomes itself again.
    (re.compile(rb'-e "/\.may-([rw]):\$PWD:/\$HOME/"'), rb"-\1 ~/"),
    (re.compile(rb'-e "?/\.may-([rw]):[^:\n]*:/"?'), rb"-\1 "),
    (re.compile(rb"(: command not found)\. [^\n]+"), rb"\1"),
    (re.compile(rb"(?im)^bash(?:kit)? 0\.\d[^\n]*$"), b"GNU bash, version 5.2.15(1)-release (x86_64-pc-linux-gnu)"),
    (re.compile(rb"(?m)^(GNU Awk [\d.]+) \(bashkit\)"), rb"\1"),
    (
        re.compile(rb"(?m)^(?:(\w[\w-]*) \(bashkit\) [\d.]+|(%b) %b)$" % (
            "|".join(sorted(NATIVE)).encode(), re.escape(bashkit.__version__).encode(),
        )),
        rb"\1\2 (GNU coreutils) 9.1",
    ),
    (re.compile(rb"option\(s\) not yet implemented in bashkit: (\S+)"), rb"option '\1' is not supported here"),
    (re.compile(rb"(?m)^((?:bash: line \d+|[\w-]+): [^\n]*?)io error: (?=[A-Z][^\n]*$)"), rb"\1"),
    (re.compile(rb"(?m)^(user|sys)\tunavailable$"), rb"\1\t0m0.001s"),
    (re.compile(rb"(?i)bashkit"), b"bash"),
)  # fmt: skip
_MARKS = (b"/.may-", b"ashkit", b"not found. ", b"io error: ", b" 0.", b"\tunavailable")


def polish(content: bytes) -> bytes:
    """`content` without the words by which bashkit would give itself away."""
    if any(mark in content for mark in _MARKS):
        for pattern, instead in _GIVE_AWAYS:
            content = pattern.sub(instead, content)
    return content


class _Text(Structure):
    """Bytes, or the entries of a directory, by their place and number."""

    _fields_ = (("at", c_void_p), ("size", c_size_t))

    def bytes(self) -> bytes:
        return ctypes.string_at(self.at, self.size) if self.size else b""


def _struct(**fields: Any) -> Any:
    return type("Struct", (Structure,), {"_fields_": tuple(fields.items())})


_Fault = _struct(kind=c_uint32, message=_Text)
_Stat = _struct(
    file_type=c_uint8, reserved=c_uint8 * 7, size=c_uint64, mode=c_uint32, modified_s=c_int64, modified_ns=c_uint32,
    created_s=c_int64, created_ns=c_uint32,
)  # fmt: skip
_Entry = _struct(name=_Text, stat=_Stat)
# What each operation is given beside a path, or where it puts what it is asked for, in the order of the interface.
_GIVEN: dict[str, Any] = {
    "read_file": POINTER(_Text), "write_file": _Text, "append_file": _Text, "mkdir": c_bool, "remove": c_bool,
    "stat": POINTER(_Stat), "read_dir": POINTER(_Text), "exists": POINTER(c_bool), "rename": _Text, "copy": _Text,
    "symlink": _Text, "read_link": POINTER(_Text), "chmod": c_uint32,
}  # fmt: skip
_KIND = {name: ctypes.CFUNCTYPE(c_uint32, c_void_p, _Text, given, POINTER(_Fault)) for name, given in _GIVEN.items()}
_Free = ctypes.CFUNCTYPE(None, c_void_p, _Text)
_Count = ctypes.CFUNCTYPE(None, c_void_p)
_Table = _struct(**_KIND, free_bytes=_Free, free_dir_entries=_Free)
_Handle = _struct(
    version=c_uint32, reserved=c_uint32, instance=c_void_p, retain=_Count, release=_Count, table=POINTER(_Table)
)
_new_capsule = ctypes.pythonapi.PyCapsule_New
_new_capsule.restype = ctypes.py_object
_new_capsule.argtypes = [c_void_p, c_char_p, c_void_p]


class TreeMount:
    """A file tree behind the C interface; it lives as long as a file system made from `capsule`."""

    def __init__(self, tree: FileTree, ledger: Ledger, on_fault: Callable[[Exception], object]) -> None:
        """`on_fault` is told of what cannot cross into C and is no refusal, such as too much work for one call."""
        self._tree, self._ledger, self.on_fault = tree, ledger, on_fault
        self._scratch: dict[str, bytes] = {}
        self._lent: dict[int, Any] = {}
        instance = next(_instances)
        _mounts[instance] = self
        self._handle = _Handle(1, 0, instance, _retained, _released, ctypes.pointer(_functions))
        self.capsule = _new_capsule(ctypes.addressof(self._handle), b"bashkit.FileSystem.v1", None)

    def perform(self, operation: str, name: str, given: Any) -> None:
        """One operation of the table on a plain path."""
        tree, scratch = self._tree, self._scratch
        match operation:
            case "read_file":
                self._lend(given.contents, scratch[name] if name in scratch else to_bytes(tree.read(name)))
            case "write_file" | "append_file":
                appends, content = operation == "append_file", polish(given.bytes())
                if _SCRATCH.search(name):
                    scratch[name] = (scratch.get(name, b"") if appends else b"") + content
                else:
                    tree.write(name, from_bytes(content), append=appends)
            case "mkdir":
                tree.make_directory(name, parents=given)
            case "remove" if scratch.pop(name, None) is None:
                tree.remove(name, recursive=given)
            case "stat" if name in scratch:
                given.contents.size, given.contents.mode = len(scratch[name]), 0o600
            case "stat":
                self._fill(given.contents, tree.node(self._meant(name)))
            case "read_dir":
                self._lend_entries(given.contents, name)
            case "exists":
                given[0] = name in scratch or tree.is_reachable(self._meant(name))
            case "rename" if name in scratch:
                tree.write(resolve(given.bytes().decode()), from_bytes(scratch.pop(name)))
            case "rename":
                tree.move(name, resolve(given.bytes().decode()))
            case "copy":
                tree.copy(name, resolve(given.bytes().decode()))
            case "chmod" if name not in scratch:
                tree.set_mode(name, given & 0o7777)
            case "read_link":
                tree.node(name)
                raise FileFault(effects.INVALID)
            case "symlink":
                raise FileFault(effects.UNSUPPORTED)

    def _lend_entries(self, out: _Text, name: str) -> None:
        names = self._tree.names(name)
        entries = (_Entry * len(names))()
        for entry, inner in zip(entries, names, strict=True):
            self._lend(entry.name, inner.encode())
            self._fill(entry.stat, self._tree.peek(posixpath.join(name, inner)))
        out.at, out.size = ctypes.addressof(entries) if names else None, len(names)
        if names:
            # The names go back with their entries, and not one by one.
            self._lent[out.at] = (entries, [self._lent.pop(entry.name.at) for entry in entries])

    def _meant(self, name: str) -> str:
        """The path itself; for a question whether it may be read or written, one that is not there where it may not."""
        asked = _MAY.match(name)
        if asked is None:
            return name
        operand = asked["operand"]
        meant = operand if self._tree.exists(operand) else resolve(operand[1:], asked["workdir"])
        return meant if self._tree.is_reachable(meant, READ if asked["wish"] == "r" else WRITE) else name

    def _lend(self, out: _Text, content: bytes) -> None:
        out.at, out.size = None, len(content)
        if content:
            buffer = ctypes.create_string_buffer(content, len(content))
            out.at = ctypes.addressof(buffer)
            self._lent[out.at] = buffer

    def _fill(self, out: Any, node: Node) -> None:
        # bashkit reckons ages from the wall clock, so a file is shown to it as old as it is in the world.
        out.modified_s = out.created_s = node.modified_s + int(time.time()) - self._ledger.clock.now_s
        out.file_type = 1 if node.is_directory else 0
        out.size = node.size
        # Without the bits that are of no use to the user: bashkit takes any bit for a permission.
        denied = sum(wish for wish in (READ, WRITE, ENTER) if not node.allows(self._ledger.user, wish))
        out.mode = node.mode & ~(denied * 0o111)


def _guarded(operation: str) -> Callable[..., int]:
    """An operation of the table. Whatever goes wrong is a fault: no exception can cross into C."""

    def run(instance: int, path: _Text, given: Any, fault: Any) -> int:
        mount = _mounts[instance]
        try:
            mount.perform(operation, resolve(path.bytes().decode()), given)
        except FileFault as refused:
            words = str(refused)
        except UnicodeDecodeError:
            words = effects.INVALID
        except Exception as error:
            words = "Killed"
            mount.on_fault(error)
        else:
            return 0
        fault.contents.kind = _KINDS.get(words, 0)
        mount._lend(fault.contents.message, words.encode("utf-8", "replace"))
        return 1

    return run


# What C calls is made once and never freed: a shell may outlive its world, in a traceback for one. A mount is kept
# until bashkit, which retains it once, gives it back.
_instances = itertools.count(1)
_mounts: dict[int, TreeMount] = {}
_retained = _Count(lambda instance: None)
_released = _Count(lambda instance: _mounts.pop(instance, None) and None)
_free = _Free(lambda instance, text: _mounts[instance]._lent.pop(text.at, None))
_functions = _Table(
    **{name: kind(_guarded(name)) for name, kind in _KIND.items()}, free_bytes=_free, free_dir_entries=_free
)
