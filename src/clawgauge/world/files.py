"""The file system: a tree of files and directories in memory, with owners, modes and ages, and the disks they fill.

A file is text, with `surrogateescape` for bytes that are not UTF-8; where only its size matters, `hidden_bytes` too."""

import hashlib
import posixpath
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from clawgauge.errors import SuiteError
from clawgauge.world import effects
from clawgauge.world.effects import STEP, FileFault, Ledger
from clawgauge.world.spec import Noun, Path, Size, Word, read_size

READ, WRITE, ENTER = 4, 2, 1
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/full")
_MAX_NODES, _MAX_TEXT_CHARS, _MAX_ALL_TEXT_CHARS = 4_096, 1024**2, 8 * 1024**2
_MAX_PATH_CHARS, _MAX_NAME_CHARS = 1_024, 255
_DEVICE_BYTES, _BLOCK_BYTES = 65_536, 4_096


def resolve(path: str, workdir: str = "/") -> str:
    """`path` made absolute from `workdir`, without `.`, `..`, double or trailing slashes."""
    # Not `normpath`, which in some versions of Python ends a path at its first null.
    parts: list[str] = []
    for part in posixpath.join(workdir, path).split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def prefix_of(directory: str) -> str:
    return f"{directory.rstrip('/')}/"


def ancestors(path: str) -> list[str]:
    parts = path.split("/")[1:-1]
    return ["/", *("/" + "/".join(parts[: count + 1]) for count in range(len(parts)))]


def blocks_of(size: int) -> int:
    return -(-size // _BLOCK_BYTES) * _BLOCK_BYTES


class DiskSpec(Noun):
    mount: Path
    device: Word = "/dev/vda1"
    size: Size = 40 * 1024**3
    used: Size | None = None
    inodes_used: int | None = None


@dataclass(slots=True)
class Disk:
    """One mounted file system; `used` counts blocks, like the real thing. `wanted` is what it starts with."""

    device: str
    mount: str
    size: int
    used: int
    wanted: int | None
    inodes_used: int | None

    @property
    def n_inodes(self) -> int:
        return max(1, self.size // 16_384)


class Disks:
    """The disks by mount point; one of 40 GB at `/` where none is given there."""

    def __init__(self, spec: list[DiskSpec]) -> None:
        self._by_mount: dict[str, Disk] = {}
        for index, given in enumerate([*spec, DiskSpec(mount="/")]):
            key, mount = f"disks[{index}]", resolve(given.mount)
            if mount in self._by_mount and index < len(spec):
                raise SuiteError(
                    "key 'disks' has two disks with one mount point; give each its own"
                )
            wanted = None if given.used is None else read_size(given.used, f"{key}.used")
            disk = Disk(
                given.device,
                mount,
                read_size(given.size, f"{key}.size"),
                0,
                wanted,
                given.inodes_used,
            )
            if not 0 <= (given.inodes_used or 0) <= disk.n_inodes:
                raise SuiteError(
                    f"key '{key}.inodes_used' must be a whole number from 0 to {disk.n_inodes}"
                )
            self._by_mount.setdefault(mount, disk)

    def __iter__(self) -> Iterator[Disk]:
        return iter(sorted(self._by_mount.values(), key=lambda disk: disk.mount))

    def disk_of(self, path: str) -> Disk:
        """The one with the longest mount point above a path."""
        holding = [
            disk for disk in self._by_mount.values() if f"{path}/".startswith(prefix_of(disk.mount))
        ]
        return max(holding, key=lambda disk: len(disk.mount))

    def settle(self) -> None:
        """Once the files stand: make each disk as full as the specification says it starts."""
        for index, disk in enumerate(self._by_mount.values()):
            taken = disk.used
            disk.used = (
                taken + min(disk.size - taken, disk.size * 3 // 10)
                if disk.wanted is None
                else disk.wanted
            )
            if not taken <= disk.used <= disk.size:
                words = f"is {disk.used} bytes; the files alone take {taken} of {disk.size}"
                raise SuiteError(f"key 'disks[{index}].used' {words}")

    def resize(self, path: str, before: int, after: int) -> None:
        disk = self.disk_of(path)
        change = blocks_of(after) - blocks_of(before)
        _refuse_if(change > 0 and disk.used + change > disk.size, effects.NO_SPACE)
        disk.used += change


def to_bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half a surrogate pair, from a specification
        return text.encode("utf-8", "replace")


def from_bytes(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


@dataclass(slots=True)
class Node:
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
        self.size = 4_096 if self.is_directory else len(to_bytes(self.text)) + self.hidden_bytes

    def allows(self, user: str, wish: int) -> bool:
        """Whether `user` may read, write or enter. A group has one member, of its own name."""
        if user == "root":
            return True
        shift = 6 if user == self.owner else 3 if user == self.group else 0
        return self.mode >> shift & wish == wish

    @property
    def shown_mode(self) -> str:
        return stat.filemode(self.mode | (stat.S_IFDIR if self.is_directory else stat.S_IFREG))


_NOTHING = Node("", 0, 0)


class FileTree:
    """Nodes by absolute path. Every method takes paths that `resolve` has made plain."""

    def __init__(self, ledger: Ledger, disks: Disks) -> None:
        self._ledger, self._clock, self._fuel, self._disks = (
            ledger,
            ledger.clock,
            ledger.fuel,
            disks,
        )
        root = Node("root", 0o755, ledger.clock.start_s, is_directory=True)
        disks.resize("/", 0, root.size)
        self._nodes = {"/": root}
        self._names: dict[str, set[str]] = {"/": set()}
        self._all_text_chars = 0
        # Files whose text is made when it is read, such as /proc/meminfo.
        self.live: dict[str, Callable[[], str]] = {}
        # Says which process holds a file, if one does.
        self.holder_of: Callable[[str], str | None] = lambda path: None

    def exists(self, path: str) -> bool:
        return path in self._nodes

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def is_reachable(self, path: str, wish: int = 0) -> bool:
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
        for above in ancestors(path):
            _refuse_if(above not in self._nodes, effects.NOT_FOUND)
            _refuse_if(above not in self._names, effects.NOT_A_DIRECTORY)
            self._require(self._nodes[above], ENTER)
        _refuse_if(path not in self._nodes, effects.NOT_FOUND)
        return self._nodes[path]

    def read(self, path: str) -> str:
        """A file's text; of bytes that have only a size, a line says how many there are."""
        node = self.node(path)
        _refuse_if(node.is_directory, effects.IS_A_DIRECTORY)
        self._require(node, READ)
        if path in DEVICES:
            if path == "/dev/null":
                return ""
            # The same every time, so that a replay sees what was seen.
            drawn = hashlib.shake_256(path.encode()).digest(_DEVICE_BYTES)
            return from_bytes(drawn) if "random" in path else "\0" * _DEVICE_BYTES
        self._refuse_held(path)
        self._fuel.spend(len(node.text))
        self._ledger.note("read", path)
        more = f"[{node.hidden_bytes} more bytes, not text]\n" if node.hidden_bytes else ""
        return self.live[path]() if path in self.live else node.text + more

    def names(self, path: str) -> list[str]:
        node = self.node(path)
        _refuse_if(not node.is_directory, effects.NOT_A_DIRECTORY)
        self._require(node, READ)
        self._fuel.spend(STEP * len(self._names[path]) // 4)
        return sorted(self._names[path])

    def inside(self, path: str) -> list[str]:
        found: list[str] = []
        for name in sorted(self._names.get(path, ())):
            self._fuel.spend(STEP // 4)
            inner = posixpath.join(path, name)
            found += [inner, *self.inside(inner)]
        return found

    def n_links(self, path: str) -> int:
        """As `ls -l` counts: a directory has one from above, its own, and one from each directory in it."""
        names = self._names.get(path)
        return (
            1
            if names is None
            else 2 + sum(posixpath.join(path, name) in self._names for name in names)
        )

    def peek(self, path: str) -> Node:
        """A node already found by `names` or `inside`, without asking again whether the user may reach it."""
        self._fuel.spend(1)
        return self._nodes[path]

    def text_of(self, path: str) -> str | None:
        """The text of a file whoever may read it, or None where there is no file: for judging, not for tools."""
        node = self._nodes.get(path)
        return (
            None
            if node is None or node.is_directory
            else to_bytes(node.text).decode("utf-8", "replace")
        )

    def write(
        self,
        path: str,
        text: str,
        *,
        append: bool = False,
        hidden_bytes: int = 0,
        mode: int = 0o644,
    ) -> None:
        if path in DEVICES:
            _refuse_if(path == "/dev/full", effects.NO_SPACE)
            return
        self._fuel.spend(STEP + len(text))
        if (node := self._nodes.get(path)) is None:
            self._require_writable_parent(path)
            self._put(
                path,
                Node(self._ledger.user, mode, self._clock.now_s, text, hidden_bytes=hidden_bytes),
            )
            self._ledger.note("created", path)
            return
        self.node(path)
        _refuse_if(node.is_directory, effects.IS_A_DIRECTORY)
        _refuse_if(not node.allows(self._ledger.user, WRITE) or path in self.live, effects.DENIED)
        self._refuse_held(path)
        if append:
            text, hidden_bytes = node.text + text, node.hidden_bytes + hidden_bytes
        after = replace(node, text=text, hidden_bytes=hidden_bytes, modified_s=self._clock.now_s)
        self._make_room(path, node, after)
        self._nodes[path] = after
        if (after.text, after.hidden_bytes) != (node.text, node.hidden_bytes):
            self._ledger.note("changed", path)

    def make_directory(self, path: str, *, parents: bool = False, mode: int = 0o755) -> None:
        if parents and self.is_directory(path):
            return
        _refuse_if(path in self._nodes, effects.EXISTS)
        if parents and posixpath.dirname(path) not in self._nodes:
            self.make_directory(posixpath.dirname(path), parents=True)
        self._require_writable_parent(path)
        self._put(path, Node(self._ledger.user, mode, self._clock.now_s, is_directory=True))
        self._ledger.note("created", path)

    def remove(self, path: str, *, recursive: bool = False) -> None:
        node = self.node(path)
        if recursive and node.is_directory:
            for name in self.names(path):
                self.remove(posixpath.join(path, name), recursive=True)
        _refuse_if(self._names.get(path), effects.NOT_EMPTY)
        _refuse_if(path == "/", effects.BUSY)
        self._require_removable(path)
        self._drop(path)
        self._ledger.note("deleted", path)

    def move(self, source: str, target: str) -> None:
        """Rename a file or a directory with all it holds; a file at `target` is replaced."""
        self.node(source)
        _refuse_if(source == target or target.startswith(prefix_of(source)), effects.INVALID)
        self._require_removable(source)
        if target in self._nodes:
            self.remove(target)
        self._require_writable_parent(target)
        moved = [source, *self.inside(source)]
        goals = [target + path[len(source) :] for path in moved]
        self._fuel.spend(STEP * len(moved))
        # Taken away first: what moves takes no room twice.
        nodes = [self._drop(path) for path in reversed(moved)][::-1]
        try:
            for goal, node in zip(goals, nodes, strict=True):
                self._put(goal, node)
        except FileFault:  # the other disk is full
            for goal in reversed([goal for goal in goals if goal in self._nodes]):
                self._drop(goal)
            for path, node in zip(moved, nodes, strict=True):
                self._put(path, node)
            raise
        for path, goal in zip(moved, goals, strict=True):
            self._ledger.note("deleted", path, f"moved to {goal}")
            self._ledger.note("created", goal, f"moved from {path}")

    def copy(self, source: str, target: str) -> None:
        text, node = self.read(source), self.node(source)
        _refuse_if(source == target, effects.INVALID)
        text = node.text if node.hidden_bytes else text
        self.write(target, text, hidden_bytes=node.hidden_bytes, mode=node.mode & 0o777)

    def touch(self, path: str, at_s: int | None = None) -> None:
        if path in DEVICES:
            return
        if path not in self._nodes:
            self.write(path, "")
        node = self.node(path)
        _refuse_if(
            not node.allows(self._ledger.user, WRITE) and self._ledger.user != node.owner,
            effects.DENIED,
        )
        node.modified_s = self._clock.now_s if at_s is None else at_s
        self._ledger.note("changed", path, "touched")

    def set_mode(self, path: str, mode: int) -> None:
        node = self.node(path)
        _refuse_if(self._ledger.user not in ("root", node.owner), effects.NOT_PERMITTED)
        node.mode = mode
        self._ledger.note("changed", path, f"mode {mode:o}")

    def set_owner(self, path: str, owner: str, group: str) -> None:
        """Give a file away; an empty name leaves that part as it is."""
        node = self.node(path)
        owner, group = owner or node.owner, group or node.group
        is_own = owner == node.owner == self._ledger.user and group in (owner, node.group)
        _refuse_if(not is_own and self._ledger.user != "root", effects.NOT_PERMITTED)
        node.owner, node.group = owner, group
        self._ledger.note("changed", path, f"owner {owner}:{group}")

    def place(self, path: str, node: Node) -> None:
        """Put a node where the specification has it, with the directories above it; a directory there is replaced."""
        for above in ancestors(path)[1:]:
            if above not in self._nodes:
                self._put(above, Node(node.owner, 0o755, node.modified_s, is_directory=True))
            _refuse_if(above not in self._names, effects.NOT_A_DIRECTORY)
        self._put(path, node)

    def _require(self, node: Node, wish: int) -> None:
        _refuse_if(not node.allows(self._ledger.user, wish), effects.DENIED)

    def _require_writable_parent(self, path: str) -> None:
        above = self.node(posixpath.dirname(path))
        _refuse_if(not above.is_directory, effects.NOT_A_DIRECTORY)
        self._require(above, WRITE)
        _refuse_bad_name(path)

    def _require_removable(self, path: str) -> None:
        above = self._nodes[posixpath.dirname(path)]
        self._require(above, WRITE)
        # The sticky bit of /tmp: only the owner takes a file away.
        owners = ("root", above.owner, self._nodes[path].owner)
        _refuse_if(above.mode & 0o1000 and self._ledger.user not in owners, effects.NOT_PERMITTED)
        self._refuse_held(path)

    def _refuse_held(self, path: str) -> None:
        holder = self.holder_of(path)
        _refuse_if(holder, f"{effects.BUSY} (held by {holder})")

    def _put(self, path: str, node: Node) -> None:
        _refuse_if(len(self._nodes) >= _MAX_NODES, effects.NO_SPACE)
        self._make_room(path, self._nodes.get(path, _NOTHING), node)
        self._nodes[path] = node
        if node.is_directory:
            self._names.setdefault(path, set())
        above = posixpath.dirname(path)
        self._nodes[above].modified_s = max(self._nodes[above].modified_s, node.modified_s)
        self._names[above].add(posixpath.basename(path))

    def _make_room(self, path: str, before: Node, after: Node) -> None:
        n_more_chars = len(after.text) - len(before.text)
        _refuse_if(len(after.text) > _MAX_TEXT_CHARS, effects.TOO_LARGE)
        _refuse_if(self._all_text_chars + n_more_chars > _MAX_ALL_TEXT_CHARS, effects.NO_SPACE)
        self._disks.resize(path, before.size, after.size)
        self._all_text_chars += n_more_chars

    def _drop(self, path: str) -> Node:
        node = self._nodes.pop(path)
        self._names.pop(path, None)
        self._names[posixpath.dirname(path)].discard(posixpath.basename(path))
        self._nodes[posixpath.dirname(path)].modified_s = self._clock.now_s
        self._make_room(path, node, _NOTHING)
        return node


def _refuse_if(is_so: object, words: str) -> None:
    if is_so:
        raise FileFault(words)


def _refuse_bad_name(path: str) -> None:
    is_too_long = len(path) > _MAX_PATH_CHARS or any(
        len(part) > _MAX_NAME_CHARS for part in path.split("/")
    )
    _refuse_if(is_too_long, effects.NAME_TOO_LONG)
    _refuse_if("\0" in path, effects.INVALID)
