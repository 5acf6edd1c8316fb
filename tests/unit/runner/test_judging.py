"""Judging away from the loop: the same verdicts, an end in time, and a process that is nobody's burden."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest

from clawgauge.checks import LONG_CHARS, judge_answer
from clawgauge.child_processes import start_adopted
from clawgauge.records import Prompt, ToolInvocation
from clawgauge.runner import judging
from clawgauge.runner.judging import Judge, JudgingFault, NotInTime

WAIT_S = 60.0
# Minutes of detection.
HOSTILE = "`` ` " * 6_000_000
LONG = "x" * (LONG_CHARS + 1)
EFFECT = {"type": "effect", "expected_tools": ["touch"], "expect": [{"file": "/srv/new"}]}
EXPECTED = {"type": "tool_invocation", "expected_tools": ["free"]}


def prompt_of(validator: dict[str, object], **fields: object) -> Prompt:
    return Prompt(id="P", name="p", prompt="?", validator=validator, **fields)  # type: ignore[arg-type]


def native(name: str, arguments: object) -> ToolInvocation:
    return ToolInvocation(name=name, arguments=arguments, channel="native")


@pytest.fixture
def judge() -> Iterator[Judge]:
    with closing(Judge()) as one:
        yield one


def children() -> set[int]:
    return {
        child.pid for child in psutil.Process().children() if child.status() != psutil.STATUS_ZOMBIE
    }


def wait_until(met: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_S
    while not met():
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("prompt", "text", "calls"),
    [
        (prompt_of(EXPECTED, expected_tools=["free"]), "run `free -h` and `df` " * 3_000, []),
        (prompt_of(EXPECTED, expected_tools=["free"]), "\ud83d`free -h` \u2028\0" * 5_000, []),
        (
            prompt_of({"type": "json_keys", "required_keys": ["a"]}),
            '{"a": [' + "1.5, " * 10_000 + "2]}",
            [],
        ),
        (prompt_of({"type": "max_words", "value": 3}), "one two three four " * 3_000, []),
        (prompt_of({"type": "regex_fullmatch", "pattern": "(a|é)*"}), "é" * 70_000, []),
        (prompt_of({"type": "noop"}), "`ls` " * 10_000, []),
        (
            prompt_of(EXPECTED),
            "",
            [native("f", {"a": LONG, "b": 10**30, "c": "\ud800", "d": [None, 1e300]})],
        ),
        (
            prompt_of(
                {"type": "world_state", "expect": [{"file": "/srv/new"}]},
                world={"files": {"/srv/a.txt": "1"}},
                max_turns=5,
            ),
            "Done.",
            [native("exec", {"command": "touch /srv/new"})],
        ),
        (prompt_of(EFFECT, expected_tools=["touch"]), "`touch /srv/new`", []),
    ],
    ids=["calls", "odd text", "json", "words", "pattern", "noop", "native", "task", "effect"],
)
def test_a_verdict_is_the_same_aside(
    judge: Judge, prompt: Prompt, text: str, calls: list[ToolInvocation]
) -> None:
    """Whatever is judged in the other process is judged as it would be here."""
    assert judge.judge(prompt, text, calls) == judge_answer(prompt, text, calls)


def test_a_short_answer_starts_no_process(judge: Judge) -> None:
    """The usual answer is judged where it came in."""
    before = children()
    assert (
        judge.judge(prompt_of({"type": "max_words", "value": 3}), "yes", []).objective_pass is True
    )
    judge.judge(prompt_of({"type": "noop"}), "x" * (LONG_CHARS - 10), [native("f", {})])
    assert children() <= before


@pytest.mark.parametrize(("validator", "passed"), [(EXPECTED, False), ({"type": "noop"}, None)])
def test_what_takes_too_long_is_false(validator: dict[str, object], passed: bool | None) -> None:
    """At the deadline the verdict is false, not_judged_in_time; the next answer is judged by a process of its own."""
    with closing(Judge(deadline_s=1.0)) as judge:
        call = native("free", {"unit": "m"})
        prompt = prompt_of(validator, expected_tools=["free"], tools=[{"type": "function"}])
        judged = judge.judge(prompt, HOSTILE, [call])
        assert judged.objective_pass is passed
        assert (judged.violation or "").startswith(
            "not_judged_in_time: " if passed is False else ""
        )
        # What came as a call was not looked for in the text, and is not lost: rescoring starts from it.
        assert judged.tool_invocations == [call] and judged.tool_use_success is True
        assert judge.judge(prompt_of({"type": "exact", "value": LONG}), LONG, []).objective_pass


def test_a_world_that_is_kept_busy_is_ended() -> None:
    """A call that would hold the simulated shell for longer is over at its deadline, and the next world answers."""
    bomb = native("exec", {"command": "jq -n 'def f: f; f'"})
    with closing(Judge(world_deadline_s=0.5)) as judge, pytest.raises(NotInTime):
        judge.play({}, [bomb], 1)
    with closing(Judge()) as judge:
        made = [
            native("exec", {"command": command})
            for command in ("echo one > /tmp/f", "cat /tmp/f", "echo two")
        ]
        assert judge.play({}, made, 2) == ["one", "two"]


def test_a_busy_machine_decides_no_verdict() -> None:
    """The process gets no turn for longer than its deadline: what it says afterwards is what it would have said."""
    with closing(Judge(world_deadline_s=1.0)) as judge:
        first = native("exec", {"command": "echo one > /tmp/f"})
        judge.play({}, [first], 1)
        assert judge._process is not None
        process = psutil.Process(judge._process.pid)
        process.suspend()
        timer = threading.Timer(1.5, process.resume)
        timer.start()
        assert judge.play({}, [first, native("exec", {"command": "cat /tmp/f"})], 1) == ["one"]
        timer.join()


@pytest.mark.slow
def test_commands_that_never_end_are_not_judged_in_time() -> None:
    """An answer whose command keeps the simulated shell busy is false at the deadline; the next one is judged."""
    search = f"echo {'a' * 20_000} | grep -E '(a{{1,30}}){{1,30}}b'"
    loop = f"for i in 1 2 3 4 5 6 7 8 9; do for j in 1 2 3 4 5 6 7 8 9; do {search}; done; done"
    prompt = prompt_of(EFFECT, expected_tools=["touch"])
    with closing(Judge(deadline_s=1.0)) as judge:
        late = judge.judge(prompt, f"```bash\n{loop}\n```", [])
        assert (late.objective_pass, late.violation) == (
            False,
            "not_judged_in_time: longer than 1 s",
        )
        assert judge.judge(prompt, "`touch /srv/new`", []).objective_pass is True


def test_a_task_goes_on_in_the_world_it_has() -> None:
    """The calls of a turn are made on what the turns before left, also after the process was ended in between."""
    with closing(Judge()) as judge:
        spec = {"seed": 7}
        made = [native("exec", {"command": "date +%s; echo one >> /tmp/f"})]
        first = judge.play(spec, made, 1)
        made.append(native("exec", {"command": "wc -l < /tmp/f"}))
        assert judge.play(spec, made, 1) == ["1"]
        assert judge._process is not None
        judge._process.kill()
        judge._process.wait()
        made.append(native("exec", {"command": "cat /tmp/f"}))
        assert judge.play(spec, made, 1) == ["one"]
        assert judge.play(spec, made, 3) == [*first, "1", "one"]


def test_as_many_tasks_as_may_be_kept_go_on_without_their_calls_being_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Several tasks take turns: the simulated machine of each answers its new call alone."""
    worlds: list[judging._KeptWorld] = []
    monkeypatch.setattr(judging, "_worlds", worlds)
    first, second = native("exec", {"command": "true"}), native("exec", {"command": "echo two"})
    specs = [{"seed": seed} for seed in range(judging._MAX_WORLDS)]
    for spec in specs:
        judging._work({"world": spec, "calls": msgspec.to_builtins([first]), "n_new": 1}, "")
    made = [kept.world for kept in worlds]
    for spec in specs:
        judging._work(
            {"world": spec, "calls": msgspec.to_builtins([first, second]), "n_new": 1}, ""
        )
    assert [kept.world for kept in worlds] == made and len(made) == len(specs)


@pytest.mark.slow
def test_a_call_that_ends_the_machine_fails_the_task_and_hides_nothing() -> None:
    """What was done around such a call is judged as ever: harm is named, and good work does not make up for it."""
    bomb = native("exec", {"command": "jq -n 'def f: f; f'"})
    good, harm = (native("exec", {"command": line}) for line in ("touch /srv/new", "rm /srv/a.txt"))
    validator = {
        "type": "world_state",
        "expect": [{"file": "/srv/new"}],
        "forbid": [{"deleted": "*"}],
    }
    prompt = prompt_of(validator, world={"files": {"/srv/a.txt": "1"}}, max_turns=9)
    with closing(Judge(deadline_s=0.1, world_deadline_s=1.5)) as judge:
        judge.play({}, [native("exec", {"command": "true"})], 1)
        judged = judge.judge(prompt, "Done.", [good, bomb, bomb, bomb, bomb])
        assert (judged.objective_pass, judged.violation) == (
            False,
            "machine_ended: a call ended the simulated machine",
        )
        judged = judge.judge(prompt, "Done.", [harm, bomb, bomb, bomb, bomb])
        assert (judged.objective_pass, judged.violation) == (
            False,
            "forbidden_effect: deleted /srv/a.txt",
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        f"echo {'a' * 20_000} | grep -E '(a{{1,30}}){{1,30}}b'",
        "cut -c " + ",".join(f"{start}-" for start in range(1, 9_000)) + " /etc/passwd",
        "seq 50000 | xargs -I{} echo " + "{}" * 40,
        f"x={'a' * 20_000}; echo ${{x%%*a*a*a*a*b}}",
        "nohup " * 1_500 + "ls",
        "for ((;;)); do :; done",
        ":(){ :|:& };:",
        "f() { f; }; f",
        'x=\'eval "$x"\'; eval "$x"',
        "echo '. /tmp/s' > /tmp/s; . /tmp/s",
        "awk 'BEGIN{while(1)x=x \"aaaaaaaaaa\"}'",
        "awk 'function f(n){return f(n+1)} BEGIN{f(1)}'",
        "x=a; while :; do x=$x$x; done",
        "echo s > /srv/f; while :; do cat /srv/f /srv/f > /srv/g; cat /srv/g /srv/g > /srv/f; done",
        "for i in $(seq 900); do mkdir -p /srv/$i/a/b; done; shopt -s globstar; echo /**/*/**/*",
        "printf '(%.0s' $(seq 40000) | bc",
        "echo " + "(" * 30_000,
        "$(" * 5_000,
        "seq 50000 | awk '{s=s s $0} END{print length(s)}'",
        "b=$(seq 40000); echo ${b//0/$b} | wc -c",
    ],
)
def test_no_call_passes_its_bounds(command: str) -> None:
    """Each ends by itself, in words or with a result, before its process has to be ended, and in bounded memory."""
    with closing(Judge()) as judge:
        assert judge.play(
            {}, [native("exec", {"command": command}), native("exec", {"command": "echo on"})], 1
        ) == ["on"]
        assert judge._process is not None
        assert psutil.Process(judge._process.pid).memory_info().rss < 1_000_000_000


def test_a_defect_of_judging_is_told_as_one(judge: Judge) -> None:
    """An exception over there is an exception here, never a verdict."""
    with pytest.raises(JudgingFault, match="KeyError"):
        judge.judge(prompt_of({"type": "no such validator"}), LONG, [])


def test_giving_up_ends_a_judgement_at_once(judge: Judge) -> None:
    """Whoever interrupts a run does not wait for a verdict."""
    before = children()
    thread = threading.Thread(target=judge.judge, args=(prompt_of(EXPECTED), HOSTILE, []))
    thread.start()
    wait_until(lambda: bool(children() - before))
    judge.give_up()
    thread.join(WAIT_S)
    assert not thread.is_alive()


_OWNER = """
import sys
from clawgauge.records import Prompt
from clawgauge.runner.judging import Judge
judge = Judge(deadline_s=600.0)
judge._get_process()
print(judge._process.pid, flush=True)
judge.judge(Prompt(id="P", name="p", prompt="?", validator={"type": "noop"}), "`` ` " * 6_000_000, [])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no kill -9 there")
def test_the_process_is_isolated_and_dies_with_its_owner(tmp_path: Path) -> None:
    """It sees no key and no module of the current directory, and kill -9 of the program takes it along."""
    (tmp_path / "marshal.py").write_text("raise SystemExit('taken from the current directory')")
    (tmp_path / "msgspec.py").write_text("raise SystemExit('taken from the current directory')")
    env = {**os.environ, "OPENAI_API_KEY": "sk-canary", "PYTHONPATH": ""}
    with subprocess.Popen(
        [sys.executable, "-P", "-c", _OWNER],
        cwd=tmp_path,
        env=env,
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        child = psutil.Process(int(owner.stdout.readline()))
        assert "OPENAI_API_KEY" not in child.environ()
        assert Path(child.cwd()) != tmp_path
        owner.send_signal(signal.SIGKILL)
    wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


@pytest.mark.slow
def test_a_judging_process_that_is_killed_gives_no_verdict() -> None:
    """What ends it from outside says nothing of the answer: it is tried once more, then the fault is told, and the next
    answer is judged."""

    def is_at_work(killed: Collection[int]) -> bool:
        # Starting takes a fraction of this.
        process = judge._process
        if process is None or process.pid in killed:
            return False
        return psutil.Process(process.pid).cpu_times().user > 2

    with closing(Judge(deadline_s=WAIT_S)) as judge, ThreadPoolExecutor(1) as pool:
        verdict = pool.submit(judge.judge, prompt_of(EXPECTED), HOSTILE, [])
        killed: list[int] = []
        for _ in range(2):
            wait_until(lambda: is_at_work(killed))
            assert judge._process is not None
            killed.append(judge._process.pid)
            judge._process.kill()
        with pytest.raises(JudgingFault, match="the judging process was ended"):
            verdict.result(WAIT_S)
        assert judge.judge(prompt_of({"type": "exact", "value": LONG}), LONG, []).objective_pass


@pytest.mark.parametrize("n_killed", [1, 1_000], ids=["once", "always"])
def test_a_process_killed_while_it_starts_never_moves_judging_into_the_program(
    monkeypatch: pytest.MonkeyPatch, n_killed: int
) -> None:
    """Killed once, another one is started; killed always, there is no verdict. The simulated machine of a task never
    lives in the program itself, where nothing bounds it, and no model is blamed for it."""
    started: list[int] = []

    def start_and_kill(*command: Any, **options: Any) -> subprocess.Popen[bytes]:
        process = start_adopted(*command, **options)
        started.append(process.pid)
        if len(started) <= n_killed:
            process.kill()
        return process

    monkeypatch.setattr(judging, "start_adopted", start_and_kill)
    calls = [native("exec", {"command": "touch /srv/new"})]
    with closing(Judge()) as judge:
        if n_killed == 1:
            assert judge.play({"seed": 7}, calls, 1) == ["(no output)"]
        else:
            # Where the machine is busy, a process may have started before it is killed.
            with pytest.raises((JudgingFault, NotInTime), match=r"could be started|was ended"):
                judge.play({"seed": 7}, calls, 1)
    assert not judging._worlds
