"""Other machines for a fleet, on this one: an `ssh` that runs its command in a home of its own, and nodes that lie.

A box is a folder. What is in its file `env` is its environment; a `program` in it answers in place of clawgauge.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from clawgauge.config.trusted_files import TrustedFiles, place_of, write_trusted
from support.isolation import NO_SERVER

_SSH = """#!/bin/sh
while [ "$1" != "--" ]; do shift; done
name=$2
shift 2
exec {root}/box "$name" "$*"
"""
_BOX = r"""#!/bin/sh
box={root}/$1
command=$2
[ -d "$box" ] || { echo "ssh: connect to host $box port 22: Connection refused" >&2; exit 255; }
env > "$box/seen_environment"
cd "$box"
export HOME=$box
unset XDG_STATE_HOME
export OLLAMA_HOST={no_server} CLAWGAUGE_LOCAL_SERVERS=none
. ./env
echo "Welcome. Last login: never."
[ -f ./program ] && exec {python} -I -S ./program
# Out of reach of whoever ends this program, as another machine is.
exec setsid -w sh -c "echo \$\$ > ./pid; exec $command"
"""
# The same by way of a program between the two, that can be ended alone.
_CUTTABLE = r"""
rm -f in out && mkfifo in out
exec 3<&0
setsid sh -c "echo \$\$ > ./pid; exec $command" <in >out 2>log 3<&- &
cat <&3 >in 2>log 3<&- &
exec 3<&-
echo $$ > ./between
exec cat out
"""
# A node that says whatever `answer` makes of an order, and has two models in an Ollama.
LIAR = """
import json, sys, time
OFFSET_NS = {offset_ns}
SEEN = [{{"probe": {{"provider": "ollama_openai", "reachable": True, "models": [{{"name": "m"}}]}},
         "described": {described}, "local": True}}]
def say(**item): print(json.dumps(item), flush=True)
def result(work, **changes):
    prompt = [*work["config"]["prompts"], dict(id="calibration", suite="capacity")][0]
    now = (time.time_ns() + OFFSET_NS) // 1_000_000
    record = dict(run_id="x", provider="ollama_openai", model="m", thinking_level=None, prompt_id=prompt["id"],
        prompt_name="of the node's own choice", availability_status="ok", started_at_ms=now, ended_at_ms=now + 1234,
        e2e_ms=1234, ttft_ms=None, success=True, failure_type=None, objective_pass=True, violation=None,
        input_tokens=1, output_tokens=1, raw_output="yes", parsed_output=None, tool_calls=[], tool_call_count=0,
        tool_use_success=False, suite=prompt["suite"], repeat=0, expected_tools=[], timings_us=dict(e2e=1234000),
        total_ms=1234, attempts=[dict(status="ok", failure_type=None, e2e_ms=1234)])
    say(result={{**record, **changes}})
def finished(at_ms, **detail):
    say(event=dict(event="target_finished", at_ms=at_ms, target="ollama_openai:m", detail=detail))
def answer(work):
    {answer}
say(hello=["{version}", "3.99", "liar", 0])
for line in sys.stdin:
    order = json.loads(line)
    if "ping" in order: say(pong=[order["ping"], time.time_ns() + OFFSET_NS])
    if "look" in order: say(seen=SEEN)
    if "work" in order: answer(order["work"])
"""


class Boxes:
    """Boxes in `place`, whose clawgauge.toml names them."""

    def __init__(self, place: Path) -> None:
        self.place, self.root = place, place / "boxes"
        binary = place / "bin"
        binary.mkdir()
        self.root.mkdir()
        for path, text in ((binary / "ssh", self.ssh()), (self.root / "box", _BOX)):
            text = text.replace("{root}", str(self.root)).replace("{python}", sys.executable)
            path.write_text(text.replace("{no_server}", NO_SERVER))
            path.chmod(0o755)
        self.env = {"PATH": f"{binary}:{os.environ['PATH']}"}

    def ssh(self) -> str:
        """The program that is found as `ssh`."""
        return _SSH

    def add(self, name: str, *, program: str | None = None, **environment: str) -> Path:
        """A box, and its table."""
        box = self.root / name
        box.mkdir()
        (box / "env").write_text(
            "".join(f"export {name}='{value}'\n" for name, value in environment.items())
        )
        if program is not None:
            (box / "program").write_text(program)
        with (self.place / "clawgauge.toml").open("a") as file:
            file.write(
                f'[nodes.{name}]\nssh = "{name}"\ncommand = "{sys.executable} -m clawgauge"\n'
            )
        return box

    def serve(self, name: str, address: str) -> None:
        """A box of this name that knows a server by the name `box`."""
        file = self.add(name) / "clawgauge.toml"
        file.write_text(
            f'[providers.box]\ntype = "openai_chat"\nbase_url = "{address}"\nlocal = true\n'
        )
        sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
        write_trusted({"HOME": str(file.parent)}, TrustedFiles({place_of(file): sha256}))

    def make_cuttable(self) -> None:
        """From now on the process whose id is in the file `between` is the connection to a box."""
        path = self.root / "box"
        path.write_text(path.read_text().partition("exec setsid")[0] + _CUTTABLE)

    def spools(self, name: str) -> list[Path]:
        """What a box still keeps for a driver."""
        root = self.root / name / ".local/state/clawgauge/node"
        return [path for path in root.iterdir() if path.is_dir()] if root.is_dir() else []


def liar(answer: str, version: str, offset_ns: int = 0, said: Mapping[str, str] = {}) -> str:
    """A node program that answers to its work with these statements of Python, and says this of its provider."""
    described = {"type": "ollama_openai", "base_url": "http://127.0.0.1:11434/v1", **said}
    return LIAR.format(answer=answer, version=version, offset_ns=offset_ns, described=described)
