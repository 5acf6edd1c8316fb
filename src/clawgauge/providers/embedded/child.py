"""The child process that serves a GGUF file with llama.cpp's own HTTP server. Run as a module, never imported.

It prints one JSON line with its address once the model is loaded, then lives until its standard input closes: so it
ends with its parent however the parent ends, kill -9 included. It leaves by `os._exit`: tearing llama.cpp's server down
with a request in flight can hang for minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import xllamacpp


def serve(arguments: argparse.Namespace) -> xllamacpp.Server:
    """Load the model and start listening on a loopback port of the system's choice."""
    params = xllamacpp.CommonParams()
    params.model.path = arguments.model
    params.model_alias = {arguments.alias}
    params.port = 0
    params.n_ctx = arguments.context_tokens * arguments.slots
    params.n_parallel = arguments.slots
    params.cpuparams.n_threads = arguments.threads
    params.cpuparams_batch.n_threads = arguments.threads
    params.ui = False
    if arguments.chat_template:
        params.chat_template = Path(arguments.chat_template).read_text(encoding="utf-8")
    return xllamacpp.Server(params)


def main() -> None:
    """Serve until standard input closes."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--model", required=True)
    parser.add_argument("--alias", required=True)
    parser.add_argument("--context-tokens", type=int, required=True)
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--chat-template", default="")
    arguments = parser.parse_args()
    try:
        server = serve(arguments)
        report = {"address": server.listening_address}
    except (RuntimeError, ValueError, OSError) as fault:
        report = {"error": str(fault)}
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()
    if "address" in report:
        while sys.stdin.buffer.read(4096):
            pass
    os._exit(0)


if __name__ == "__main__":
    main()
