"""Disks: how large they are and how full. Every file takes its room and gives it back, and `df` follows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from clawgauge.errors import SuiteError
from clawgauge.world.fields import Fields
from clawgauge.world.paths import prefix_of, resolve
from clawgauge.world.refusals import NO_SPACE, FileFault

BLOCK_BYTES = 4_096
_DEFAULT_SIZE = 40 * 1024**3
_KEYS = ("mount", "device", "size", "used", "inodes_used")


@dataclass(slots=True)
class Disk:
    """One mounted file system; `used` counts blocks, like the real thing."""

    device: str
    mount: str
    size: int
    used: int
    inodes_used: int | None = None


def blocks_of(size: int) -> int:
    """The bytes a file of `size` bytes takes on disk."""
    return -(-size // BLOCK_BYTES) * BLOCK_BYTES


class Disks:
    """The disks by mount point. Exactly one holds each path: that with the longest mount point above it."""

    def __init__(self, disks: list[Disk]) -> None:
        self._disks = sorted(disks, key=lambda disk: len(disk.mount), reverse=True)

    def __iter__(self) -> Iterator[Disk]:
        return iter(sorted(self._disks, key=lambda disk: disk.mount))

    def disk_of(self, path: str) -> Disk:
        for disk in self._disks:
            if path == disk.mount or path.startswith(prefix_of(disk.mount)):
                return disk
        return self._disks[-1]

    def resize(self, path: str, before: int, after: int) -> None:
        """A file at `path` goes from `before` bytes to `after`; a disk without room refuses it."""
        disk = self.disk_of(path)
        change = blocks_of(after) - blocks_of(before)
        if change > 0 and disk.used + change > disk.size:
            raise FileFault(NO_SPACE)
        disk.used += change


def read_disks(spec: Fields) -> Disks:
    """The disks of a specification; one of 40 GB at `/` where none are given."""
    disks = [_read_disk(fields) for fields in spec.objects("disks", _KEYS)]
    mounts = [disk.mount for disk in disks]
    if len(set(mounts)) < len(mounts):
        raise SuiteError(f"key '{spec.at('disks')}' has two disks with one mount point; give each its own")
    if "/" not in mounts:
        disks.append(Disk("/dev/vda1", "/", _DEFAULT_SIZE, 0))
    return Disks(disks)


def settle_disks(disks: Disks, spec: Fields) -> None:
    """Once the files stand: make each disk as full as the specification says it starts."""
    wanted = {resolve(fields.path("mount")): fields for fields in spec.objects("disks", _KEYS)}
    for disk in disks:
        fields = wanted.get(disk.mount)
        if fields is None or "used" not in fields:
            disk.used += min(disk.size - disk.used, disk.size * 3 // 10)
            continue
        used = fields.size("used")
        if not disk.used <= used <= disk.size:
            raise SuiteError(
                f"key '{fields.at('used')}' is {used} bytes; the files alone take {disk.used} of {disk.size}"
            )
        disk.used = used


def _read_disk(fields: Fields) -> Disk:
    size = fields.size("size", _DEFAULT_SIZE)
    inodes_used = fields.whole("inodes_used", 0, most=max(1, size // 16_384)) if "inodes_used" in fields else None
    return Disk(fields.word("device", "/dev/vda1"), resolve(fields.path("mount")), size, 0, inodes_used)
