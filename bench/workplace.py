"""The folder in which clawgauge is measured: its configuration, its suites, its runs, a clean environment.

Owns: asking the command as a user would (`python -m clawgauge`, of the interpreter that runs the measurement) and
reading what it recorded. Refuses: any import of the program under measurement.
"""

from __future__ import annotations

import itertools
import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.command import Finished, run_command
from bench.server_process import ROOT, CalibratedServer
from bench.truth import TruthRow, read_rows, write_rows

CLAWGAUGE = (sys.executable, "-m", "clawgauge")
PROVIDERS = {"chat": "bench_chat", "responses": "openai_responses", "cli": "claude_code_cli"}
_KEPT_VARIABLES = ("PATH", "HOME", "LANG", "TMPDIR", "SYSTEMROOT")
# Refuses connections at once, so that nothing is asked of an Ollama that happens to run here.
_NO_OLLAMA = "127.0.0.1:9"


class Timings(msgspec.Struct):
    e2e: int
    ttft: int | None = None
    ttfa: int | None = None
    connect: int | None = None


class Record(msgspec.Struct):
    """What a measurement needs of a line of results.jsonl."""

    prompt_id: str
    started_at_ms: int
    success: bool
    objective_pass: bool | None
    output_tokens: int | None
    timings_us: Timings
    output_tps: float | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """One `clawgauge run`: what it took and where its records are."""

    finished: Finished
    folder: Path

    def records(self) -> list[Record]:
        decode = msgspec.json.Decoder(Record).decode
        with (self.folder / "results.jsonl").open("rb") as lines:
            return [decode(line) for line in lines]


class Workplace:
    """A folder of its own for one measurement."""

    def __init__(self, folder: Path, server: CalibratedServer) -> None:
        self.folder = folder
        self.server = server
        self._cli_truth = folder / "cli_truth.csv"
        self._numbers = itertools.count()
        table = f'[providers.bench_chat]\ntype = "openai_chat"\nbase_url = "{server.base_url}"\nlocal = true\n'
        (folder / "clawgauge.toml").write_text(table)
        self._install_claude(folder / "bin")
        self.reset_truth()

    def reset_truth(self) -> None:
        """Forget what was logged so far, here and at the server."""
        self._cli_truth.write_text(write_rows([]))
        self.server.reset()

    def truth(self, path: str) -> list[TruthRow]:
        """What was really done since, in the order in which it began."""
        rows = read_rows(self._cli_truth.read_text()) if path == "cli" else self.server.rows()
        return sorted(rows, key=lambda row: row.recv_ns)

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        return kept | {
            "OLLAMA_HOST": _NO_OLLAMA,
            "OPENAI_API_KEY": "calibrated",
            "OPENAI_BASE_URL": self.server.base_url,
            "ANTHROPIC_API_KEY": "calibrated",
        }

    def write_suite(self, n_prompts: int) -> Path:
        """A suite whose prompts carry their ids, so that the server can tell which one it answers."""
        path = self.folder / f"marked_{n_prompts}.json"
        if not path.exists():
            validator = {"type": "max_words", "value": 1_000_000}
            prompts = [
                {
                    "id": f"P{n}",
                    "name": f"marked_{n}",
                    "prompt": f"Count. [[id:p{n}]]",
                    "validator": validator,
                }
                for n in range(n_prompts)
            ]
            path.write_text(json.dumps({"name": "marked", "prompts": prompts}))
        return path

    def ask(
        self,
        path: str,
        model: str,
        *,
        prompts: int,
        concurrency: int,
        repeats: int = 1,
        started: Callable[[int], None] | None = None,
    ) -> Asked:
        """`clawgauge run` on one target. Raises where a call was not answered: such a run measures nothing."""
        run_id = f"m{next(self._numbers)}"
        argv = [
            *CLAWGAUGE,
            "run",
            "-t",
            f"{PROVIDERS[path]}:{model}",
            "-s",
            str(self.write_suite(prompts)),
        ]
        argv += [
            "--concurrency",
            str(concurrency),
            "--repeats",
            str(repeats),
            "--max-retries",
            "0",
            "--quiet",
        ]
        # The reply's length is the schedule's business.
        argv += ["--max-tokens", "1000000", "--run-id", run_id, "--config", "clawgauge.toml"]
        # The stand-in is on PATH for its own calls alone: the inventory asks every `claude` it finds for its version.
        search = {"PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
        finished = self.run(argv, search if path == "cli" else {}, started)
        return Asked(finished, self.folder / "runs" / run_id)

    def runs(self) -> list[str]:
        """The names of the runs so far."""
        return sorted(folder.name for folder in (self.folder / "runs").glob("m*"))

    def newest_run(self) -> Path:
        return max((self.folder / "runs").iterdir(), key=lambda folder: folder.stat().st_mtime_ns)

    def run(
        self,
        argv: list[str],
        extra_env: Mapping[str, str] | None = None,
        started: Callable[[int], None] | None = None,
    ) -> Finished:
        """Any command in this folder and environment."""
        return run_command(
            argv, cwd=self.folder, env=self.environment | dict(extra_env or {}), started=started
        )

    def _install_claude(self, bin_dir: Path) -> None:
        bin_dir.mkdir()
        start = (
            f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
            "from bench.scheduled_claude import main; sys.exit(main())"
        )
        command = shlex.join([sys.executable, "-I", "-S", "-c", start, str(self._cli_truth)])
        program = bin_dir / "claude"
        program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        program.chmod(0o755)
