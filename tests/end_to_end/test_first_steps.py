"""docs/getting_started.md, typed line by line on a machine that has one server with one good model."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from support.coin_model import CoinModel
from support.command import clawgauge
from support.scripted_server import ScriptedServer

PAGE = (Path(__file__).parents[2] / "docs" / "getting_started.md").read_text(encoding="utf-8")
# The embedded model is not on every machine; this one stands in for it.
MODEL = "steady"
EMBEDDED = "embedded:smollm2-135m"
# It serves until somebody presses Ctrl-C; test_view has it.
UNENDING = "view"


def typed_commands() -> list[list[str]]:
    """The commands of ours on the page, in their order."""
    commands = []
    for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["clawgauge"] and words[1] != UNENDING:
                commands.append(words[1:])
    return commands


def test_the_first_steps_can_be_typed_as_they_stand(tmp_path: Path) -> None:
    """From the first run to the routing: each command ends well, and the last ones know a fit model."""
    openclaw = tmp_path / ".openclaw" / "openclaw.json"
    openclaw.parent.mkdir()
    openclaw.write_text("{}")
    outputs = {}
    with ScriptedServer(models=[MODEL]) as server:
        server.reply_with(CoinModel(1.0).reply)
        environment = {
            "CLAWGAUGE_LOCAL_SERVERS": f"llamacpp={server.v1_url}",
            "HOME": str(tmp_path),
            "XDG_STATE_HOME": str(tmp_path / "state"),
        }
        run = ""
        for words in typed_commands():
            typed = [run if word == "RUN" else word for word in words]
            typed = [word.replace(EMBEDDED, MODEL) for word in typed]
            typed = [re.sub("^~", str(tmp_path), word) for word in typed]
            done = clawgauge(tmp_path, *typed, env=environment, trusting=False)
            assert done.code == 0, (typed, done.stderr)
            outputs[" ".join(words)] = done.stdout + done.stderr
            if words[0] == "run" and "--dry-run" not in words:
                run = Path(done.stdout.strip()).name
    assert "found llamacpp: steady" in outputs["init"]
    assert "llamacpp:steady" in outputs["run --dry-run"]
    assert "steady: fit for 4 of 4 jobs" in outputs["run --max-time 5m"]
    (routed,) = [text for command, text in outputs.items() if command.startswith("route latest")]
    assert "llamacpp/steady" in routed
    assert openclaw.read_text() == "{}"
