"""The machine that a test sees: no key, server, model or setting of the machine that it runs on.

The people clawgauge is built for have an Ollama on its usual port, keys in their shell and a `claude` on their PATH.
Whatever a test finds of that it did not put there. `conftest.py` gives this environment to the test process, and
`support.command.clean_environment` to every command that a test starts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from clawgauge.config import local_servers
from clawgauge.providers.embedded.provider import model_path

# Port 9 is for a service that nobody runs: the connection is refused at once.
NO_SERVER = "127.0.0.1:9"
# What programs need to start and to find each other; what steers the tests themselves. Nothing else is let in, because
# nobody can list the variables in which a machine keeps its keys.
KEPT = ("PATH", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "USER", "LOGNAME", "LD_LIBRARY_PATH")
KEPT_FOR_TESTS = (
    "CI",
    "CLAWGAUGE_KILL_SEED",
    "CLAWGAUGE_RENEW_SCREENS",
    "PYTHONPATH",
    "PYTHONDONTWRITEBYTECODE",
)
KEPT_BEGINNINGS = ("PYTEST_", "PIP_", "COVERAGE_")
# What clawgauge looks for on the PATH. Tests that need one bring a program of their own.
HIDDEN_PROGRAMS = frozenset(
    {"claude", "codex", "goose", "openclaw", "ollama", "nvidia-smi", "rocm-smi"}
)


def isolated_environment(environ: Mapping[str, str], home: Path) -> dict[str, str]:
    """The environment for tests on a machine with this one; `home` is an empty folder for what belongs to a user.

    The embedded model stays where the machine has it, because it is 93 MB to fetch.
    """
    isolated = {}
    for name, value in environ.items():
        if name in KEPT or name in KEPT_FOR_TESTS or name.startswith(KEPT_BEGINNINGS):
            isolated[name] = value
    isolated["HOME"] = str(home)
    isolated["XDG_STATE_HOME"] = str(home / ".local" / "state")
    isolated["CLAWGAUGE_CACHE_DIR"] = str(model_path(environ).parent)
    isolated["PATH"] = hide_programs(HIDDEN_PROGRAMS, environ.get("PATH", os.defpath), home / "bin")
    isolated["LANG"] = "C.UTF-8"
    isolated["TZ"] = "UTC"
    isolated["OLLAMA_HOST"] = NO_SERVER
    isolated[local_servers.VARIABLE] = local_servers.NOWHERE
    return isolated


def hide_programs(programs: Collection[str], search_path: str, links: Path) -> str:
    """A PATH without these programs: a folder that holds one is replaced by a folder of links to all else in it."""
    folders = []
    for number, folder in enumerate(search_path.split(os.pathsep)):
        try:
            names = {entry.name for entry in Path(folder).iterdir()}
        except OSError:
            continue
        if names.isdisjoint(programs):
            folders.append(folder)
            continue
        replacement = links / str(number)
        replacement.mkdir(parents=True)
        for name in names.difference(programs):
            (replacement / name).symlink_to(Path(folder).absolute() / name)
        folders.append(str(replacement))
    return os.pathsep.join(folders)


@contextmanager
def isolated_process(home: Path) -> Iterator[None]:
    """This process and all that it starts in that environment; afterwards it has its own again."""
    original = dict(os.environ)
    replace_environment(isolated_environment(original, home))
    try:
        yield
    finally:
        replace_environment(original)


def replace_environment(environ: Mapping[str, str]) -> None:
    # pytest counts on the variables that it sets and deletes itself.
    for name in set(os.environ).difference(environ):
        if not name.startswith("PYTEST_"):
            del os.environ[name]
    for name, value in environ.items():
        if not name.startswith("PYTEST_"):
            os.environ[name] = value
    if hasattr(time, "tzset"):
        time.tzset()
