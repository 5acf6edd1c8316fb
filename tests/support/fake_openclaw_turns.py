"""A fake `openclaw` that checks a configuration and takes one turn, asking Ollama's own API as its configuration says.

It runs on the standard library alone, keeps what it was started with, and then does what its behaviour says.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PROGRAM = """\
#!{python} -IS
import json, os, sys, time, urllib.request
how = json.loads({how!r})
does = how["does"]
config_path = os.environ["OPENCLAW_CONFIG_PATH"]
config = json.load(open(config_path))
seen = {{"argv": sys.argv[1:], "env": dict(os.environ), "config": config,
         "mode": os.stat(config_path).st_mode & 0o777, "home": sorted(os.listdir(os.environ["HOME"]))}}
with open(how["seen"], "a") as file:
    file.write(json.dumps(seen) + "\\n")
if sys.argv[1:3] == ["config", "validate"]:
    if does == "refuses the file":
        issue = {{"path": "agents.defaults.model", "message": "unknown key"}}
        print(json.dumps({{"valid": False, "issues": [issue]}}))
        sys.exit(1)
    print(json.dumps({{"valid": True, "issues": []}}))
    sys.exit(0)
if does == "hangs":
    time.sleep(600)
if does == "cannot write":
    sys.exit("Error: workspace is not writable")
if does == "says nothing":
    sys.exit(3)
if does == "finds no key":
    print(json.dumps({{"error": {{"message": 'No API key found for provider "ollama". Auth store: /x'}}}}))
    sys.exit(1)
ref = sys.argv[sys.argv.index("--model") + 1]
provider_id, _, model = ref.partition("/")
provider = config["models"]["providers"][provider_id]
entry = [one for one in provider["models"] if one["id"] == model][0]
params = config["agents"]["defaults"].get("models", {{}}).get(ref, {{}}).get("params", {{}})
level = params.get("thinking")
if "--thinking" in sys.argv:
    level = sys.argv[sys.argv.index("--thinking") + 1]
options = {{}}
if "contextTokens" in entry:
    options["num_ctx"] = entry["contextTokens"]
if "temperature" in params:
    options.update(temperature=params["temperature"], top_p=1)
body = {{"model": model, "stream": True, "options": options, "truncate": False, "shift": False,
         "messages": [{{"role": "system", "content": "x" * 1500}}, {{"role": "user", "content": "READY?"}}],
         "tools": [{{"type": "function", "function": {{"name": "exec", "parameters": {{}}}}}}]}}
if entry.get("reasoning") and does != "drops the level":
    body["think"] = False if level == "off" else level
if "keep_alive" in entry.get("params", {{}}):
    body["keep_alive"] = entry["params"]["keep_alive"]
request = urllib.request.Request(provider["baseUrl"] + "/api/chat", json.dumps(body).encode())
opener = urllib.request.build_opener(urllib.request.ProxyHandler({{}}))
assert b"READY" in opener.open(request).read()
print(json.dumps({{"ok": True}}))
"""


@dataclass(frozen=True)
class FakeOpenClaw:
    bin_dir: Path
    seen_path: Path

    def seen(self) -> list[dict[str, Any]]:
        """What the program found each time that it ran."""
        if not self.seen_path.exists():
            return []
        return [json.loads(line) for line in self.seen_path.read_text().splitlines()]


def install_fake_openclaw(bin_dir: Path, does: str = "", version: str = "2026.9.6") -> FakeOpenClaw:
    bin_dir.mkdir(parents=True, exist_ok=True)
    seen_path = bin_dir / "seen.jsonl"
    how = json.dumps({"does": does, "seen": str(seen_path)})
    program = bin_dir / "openclaw"
    program.write_text(_PROGRAM.format(python=sys.executable, how=how))
    program.chmod(0o755)
    (bin_dir / "package.json").write_text(json.dumps({"name": "openclaw", "version": version}))
    return FakeOpenClaw(bin_dir, seen_path)
