"""A run folder of models with known figures, written with the journal itself: for whatever reads runs and decides."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from clawgauge.journal.folder import RunFolder
from clawgauge.records import (
    Attempt,
    Inventory,
    Job,
    ModelInfo,
    Prompt,
    ProviderProbe,
    Result,
    RunConfig,
    RunOptions,
    SentSettings,
    SuiteInfo,
    Target,
    TimingsUs,
    ToolInvocation,
    plan_targets,
)

OLLAMA = {"type": "ollama_openai", "base_url": "http://localhost:11434/v1"}
OPENAI = {
    "type": "openai_responses",
    "base_url": "https://api.openai.com/v1",
    "api_key_env": "OPENAI_API_KEY",
}
CLAUDE = {"type": "claude_code_cli", "command": "claude"}
EMBEDDED = {"type": "embedded", "server": "llama.cpp (xllamacpp)"}
# Clean, as many show restraint and work done.
N_BESIDE = 9
_FREE = {"name": "free", "description": "memory", "parameters": {"type": "object"}}


@dataclass(frozen=True)
class Measured:
    """One model: of `n_text` plain and `n_tool` tool prompts it passed the first so many; some calls failed first.

    Of the tasks beside these it did all, or the first so many.
    """

    target: Target
    settings: dict[str, Any]
    text_passes: int = 10
    tool_passes: int = 20
    task_passes: int | None = None
    failed_calls: int = 0
    e2e_ms: int = 1_000
    cost_usd: float | None = None
    model_reported: str | None = None
    info: ModelInfo | None = None
    sent: SentSettings | None = None


@dataclass(frozen=True)
class MeasuredRun:
    """A run of several models over the same prompts.

    Its tool prompts read calls from the text. With `for_subagents` they offer the tool, and restraint and tasks, which
    every model passes, stand beside: all that a recommendation needs.
    """

    models: list[Measured]
    n_text: int = 10
    n_tool: int = 20
    for_subagents: bool = False
    run_id: str = "measured"
    options: RunOptions = field(default_factory=RunOptions)
    n_beside: int = N_BESIDE
    jobs: dict[str, Job] = field(default_factory=dict)
    rule: int = 1

    def write(self, runs_dir: Path) -> Path:
        """Write the folder; returns its path."""
        runs_dir.mkdir(parents=True, exist_ok=True)
        with RunFolder.create(runs_dir, self.run_id) as folder:
            folder.write("config.json", self._config())
            folder.write("inventory.json", self._inventory())
            # At one stroke: a sync for each of thousands of lines would be most of the tests' time.
            with (folder.path / "results.jsonl").open("ab") as file:
                for model in self.models:
                    for place, prompt in enumerate(self._prompts()):
                        file.write(msgspec.json.encode(self._result(model, prompt, place)) + b"\n")
        return folder.path

    def _prompts(self) -> list[Prompt]:
        text = [
            Prompt(
                id=f"P{n}",
                name=f"text_{n}",
                prompt="say yes",
                validator={"type": "exact", "value": "yes"},
                suite="s",
            )
            for n in range(self.n_text)
        ]
        tool_check = {"type": "tool_invocation", "expected_tools": ["free"]}
        tools = [
            Prompt(
                id=f"T{n}", name=f"tool_{n}", prompt="memory?", validator=tool_check, suite="s",
                expected_tools=["free"], tools=[_FREE] if self.for_subagents else [],
            )
            for n in range(self.n_tool)
        ]  # fmt: skip
        return text + tools + (self._beside() if self.for_subagents else [])

    def _beside(self) -> list[Prompt]:
        kinds = {
            "restraint": {"type": "tool_call", "no_call": True},
            "task": {"type": "world_state", "expect": []},
        }
        return [
            Prompt(
                id=f"{kind}{n}",
                name=f"{kind}_{n}",
                prompt="hi",
                validator=validator,
                suite="s",
                tools=[_FREE],
            )
            for kind, validator in kinds.items()
            for n in range(self.n_beside)
        ]

    def _result(self, model: Measured, prompt: Prompt, place: int) -> Result:
        is_tool = bool(prompt.expected_tools)
        rank = place - self.n_text if is_tool else place
        is_beside = place >= self.n_text + self.n_tool
        passed = is_beside or rank < (model.tool_passes if is_tool else model.text_passes)
        n_first_task = self.n_text + self.n_tool + self.n_beside
        if model.task_passes is not None and place >= n_first_task:
            passed = place - n_first_task < model.task_passes
        failed = place < model.failed_calls
        called = is_tool and passed and not failed
        start = 1_760_000_000_000 + place * 2_000
        return Result(
            run_id=self.run_id,
            provider=model.target.provider,
            model=model.target.model,
            thinking_level=model.target.thinking_level,
            prompt_id=prompt.id,
            prompt_name=prompt.name,
            availability_status="error" if failed else "ok",
            started_at_ms=start,
            ended_at_ms=start + model.e2e_ms,
            e2e_ms=model.e2e_ms,
            ttft_ms=None if failed else model.e2e_ms // 4,
            success=not failed,
            failure_type="http_500" if failed else None,
            objective_pass=None if failed else passed,
            violation=None if failed or passed else "not_equal: no",
            input_tokens=None if failed else 1_000,
            output_tokens=None if failed else 100,
            raw_output="" if failed else "`free -h`" if is_tool and passed else "yes",
            parsed_output=None,
            tool_calls=["free"] if called else [],
            tool_call_count=int(called),
            tool_use_success=called,
            tool_invocations=[ToolInvocation(name="free", channel="native")]
            if called and prompt.tools
            else [],
            tools_offered=bool(prompt.tools),
            suite=prompt.suite,
            repeat=0,
            expected_tools=prompt.expected_tools,
            timings_us=TimingsUs(e2e=model.e2e_ms * 1000),
            total_ms=model.e2e_ms,
            attempts=[
                Attempt(
                    status="error" if failed else "ok",
                    failure_type="http_500" if failed else None,
                    e2e_ms=1,
                )
            ],
            model_reported=model.model_reported,
            cost_usd=None if failed else model.cost_usd,
        )

    def _config(self) -> RunConfig:
        prompts = self._prompts()
        return RunConfig(
            schema_version=1,
            run_id=self.run_id,
            created_at_ms=1_760_000_000_000,
            clawgauge_version="0",
            models=[model.target.label for model in self.models],
            planned_targets=plan_targets(
                [model.target for model in self.models],
                {model.target: model.sent for model in self.models if model.sent is not None},
            ),
            options=self.options,
            suites=[
                SuiteInfo(
                    name="s",
                    version="1",
                    description="",
                    n_prompts=len(prompts),
                    sha256="0" * 64,
                    source="s.json",
                )
            ],
            prompts=prompts,
            prompts_sha256="0" * 64,
            providers={model.target.provider: model.settings for model in self.models},
            jobs=self.jobs,
            rule=self.rule,
        )

    def _inventory(self) -> Inventory:
        probes = [
            ProviderProbe(
                provider=model.target.provider,
                reachable=True,
                models=[model.info or ModelInfo(name=model.target.model)],
            )
            for model in self.models
        ]
        return Inventory(
            schema_version=1,
            collected_at_ms=1_760_000_000_000,
            python_version="3.11",
            packages={},
            host={},
            cpu={},
            memory={},
            gpus=[],
            ollama_list=None,
            cli_versions={},
            providers=probes,
        )
