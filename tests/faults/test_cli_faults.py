"""Rows 24 to 30: a CLI that is missing, hangs, leaves processes behind, or fails in misleading words."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from faults.asking import ask_once, verdict
from faults.processes import await_gone, started
from support.command import Outcome, clawgauge, read_records, write_suite
from support.fake_claude import FakeClaude, install_fake_claude
from support.published_schema import check_run_folder
from support.waiting import PATIENCE_S, growing_deadlines, wait_until

CLAUDE = ("run", "-t", "claude_code_cli:m", "-s", "two.json")


def suite(place: Path, *prompts: str) -> None:
    write_suite(place / "two.json", *({"prompt": prompt} for prompt in prompts or ("one", "two")))


def with_claude(bin_dir: Path) -> dict[str, str]:
    return {
        "PATH": f"{bin_dir}:{os.environ['PATH']}",
        "HOME": str(bin_dir.parent),
        "ANTHROPIC_API_KEY": "key-of-a-test",
    }


def ask(place: Path, *words: str) -> Outcome:
    """The whole command."""
    return clawgauge(place, *CLAUDE, *words, env=with_claude(place / "bin"))


def ask_here(place: Path) -> dict[str, Any]:
    """One prompt, without the command around it: for what only the provider and its record decide."""
    environ = {"environ": with_claude(place / "bin")}
    return ask_once(place, "", kind="claude_code_cli", settings=environ)


def kinds(records: list[dict[str, Any]]) -> set[tuple[str, str | None, bool]]:
    return {(r["availability_status"], r["failure_type"], r["success"]) for r in records}


def gone(fake: FakeClaude) -> None:
    """Nothing is left of any start of the fake; it leads its own group."""
    assert fake.starts
    await_gone(*{start.pid for start in fake.starts})


def test_row_24_cli_missing(tmp_path: Path) -> None:
    """Without a `claude` on PATH nothing is recorded, and the way to install it is told; beside a server that is down,
    which is evidence, every prompt is skipped with it.
    """
    suite(tmp_path)
    alone = ask(tmp_path)
    assert (alone.code, alone.stdout) == (2, "") and "npm install" in alone.stderr
    assert not (tmp_path / "runs").exists()
    done = ask(tmp_path, "-t", "ollama_openai:down")
    records = [record for record in done.records() if record["model"] == "m"]
    assert done.code == 3 and kinds(records) == {("skipped_unavailable", "cli_missing", False)}
    assert all("npm install" in r["error"] for r in records) and records[1]["attempts"] == []


def no_permission(path: Path) -> None:
    path.write_text("#!/bin/sh\necho never\n")
    path.chmod(0o644)


def foreign_binary(path: Path) -> None:
    path.write_bytes(b"\x7fELF made for another machine")
    path.chmod(0o755)


def missing_interpreter(path: Path) -> None:
    path.write_text("#!/nowhere/node\n")
    path.chmod(0o755)


def missing_interpreter_on_path(path: Path) -> None:
    path.write_text("#!/usr/bin/env a-node-that-is-not-installed\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    "spoil", [no_permission, foreign_binary, missing_interpreter, missing_interpreter_on_path]
)
def test_row_24_cli_not_executable(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    """A `claude` that is there but cannot be started is skipped, named, and not tried again."""
    (tmp_path / "bin").mkdir()
    spoil(tmp_path / "bin" / "claude")
    record = ask_here(tmp_path)
    assert (
        verdict(record) == ("skipped_unavailable", False, "cli_not_executable")
        and len(record["attempts"]) == 1
    )
    assert str(tmp_path / "bin" / "claude") in record["error"]


def test_row_24_cli_not_logged_in(tmp_path: Path) -> None:
    """A CLI without a login is an auth_error; it is asked once and no other prompt is tried."""
    suite(tmp_path)
    fake = install_fake_claude(tmp_path / "bin", recording="notloggedin_streamjson")
    done = ask(tmp_path)
    assert done.code == 3 and kinds(done.records()) == {("auth_error", "cli_auth", False)}
    assert len(fake.calls) == 1


def test_row_24_cli_removed_while_it_runs(tmp_path: Path) -> None:
    """A CLI that disappears between two calls costs the calls after it, not the answer before."""
    suite(tmp_path)
    fake = install_fake_claude(tmp_path / "bin", answer="ok", waits_for=tmp_path / "go")
    with started(tmp_path, *CLAUDE, "--run-id", "r", env=with_claude(fake.bin_dir)) as process:
        wait_until(lambda: fake.calls)
        fake.path.unlink()
        (tmp_path / "go").touch()
        assert process.wait(PATIENCE_S) == 0
    first, second = read_records(tmp_path / "runs" / "r")
    assert first["raw_output"] == "ok"
    assert (second["availability_status"], second["failure_type"]) == (
        "skipped_unavailable",
        "cli_missing",
    )


def test_row_25_cli_hangs_with_output_pending(tmp_path: Path) -> None:
    """A CLI that stops talking is a timeout at the deadline; the text before it stays, half a line does not."""
    suite(tmp_path, "one")
    fake = install_fake_claude(tmp_path / "bin", answer="half of it", hang="mid_stream")
    for timeout_s in growing_deadlines(0.7):
        (record,) = ask(tmp_path, "--timeout", f"{timeout_s}").records()
        assert (record["availability_status"], record["failure_type"]) == ("error", "timeout")
        if record["raw_output"] and record["e2e_ms"] >= 900 * timeout_s:
            break  # it spoke before the deadline, and was started long before
    assert record["raw_output"] == "half of it" and record["e2e_ms"] >= 900 * timeout_s
    gone(fake)


def test_row_25_cli_ignores_sigterm(tmp_path: Path) -> None:
    """A CLI that hangs and will not be asked to leave is killed."""
    suite(tmp_path, "one")
    fake = install_fake_claude(tmp_path / "bin", hang="before_output", ignore_sigterm=True)
    (record,) = ask(tmp_path, "--timeout", "0.5").records()
    assert verdict(record) == ("error", False, "timeout")
    gone(fake)


def test_row_26_grandchild_holds_the_pipe(tmp_path: Path) -> None:
    """A CLI that answers and leaves a process with its pipes behind is an answer; the whole group is gone."""
    suite(tmp_path, "one")
    fake = install_fake_claude(tmp_path / "bin", answer="fine", grandchild=True)
    (record,) = ask(tmp_path).records()
    assert record["raw_output"] == "fine" and record["success"]
    assert fake.calls[0].grandchild_pid and os.getpgid(0) != fake.calls[0].pid
    gone(fake)


def test_row_26_grandchild_of_a_hanging_cli(tmp_path: Path) -> None:
    """`sleep & sleep` is back within the deadline and the grace, with neither process left."""
    suite(tmp_path, "one")
    fake = install_fake_claude(
        tmp_path / "bin", grandchild=True, hang="before_output", ignore_sigterm=True
    )
    done = ask(tmp_path, "--timeout", "0.5")
    (record,) = done.records()
    assert record["failure_type"] == "timeout"
    gone(fake)


LONG_PROMPT = "wörter " * 30_000


@pytest.fixture(scope="module")
def echoed(tmp_path_factory: pytest.TempPathFactory) -> tuple[FakeClaude, list[dict[str, Any]]]:
    """One run of a CLI that says what it is told, with prompts that no command line could hold."""
    place = tmp_path_factory.mktemp("echo")
    suite(place, LONG_PROMPT, "a\0b", "--help", "-p")
    fake = install_fake_claude(place / "bin", echo=True)
    done = ask(place)
    assert done.code == 0, done.stderr
    check_run_folder(done.folder)
    return fake, done.records()


Echoed = tuple[FakeClaude, list[dict[str, Any]]]


def test_row_27_a_prompt_of_200_kb_goes_through_stdin(echoed: Echoed) -> None:
    """A prompt longer than any command line may be arrives whole, and none of it stands in the arguments."""
    fake, records = echoed
    size = len(LONG_PROMPT.encode())
    assert size > 200_000 and fake.calls[0].stdin == LONG_PROMPT
    assert records[0]["raw_output_bytes"] == size and records[0]["raw_output_truncated"]
    assert not any("wörter" in word for word in fake.calls[0].argv)


def test_row_27_a_nul_cannot_be_sent(echoed: Echoed) -> None:
    """A prompt with a NUL is an error of its own, no process is started for it, and the others are asked."""
    fake, records = echoed
    assert verdict(records[1]) == ("error", False, "invalid_prompt")
    assert len(fake.calls) == 3 and not any("\0" in call.stdin for call in fake.calls)


def test_row_27_a_prompt_that_is_an_option(echoed: Echoed) -> None:
    """A prompt that is `--help` is a prompt."""
    fake, records = echoed
    assert (
        [record["raw_output"] for record in records[2:]]
        == ["--help", "-p"]
        == [c.stdin for c in fake.calls[1:]]
    )


def test_row_28_output_that_is_not_utf8(tmp_path: Path) -> None:
    """A byte that is no UTF-8 becomes the replacement character; the answer is an answer."""
    install_fake_claude(tmp_path / "bin", invalid_utf8=True)
    record = ask_here(tmp_path)
    assert record["success"] and record["raw_output"] == "before \N{REPLACEMENT CHARACTER} after"


MISLEADING = "cannot generate a rate for the author: 401, limit 429, not logged in?"


@pytest.mark.parametrize(
    "behaviour",
    [
        {"stdout": b"", "stderr": MISLEADING},
        {"stdout": MISLEADING.encode()},
        {"answer": MISLEADING, "result": {"is_error": True}},
    ],
    ids=["stderr", "stdout", "result"],
)
def test_row_29_failure_words_are_not_searched(tmp_path: Path, behaviour: dict[str, Any]) -> None:
    """ "generate" holds "rate" and "author" holds "auth": a failing CLI's prose decides nothing."""
    install_fake_claude(tmp_path / "bin", **behaviour, exit_code=1)
    record = ask_here(tmp_path)
    assert verdict(record) == ("error", False, "cli_error") and MISLEADING in record["error"]


def test_row_30_exit_0_with_an_error_in_its_json(tmp_path: Path) -> None:
    """`is_error` with exit code 0 is a failure: the right answer in its result is not scored."""
    write_suite(
        tmp_path / "two.json", {"prompt": "say yes", "validator": {"type": "exact", "value": "yes"}}
    )
    install_fake_claude(tmp_path / "bin", answer="yes", result={"is_error": True}, exit_code=0)
    done = ask(tmp_path)
    (record,) = done.records()
    assert (
        done.code == 3
        and verdict(record) == ("error", False, "cli_error")
        and record["objective_pass"] is None
    )
    assert done.summary()["models"][0]["objective_pass_rate"] is None


def test_row_30_an_error_result_alone(tmp_path: Path) -> None:
    """The same without a streamed reply before it: the result's text does not become the answer."""
    line = b'{"type":"result","subtype":"success","is_error":true,"result":"yes"}\n'
    install_fake_claude(tmp_path / "bin", stdout=line, exit_code=0)
    record = ask_here(tmp_path)
    assert verdict(record) == ("error", False, "cli_error") and record["raw_output"] == ""
