"""The same thousand calls by other people's tools, where they are installed: their command lines, nothing of theirs.

A tool that is not on PATH is skipped with a line, and so is one that fails: its reason stands in the results. What they
do beside the calls differs (tokenising, plots, progress); what is compared is a user's wait for the whole command.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.command import CommandFailed, Finished
from bench.figures import median
from bench.setting import Setting, load_average
from bench.throughput import CONCURRENCY, MODEL, ask_and_check
from bench.workplace import Workplace

# Tools that count tokens themselves want a tokenizer; this variable names one that is on this machine.
TOKENIZER_VARIABLE = "BENCH_TOKENIZER"
DEFAULT_TOKENIZER = "gpt2"


@dataclass(frozen=True, slots=True)
class Work:
    """What a tool is asked to do, and the folder it may use."""

    folder: Path
    base_url: str
    calls: int
    tokenizer: str

    @property
    def host_url(self) -> str:
        return self.base_url.removesuffix("/v1")


@dataclass(frozen=True, slots=True)
class Peer:
    """One tool. `argv` may write the files its command needs."""

    program: str
    streams: bool
    argv: Callable[[Work], list[str]]


def measure(setting: Setting) -> dict[str, Any]:
    """Wall, CPU and memory of each tool found, with clawgauge in the same rounds."""
    calls = setting.pick(quick=200, normal=1000, full=1000)
    found = [peer for peer in PEERS if shutil.which(peer.program)]
    skipped = {peer.program: "not on PATH" for peer in PEERS if peer not in found}
    for program, why in skipped.items():
        setting.tell(f"peers: {program} skipped: {why}")
    rows: dict[str, Any] = {}
    if found:
        with setting.workplace() as place:
            rows = _measure_found(setting, place, found, calls, skipped)
    unstreamed = [peer.program for peer in PEERS if not peer.streams]
    return {
        "calls": calls,
        "rows": rows,
        "skipped": skipped,
        "not_streaming": unstreamed,
        "load_average": load_average(),
    }


def _measure_found(
    setting: Setting, place: Workplace, found: list[Peer], calls: int, skipped: dict[str, str]
) -> dict[str, Any]:
    tokenizer = os.environ.get(TOKENIZER_VARIABLE, DEFAULT_TOKENIZER)
    samples: dict[str, list[Finished]] = {"clawgauge": []}
    for _ in range(setting.rounds):
        samples["clawgauge"].append(
            ask_and_check(place, MODEL, calls=calls, concurrency=CONCURRENCY)
        )
        for peer in found:
            if peer.program in skipped:
                continue
            setting.tell(f"peers: {peer.program}")
            folder = place.folder / peer.program
            folder.mkdir(exist_ok=True)
            try:
                argv = peer.argv(Work(folder, setting.server.base_url, calls, tokenizer))
                samples.setdefault(peer.program, []).append(_run_peer(setting, place, argv, calls))
            except (CommandFailed, ValueError) as failure:
                skipped[peer.program] = str(failure)[-500:]
    return {
        name: _describe(rounds)
        for name, rounds in samples.items()
        if rounds and name not in skipped
    }


def _run_peer(setting: Setting, place: Workplace, argv: list[str], calls: int) -> Finished:
    """Run it, and believe the server's log about what it did."""
    setting.server.reset()
    finished = place.run(argv, _PEER_ENVIRONMENT)
    served = setting.server.figures()["complete"]
    if served < calls:
        raise ValueError(f"it made {served} of {calls} calls")
    return finished


# Nothing is reported home, and a key that no server looks at.
_PEER_ENVIRONMENT = {
    "BENCH_API_KEY": "calibrated",
    "PROMPTFOO_DISABLE_TELEMETRY": "1",
    "PROMPTFOO_DISABLE_UPDATE": "1",
}


def _describe(rounds: list[Finished]) -> dict[str, float]:
    return {
        "wall_s": round(median([one.wall_s for one in rounds]), 2),
        "cpu_s": round(median([one.cpu_s for one in rounds]), 2),
        "peak_rss_mb": round(median([one.peak_rss_mb for one in rounds]), 1),
    }


def _guidellm(work: Work) -> list[str]:
    argv = [
        "guidellm",
        "benchmark",
        "--target",
        work.host_url,
        "--model",
        MODEL,
        "--processor",
        work.tokenizer,
    ]
    argv += [
        "--rate-type",
        "concurrent",
        "--rate",
        str(CONCURRENCY),
        "--max-requests",
        str(work.calls),
    ]
    return [
        *argv,
        "--data",
        "prompt_tokens=16,output_tokens=16",
        "--output-path",
        str(work.folder / "out.json"),
    ]


def _aiperf(work: Work) -> list[str]:
    argv = [
        "aiperf",
        "profile",
        "--model",
        MODEL,
        "--url",
        work.host_url,
        "--endpoint-type",
        "chat",
        "--streaming",
    ]
    argv += [
        "--concurrency",
        str(CONCURRENCY),
        "--request-count",
        str(work.calls),
        "--tokenizer",
        work.tokenizer,
    ]
    argv += [
        "--synthetic-input-tokens-mean",
        "16",
        "--ui",
        "none",
        "--output-artifact-dir",
        str(work.folder),
    ]
    return argv


def _evalscope(work: Work) -> list[str]:
    prompts = work.folder / "prompts.txt"
    prompts.write_text(
        "".join(f"Count to sixteen, please, for the {n}th time.\n" for n in range(work.calls))
    )
    argv = [
        "evalscope",
        "perf",
        "--url",
        f"{work.base_url}/chat/completions",
        "--model",
        MODEL,
        "--api",
        "openai",
    ]
    argv += [
        "--parallel",
        str(CONCURRENCY),
        "--number",
        str(work.calls),
        "--stream",
        "--min-prompt-length",
        "1",
    ]
    argv += [
        "--dataset",
        "line_by_line",
        "--dataset-path",
        str(prompts),
        "--outputs-dir",
        str(work.folder),
    ]
    return argv


def _inspect(work: Work) -> list[str]:
    samples = work.folder / "samples.jsonl"
    samples.write_text(
        "".join(
            json.dumps({"input": f"Count. {n}", "target": "w0"}) + "\n" for n in range(work.calls)
        )
    )
    task = work.folder / "task.py"
    task.write_text(
        "from inspect_ai import Task, task\nfrom inspect_ai.dataset import json_dataset\n"
        "from inspect_ai.scorer import includes\n\n\n@task\ndef count():\n"
        f"    return Task(dataset=json_dataset({str(samples)!r}), scorer=includes())\n"
    )
    # It takes task files by a relative path alone; commands run in the folder above.
    argv = [
        "inspect",
        "eval",
        f"{work.folder.name}/{task.name}",
        "--model",
        f"openai-api/bench/{MODEL}",
        "--display",
        "none",
    ]
    argv += ["--model-base-url", work.base_url, "--log-dir", str(work.folder)]
    return [*argv, "--max-connections", str(CONCURRENCY), "--max-samples", str(CONCURRENCY)]


def _promptfoo(work: Work) -> list[str]:
    provider = {
        "id": f"openai:chat:{MODEL}",
        "config": {"apiBaseUrl": work.base_url, "apiKey": "calibrated"},
    }
    tests = [
        {"vars": {"n": str(n)}, "assert": [{"type": "contains", "value": "w0"}]}
        for n in range(work.calls)
    ]
    config = work.folder / "promptfooconfig.json"
    config.write_text(
        json.dumps({"prompts": ["Count. {{n}}"], "providers": [provider], "tests": tests})
    )
    argv = [
        "promptfoo",
        "eval",
        "-c",
        str(config),
        "--no-cache",
        "--no-table",
        "--no-progress-bar",
        "--no-write",
    ]
    return [*argv, "--max-concurrency", str(CONCURRENCY)]


PEERS = (
    Peer("guidellm", True, _guidellm),
    Peer("aiperf", True, _aiperf),
    Peer("evalscope", True, _evalscope),
    Peer("inspect", False, _inspect),
    Peer("promptfoo", False, _promptfoo),
)
