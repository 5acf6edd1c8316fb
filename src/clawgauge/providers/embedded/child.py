"""The child process that serves a GGUF file with llama.cpp's own HTTP server.

Run as a module, never imported. It prints one JSON line with its address once the model is loaded,
then lives until its standard input closes: so it ends with its parent however the parent ends, kill
-9 included. It leaves by `os._exit`: tearing llama.cpp's server down with a request in flight can
hang for minutes.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def main() -> None:
    """Serve what the JSON of the first argument says, on a loopback port of the system's choice."""
    try:
        # Its wheels leave some libraries to the system, and a small image may lack them.
        import xllamacpp
    except ImportError as fault:
        _report({"unloadable": str(fault)})
        os._exit(0)
    options = json.loads(sys.argv[1])
    params = xllamacpp.CommonParams()
    params.model.path = options["model"]
    params.model_alias = {options["alias"]}
    params.port = 0
    params.n_ctx = options["context_tokens"] * options["slots"]
    params.n_parallel = options["slots"]
    params.cpuparams.n_threads = options["threads"]
    params.cpuparams_batch.n_threads = options["threads"]
    params.ui = False
    try:
        if options["chat_template"]:
            params.chat_template = Path(options["chat_template"]).read_text(encoding="utf-8")
        server = xllamacpp.Server(params)
        report = {"address": server.listening_address}
    except (RuntimeError, ValueError, OSError) as fault:
        report = {"error": str(fault)}
    _report(report)
    if "address" in report:
        while sys.stdin.buffer.read(4096):
            pass
    os._exit(0)


def _report(report: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
