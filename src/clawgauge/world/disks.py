"""The disks of the simulated machine, and how full they are."""

from collections.abc import Iterator
from dataclasses import dataclass

from clawgauge.errors import SuiteError
from clawgauge.world import effects
from clawgauge.world.effects import FileFault
from clawgauge.world.paths import prefix_of, resolve
from clawgauge.world.spec import Path, Size, SpecObject, Word, read_size

_BLOCK_BYTES = 4_096
_BYTES_PER_INODE = 16_384


def blocks_of(size: int) -> int:
    """The bytes that so many take on a disk, which is full blocks."""
    return -(-size // _BLOCK_BYTES) * _BLOCK_BYTES


class DiskSpec(SpecObject):
    mount: Path
    device: Word = "/dev/vda1"
    size: Size = 40 * 1024**3
    used: Size | None = None
    inodes_used: int | None = None


@dataclass(slots=True)
class Disk:
    """One mounted file system; `used` counts blocks, like the real thing.

    `wanted` is how full the specification has it at the start, or None.
    """

    device: str
    mount: str
    size: int
    used: int
    wanted: int | None
    inodes_used: int | None

    @property
    def n_inodes(self) -> int:
        return max(1, self.size // _BYTES_PER_INODE)


class Disks:
    """The disks by mount point; one of 40 GB at `/` where none is given there."""

    def __init__(self, specs: list[DiskSpec]) -> None:
        self._by_mount: dict[str, Disk] = {}
        for index, spec in enumerate(specs):
            if resolve(spec.mount) in self._by_mount:
                raise SuiteError(
                    "key 'disks' has two disks with one mount point; give each its own"
                )
            disk = _make_disk(spec, f"disks[{index}]")
            _check_inodes(disk, f"disks[{index}]")
            self._by_mount[disk.mount] = disk
        if "/" not in self._by_mount:
            self._by_mount["/"] = _make_disk(DiskSpec(mount="/"), "disks")

    def __iter__(self) -> Iterator[Disk]:
        return iter(sorted(self._by_mount.values(), key=lambda disk: disk.mount))

    def disk_of(self, path: str) -> Disk:
        """The one with the longest mount point above a path."""
        disks_above = []
        for disk in self._by_mount.values():
            if f"{path}/".startswith(prefix_of(disk.mount)):
                disks_above.append(disk)
        return max(disks_above, key=lambda disk: len(disk.mount))

    def settle(self) -> None:
        """Once the files stand: make each disk as full as the specification says it starts."""
        for index, disk in enumerate(self._by_mount.values()):
            file_bytes = disk.used
            if disk.wanted is None:
                disk.used = file_bytes + min(disk.size - file_bytes, disk.size * 3 // 10)
            else:
                disk.used = disk.wanted
            if not file_bytes <= disk.used <= disk.size:
                problem = f"is {disk.used} bytes; the files alone take {file_bytes} of {disk.size}"
                raise SuiteError(f"key 'disks[{index}].used' {problem}")

    def resize(self, path: str, before: int, after: int) -> None:
        """A file grows or shrinks. Raises `FileFault` where there is no room for it."""
        disk = self.disk_of(path)
        change = blocks_of(after) - blocks_of(before)
        if change > 0 and disk.used + change > disk.size:
            raise FileFault(effects.NO_SPACE)
        disk.used += change


def _make_disk(spec: DiskSpec, key: str) -> Disk:
    wanted = None if spec.used is None else read_size(spec.used, f"{key}.used")
    return Disk(
        device=spec.device,
        mount=resolve(spec.mount),
        size=read_size(spec.size, f"{key}.size"),
        used=0,
        wanted=wanted,
        inodes_used=spec.inodes_used,
    )


def _check_inodes(disk: Disk, key: str) -> None:
    if not 0 <= (disk.inodes_used or 0) <= disk.n_inodes:
        raise SuiteError(
            f"key '{key}.inodes_used' must be a whole number from 0 to {disk.n_inodes}"
        )
