"""The file system: a tree of files and directories in memory, with owners, modes and ages.

A file is text, with `surrogateescape` for bytes that are not UTF-8; where only its size matters it
has `hidden_bytes`, too.
"""

import hashlib
import posixpath
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from clawgauge.world import effects
from clawgauge.world.disks import Disks
from clawgauge.world.effects import STEP, FileFault, Ledger
from clawgauge.world.paths import ancestors, prefix_of

READ = 4
WRITE = 2
ENTER = 1
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/full")
_STICKY_BIT = 0o1000
_DIRECTORY_BYTES = 4_096
_DEVICE_BYTES = 65_536
_MAX_NODES = 4_096
_MAX_TEXT_CHARS = 1024**2
_MAX_ALL_TEXT_CHARS = 8 * 1024**2
_MAX_PATH_CHARS = 1_024
_MAX_NAME_CHARS = 255


def to_bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a surrogate pair, from a specification
        return text.encode("utf-8", "replace")


def from_bytes(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


@dataclass(slots=True)
class Node:
    """A file or a directory. The group is the owner's if none is given."""

    owner: str
    mode: int
    modified_s: int
    text: str = ""
    is_directory: bool = False
    hidden_bytes: int = 0
    group: str = ""
    size: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.group = self.group or self.owner
        if self.is_directory:
            self.size = _DIRECTORY_BYTES
        else:
            self.size = len(to_bytes(self.text)) + self.hidden_bytes

    def allows(self, user: str, wish: int) -> bool:
        """Whether `user` may read, write or enter. A group has one member, of its own name."""
        if user == "root":
            return True
        if user == self.owner:
            permissions = self.mode >> 6
        elif user == self.group:
            permissions = self.mode >> 3
        else:
            permissions = self.mode
        return permissions & wish == wish

    @property
    def shown_mode(self) -> str:
        """As `ls -l` shows it: `-rw-r--r--`."""
        kind = stat.S_IFDIR if self.is_directory else stat.S_IFREG
        return stat.filemode(self.mode | kind)


_NOTHING = Node("", 0, 0)


class FileTree:
    """Nodes by absolute path.

    Every method takes paths that `resolve` has made plain, and raises `FileFault` where the file
    system says no to the user who acts.
    """

    def __init__(self, ledger: Ledger, disks: Disks) -> None:
        self._ledger = ledger
        self._clock = ledger.clock
        self._fuel = ledger.fuel
        self._disks = disks
        root = Node("root", 0o755, ledger.clock.start_s, is_directory=True)
        disks.resize("/", 0, root.size)
        self._nodes = {"/": root}
        self._names: dict[str, set[str]] = {"/": set()}  # of what is in each directory
        self._all_text_chars = 0
        # Files whose text is made when it is read, such as /proc/meminfo.
        self.live: dict[str, Callable[[], str]] = {}
        # Says which process holds a file, if one does.
        self.holder_of: Callable[[str], str | None] = lambda path: None

    # Looking.

    def exists(self, path: str) -> bool:
        return path in self._nodes

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def is_reachable(self, path: str, wish: int = 0) -> bool:
        """Whether it is there and the user may reach it, and do with it what is wished."""
        try:
            return self.node(path).allows(self._ledger.user, wish)
        except FileFault:
            return False

    def is_directory(self, path: str) -> bool:
        return path in self._names

    def node(self, path: str) -> Node:
        """What stands under `path`; refuses what is not there and what the user may not reach."""
        self._fuel.spend(STEP)
        _refuse_bad_name(path)
        for directory in ancestors(path):
            if directory not in self._nodes:
                raise FileFault(effects.NOT_FOUND)
            if directory not in self._names:
                raise FileFault(effects.NOT_A_DIRECTORY)
            self._require(self._nodes[directory], ENTER)
        if path not in self._nodes:
            raise FileFault(effects.NOT_FOUND)
        return self._nodes[path]

    def read(self, path: str) -> str:
        """A file's text; of bytes that have only a size, a line says how many there are."""
        node = self.node(path)
        if node.is_directory:
            raise FileFault(effects.IS_A_DIRECTORY)
        self._require(node, READ)
        if path in DEVICES:
            return _read_device(path)
        self._refuse_held(path)
        self._fuel.spend(len(node.text))
        self._ledger.note("read", path)
        if path in self.live:
            return self.live[path]()
        if node.hidden_bytes:
            return f"{node.text}[{node.hidden_bytes} more bytes, not text]\n"
        return node.text

    def names(self, path: str) -> list[str]:
        """What is in a directory, in order."""
        node = self.node(path)
        if not node.is_directory:
            raise FileFault(effects.NOT_A_DIRECTORY)
        self._require(node, READ)
        self._fuel.spend(STEP * len(self._names[path]) // 4)
        return sorted(self._names[path])

    def inside(self, path: str) -> list[str]:
        """All paths below one, whoever may read them; directories before what is in them."""
        paths: list[str] = []
        for name in sorted(self._names.get(path, ())):
            self._fuel.spend(STEP // 4)
            inner = posixpath.join(path, name)
            paths.append(inner)
            paths += self.inside(inner)
        return paths

    def n_links(self, path: str) -> int:
        """As `ls -l` counts: a file has one.

        A directory has one from above, its own, and one from each directory in it.
        """
        names = self._names.get(path)
        if names is None:
            return 1
        n_directories = sum(posixpath.join(path, name) in self._names for name in names)
        return 2 + n_directories

    def peek(self, path: str) -> Node:
        """A node already found by `names` or `inside`; whether it may be reached is not asked."""
        self._fuel.spend(1)
        return self._nodes[path]

    def text_of(self, path: str) -> str | None:
        """The text of a file whoever may read it, or None where there is no file.

        For judging, not for tools.
        """
        node = self._nodes.get(path)
        if node is None or node.is_directory:
            return None
        return to_bytes(node.text).decode("utf-8", "replace")

    # Changing.

    def write(
        self,
        path: str,
        text: str,
        *,
        append: bool = False,
        hidden_bytes: int = 0,
        mode: int = 0o644,
    ) -> None:
        """Make a file, or give one another text. `mode` is that of a new one."""
        if path in DEVICES:
            if path == "/dev/full":
                raise FileFault(effects.NO_SPACE)
            return
        self._fuel.spend(STEP + len(text))
        node = self._nodes.get(path)
        if node is None:
            self._require_writable_parent(path)
            new_file = Node(
                owner=self._ledger.user,
                mode=mode,
                modified_s=self._clock.now_s,
                text=text,
                hidden_bytes=hidden_bytes,
            )
            self._put(path, new_file)
            self._ledger.note("created", path)
            return
        self._require_writable_file(path)
        if append:
            text = node.text + text
            hidden_bytes += node.hidden_bytes
        changed = replace(node, text=text, hidden_bytes=hidden_bytes, modified_s=self._clock.now_s)
        self._make_room(path, node, changed)
        self._nodes[path] = changed
        if changed.text != node.text or changed.hidden_bytes != node.hidden_bytes:
            self._ledger.note("changed", path)

    def make_directory(self, path: str, *, parents: bool = False, mode: int = 0o755) -> None:
        """Make a directory.

        With `parents` those above it, too, and one that is there already is no fault.
        """
        if parents and self.is_directory(path):
            return
        if path in self._nodes:
            raise FileFault(effects.EXISTS)
        above = posixpath.dirname(path)
        if parents and above not in self._nodes:
            self.make_directory(above, parents=True)
        self._require_writable_parent(path)
        self._put(path, Node(self._ledger.user, mode, self._clock.now_s, is_directory=True))
        self._ledger.note("created", path)

    def remove(self, path: str, *, recursive: bool = False) -> None:
        node = self.node(path)
        if recursive and node.is_directory:
            for name in self.names(path):
                self.remove(posixpath.join(path, name), recursive=True)
        if self._names.get(path):
            raise FileFault(effects.NOT_EMPTY)
        if path == "/":
            raise FileFault(effects.BUSY)
        self._require_removable(path)
        self._drop(path)
        self._ledger.note("deleted", path)

    def move(self, source: str, target: str) -> None:
        """Rename a file or a directory with all it holds; a file at `target` is replaced."""
        self.node(source)
        if source == target or target.startswith(prefix_of(source)):
            raise FileFault(effects.INVALID)
        self._require_removable(source)
        if target in self._nodes:
            self.remove(target)
        self._require_writable_parent(target)
        old_paths = [source, *self.inside(source)]
        new_paths = [target + path[len(source) :] for path in old_paths]
        self._fuel.spend(STEP * len(old_paths))
        self._rename(old_paths, new_paths)
        for old_path, new_path in zip(old_paths, new_paths, strict=True):
            self._ledger.note("deleted", old_path, f"moved to {new_path}")
            self._ledger.note("created", new_path, f"moved from {old_path}")

    def _rename(self, old_paths: list[str], new_paths: list[str]) -> None:
        """Put nodes under other paths; directories come before what is in them."""
        # Taken away first, the innermost before the others: what moves takes no room twice.
        nodes = [self._drop(path) for path in reversed(old_paths)]
        nodes.reverse()
        try:
            for path, node in zip(new_paths, nodes, strict=True):
                self._put(path, node)
        except FileFault:  # the other disk is full
            for path in reversed(new_paths):
                if path in self._nodes:
                    self._drop(path)
            for path, node in zip(old_paths, nodes, strict=True):
                self._put(path, node)
            raise

    def copy(self, source: str, target: str) -> None:
        text = self.read(source)
        node = self.node(source)
        if source == target:
            raise FileFault(effects.INVALID)
        if node.hidden_bytes:
            text = node.text
        self.write(target, text, hidden_bytes=node.hidden_bytes, mode=node.mode & 0o777)

    def touch(self, path: str, at_s: int | None = None) -> None:
        """Set when a file was last modified, to now if no time is given; it is made if missing."""
        if path in DEVICES:
            return
        if path not in self._nodes:
            self.write(path, "")
        node = self.node(path)
        if not node.allows(self._ledger.user, WRITE) and self._ledger.user != node.owner:
            raise FileFault(effects.DENIED)
        node.modified_s = self._clock.now_s if at_s is None else at_s
        self._ledger.note("changed", path, "touched")

    def set_mode(self, path: str, mode: int) -> None:
        node = self.node(path)
        if self._ledger.user not in ("root", node.owner):
            raise FileFault(effects.NOT_PERMITTED)
        node.mode = mode
        self._ledger.note("changed", path, f"mode {mode:o}")

    def set_owner(self, path: str, owner: str, group: str) -> None:
        """Give a file away; an empty name leaves that part as it is."""
        node = self.node(path)
        owner = owner or node.owner
        group = group or node.group
        stays_theirs = owner == node.owner == self._ledger.user and group in (owner, node.group)
        if not stays_theirs and self._ledger.user != "root":
            raise FileFault(effects.NOT_PERMITTED)
        node.owner = owner
        node.group = group
        self._ledger.note("changed", path, f"owner {owner}:{group}")

    def place(self, path: str, node: Node) -> None:
        """Put a node where the specification has it, with the directories above it.

        A directory that is there is replaced.
        """
        for directory in ancestors(path)[1:]:
            if directory not in self._nodes:
                self._put(directory, Node(node.owner, 0o755, node.modified_s, is_directory=True))
            if directory not in self._names:
                raise FileFault(effects.NOT_A_DIRECTORY)
        self._put(path, node)

    # What may be done.

    def _require(self, node: Node, wish: int) -> None:
        if not node.allows(self._ledger.user, wish):
            raise FileFault(effects.DENIED)

    def _require_writable_file(self, path: str) -> None:
        node = self.node(path)
        if node.is_directory:
            raise FileFault(effects.IS_A_DIRECTORY)
        if path in self.live:
            raise FileFault(effects.DENIED)
        self._require(node, WRITE)
        self._refuse_held(path)

    def _require_writable_parent(self, path: str) -> None:
        above = self.node(posixpath.dirname(path))
        if not above.is_directory:
            raise FileFault(effects.NOT_A_DIRECTORY)
        self._require(above, WRITE)
        _refuse_bad_name(path)

    def _require_removable(self, path: str) -> None:
        above = self._nodes[posixpath.dirname(path)]
        self._require(above, WRITE)
        if above.mode & _STICKY_BIT:
            # As in /tmp: only the owner takes a file away.
            owners = ("root", above.owner, self._nodes[path].owner)
            if self._ledger.user not in owners:
                raise FileFault(effects.NOT_PERMITTED)
        self._refuse_held(path)

    def _refuse_held(self, path: str) -> None:
        holder = self.holder_of(path)
        if holder:
            raise FileFault(f"{effects.BUSY} (held by {holder})")

    # Doing it.

    def _put(self, path: str, node: Node) -> None:
        if len(self._nodes) >= _MAX_NODES:
            raise FileFault(effects.NO_SPACE)
        self._make_room(path, self._nodes.get(path, _NOTHING), node)
        self._nodes[path] = node
        if node.is_directory:
            self._names.setdefault(path, set())
        parent = posixpath.dirname(path)
        above = self._nodes[parent]
        above.modified_s = max(above.modified_s, node.modified_s)
        self._names[parent].add(posixpath.basename(path))

    def _make_room(self, path: str, before: Node, after: Node) -> None:
        """Count what a node takes once it has changed.

        Raises `FileFault` where there is no room for it.
        """
        if len(after.text) > _MAX_TEXT_CHARS:
            raise FileFault(effects.TOO_LARGE)
        n_more_chars = len(after.text) - len(before.text)
        if self._all_text_chars + n_more_chars > _MAX_ALL_TEXT_CHARS:
            raise FileFault(effects.NO_SPACE)
        self._disks.resize(path, before.size, after.size)
        self._all_text_chars += n_more_chars

    def _drop(self, path: str) -> Node:
        node = self._nodes.pop(path)
        self._names.pop(path, None)
        parent = posixpath.dirname(path)
        self._names[parent].discard(posixpath.basename(path))
        self._nodes[parent].modified_s = self._clock.now_s
        self._make_room(path, node, _NOTHING)
        return node


def _read_device(path: str) -> str:
    if path == "/dev/null":
        return ""
    if "random" not in path:
        return "\0" * _DEVICE_BYTES
    # The same every time, so that a replay sees what was seen.
    return from_bytes(hashlib.shake_256(path.encode()).digest(_DEVICE_BYTES))


def _refuse_bad_name(path: str) -> None:
    if len(path) > _MAX_PATH_CHARS:
        raise FileFault(effects.NAME_TOO_LONG)
    for name in path.split("/"):
        if len(name) > _MAX_NAME_CHARS:
            raise FileFault(effects.NAME_TOO_LONG)
    if "\0" in path:
        raise FileFault(effects.INVALID)
