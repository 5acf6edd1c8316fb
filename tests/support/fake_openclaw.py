"""A fake `openclaw` that builds a prompt from the configuration and the workspace it is given, and asks its model once.

It runs on the standard library alone, writes down what it saw, and then does what its behaviour says.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PROGRAM = """\
#!{python} -IS
import json, os, socket, subprocess, sys, time
how = json.loads({how!r})
folder = os.environ["OPENCLAW_STATE_DIR"]
config = json.load(open(os.environ["OPENCLAW_CONFIG_PATH"]))
workspace = config["agents"]["defaults"]["workspace"]
files = {{}}
for place, _, names in os.walk(workspace):
    for name in names:
        files[os.path.relpath(os.path.join(place, name), workspace)] = open(os.path.join(place, name)).read()
seen = {{"argv": sys.argv[1:], "env": dict(os.environ), "config": config, "files": files, "pid": os.getpid()}}
json.dump(seen, open(how["seen"], "w"))
open(os.path.join(workspace, "HEARTBEAT.md"), "w").write("made by openclaw")

def ask(system, token=None):
    provider = config["models"]["providers"]["mine"]
    tools = [{{"type": "function", "function": {{"name": "exec", "description": "theirs", "parameters": {{}}}}}}]
    tools += [{{"type": "function", "function": {{"name": "canvas", "description": "draw", "parameters": {{}}}}}}]
    tools += [] if config.get("tools", {{}}).get("toolSearch") is not False else [
        {{"type": "function", "function": {{"name": "browser", "parameters": {{}}}}}}]
    said = [{{"role": "system", "content": system}}, {{"role": "user", "content": "hello"}}]
    body = json.dumps({{"model": "capture", "messages": said, "tools": tools, "stream": True}}).encode()
    host, port = provider["baseUrl"].split("/")[2].split(":")
    with socket.create_connection((host, int(port))) as sent:
        head = f"POST /v1/chat/completions HTTP/1.1\\r\\nHost: {{host}}\\r\\nContent-Length: {{len(body)}}\\r\\n"
        sent.sendall((head + f"Authorization: Bearer {{token or provider['apiKey']}}\\r\\n\\r\\n").encode() + body)
        reply = b""
        while piece := sent.recv(65536):
            reply += piece
    return reply

prompt = "You are an agent.\\nWorking directory: " + workspace + "\\n" + files.get("AGENTS.md", "")
if how["does"] == "leaves a child and hangs":
    open(how["seen"] + ".child", "w").write(str(subprocess.Popen(["sleep", "600"]).pid))
    time.sleep(600)
if how["does"] == "fails":
    sys.exit("Config invalid: key " + how["secret"])
if how["does"] != "says nothing":
    assert b" 401 " in ask("stolen", token="guessed")
    assert b"Captured." in ask(prompt)
if how["does"] == "asks twice":
    ask("Name this session.")
"""


@dataclass(frozen=True)
class FakeOpenClaw:
    bin_dir: Path
    seen_path: Path

    def seen(self) -> dict[str, Any]:
        """What the program found when it ran: its words, its environment, its configuration, its workspace."""
        found: dict[str, Any] = json.loads(self.seen_path.read_text())
        return found


def install_fake_openclaw(bin_dir: Path, does: str = "", secret: str = "") -> FakeOpenClaw:
    bin_dir.mkdir(parents=True, exist_ok=True)
    seen_path = bin_dir / "seen.json"
    how = json.dumps({"does": does, "secret": secret, "seen": str(seen_path)})
    program = bin_dir / "openclaw"
    program.write_text(_PROGRAM.format(python=sys.executable, how=how))
    program.chmod(0o755)
    (bin_dir / "package.json").write_text('{"name": "openclaw", "version": "2026.9.6"}')
    return FakeOpenClaw(bin_dir, seen_path)
