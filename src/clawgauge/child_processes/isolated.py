"""Python children that run this installation's code alone, and what of an environment a child is given.

`-I` leaves out the current directory, PYTHONPATH and everything else of PYTHON*: an `argparse.py` or a
`sitecustomize.py` that lies about is not loaded. It leaves out the user's own site directory too, where clawgauge or
what it needs may be installed; so the directories this process imports from follow *behind* the standard library and
the installed packages, where they can add names but replace none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

_START = (
    "import runpy, sys; "
    "path, module = sys.argv[1:3]; del sys.argv[1:3]; "
    "sys.path += [folder for folder in path.split(chr(10)) if folder not in sys.path]; "
    "runpy.run_module(module, run_name='__main__', alter_sys=True)"
)
# What a program needs to find itself, its libraries and its hardware, by the beginnings of the names.
_NEEDED = (
    *("PATH", "HOME", "USER", "LANG", "LC_", "TZ", "TMP", "TEMP", "XDG_", "LD_", "DYLD_"),
    *("SYSTEMROOT", "WINDIR", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PATHEXT", "COMSPEC"),
    *("CUDA_", "NVIDIA_", "HIP_", "HSA_", "ROCR_", "ROCM_", "GGML_", "VK_", "ONEAPI_", "SYCL_", "ZE_", "MTL_", "OMP_"),
    *("KMP_", "OPENBLAS_", "MKL_", "GOMP_", "MALLOC_"),
)
_KEY_WORDS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "AUTHORIZATION")


def isolated_module(module: str, *arguments: str) -> list[str]:
    """The command that runs a module as `python -m` would, of this installation and nothing around it."""
    # Where this process imports from, but for the current directory; this package's own folder in any case.
    folders = [folder for folder in sys.path if Path(folder).is_absolute() and not _is_here(folder)]
    own = os.fspath(Path(__file__).resolve().parents[2])
    return [sys.executable, "-I", "-c", _START, "\n".join(dict.fromkeys([*folders, own])), module, *arguments]


def needed_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Of an environment, what a program that only computes needs: no key, no address of a server, no proxy."""
    return {name: value for name, value in environ.items() if name.upper().startswith(_NEEDED) and not may_be_key(name)}


def may_be_key(name: str) -> bool:
    """Whether a variable is named as keys are."""
    return any(word in name.upper() for word in _KEY_WORDS)


def _is_here(folder: str) -> bool:
    try:
        return Path(folder).samefile(".")
    except OSError:
        return False
