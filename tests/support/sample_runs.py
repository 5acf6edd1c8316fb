"""Plausible run folders, the same every time: several models of different worth, faults, cold calls, tools, tasks.

Written with the program's own records and lines, without a model: `write_sample_run` for a rich small run,
`write_large_run` for as many calls as asked for, `HOSTILE` for answers that try to get out of whatever shows them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clawgauge.journal import encode_document, encode_line
from clawgauge.records import (
    SCHEMA_VERSION,
    Attempt,
    Prompt,
    Result,
    RunConfig,
    RunOptions,
    SuiteInfo,
    Target,
    TimingsUs,
    ToolInvocation,
    TranscriptTurn,
    plan_targets,
)

T0 = 1_771_000_000_000
RUN_ID = "20260213_162640"

HOSTILE = {
    "script": "</script><script>alert('out')</script>",
    "comment": "<!-- <script> --><img src=x onerror=alert(1)>",
    "link": "[press me](javascript:alert(2)) <a href='javascript:alert(3)'>or me</a>",
    "separators": "one\u2028two\u2029three\u0085four",
    "bidi": "user\u202etxt.exe\u2066hidden\u2069 and \u200bzero\ufeffwidth",
    "ansi": "\x1b[31mred\x1b[0m \x1b]52;c;ZXZpbA==\x07 bell\x07",
    "nul": "before\x00after\x00\x00\x00\x7f",
    "surrogate": "half \ud83d a pair, whole \U0001f600",
    "long_line": "x" * 65_000,
    "template": "{{data}} ${alert(4)} {{ constructor.constructor('alert(5)')() }}",
    "style": "</style><style>*{display:none}</style>",
    "tags": "seen \U000e0049\U000e0067\U000e006e unseen",
}


@dataclass(frozen=True)
class Character:
    """What a model is like: how often it passes, how it calls tools, how fast it is, and what goes wrong with it."""

    target: Target
    passes: float
    calls_tools: float
    ttft_ms: float
    tokens_per_s: float
    cold_ms: float | None = None
    fault: tuple[str, str, str] | None = None
    fault_rate: float = 0.0
    cost_per_token: float | None = None


CHARACTERS = (
    Character(Target("ollama_openai", "qwen3:8b"), 0.93, 1.0, 210, 62, cold_ms=5200),
    Character(Target("openai_responses", "gpt-5-codex", "high"), 0.98, 1.0, 1450, 95, cost_per_token=1e-5),
    Character(
        Target("ollama_openai", "llama3.2:3b"), 0.71, 0.68, 95, 118, cold_ms=2100,
        fault=("error", "timeout", "no answer within 300 s"), fault_rate=0.05,
    ),
    Character(
        Target("claude_code_cli", "claude-opus", "low"), 0.96, 0.97, 2300, 71, cost_per_token=5e-5,
        fault=("rate_limited", "http_429", "This request would exceed your account's rate limit"), fault_rate=0.12,
    ),
    Character(Target("embedded", "smollm2-135m"), 0.18, 0.07, 340, 80, cold_ms=900),
    Character(
        Target("ollama_openai", "mistral-small:24b"), 0, 0, 0, 1,
        fault=("skipped_unavailable", "model_not_found", "model 'mistral-small:24b' not found"), fault_rate=1.0,
    ),
)  # fmt: skip

_CORE = {
    "echo_token": ("Reply with the token on the next line, exactly as it is written.\nRelay-OK_7", "exact"),
    "csv_row": ("Write one CSV row from these three fields: 7; Smith, Ann; active.", "exact"),
    "title_to_slug": ("Turn a title into a slug.\n\nTitle: Weekly Report: Disk & Memory (v2)", "exact"),
    "sort_hosts": ("Four hosts and their load averages:\nash 2.1\nbirch 0.75\ncedar 11.4\nSort them.", "exact"),
    "route_json": ("Reply with one JSON object with the keys route and reason.", "json_keys"),
    "triage_alert": ("Sort this alert: disk /var at 93%. One of: now, today, later.", "one_of"),
    "one_sentence": ("Say in one sentence why a swap file can slow a server down.", "max_sentences"),
    "eight_words": ("Describe this log in at most eight words.\nkernel: Out of memory: Killed 4121", "max_words"),
    "three_bullets": ("List three checks before a reboot, as three bullets.", "exact_bullets"),
    "iso_date": ("Write the 3rd of May 2026 as an ISO date.", "regex_fullmatch"),
    "severity_of_log": ("Which severity is this line? ERROR db: connection lost", "one_of"),
    "pick_model": ("Pick the model for a job that changes production. Reply local or premium.", "one_of"),
    "free_words": ("Write a short poem about a claw.", "noop"),
    "extract_ip": ("Which address failed to log in? Failed password for root from 203.0.113.9", "regex_fullmatch"),
    "unit_bytes": ("How many bytes are 3 MiB? Only the number.", "exact"),
    "cron_line": ("Write a cron line for every day at 03:30.", "regex_fullmatch"),
}  # fmt: skip
_TOOLS = ("free", "df", "uptime", "uname", "nvidia-smi", "ss", "journalctl", "ps", "du", "read_file", "web_search",
          "systemctl", "ip", "crontab", "memory_search")  # fmt: skip
_TASKS = ("rotate_a_log", "find_the_leak", "answer_the_mail")
_VIOLATIONS = {
    "exact": "not_exact: the answer is not the expected text",
    "json_keys": "json_parse_error: Expecting value at character 0",
    "one_of": "not_one_of: 'maybe' is none of now, today, later",
    "max_sentences": "too_many_sentences: got 3, limit 1",
    "max_words": "too_many_words: got 12, limit 8",
    "exact_bullets": "wrong_bullet_count: got 4, wanted 3",
    "regex_fullmatch": "no_match: the answer does not fit the pattern",
}
# As many words as a model's everyday English has, so that answers compress no better than real ones do.
_SYLLABLES = [
    a + b
    for a in ("", "b", "d", "fl", "k", "l", "m", "n", "p", "r", "s", "st", "tr", "w")
    for b in "aeiou"
]
_VOCABULARY = [
    first + second + end for first in _SYLLABLES for second in _SYLLABLES for end in ("", "n", "rt")
]


def sample_prompts() -> list[Prompt]:
    """Three suites: exact forms, tools written as text, tasks of several turns."""
    core = [
        Prompt(
            id=f"P{n}", name=name, prompt=text, suite="core", validator={"type": kind, "value": "…"}
        )
        for n, (name, (text, kind)) in enumerate(_CORE.items())
    ]
    tools = [
        Prompt(
            id=f"P{n}", name=f"use_{tool}", prompt=f"Do the job that needs {tool} on this server.", suite="tool_use",
            system="You are an agent on a Linux server. You act through tools.", expected_tools=[tool],
            validator={"type": "tool_invocation", "expected_tools": [tool]},
        )
        for n, tool in enumerate(_TOOLS)
    ]  # fmt: skip
    tasks = [
        Prompt(
            id=f"T{n}", name=name, prompt=f"Please {name.replace('_', ' ')}.", suite="tasks", max_turns=8,
            validator={"type": "world_state", "expect": [{"file": "/var/log/app.log.1"}]},
            world={"files": {"/etc/motd": "hi"}},
        )
        for n, name in enumerate(_TASKS)
    ]  # fmt: skip
    return core + tools + tasks


def write_sample_run(
    folder: Path, *, hostile: bool = True, run_id: str = RUN_ID, seed: int = 1
) -> Path:
    """Six models on thirty-four prompts; one more suite holds the hostile answers."""
    prompts = sample_prompts()
    results = list(_answers(prompts, CHARACTERS, 1, random.Random(seed), run_id))
    if hostile:
        prompts += [_hostile_prompt(n, name) for n, name in enumerate(HOSTILE)]
        results += [_hostile_result(n, name, run_id) for n, name in enumerate(HOSTILE)]
    return write_folder(folder, results, prompts, [c.target for c in CHARACTERS], run_id=run_id)


def write_large_run(folder: Path, n_calls: int, *, seed: int = 2) -> Path:
    """`n_calls` calls of five models, with answers of a few hundred characters."""
    prompts = sample_prompts()
    repeats = -(-n_calls // (len(prompts) * 5))
    answers = _answers(prompts, CHARACTERS[:5], repeats, random.Random(seed), RUN_ID)
    results = (result for _, result in zip(range(n_calls), answers, strict=False))
    return write_folder(
        folder, results, prompts, [c.target for c in CHARACTERS[:5]], repeats=repeats
    )


def write_folder(
    folder: Path,
    results: Iterable[Result],
    prompts: list[Prompt],
    targets: list[Target],
    *,
    repeats: int = 1,
    run_id: str = RUN_ID,
) -> Path:
    """config.json and results.jsonl."""
    folder.mkdir(parents=True)
    suites = list(dict.fromkeys(prompt.suite for prompt in prompts))
    config = RunConfig(
        schema_version=SCHEMA_VERSION, run_id=run_id, created_at_ms=T0, clawgauge_version="1.0.0",
        models=[target.label for target in targets], planned_targets=plan_targets(targets),
        options=RunOptions(repeats=repeats),
        suites=[
            SuiteInfo(
                name=name, version="1", description="", sha256="0" * 64, source="builtin",
                n_prompts=sum(prompt.suite == name for prompt in prompts),
            )
            for name in suites
        ],
        prompts=prompts, prompts_sha256="4f9c" * 16,
    )  # fmt: skip
    (folder / "config.json").write_bytes(encode_document(config))
    with (folder / "results.jsonl").open("wb") as file:
        file.writelines(map(encode_line, results))
    return folder


def make_result(target: Target, prompt: Prompt, **changes: Any) -> Result:
    """A call that was answered and has no verdict, but for what is said."""
    e2e_ms = changes.get("e2e_ms", 100)
    started = changes.get("started_at_ms", T0)
    fields: dict[str, Any] = {
        "run_id": RUN_ID, "provider": target.provider, "model": target.model, "thinking_level": target.thinking_level,
        "prompt_id": prompt.id, "prompt_name": prompt.name, "availability_status": "ok", "started_at_ms": started,
        "ended_at_ms": started + e2e_ms, "e2e_ms": e2e_ms, "ttft_ms": None, "success": True, "failure_type": None,
        "objective_pass": None, "violation": None, "input_tokens": None, "output_tokens": None, "raw_output": "",
        "parsed_output": None, "tool_calls": [], "tool_call_count": 0, "tool_use_success": False, "suite": prompt.suite,
        "repeat": 0, "expected_tools": prompt.expected_tools, "timings_us": TimingsUs(e2e=e2e_ms * 1000),
        "total_ms": e2e_ms,
        "attempts": [Attempt(status="ok", failure_type=None, e2e_ms=e2e_ms)],
    }  # fmt: skip
    return Result(**fields | changes)


def _answers(
    prompts: list[Prompt],
    characters: tuple[Character, ...],
    repeats: int,
    chance: random.Random,
    run_id: str,
) -> Iterator[Result]:
    for character in characters:
        is_first = True
        for prompt in prompts:
            for repeat in range(repeats):
                yield _call(character, prompt, repeat, chance, run_id, cold=is_first)
                is_first = False


def _call(
    who: Character, prompt: Prompt, repeat: int, chance: random.Random, run_id: str, *, cold: bool
) -> Result:
    started = T0 + chance.randrange(3_600_000)
    base: dict[str, Any] = {"run_id": run_id, "repeat": repeat, "started_at_ms": started}
    if who.fault and chance.random() < who.fault_rate:
        return make_result(who.target, prompt, **base, **_failure(who, chance))
    if prompt.suite == "tool_use":
        outcome = _tool_answer(prompt, chance.random() < who.calls_tools, chance)
    elif prompt.suite == "tasks":
        outcome = _task_answer(prompt, chance.random() < who.passes, chance)
    else:
        outcome = _plain_answer(prompt, chance.random() < who.passes, chance)
    return make_result(
        who.target, prompt, **base, **_timing(who, outcome, chance, cold=cold), **outcome
    )


def _failure(who: Character, chance: random.Random) -> dict[str, Any]:
    assert who.fault is not None
    status, failure, error = who.fault
    e2e_ms = 300_000 if failure == "timeout" else chance.randrange(2, 90)
    tries = 1 if status == "skipped_unavailable" else 3
    attempt = {"status": status, "failure_type": failure, "e2e_ms": e2e_ms, "error": error}
    attempts = [
        Attempt(**attempt, waited_ms=1000 << n if n < tries - 1 else 0) for n in range(tries)
    ]
    return {
        "availability_status": status, "success": False, "failure_type": failure, "error": error, "attempts": attempts,
        "e2e_ms": e2e_ms, "total_ms": e2e_ms * tries + 3000, "timings_us": TimingsUs(e2e=e2e_ms * 1000),
    }  # fmt: skip


def _timing(
    who: Character, outcome: dict[str, Any], chance: random.Random, *, cold: bool
) -> dict[str, Any]:
    tokens = max(4, len(outcome["raw_output"]) // 4) * (outcome.get("turns") or 1)
    ttft = who.ttft_ms * chance.lognormvariate(0, 0.28) + (who.cold_ms or 0) * cold
    e2e = ttft + tokens / who.tokens_per_s * 1000 * chance.lognormvariate(0, 0.22)
    thinking = 0.4 * (e2e - ttft) if outcome.get("reasoning_text") else 0.0
    return {
        "e2e_ms": round(e2e), "total_ms": round(e2e), "ttft_ms": round(ttft), "ttfa_ms": round(ttft + thinking),
        "timings_us": TimingsUs(
            e2e=round(e2e * 1000), ttft=round(ttft * 1000), ttfa=round((ttft + thinking) * 1000), connect=1800
        ),
        "streamed": True,
        "output_tps": tokens / (e2e - ttft) * 1000, "input_tokens": 60 + chance.randrange(200), "output_tokens": tokens,
        "tokens_source": "server", "cold_start": cold if who.cold_ms else None, "finish_reason": "stop",
        "cost_usd": tokens * who.cost_per_token if who.cost_per_token else None,
        "cost_source": "price_table" if who.cost_per_token else None, "model_reported": who.target.model,
    }  # fmt: skip


def _words(chance: random.Random, n: int) -> str:
    return " ".join(chance.choices(_VOCABULARY, k=n)).capitalize() + "."


def _plain_answer(prompt: Prompt, passed: bool, chance: random.Random) -> dict[str, Any]:
    text = _words(chance, chance.randrange(2, 150))
    kind = prompt.validator["type"]
    verdict = None if kind == "noop" else passed
    return {
        "raw_output": text, "raw_output_bytes": len(text.encode()), "objective_pass": verdict,
        "violation": None if verdict is not False else _VIOLATIONS[kind], "parsed_output": {"value": text[:80]},
        "reasoning_text": _words(chance, 60) if chance.random() < 0.2 else None, "judged_by": "1",
    }  # fmt: skip


def _tool_answer(prompt: Prompt, called: bool, chance: random.Random) -> dict[str, Any]:
    tool = prompt.expected_tools[0]
    text = f"I will look. `{tool} --help`" if called else _words(chance, 30)
    call = ToolInvocation(
        name=tool, arguments={"command": f"{tool} --help"}, channel="text:backtick"
    )
    return {
        "raw_output": text, "raw_output_bytes": len(text.encode()), "objective_pass": called,
        "tool_use_success": called, "parsed_output": {"tools": [tool] if called else []},
        "violation": None if called else f"tool_not_invoked: wanted {tool}", "tool_calls": [tool] if called else [],
        "tool_call_count": int(called), "tool_invocations": [call] if called else [],
        "tool_channel": "text:backtick" if called else "none",
    }  # fmt: skip


def _task_answer(prompt: Prompt, done: bool, chance: random.Random) -> dict[str, Any]:
    read = ToolInvocation(
        name="read_file", arguments={"path": "/var/log/app.log"}, channel="native", turn=1
    )
    move = ToolInvocation(
        name="exec",
        arguments={"command": "mv /var/log/app.log /var/log/app.log.1"},
        channel="native",
        turn=2,
    )
    turns = [
        TranscriptTurn(
            text="I read the log first.",
            calls=[read],
            answers=["12:00 started\n12:01 out of memory"],
            output_tokens=31,
            e2e_ms=840,
        ),
        TranscriptTurn(
            calls=[move],
            answers=["" if done else "mv: permission denied"],
            output_tokens=24,
            e2e_ms=610,
        ),
        TranscriptTurn(text="Done." if done else "I could not.", output_tokens=6, e2e_ms=220),
    ]
    return {
        "raw_output": turns[-1].text, "raw_output_bytes": 12, "objective_pass": done, "transcript": turns, "turns": 3,
        "violation": None if done else "world_state: /var/log/app.log.1 is not there", "tool_invocations": [read, move],
        "tool_calls": ["read_file", "exec"], "tool_call_count": 2, "tools_offered": True, "tool_channel": "native",
    }  # fmt: skip


def _hostile_prompt(number: int, name: str) -> Prompt:
    return Prompt(
        id=f"H{number}", name=f"{name} </script><b>", prompt=HOSTILE[name], system=HOSTILE["bidi"],
        suite="hostile <i>&amp;", validator={"type": "exact", "value": HOSTILE["script"]},
    )  # fmt: skip


def _hostile_result(number: int, name: str, run_id: str) -> Result:
    text = HOSTILE[name]
    return make_result(
        CHARACTERS[4].target, _hostile_prompt(number, name), run_id=run_id, raw_output=text, objective_pass=False,
        violation=f"not_exact: {text[:60]}", reasoning_text=text[:400], e2e_ms=150 + number, ttft_ms=40,
        warnings=[text[:200]],
        tool_calls=[HOSTILE["script"]], tool_call_count=1,
        tool_invocations=[ToolInvocation(name=text[:100], arguments={"x": text[:100]})],
        timings_us=TimingsUs(e2e=(150 + number) * 1000, ttft=40_000), model_reported=HOSTILE["bidi"],
    )  # fmt: skip
