"""The files a world starts with: those of the specification, and those that every server has.

files."/srv/app/config.ini" = "port = 80\\n"
files."/var/log/app/debug.log" = { size = "18G", age_days = 2 }
files."/srv/reports" = { directory = true, owner = "root" }
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from clawgauge.errors import SuiteError
from clawgauge.world import paths
from clawgauge.world.clock import Clock, Incidentals
from clawgauge.world.fields import Fields, refusal
from clawgauge.world.files import DEVICES, FileTree, Node
from clawgauge.world.refusals import FileFault

_KEYS = ("text", "size", "owner", "mode", "age_days", "directory")
_DAY_S = 86_400
RELEASE = "6.1.0-31-amd64"
_SYSTEM_DIRECTORIES = (
    "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/media", "/mnt", "/proc", "/root", "/run", "/sbin", "/sys",
    "/usr",
    "/usr/bin", "/usr/lib", "/usr/local", "/usr/local/bin", "/usr/sbin", "/usr/share", "/var", "/var/lib",
)  # fmt: skip
_OS_RELEASE = (
    'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nNAME="Debian GNU/Linux"\nVERSION_ID="12"\n'
    'VERSION="12 (bookworm)"\nVERSION_CODENAME=bookworm\nID=debian\nHOME_URL="https://www.debian.org/"\n'
)
_OWN_DIRECTORIES = ("/opt", "/srv", "/var/log")


def home_of(user: str) -> str:
    return "/root" if user == "root" else f"/home/{user}"


def place_files(tree: FileTree, spec: Fields, clock: Clock, incidentals: Incidentals) -> None:
    """Put the directories every server has and the files of the specification into an empty tree."""
    long_ago_s = clock.start_s - 400 * _DAY_S
    for path in _SYSTEM_DIRECTORIES:
        tree.place(path, Node("root", 0o755, long_ago_s, is_directory=True))
    tree.place("/root", Node("root", 0o700, long_ago_s, is_directory=True))
    tree.place("/tmp", Node("root", 0o1777, long_ago_s, is_directory=True))  # noqa: S108 - simulated
    for path in (*_OWN_DIRECTORIES, home_of(tree.user)):
        tree.place(path, Node(tree.user, 0o755, long_ago_s, is_directory=True))
    for path, key, value in spec.entries("files"):
        _place(tree, path, key, value, clock, incidentals)


def _place(tree: FileTree, path: str, key: str, value: Any, clock: Clock, incidentals: Incidentals) -> None:
    if not path.startswith("/") or "\0" in path or paths.resolve(path) != path or path == "/":
        raise SuiteError(f"key '{key}' must be named by a plain absolute path")
    fields = Fields({"text": value} if isinstance(value, str) else value, key, _KEYS)
    seconds_ago = incidentals.between(3_600, 30 * _DAY_S, "age", path)
    if "age_days" in fields:
        seconds_ago = int(fields.number("age_days", 0, most=10_000) * _DAY_S)
    node = Node(
        owner=fields.word("owner", tree.user),
        mode=_read_mode(fields, "0755" if fields.flag("directory") else "0644"),
        modified_s=max(0, clock.start_s - seconds_ago),
        text=fields.text("text", ""),
        is_directory=fields.flag("directory"),
    )
    if node.is_directory and ("text" in fields or "size" in fields):
        raise SuiteError(f"key '{key}' is a directory, which has neither 'text' nor 'size'")
    if "size" in fields:
        node.set_text(node.text, max(0, fields.size("size") - node.size))
    if tree.exists(path) and not node.is_directory:
        raise SuiteError(f"key '{key}' is a directory already, because another path lies inside it")
    try:
        tree.place(path, node)
    except FileFault as fault:
        raise SuiteError(f"key '{key}' cannot be placed: {fault}") from None


def place_system_files(tree: FileTree, host: str, users: Mapping[str, int], booted_s: int) -> None:
    """What stands in /etc and /proc of a small Debian server; a file of the specification stays as it is."""
    passwd = "".join(
        f"{name}:x:{number}:{number}:{name}:{home_of(name)}:/{'bin/bash' if number in (0, 1000) else 'sbin/nologin'}\n"
        for name, number in sorted(users.items(), key=lambda pair: pair[1])
    )
    texts = {
        "/etc/hostname": f"{host}\n",
        "/etc/hosts": f"127.0.0.1\tlocalhost\n127.0.1.1\t{host}\n",
        "/etc/os-release": _OS_RELEASE,
        "/etc/debian_version": "12.9\n",
        "/etc/passwd": passwd,
        "/etc/group": "".join(
            f"{name}:x:{number}:\n" for name, number in sorted(users.items(), key=lambda pair: pair[1])
        ),
        "/etc/resolv.conf": "nameserver 10.0.0.1\n",
        "/etc/timezone": "Etc/UTC\n",
        "/etc/issue": "Debian GNU/Linux 12 \\n \\l\n\n",
        "/etc/fstab": "/dev/vda1 / ext4 defaults 0 1\n",
        "/etc/crontab": "SHELL=/bin/sh\nPATH=/usr/local/sbin:/usr/local/bin:/sbin:/bin:/usr/sbin:/usr/bin\n",
        "/etc/shells": "/bin/sh\n/bin/bash\n",
        "/proc/version": f"Linux version {RELEASE} (debian-kernel@lists.debian.org)\n",
    }
    for path, text in texts.items():
        place_system_file(tree, path, text, booted_s)
    place_system_file(tree, "/etc/shadow", "root:*:19800:0:99999:7:::\n", booted_s, mode=0o640)
    for path in DEVICES:
        place_system_file(tree, path, "", booted_s, mode=0o666)


def place_system_file(tree: FileTree, path: str, text: str, modified_s: int, *, mode: int = 0o644) -> None:
    """Put a file of root's where the specification has none; one that does not fit on a full disk is left out."""
    if not tree.exists(path):
        with contextlib.suppress(FileFault):
            tree.place(path, Node("root", mode, modified_s, text))


def _read_mode(fields: Fields, default: str) -> int:
    written = fields.text("mode", default)
    try:
        mode = int(written, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o7777:
        raise refusal(fields.at("mode"), 'an octal mode as text, such as "0640"', written)
    return mode
