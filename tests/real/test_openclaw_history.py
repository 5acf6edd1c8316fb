"""A history that the real OpenClaw writes, read while nobody looks away, and asked again."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from clawgauge.records import Prompt
from clawgauge.suites import load_suite
from support.command import Outcome, chat_config, clawgauge
from support.http_exchange import ReceivedRequest
from support.openclaw_store import hashes
from support.scripted_server import ScriptedServer, Text

ROOT = Path(__file__).parents[2]
PLACE, PROGRAM = ROOT / ".cache/openclaw", "node_modules/.bin/openclaw"
RELEASES = [
    pytest.param(PLACE / PROGRAM, "2026.9.6", id="SQLite"),
    pytest.param(PLACE / "2026.7.1" / PROGRAM, "2026.7.1", id="JSON Lines"),
]
NODE = PLACE / "node/node_modules/.bin"

pytestmark = pytest.mark.real

Step = str | list[tuple[str, dict[str, Any]]]
# What the user says, and what the model does about it, step by step.
JOBS: dict[str, list[Step]] = {
    "Make a note notes/shopping.md with milk and tea.": [
        [("write", {"path": "notes/shopping.md", "content": "# Shopping\n\n- milk\n- tea\n"})],
        "The note is there.",
    ],
    "What is in the notes folder?": [
        [("exec", {"command": "ls notes", "title": "Look"})],
        "One file, shopping.md.",
    ],
    "Add bread to it and show me the note.": [
        [
            (
                "edit",
                {
                    "path": "notes/shopping.md",
                    "edits": [{"oldText": "- tea", "newText": "- tea\n- bread"}],
                },
            )
        ],
        [("read", {"path": "notes/shopping.md"}), ("exec", {"command": "wc -l notes/shopping.md"})],
        "It has five lines now.",
    ],
    "Remind me of it.": ["When should I remind you?"],
    "Count the words in the file inventory.txt.": [
        [("exec", {"command": "wc -w inventory.txt"})],
        "There is no such file.",
    ],
    "Where are we?": [[("exec", {"command": "pwd"})], "In the workspace."],
    "No, I meant which planet.": ["On Earth."],
}
FAILS, CORRECTED = "Count the words in the file inventory.txt.", "Where are we?"


def says(message: dict[str, Any]) -> str:
    """What a user said in a message as it is sent, without what OpenClaw puts around it."""
    content = message["content"]
    text = (
        content if isinstance(content, str) else "".join(block.get("text", "") for block in content)
    )
    return (
        re.sub(r"\A\[[^\]]*\] |\n\nRuntime: .*\Z", "", text, flags=re.DOTALL).rpartition("] ")[2]
        or text
    )


class Model:
    """Does a job step by step, whoever asks; `errs_in` names the jobs it does wrong from the first step on."""

    def __init__(self, errs_in: Collection[str] = ()) -> None:
        self.errs_in = errs_in

    def __call__(self, request: ReceivedRequest) -> Text:
        messages = [
            one
            for one in request.json["messages"]
            if "BEGIN_OPENCLAW_INTERNAL" not in str(one.get("content"))
        ]
        places = [n for n, one in enumerate(messages) if one["role"] == "user"]
        job = says(messages[places[-1]])
        steps = JOBS.get(job, ["Hello."])
        n_done = sum(one["role"] == "assistant" for one in messages[places[-1] :])
        step = steps[min(n_done, len(steps) - 1)]
        if job in self.errs_in:
            step = [("exec", {"command": "rm -rf notes"})]
        if isinstance(step, str):
            return Text(step)
        return Text(None, tool_calls=[(name, json.dumps(given)) for name, given in step])


def work(home: Path, server: ScriptedServer, openclaw: Path) -> None:
    """Let the real OpenClaw do every job with the scripted model, one after the other in one session."""
    model = {"id": "big", "name": "big", "contextWindow": 131072, "maxTokens": 4096}
    provider = {
        "baseUrl": server.v1_url,
        "apiKey": "none",
        "api": "openai-completions",
        "models": [model],
    }
    config = {
        "models": {"mode": "replace", "providers": {"lab": provider}},
        "agents": {
            "defaults": {"workspace": str(home / "workspace"), "model": {"primary": "lab/big"}}
        },
    }
    (home / "openclaw.json").write_text(json.dumps(config))
    environment = {
        "PATH": f"{NODE}:{os.environ['PATH']}",
        "HOME": str(home),
        "OPENCLAW_STATE_DIR": str(home / "state"),
        "OPENCLAW_CONFIG_PATH": str(home / "openclaw.json"),
    }
    for job in JOBS:
        words = [
            openclaw,
            "agent",
            "--local",
            "--json",
            "--session-key",
            "agent:main:main",
            "-m",
            job,
        ]
        done = subprocess.run(
            words, env=environment, cwd=home, capture_output=True, text=True, timeout=900
        )
        assert done.returncode == 0, done.stderr[-2000:]


def as_sent(message: dict[str, Any]) -> tuple[str, str]:
    """Without what is not stored; a zone of time has more than one name (UTC, GMT+0)."""
    text = re.sub(r"\n\nRuntime: .*\Z", "", message.get("content") or "", flags=re.DOTALL)
    return message["role"], re.sub(r"\A(\[\w+ [0-9: -]+) [^\]]+\] ", r"\1] ", text)


def _is_told(message: dict[str, Any]) -> bool:
    return message["role"] != "system" and "INTERNAL_CONTEXT" not in str(message["content"])


def as_kept(prompt: Prompt) -> list[tuple[str, str]]:
    said = [{"role": one.role, "content": one.content} for one in prompt.messages]
    return [
        as_sent(one)
        for one in [*said, *([{"role": "user", "content": prompt.prompt}] if prompt.prompt else [])]
    ]


def _job_of(prompt: Prompt) -> str:
    return says(
        {"content": next(text for role, text in reversed(as_kept(prompt)) if role == "user")}
    )


def run(place: Path, server: ScriptedServer, model: Model) -> Outcome:
    server.reply_with(model)
    chat_config(place, fake=server.v1_url)
    done = clawgauge(place, "run", "-t", "fake:scripted-model", "-s", "mine.toml")
    assert done.code == 0, done.stderr
    return done


@pytest.mark.timeout(3600)  # seven turns, each a program of its own: a busy machine takes its time
@pytest.mark.parametrize(("openclaw", "release"), RELEASES)
def test_a_real_history_is_asked_again(tmp_path: Path, openclaw: Path, release: str) -> None:
    if not openclaw.exists():
        pytest.skip(f"OpenClaw {release} is not installed: scripts/get-openclaw")
    with ScriptedServer() as server:
        server.reply_with(Model())
        work(tmp_path, server, openclaw)
        logged = [
            [as_sent(one) for one in call.json["messages"] if _is_told(one)]
            for call in server.calls
        ]
        before = hashes(tmp_path / "state")
        made = clawgauge(
            tmp_path, "suites", "from-openclaw", "-o", "mine.toml", "--state-dir", "state"
        )
        assert made.code == 0, made.stderr
        assert hashes(tmp_path / "state") == before
        assert "1 failed calls" in made.stderr and "answers that the user corrected" in made.stderr
        prompts = load_suite(str(tmp_path / "mine.toml")).prompts
        assert len(prompts) == 10
        assert [prompt.id for prompt in prompts if as_kept(prompt) not in logged] == []

        same = run(tmp_path, server, Model())
        (group,) = same.summary()["models"]
        assert (group["agreement"]["k"], group["agreement"]["n"]) == (10, 10)
        wrong = ["What is in the notes folder?", "Remind me of it."]
        other = run(tmp_path, server, Model(wrong))
        by_id = {prompt.id: _job_of(prompt) for prompt in prompts}
        failed = {record["prompt_id"] for record in other.records() if not record["objective_pass"]}
        assert failed == {prompt_id for prompt_id, job in by_id.items() if job in wrong}
    small = clawgauge(
        tmp_path,
        "run",
        "-t",
        "embedded:smollm2-135m",
        "-s",
        "mine.toml",
        "--prompt-ids",
        "m1",
        "--max-tokens",
        "8",
    )
    assert small.code == 0, small.stderr
    (group,) = small.summary()["models"]
    assert group["n_ok"] == 1
