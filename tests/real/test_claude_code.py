"""The real `claude` binary, end to end, against the embedded model and against scripted faults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.command import Outcome, clawgauge, write_suite
from support.published_schema import check_run_folder
from support.scripted_server import Hang, Reply, ScriptedServer, Status, Text
from support.waiting import growing_deadlines, wait_until

CLAUDE_DIR = Path(__file__).parents[2] / ".cache" / "claude"
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not (CLAUDE_DIR / "claude").exists(), reason="no claude here: make test-real installs it"
    ),
]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder with a small suite; afterwards every run in it meets the published schema."""
    write_suite(
        tmp_path / "small.json",
        {"prompt": "What is the capital of France? Answer in one sentence."},
        {"prompt": "--help", "validator": {"type": "max_words", "value": 200}},
    )
    yield tmp_path
    for config in tmp_path.rglob("config.json"):
        check_run_folder(config.parent)


def ask(place: Path, address: str, *words: str) -> Outcome:
    return clawgauge(
        place, "run", "-t", "claude_code_cli:smollm2-135m", "-s", "small.json", *words,
        env={
            "ANTHROPIC_BASE_URL": address,
            "ANTHROPIC_API_KEY": "sk-ant-canary-real",
            "PATH": f"{CLAUDE_DIR}:/usr/bin:/bin",
            "HOME": str(place),
        },
    )  # fmt: skip


def running(place: Path) -> list[str]:
    """Every process that has this test's folder for its home."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if f"HOME={place}".encode() in (path / "environ").read_bytes().split(b"\0"):
                found.append((path / "cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return found


def test_the_real_cli_on_the_real_model(place: Path, llama_address: str) -> None:
    """Answers, first tokens, token counts and the CLI's own overhead come from a real process and a real model."""
    done = ask(place, llama_address, "--max-tokens", "64")
    assert done.code == 0, done.stderr
    first, second = done.records()
    for record in (first, second):
        assert record["availability_status"] == "ok" and record["success"], record
        assert 0 < record["ttft_ms"] <= record["e2e_ms"]
        assert record["input_tokens"] > 0 and record["output_tokens"] > 0
        assert (
            record["finish_reason"] in ("stop", "length")
            and record["model_reported"] == "smollm2-135m"
        )
    # The CLI samples as it likes, so what the model says is its own affair.
    assert first["raw_output"].strip()
    assert "Usage:" not in second["raw_output"], "a prompt that looks like an option is a prompt"
    for record in (first, second):
        # A reply that the token limit cuts ends the CLI before it could say what it took.
        if record["finish_reason"] == "stop":
            assert (
                record["cli_overhead_ms"] is not None
                and 0 < record["cli_overhead_ms"] < record["e2e_ms"]
            )


def test_a_reply_cut_by_the_limit(place: Path, llama_address: str) -> None:
    """The CLI would ask again and again; it is stopped at the first cut and the text is kept."""
    done = ask(place, llama_address, "--max-tokens", "4", "--prompt-ids", "P0", "--repeats", "4")
    # The CLI samples, and now and then a model has said all it will within four tokens.
    cut = [record for record in done.records() if record["finish_reason"] == "length"]
    assert cut and all(record["success"] and record["raw_output"] for record in cut)
    wait_until(lambda: not running(place))


@pytest.mark.parametrize(
    ("reply", "status", "failure_type", "n_calls"),
    [
        (Status(401), "auth_error", "http_401", 1),
        (Status(403), "auth_error", "http_403", 1),
        (Status(529), "error", "http_529", 2),
        (Status(429), "rate_limited", "http_429", 2),
        (Text(""), "ok", "empty_response", None),
    ],
    ids=["401", "403", "529", "429", "empty"],
)
def test_faults_behind_the_cli(
    place: Path, reply: Reply, status: str, failure_type: str, n_calls: int | None
) -> None:
    """What the API says reaches the record under its own name; retries are ours, not the CLI's."""
    with ScriptedServer() as server:
        server.reply_with(reply)
        done = ask(place, server.base_url, "--prompt-ids", "P0", "--max-retries", "1")
    (record,) = done.records()
    assert (record["availability_status"], record["failure_type"]) == (status, failure_type), (
        record["error"]
    )
    if n_calls is not None:
        assert len(server.calls) == n_calls == len(record["attempts"])
    for path in done.folder.iterdir():
        assert b"canary" not in path.read_bytes()


def test_nothing_listens(place: Path) -> None:
    """A dead address is a skipped target, after one try."""
    done = ask(place, "http://127.0.0.1:9")
    assert {r["failure_type"] for r in done.records()} == {"connection_refused"}
    assert [len(r["attempts"]) for r in done.records()] == [1, 0]


def test_a_hang_meets_our_deadline_and_leaves_nothing(place: Path) -> None:
    """The CLI's own timeout does not fire in the middle of a stream: ours does, and the process is gone."""
    with ScriptedServer() as server:
        server.reply_with(Hang("mid_stream"))
        for timeout_s in growing_deadlines(4.0):
            (record,) = ask(
                place, server.base_url, "--prompt-ids", "P0", "--timeout", f"{timeout_s}"
            ).records()
            assert record["failure_type"] == "timeout"
            if record["raw_output"] and record["e2e_ms"] >= 850 * timeout_s:
                break  # it had begun to speak before the deadline
    assert (
        record["e2e_ms"] >= 850 * timeout_s
        and record["ttft_ms"] is not None
        and record["raw_output"]
    )
    wait_until(lambda: not running(place))
