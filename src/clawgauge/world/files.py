"""The file system: a tree of text files and directories, in memory.

Owns: what reading, writing, moving and deleting do to it, who may do so, the space they take, and the bounds that keep
it small. Refuses: links, devices other than `/dev/null`, and every word about how a tool prints what it finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from clawgauge.world import paths
from clawgauge.world.clock import Clock
from clawgauge.world.disks import Disks
from clawgauge.world.effects import EffectLog
from clawgauge.world.fuel import STEP, Fuel
from clawgauge.world.nodes import ENTER, READ, WRITE, Node
from clawgauge.world.refusals import (
    BUSY,
    DENIED,
    EXISTS,
    INVALID,
    IS_A_DIRECTORY,
    NAME_TOO_LONG,
    NO_SPACE,
    NOT_A_DIRECTORY,
    NOT_EMPTY,
    NOT_FOUND,
    TOO_LARGE,
    FileFault,
)

DEV_NULL = "/dev/null"
MAX_NODES = 4_096
MAX_TEXT_CHARS = 1024**2
MAX_ALL_TEXT_CHARS = 8 * 1024**2
_MAX_PATH_CHARS = 1_024
_MAX_NAME_CHARS = 255


class FileTree:
    """Nodes by absolute path. Every method takes paths that `paths.resolve` has made plain."""

    def __init__(self, user: str, clock: Clock, disks: Disks, effects: EffectLog, fuel: Fuel) -> None:
        self.user = user
        self._clock = clock
        self._disks = disks
        self._effects = effects
        self._fuel = fuel
        self._nodes = {"/": Node("root", 0o755, clock.start_s, is_directory=True)}
        self._all_text_chars = 0
        # Says which process holds a file, if one does.
        self.holder_of: Callable[[str], str | None] = lambda path: None

    # --- looking -----------------------------------------------------------------------------------------------------

    def exists(self, path: str) -> bool:
        return path == DEV_NULL or path in self._nodes

    def is_directory(self, path: str) -> bool:
        node = self._nodes.get(path)
        return node is not None and node.is_directory

    def node(self, path: str) -> Node:
        """What stands under `path`; refuses what is not there and what the user may not reach."""
        self._fuel.spend(STEP)
        if len(path) > _MAX_PATH_CHARS or any(len(part) > _MAX_NAME_CHARS for part in path.split("/")):
            raise FileFault(NAME_TOO_LONG)
        if "\0" in path:
            raise FileFault(INVALID)
        for above in paths.ancestors(path):
            node = self._nodes.get(above)
            if node is None:
                raise FileFault(NOT_FOUND)
            if not node.is_directory:
                raise FileFault(NOT_A_DIRECTORY)
            if not node.allows(self.user, ENTER):
                raise FileFault(DENIED)
        if path not in self._nodes:
            raise FileFault(NOT_FOUND)
        return self._nodes[path]

    def read(self, path: str) -> str:
        """A file's text; of bytes that have only a size, a line says how many there are."""
        if path == DEV_NULL:
            return ""
        node = self.node(path)
        if node.is_directory:
            raise FileFault(IS_A_DIRECTORY)
        if not node.allows(self.user, READ):
            raise FileFault(DENIED)
        self._refuse_held(path)
        self._fuel.spend(len(node.text))
        if node.hidden_bytes:
            return f"{node.text}[{node.hidden_bytes} more bytes, not text]\n"
        return node.text

    def names(self, path: str) -> list[str]:
        """The names in a directory, sorted."""
        node = self.node(path)
        if not node.is_directory:
            raise FileFault(NOT_A_DIRECTORY)
        if not node.allows(self.user, READ):
            raise FileFault(DENIED)
        prefix = paths.prefix_of(path)
        self._fuel.spend(8 * len(self._nodes))
        return sorted(
            name
            for other in self._nodes
            if other.startswith(prefix) and (name := other[len(prefix) :]) and "/" not in name
        )

    def inside(self, path: str) -> list[str]:
        """Everything at any depth below `path`, parents before children."""
        self._fuel.spend(8 * len(self._nodes))
        prefix = paths.prefix_of(path)
        return sorted((other for other in self._nodes if other.startswith(prefix) and other != path), key=_depth_first)

    def peek(self, path: str) -> Node:
        """A node already found by `inside`, without asking again whether the user may reach it."""
        self._fuel.spend(1)
        return self._nodes[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def text_of(self, path: str) -> str | None:
        """The text of a file whoever may read it, or None where there is no file: for judging, not for tools."""
        node = self._nodes.get(path)
        return None if node is None or node.is_directory else node.text

    # --- changing ----------------------------------------------------------------------------------------------------

    def write(self, path: str, text: str, *, append: bool = False) -> None:
        """Make or replace a file's text, or add to it."""
        if path == DEV_NULL:
            return
        self._fuel.spend(STEP + len(text))
        node = self._nodes.get(path)
        if node is None:
            self._require_writable_parent(path)
            self._put(path, Node(self.user, 0o644, self._clock.now_s), text)
            self._effects.note("created", path)
            return
        self.node(path)
        if node.is_directory:
            raise FileFault(IS_A_DIRECTORY)
        if not node.allows(self.user, WRITE):
            raise FileFault(DENIED)
        self._refuse_held(path)
        hidden = node.hidden_bytes if append else 0
        self._set_text(path, node, node.text + text if append else text, hidden)
        self._effects.note("changed", path)

    def make_directory(self, path: str, *, parents: bool = False) -> None:
        if self.exists(path):
            if parents and self.is_directory(path):
                return
            raise FileFault(EXISTS)
        if parents and not self.exists(paths.parent(path)):
            self.make_directory(paths.parent(path), parents=True)
        self._require_writable_parent(path)
        self._put(path, Node(self.user, 0o755, self._clock.now_s, is_directory=True), "")
        self._effects.note("created", path)

    def remove(self, path: str) -> None:
        """Delete a file or an empty directory."""
        node = self.node(path)
        if node.is_directory and self.inside(path):
            raise FileFault(NOT_EMPTY)
        if path == "/":
            raise FileFault(BUSY)
        if not self._nodes[paths.parent(path)].allows(self.user, WRITE):
            raise FileFault(DENIED)
        self._refuse_held(path)
        self._drop(path)
        self._effects.note("deleted", path)

    def move(self, source: str, target: str) -> None:
        """Rename a file or a directory with all it holds; a file at `target` is replaced."""
        node = self.node(source)
        if source == target or target.startswith(paths.prefix_of(source)):
            raise FileFault(INVALID)
        if not self._nodes[paths.parent(source)].allows(self.user, WRITE):
            raise FileFault(DENIED)
        self._refuse_held(source)
        if self.exists(target):
            self.remove(target)
        self._require_writable_parent(target)
        moved = [source, *(self.inside(source) if node.is_directory else [])]
        for old in moved:
            new = target + old[len(source) :]
            self._fuel.spend(STEP)
            self._rename(old, new)
            self._effects.note("deleted", old, f"moved to {new}")
            self._effects.note("created", new, f"moved from {old}")

    def copy(self, source: str, target: str) -> None:
        """Copy one file over or beside another."""
        text = self.read(source)
        original = self.node(source)
        if source == target:
            raise FileFault(INVALID)
        self.write(target, original.text if original.hidden_bytes else text)
        if original.hidden_bytes and target in self._nodes:
            self._set_text(target, self._nodes[target], original.text, original.hidden_bytes)

    def touch(self, path: str) -> None:
        if not self.exists(path):
            self.write(path, "")
        elif path != DEV_NULL:
            node = self.node(path)
            if not node.allows(self.user, WRITE):
                raise FileFault(DENIED)
            node.modified_s = self._clock.now_s
            self._effects.note("changed", path, "touched")

    def set_mode(self, path: str, mode: int) -> None:
        node = self.node(path)
        if self.user not in ("root", node.owner):
            raise FileFault("Operation not permitted")
        node.mode = mode
        self._effects.note("changed", path, f"mode {mode:o}")

    def place(self, path: str, node: Node) -> None:
        """Put a node where the specification has it, with the directories above it; a directory there is replaced."""
        for above in paths.ancestors(path)[1:]:
            if above not in self._nodes:
                self._put(above, Node(node.owner, 0o755, node.modified_s, is_directory=True), "")
            elif not self._nodes[above].is_directory:
                raise FileFault(NOT_A_DIRECTORY)
        if path in self._nodes:
            self._drop(path)
        self._put(path, node, node.text, node.hidden_bytes)

    # --- keeping the books -------------------------------------------------------------------------------------------

    def _require_writable_parent(self, path: str) -> None:
        above = self.node(paths.parent(path))
        if not above.is_directory:
            raise FileFault(NOT_A_DIRECTORY)
        if not above.allows(self.user, WRITE):
            raise FileFault(DENIED)
        if len(path) > _MAX_PATH_CHARS or len(paths.base(path)) > _MAX_NAME_CHARS:
            raise FileFault(NAME_TOO_LONG)
        if "\0" in path:
            raise FileFault(INVALID)

    def _refuse_held(self, path: str) -> None:
        holder = self.holder_of(path)
        if holder is not None:
            raise FileFault(f"{BUSY} (held by {holder})")

    def _rename(self, old: str, new: str) -> None:
        node = self._nodes[old]
        self._drop(old)
        try:
            self._put(new, node, node.text, node.hidden_bytes)
        except FileFault:
            self._put(old, node, node.text, node.hidden_bytes)
            raise

    def _put(self, path: str, node: Node, text: str, hidden_bytes: int = 0) -> None:
        if len(self._nodes) >= MAX_NODES:
            raise FileFault(NO_SPACE)
        empty = Node(node.owner, node.mode, node.modified_s, is_directory=node.is_directory)
        self._disks.resize(path, 0, empty.size)
        self._nodes[path] = empty
        try:
            self._set_text(path, empty, text, hidden_bytes)
        except FileFault:
            self._drop(path)
            raise
        empty.modified_s = node.modified_s

    def _set_text(self, path: str, node: Node, text: str, hidden_bytes: int) -> None:
        if len(text) > MAX_TEXT_CHARS:
            raise FileFault(TOO_LARGE)
        if self._all_text_chars + len(text) - len(node.text) > MAX_ALL_TEXT_CHARS:
            raise FileFault(NO_SPACE)
        before = node.size
        after = node.size if node.is_directory else len(text.encode("utf-8", "replace")) + hidden_bytes
        self._disks.resize(path, before, after)
        self._all_text_chars += len(text) - len(node.text)
        node.set_text(text, hidden_bytes)
        node.modified_s = self._clock.now_s

    def _drop(self, path: str) -> None:
        node = self._nodes.pop(path)
        self._disks.resize(path, node.size, 0)
        self._all_text_chars -= len(node.text)


def _depth_first(path: str) -> list[str]:
    return path.split("/")
