"""Hostile replies by the hundred, at every provider that reads a wire: each becomes one valid record, no more, no less.

A failing case can be made again from the seed and the numbers in the message.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from clawgauge.providers.base import ProviderSettings, create_provider
from faults.hostile_replies import Protocol, hostile_listing, hostile_program, hostile_reply
from faults.peak_memory import MIB, clawgauge_measured
from support.command import write_suite
from support.http_exchange import ReceivedRequest
from support.scripted_server import Reply, ScriptedServer
from support.slow_rest import slow

SEED = 20261115
DEFAULT_CASES, CI_CASES, OTHER_CASES = 80, 2000, 500
# An idle run takes 45 MiB; a reply may have 16 MiB, and four are in flight.
CEILING_MIB = 192
LINE_CEILING_BYTES = 2 * MIB
VALIDATORS: list[dict[str, Any]] = [
    {"type": "noop"},
    {"type": "exact", "value": "42"},
    {"type": "regex_fullmatch", "pattern": "(a+)+b"},
    {"type": "max_sentences", "value": 2},
    {"type": "exact_bullets", "value": 3},
    {"type": "json_keys", "required_keys": ["a"], "key_rules": {"a": {"type": "number"}}},
    {"type": "tool_invocation", "expected_tools": ["free", "get_weather"]},
]
WIRES: dict[Protocol, str] = {
    "chat": "/chat/completions", "responses": "/responses", "messages": "/messages",
    "gemini": ":streamGenerateContent", "ollama": "/api/chat"
}  # fmt: skip
FAKE_CLI = """#!/bin/sh
case "$1" in --version) echo 2.1.325; exit 0;; --help) exit 0;; esac
read -r _ n
read -r code < "{cases}/$n.code"
cat "{cases}/$n.stderr" >&2
[ "$code" = 0 ] && exec cat "{cases}/$n.stdout"
cat "{cases}/$n.stdout"
exit "$code"
"""


@pytest.mark.parametrize(
    "n_cases",
    [DEFAULT_CASES, pytest.param(CI_CASES, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])],
)
def test_every_hostile_reply_is_one_valid_record(
    n_cases: int, server: ScriptedServer, tmp_path: Path
) -> None:
    """Chat, Responses and the CLI: every case asked once and recorded once, none as `exception`, under 192 MiB."""
    server.reply_with(_reply_to)
    program = _install_cli(tmp_path, n_cases)
    _write_config(tmp_path, server, program, n_cases)
    targets = [
        word for name in ("chat", "responses", "claude_code_cli") for word in ("-t", f"{name}:m")
    ]
    options = ("--max-retries", "0", "--concurrency", "4", "--timeout", "60")
    done, peak_mib = clawgauge_measured(
        tmp_path,
        "run",
        "-s",
        "hostile.json",
        *targets,
        *options,
        timeout_s=1700,
        env={"FUZZ_KEY": "sk-not-a-key-at-all"},
    )
    assert done.code == 0 and "Traceback" not in done.stderr, done.stderr[-2000:]
    records = done.records()
    _check_records(records, n_cases, ("chat", "responses", "claude_code_cli"))
    lines = (done.folder / "results.jsonl").read_bytes().splitlines()
    assert max(map(len, lines)) < LINE_CEILING_BYTES
    assert done.summary()["n_unreadable_lines"] == 0
    # A request lost on a connection that the server closed without a word is a reset, which a run retries by default.
    n_resets = sum(record["failure_type"] == "connection_reset" for record in records)
    assert 2 * n_cases - n_resets <= len(server.calls) <= 2 * n_cases
    assert peak_mib < CEILING_MIB


def _check_records(records: list[dict[str, Any]], n_cases: int, providers: tuple[str, ...]) -> None:
    cells = Counter((record["provider"], record["prompt_id"]) for record in records)
    assert len(cells) == len(providers) * n_cases and set(cells.values()) == {1}
    unforeseen = [_describe(record) for record in records if record["failure_type"] == "exception"]
    assert not unforeseen, f"seed {SEED}: {unforeseen}"
    unasked = [_describe(record) for record in records if len(record["attempts"]) != 1]
    assert not unasked, f"seed {SEED}: {unasked}"
    for provider in providers:
        # A generator of nothing but rubbish would show little: each wire must also be read to its end, and judged.
        found = Counter(
            record["failure_type"] for record in records if record["provider"] == provider
        )
        assert found[None] > n_cases / 10 and len(found) >= 4, found


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_hostile_reply_of_the_other_protocols_is_one_valid_record(
    server: ScriptedServer, tmp_path: Path
) -> None:
    """The same for Anthropic's Messages, for Gemini and for Ollama's lines."""
    server.reply_with(_reply_to)
    kinds = {"messages": "anthropic_messages", "gemini": "gemini", "ollama": "ollama"}
    tables = (
        f'[providers.{name}]\ntype = "{kind}"\nbase_url = "{server.base_url}"\n'
        for name, kind in kinds.items()
    )
    (tmp_path / "clawgauge.toml").write_text("\n".join(tables))
    prompts = [
        {"prompt": f"case {n}", "validator": VALIDATORS[n % len(VALIDATORS)]}
        for n in range(OTHER_CASES)
    ]
    write_suite(tmp_path / "hostile.json", *prompts)
    words = (
        "run",
        "-s",
        "hostile.json",
        "-t",
        "messages:m",
        "-t",
        "gemini:m",
        "-t",
        "ollama:m",
        "--max-retries",
        "0",
    )
    done, peak_mib = clawgauge_measured(
        tmp_path, *words, "--concurrency", "4", "--timeout", "60", timeout_s=1700
    )
    assert done.code == 0 and "Traceback" not in done.stderr, done.stderr[-2000:]
    _check_records(done.records(), OTHER_CASES, tuple(kinds))
    assert peak_mib < CEILING_MIB


@pytest.mark.parametrize(
    "n_cases", [100, pytest.param(CI_CASES, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])]
)
@pytest.mark.parametrize(
    "kind", ["openai_chat", "openai_responses", "ollama_openai", slow("gemini"), slow("ollama")]
)
def test_no_listing_can_break_a_probe(kind: str, n_cases: int, server: ScriptedServer) -> None:
    """Whatever a server says of its models, probing it, listing them and getting ready for one ends without a crash."""
    cases = (hostile_listing(SEED, n) for n in range(4 * n_cases))
    probed = asyncio.run(_probe_all(kind, server, cases, n_cases))
    assert len(probed) == n_cases and {True, False} <= set(probed)


async def _probe_all(kind: str, server: ScriptedServer, cases: Any, n_cases: int) -> list[bool]:
    settings = ProviderSettings(name=kind, type=kind, base_url=server.v1_url)
    reachable = []
    async with create_provider(settings) as provider:
        for _ in range(n_cases):
            for path in ("/v1/models", "/api/tags", "/api/ps", "/api/version"):
                server.route(path, next(cases))
            reachable.append((await provider.probe()).reachable)
            await provider.loaded_models()
            await provider.before_target("m", unload_others=False)
    return reachable


def _reply_to(request: ReceivedRequest) -> Reply:
    protocol = next(name for name, path in WIRES.items() if request.path.endswith(path))
    return hostile_reply(protocol, SEED, int(request.prompt.split()[-1]))


def _describe(record: dict[str, Any]) -> str:
    return f"{record['provider']} {record['prompt_id']} {record['failure_type']}: {record['error']}"


def _install_cli(folder: Path, n_cases: int) -> Path:
    """A `claude` that prints case n when its prompt ends in n: real processes and pipes, at the price of a shell."""
    cases = folder / "cases"
    cases.mkdir()
    for n in range(n_cases):
        case = hostile_program(SEED, n)
        (cases / f"{n}.stdout").write_bytes(case.stdout)
        (cases / f"{n}.stderr").write_bytes(case.stderr)
        (cases / f"{n}.code").write_text(f"{case.exit_code}\n")
    program = folder / "claude"
    program.write_text(FAKE_CLI.format(cases=cases))
    program.chmod(0o755)
    return program


def _write_config(folder: Path, server: ScriptedServer, program: Path, n_cases: int) -> None:
    tables = [
        f'[providers.{name}]\ntype = "openai_{name}"\nbase_url = "{server.v1_url}"\napi_key_env = "FUZZ_KEY"\n'
        for name in ("chat", "responses")
    ]
    tables.append(f'[providers.claude_code_cli]\ntype = "claude_code_cli"\ncommand = "{program}"\n')
    (folder / "clawgauge.toml").write_text("\n".join(tables))
    prompts = [
        {"prompt": f"case {n}", "validator": VALIDATORS[n % len(VALIDATORS)]}
        for n in range(n_cases)
    ]
    write_suite(folder / "hostile.json", *prompts)
