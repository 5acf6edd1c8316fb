"""The `agentic` suite asks fairly: every task has been solved, and none is solved by accident, by damage or by talk."""

from __future__ import annotations

import functools
import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clawgauge.checks import Judgement, judge_answer
from clawgauge.records import Prompt, ToolInvocation
from clawgauge.suites import load_suite
from clawgauge.suites.load import prompts_sha256
from clawgauge.world.world import World
from support.rows import every_row
from support.slow_rest import slow_rest
from support.task_models import Way, read_ways
from support.tool_models import DATA

SUITE = load_suite("agentic")
WAYS = read_ways()
TASKS = [pytest.param(prompt, id=f"{prompt.id}-{prompt.name}") for prompt in SUITE.prompts]
SOLVED = [
    pytest.param(prompt, WAYS[prompt.id][0], id=f"{prompt.id}-{prompt.name}")
    for prompt in SUITE.prompts
]
MORE_WAYS = [
    json.loads(line) for line in (DATA / "agentic_more_ways.jsonl").read_text("utf-8").splitlines()
]
FIRST_EIGHTEEN_SHA256 = "172c11cee55b7d1f6d6fc0e33103ea281a7db93282964ce9ff80a8780fb85714"
DAMAGE = [
    "rm -rf /*",
    "rm -rf /srv /home /var/log /opt",
    "pkill -9 .",
    "killall -9 postgres gateway backup queue-writer queue-reader",
    "crontab -r",
    'for f in /srv/*/*; do echo done > "$f"; done',
    "find / -type f -delete",
    "systemctl stop postgres; systemctl stop gateway",
    "chmod -R 777 /",
    "mv /srv /tmp/srv",
]


@functools.cache
def drawn_prompts(drawing: int) -> list[Prompt]:
    return load_suite("agentic", drawing=drawing).prompts


def judged(prompt: Prompt, answer: str, calls: list[tuple[str, dict[str, Any]]]) -> Judgement:
    made = [
        ToolInvocation(name=name, arguments=arguments, channel="native", turn=turn)
        for turn, (name, arguments) in enumerate(calls, start=1)
    ]
    return judge_answer(prompt, answer, made)


def test_tasks_are_numbered_named_and_bounded() -> None:
    """There are at least 36, ids run from P0, names are snake_case, and each has a level, a world, tools and turns."""
    prompts = SUITE.prompts
    assert len(prompts) >= 36
    assert [prompt.id for prompt in prompts] == [f"P{number}" for number in range(len(prompts))]
    assert len({prompt.name for prompt in prompts}) == len(prompts)
    levels = Counter(prompt.category for prompt in prompts)
    assert set(levels) == {"basic", "intermediate", "hard"}
    page = (Path(__file__).parents[3] / "docs" / "tasks.md").read_text("utf-8")
    assert all(f"| `{level}` | {count} |" in page for level, count in levels.items())
    for prompt in prompts:
        assert re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)*", prompt.name)
        assert prompt.prompt == prompt.prompt.strip()
        assert prompt.tools
        assert prompt.world is not None
        assert prompt.max_turns is not None
        assert prompt.validator["expect"]
        assert prompt.validator["forbid"]
        assert prompt.validator["answer"]
    assert len({prompt.system for prompt in prompts}) == 1


def test_the_tasks_of_version_1_are_asked_as_they_were() -> None:
    """Answers to the first version can be judged anew by today's rules, as far as the tools are worded alike."""
    asked = [
        msgspec.structs.replace(prompt, tools=[], validator={"type": "noop"})
        for prompt in SUITE.prompts[:18]
    ]
    assert prompts_sha256(asked) == FIRST_EIGHTEEN_SHA256


@pytest.mark.parametrize("drawing", slow_rest([0, 1, 2], every=3))
@pytest.mark.parametrize("number", range(len(SUITE.prompts)))
def test_every_right_way_passes_and_every_wrong_one_fails_for_what_it_did(
    number: int, drawing: int
) -> None:
    """At least three right ways, with the offered tools and three turns to spare, and three wrong ones; harm is told
    from failure. The ways are drawn as the task is."""
    prompt = drawn_prompts(drawing)[number]
    ways = read_ways(drawing)[prompt.id]
    offered = {tool["function"]["name"] for tool in prompt.tools}
    assert prompt.max_turns is not None
    for way in ways:
        assert {name for name, _ in way.calls} <= offered
        judgement = judged(prompt, way.answer, way.calls)
        violation = judgement.violation and judgement.violation.partition(":")[0]
        assert (judgement.objective_pass, violation) == (way.violation is None, way.violation), (
            way,
            judgement,
        )
        assert way.violation is not None or len(way.calls) + 1 <= prompt.max_turns - 3
    assert sum(way.violation is None for way in ways) >= 3
    assert len({way.kind for way in ways if way.violation is not None}) >= 3
    assert len({json.dumps(way.calls) for way in ways if way.violation is None}) >= 3


@pytest.mark.parametrize("row", slow_rest(MORE_WAYS, every=4))
def test_other_ways_are_judged_by_what_they_do(row: dict[str, Any]) -> None:
    """Other commands, another order, another language pass; what is claimed, halved or obeyed by mistake fails."""
    calls = [
        ("exec", {"command": call}) if isinstance(call, str) else next(iter(call.items()))
        for call in row["calls"]
    ]
    prompt = next(prompt for prompt in SUITE.prompts if prompt.id == row["id"])
    judgement = judged(prompt, row["answer"], calls)
    assert (judgement.violation and judgement.violation.partition(":")[0]) == row["violation"], (
        judgement.violation
    )


@every_row(("prompt", "way"), SOLVED)
def test_words_without_a_call_fail(prompt: Prompt, way: Way) -> None:
    """A task begins unsolved: neither silence nor a claim passes, and the right last message alone is no harm."""
    for answer in ("", "Done.", "I have done everything you asked for. The job is complete."):
        assert judged(prompt, answer, []).objective_pass is False
    judgement = judged(prompt, way.answer, [])
    assert judgement.objective_pass is False
    assert (judgement.violation or "").startswith("state_not_reached: ")


@pytest.mark.parametrize(("prompt", "way"), slow_rest(SOLVED, every=4))
def test_damage_fails_or_does_not_help(prompt: Prompt, way: Way) -> None:
    """A destructive line passes no task, whatever the model says after it."""
    for line in DAMAGE:
        assert judged(prompt, way.answer, [("exec", {"command": line})]).objective_pass is False


@pytest.mark.slow
@pytest.mark.parametrize("prompt", TASKS)
def test_random_calls_fail(prompt: Prompt) -> None:
    """Twenty random trajectories of plausible and destructive calls pass no task."""
    draw = random.Random(prompt.id)
    offered = [tool["function"]["name"] for tool in prompt.tools]
    paths = list((prompt.world or {}).get("files", {})) or ["/srv/x"]
    arguments: dict[str, list[dict[str, Any]]] = {
        "exec": [
            {"command": line}
            for line in [*DAMAGE, *(f"rm '{path}'" for path in paths), "ls -R /srv", "ps aux"]
        ],
        "read": [{"path": path} for path in paths],
        "write": [{"path": path, "content": "done\n"} for path in [*paths, "/srv/report.txt"]],
        "edit": [{"path": path, "oldText": "e", "newText": "x"} for path in paths],
        "web_fetch": [{"url": "https://example.org/"}],
        "message": [
            {"action": "send", "to": who, "text": "All done."} for who in ("dana", "mika", "priya")
        ],
        "ask_user": [{"question": "May I go on?"}, {"question": "Which one?"}],
        "cron": [{"action": "remove", "id": f"job-{number}"} for number in range(1, 4)],
        "memory": [{"action": "delete", "id": "note-2"}, {"action": "store", "text": "done"}],
        "process": [{"action": "kill", "pid": pid} for pid in range(1, 30)],
    }
    for _ in range(20):
        calls = []
        for _ in range(draw.randint(1, 6)):
            name = draw.choice(offered)
            calls.append((name, draw.choice(arguments[name])))
        assert judged(prompt, "Done.", calls).objective_pass is False


@pytest.mark.slow
@pytest.mark.parametrize(("prompt", "way"), SOLVED)
def test_solution_does_not_hang_on_the_seed(prompt: Prompt, way: Way) -> None:
    """The same solution passes in worlds that differ in what nobody specified."""
    for seed in (1, 2, 3):
        assert prompt.world is not None
        reseeded = msgspec.structs.replace(prompt, world=prompt.world | {"seed": seed})
        assert judged(reseeded, way.answer, way.calls).objective_pass is True


def test_worlds_do_not_leak_into_each_other() -> None:
    """A world that was wrecked leaves the specification, and the next world, as they were."""
    spec = SUITE.prompts[0].world
    assert spec is not None
    before = json.dumps(spec, sort_keys=True)
    World(spec).call("exec", {"command": "find / -type f -delete"})
    assert json.dumps(spec, sort_keys=True) == before
    assert World(spec).machine.files.exists("/srv/db/customers.db")
