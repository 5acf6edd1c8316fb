"""Claude Code as a provider, run as real processes: a fake `claude` on PATH that answers, fails and misbehaves."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from clawgauge.child_processes.child import GRACE_S
from clawgauge.errors import CallFailure
from clawgauge.outcomes import Reply
from clawgauge.providers.base import Call, ProviderSettings
from clawgauge.providers.claude.provider import ClaudeCodeCli
from clawgauge.records import MadeCall, Message
from support.fake_claude import install_fake_claude
from support.waiting import growing_deadlines
from unit.providers.claude_calls import SeenCall, environment, is_gone, kind_of, write_program
from unit.providers.observed import attempt


def ask(
    bin_dir: Path, *, environ: dict[str, str] | None = None, **call: Any
) -> tuple[Reply, CallFailure | None]:
    """One attempt as the runner makes it, with `bin_dir` on PATH."""
    given = {"environ": environ or environment(bin_dir)}
    return attempt("claude_code_cli", "", settings=given, **call)


def provider(bin_dir: Path, **environ: str) -> ClaudeCodeCli:
    env = environment(bin_dir, **environ)
    return ClaudeCodeCli(
        ProviderSettings(name="claude_code_cli", type="claude_code_cli", environ=env)
    )


def test_an_answer_is_whole_and_timed(tmp_path: Path) -> None:
    """Text, tokens, finish, model, cost and a first-token time arrive through the real pipe."""
    install_fake_claude(
        tmp_path, answer="Paris.", chunks=["Pa", "ris."], apart=True, first_delay_s=0.1
    )
    done, failure = ask(tmp_path, model="sonnet")
    assert failure is None
    assert (done.text, done.input_tokens, done.output_tokens) == ("Paris.", 12, 7)
    assert (done.finish_reason, done.model_reported, done.cost_usd) == ("stop", "sonnet", 0.000141)
    assert done.ttft_ns is not None and 0.1e9 <= done.ttft_ns < done.e2e_ns
    assert done.connect_ns is None


@pytest.mark.parametrize(
    "prompt", ["x" * 200_000, "--help", "-p", "naïve ☃\nsecond line\n", "$(echo hi) `id`"]
)
def test_any_prompt_goes_through_stdin_unchanged(tmp_path: Path, prompt: str) -> None:
    """A long prompt, one that looks like a flag, and one a shell would read arrive as they are."""
    fake = install_fake_claude(tmp_path, echo=True)
    done, failure = ask(tmp_path, prompt=prompt)
    assert failure is None and done.text == prompt
    assert fake.calls[0].stdin == prompt and prompt not in fake.calls[0].argv[1:]


def test_a_conversation_goes_as_one_text_and_the_record_says_so(tmp_path: Path) -> None:
    """What was said, called and answered is in it, in order; the warning tells it from a native conversation."""
    messages = (
        Message(role="user", content="Is the disk full?"),
        Message(role="assistant", calls=[MadeCall(name="exec", arguments={"command": "df"})]),
        Message(role="tool", content="100% /"),
    )
    fake = install_fake_claude(tmp_path, answer="It is.")
    done, failure = ask(tmp_path, prompt="And home?", messages=messages)
    parts = [
        "[user]\nIs the disk full?",
        '[assistant]\ncall exec {"command": "df"}',
        "[tool]\n100% /",
        "[user]\nAnd home?",
    ]
    assert failure is None and [warning.partition(":")[0] for warning in done.warnings] == [
        "messages_as_text"
    ]
    assert fake.calls[0].stdin.endswith("\n\n".join(parts))


def test_a_system_prompt_longer_than_a_command_line_is_refused(tmp_path: Path) -> None:
    """The system's limit on arguments is told as what it is."""
    install_fake_claude(tmp_path)
    _, failure = ask(tmp_path, system="x" * 3_000_000)
    assert kind_of(failure) == ("error", "invalid_prompt")


def test_the_child_sees_a_clean_room(tmp_path: Path) -> None:
    """An empty working directory that is gone afterwards, no foreign key, and the limits of this call."""
    watched = ["CLAUDE_CODE_MAX_OUTPUT_TOKENS", "MAX_THINKING_TOKENS", "CLAUDE_CODE_MAX_RETRIES"]
    fake = install_fake_claude(tmp_path, answer="ok", env_values=watched)
    env = environment(tmp_path, OPENAI_API_KEY="sk-other", HTTPS_PROXY="http://proxy")
    _, failure = ask(tmp_path, environ=env, max_tokens=77)
    (call,) = fake.calls
    assert failure is None and call.cwd_entries == [] and not Path(call.cwd).exists()
    assert "OPENAI_API_KEY" not in call.env_names and "HTTPS_PROXY" in call.env_names
    assert call.env == dict(zip(watched, ["77", "0", "0"], strict=True))
    assert "--bare" in call.argv


def test_a_login_is_not_started_bare(tmp_path: Path) -> None:
    """Without a key the program has to read its login, which a bare start would not."""
    fake = install_fake_claude(tmp_path, answer="ok")
    ask(tmp_path, environ=environment(tmp_path) | {"ANTHROPIC_API_KEY": ""})
    assert "--bare" not in fake.calls[0].argv


def test_the_program_is_asked_once_and_adapted_to(tmp_path: Path) -> None:
    """Version and help are asked once for many calls; flags an older program lacks are dropped and described."""
    fake = install_fake_claude(
        tmp_path, answer="ok", version="1.9.9", missing_flags=["--tools", "--effort", "--bare"]
    )

    async def two_calls() -> tuple[dict[str, Any], SeenCall]:
        async with provider(
            tmp_path, ANTHROPIC_BASE_URL="http://user:secret@gate.example:8443/p?key=1"
        ) as claude:
            asked = Call(model="m", prompt="hi", thinking_level="low")
            seen = SeenCall()
            await asyncio.gather(claude.attempt(asked, seen), claude.attempt(asked, SeenCall()))
            return claude.describe(), seen

    described, seen = asyncio.run(two_calls())
    assert [start.kind for start in fake.starts] == ["question", "question", "call", "call"]
    assert described["command"] == "claude" and described["version"] == "1.9.9"
    assert described["dropped_flags"] == ["--tools", "--bare", "--effort"]
    assert described["base_url_host"] == "gate.example:8443" and "secret" not in str(described)
    assert (
        "--effort" not in fake.calls[0].argv
        and "thinking level low was not sent" in seen.notes["warning"]
    )


def test_an_older_program_without_deltas_has_no_first_token(tmp_path: Path) -> None:
    """The text is whole, and the first-token time is null rather than the end of the call."""
    install_fake_claude(tmp_path, answer="whole", missing_flags=["--include-partial-messages"])
    done, failure = ask(tmp_path)
    assert failure is None and done.text == "whole"
    assert (done.ttft_ns, done.ttfa_ns, done.output_tps) == (None, None, None) and done.e2e_ns > 0


def test_a_call_that_must_not_stream_has_no_first_token(tmp_path: Path) -> None:
    """Where streaming is not wanted the times of pieces are not reported."""
    install_fake_claude(tmp_path, answer="whole", chunks=["who", "le"])
    done, failure = ask(tmp_path, stream=False)
    assert failure is None and done.text == "whole" and done.ttft_ns is None


def test_the_token_limit_ends_the_call_at_once(tmp_path: Path) -> None:
    """The cut answer is a success with finish `length`; further rounds are neither read nor left running."""
    fake = install_fake_claude(
        tmp_path, answer="One two", stop_reason="max_tokens", hang="after_result"
    )
    done, failure = ask(tmp_path)
    assert failure is None and (done.text, done.finish_reason, done.output_tokens) == (
        "One two",
        "length",
        7,
    )
    assert is_gone(fake.calls[0].pid)


def test_a_program_that_dies_is_told_with_its_last_words(tmp_path: Path) -> None:
    """A signal and the end of stderr are in the message."""
    write_program(
        tmp_path / "claude",
        'case "$1" in --*) exit 0;; esac; echo "out of memory" >&2; kill -SEGV $$',
    )
    _, failure = ask(tmp_path)
    assert kind_of(failure) == ("error", "cli_error")
    assert (
        failure is not None and "SIGSEGV" in failure.message and "out of memory" in failure.message
    )


def test_a_hanging_program_ends_at_the_deadline(tmp_path: Path) -> None:
    """The runner's deadline ends the call on time, also for a program that ignores SIGTERM, with nothing left."""
    fake = install_fake_claude(tmp_path, hang="before_output", ignore_sigterm=True, grandchild=True)
    for timeout_s in growing_deadlines(1.0):
        n_before, began_ns = len(fake.calls), time.perf_counter_ns()
        done, failure = ask(tmp_path, timeout_s=timeout_s)
        took_ns = time.perf_counter_ns() - began_ns
        assert kind_of(failure) == ("error", "timeout")
        if len(fake.calls) > n_before and done.e2e_ns >= 0.5e9 * timeout_s:
            break  # it was there long before the deadline
    assert 0.5e9 * timeout_s <= done.e2e_ns <= took_ns - 0.9e9 * GRACE_S, (
        "the clean-up is not part of the call"
    )
    assert all(is_gone(call.pid) and is_gone(call.grandchild_pid or 0) for call in fake.calls)


def test_a_program_that_does_not_leave_after_its_result_is_ended(tmp_path: Path) -> None:
    """The result counts, the clock stopped with it, and the lingering program is gone."""
    fake = install_fake_claude(tmp_path, answer="done", hang="after_result")
    done, failure = ask(tmp_path)
    assert failure is None and done.text == "done"
    assert is_gone(fake.calls[0].pid)


@pytest.mark.parametrize(
    ("install", "expected"), [(False, "cli_missing"), (True, "cli_not_executable")]
)
def test_a_program_that_cannot_be_used_skips(tmp_path: Path, install: bool, expected: str) -> None:
    """Entering works, the attempt is skipped with the reason, and the probe says what to do."""
    if install:
        install_fake_claude(tmp_path).path.chmod(0o644)
    done, failure = ask(tmp_path, environ={"PATH": str(tmp_path)})
    assert kind_of(failure) == ("skipped_unavailable", expected) and not done.started
    claude = ClaudeCodeCli(
        ProviderSettings(name="c", type="claude_code_cli", environ={"PATH": str(tmp_path)})
    )
    probe = asyncio.run(claude.probe())
    assert not probe.reachable and probe.hint and claude.describe()["version"] is None


def test_the_probe_tells_version_and_login_without_a_call(tmp_path: Path) -> None:
    """A key or a login file is a sign that calls may work; neither is read, and nothing is sent."""
    fake = install_fake_claude(tmp_path / "bin")
    with_key = asyncio.run(provider(fake.bin_dir).probe())
    without = asyncio.run(provider(fake.bin_dir, ANTHROPIC_API_KEY="").probe())
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / ".credentials.json").write_bytes(b"\x00never read")
    with_login = asyncio.run(provider(fake.bin_dir, ANTHROPIC_API_KEY="").probe())
    assert (
        with_key.reachable
        and with_key.version == "2.1.325"
        and "ANTHROPIC_API_KEY" in with_key.detail
    )
    assert "key-of-a-test" not in str(with_key)
    assert with_login.reachable and "login" in with_login.detail
    assert without.reachable == (sys.platform == "darwin") and (
        without.hint or sys.platform == "darwin"
    )
    assert fake.calls == []
