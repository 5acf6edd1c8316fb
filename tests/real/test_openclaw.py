"""What `route` writes, read by the real OpenClaw; and the prompt that the real OpenClaw sends, captured."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clawgauge.records import Target
from clawgauge.suites.context import load_context
from support.command import clawgauge
from support.measured_models import CLAUDE, EMBEDDED, OLLAMA, OPENAI, Measured, MeasuredRun

ROOT = Path(__file__).parents[2]
OPENCLAW = ROOT / ".cache/openclaw/node_modules/.bin/openclaw"
NODE = ROOT / ".cache/openclaw/node/node_modules/.bin"
EARLIER = ROOT / ".cache/openclaw/2026.7.1/node_modules/.bin/openclaw"
# What OpenClaw is asked for, and how much of a prompt it gives at least.
CAPTURED = [
    pytest.param("2026.9.6", OPENCLAW, [], 20_000, 10, id="as it is"),
    pytest.param("2026.9.6", OPENCLAW, ["--all-tools"], 15_000, 30, id="every tool"),
    pytest.param("2026.7.1", EARLIER, [], 10_000, 20, id="an earlier release"),
]

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not OPENCLAW.exists(), reason="the real OpenClaw is not installed: scripts/get-openclaw"
    ),
]

LLAMA = Measured(Target("ollama_openai", "llama3.2:3b"), OLLAMA, text_passes=7, tool_passes=12)
QWEN = Measured(Target("ollama_openai", "qwen3:8b"), OLLAMA)
TINY = Measured(Target("ollama_openai", "tiny"), OLLAMA, text_passes=0, tool_passes=1)
CODEX = Measured(Target("openai_responses", "gpt-5-codex", "high"), OPENAI)
OPUS = Measured(
    Target("claude_code_cli", "opus"), CLAUDE, model_reported="claude-opus-5", cost_usd=0.01
)
GATEWAY = {
    "type": "openai_chat",
    "base_url": "https://gateway.example.com/v1",
    "api_key_env": "MY_KEY",
}
LOWER_KEY = {
    "type": "openai_chat",
    "base_url": "https://gateway.example.com/v1",
    "api_key_env": "my_key",
}

SHAPES: dict[str, MeasuredRun] = {
    "one local model": MeasuredRun([QWEN]),
    "one model of each tier": MeasuredRun([QWEN, LLAMA, TINY], for_subagents=True),
    "local and cloud": MeasuredRun([LLAMA, CODEX, OPUS], for_subagents=True),
    "nobody passes": MeasuredRun([TINY]),
    "nobody is decided": MeasuredRun([replace(QWEN, tool_passes=5)], n_tool=5),
    "no tool prompts at all": MeasuredRun([QWEN, CODEX], n_tool=0),
    "only the embedded model": MeasuredRun(
        [Measured(Target("embedded", "smollm2-135m"), EMBEDDED)]
    ),
    "every thinking level": MeasuredRun(
        [
            replace(CODEX, target=Target("openai_responses", "gpt-5", level))
            for level in ("low", "medium", "high", "xhigh")
        ]
    ),
    "a gateway with a key": MeasuredRun(
        [replace(QWEN, target=Target("gateway", "m"), settings=GATEWAY)]
    ),
    "a key variable in small letters": MeasuredRun(
        [replace(QWEN, target=Target("gw", "m"), settings=LOWER_KEY)]
    ),
    "names with slashes, spaces, quotes and other scripts": MeasuredRun(
        [
            replace(
                QWEN,
                target=Target("my provider/é", 'hf.co/bartowski/Qwen2.5:Q4_K_M "x" 模型'),
                settings=GATEWAY,
            ),
            replace(
                TINY, target=Target("..", "a.b[0].c"), settings={**GATEWAY, "api_key_env": None}
            ),
            replace(LLAMA, target=Target("OPENAI", "__proto__"), settings=GATEWAY),
        ]
    ),
    "twelve models": MeasuredRun(
        [replace(QWEN, target=Target("ollama_openai", f"m{n}:7b")) for n in range(12)],
        for_subagents=True,
    ),
    "often down": MeasuredRun([replace(QWEN, failed_calls=25), LLAMA]),
}
EXISTING: dict[str, Any] = {
    "models": {
        "mode": "merge",
        "providers": {
            "ollama": {
                "baseUrl": "http://127.0.0.1:11434/v1",
                "apiKey": "ollama-local",
                "api": "openai-completions",
                "models": [
                    {"id": "qwen3:8b", "name": "Mine", "contextWindow": 32768},
                    {"id": "other", "name": "Other"},
                ],
            }
        },
    },
    "agents": {
        "defaults": {
            "model": "openai/gpt-5.2",
            "subagents": {"model": "openai/gpt-5.2", "maxConcurrent": 2},
        }
    },
    "tools": {"profile": "coding", "byProvider": {"ollama": {"profile": "minimal"}}},
}


def _openclaw(
    home: Path, config: Path, *words: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    environment = {
        **variables,
        "PATH": f"{NODE}:{os.environ['PATH']}",
        "HOME": str(home),
        "OPENCLAW_STATE_DIR": str(home / "state"),
        "OPENCLAW_CONFIG_PATH": str(config),
    }
    return subprocess.run(
        [OPENCLAW, *words], env=environment, cwd=home, capture_output=True, text=True, timeout=120
    )


def _check(home: Path, config: Path) -> None:
    done = _openclaw(home, config, "config", "validate", "--json")
    verdict = json.loads(done.stdout)
    assert verdict["valid"], verdict
    assert done.returncode == 0


@pytest.mark.parametrize("shape", SHAPES)
def test_openclaw_accepts_what_we_write(tmp_path: Path, shape: str) -> None:
    """The patch alone, and a configuration with it written in, pass OpenClaw's own validation."""
    SHAPES[shape].write(tmp_path / "runs")
    patched = clawgauge(tmp_path, "route", "measured", "-o", "patch.json")
    assert patched.code == 0, patched.stderr
    _check(tmp_path, tmp_path / "patch.json")

    config = tmp_path / "openclaw.json"
    config.write_text(json.dumps(EXISTING))
    written = clawgauge(tmp_path, "route", "measured", "--config", "openclaw.json", "--write")
    assert written.code == 0, written.stderr
    _check(tmp_path, config)


def test_openclaw_itself_can_apply_the_patch(tmp_path: Path) -> None:
    """`openclaw config patch` takes the printed patch as it is; it looks up every model it is told of, too."""
    known = replace(CODEX, target=Target("openai_responses", "gpt-5.5", "high"))
    MeasuredRun([LLAMA, known, OPUS]).write(tmp_path / "runs")
    clawgauge(tmp_path, "route", "measured", "-o", "patch.json")
    config = tmp_path / "openclaw.json"
    config.write_text(json.dumps({"agents": {"defaults": {"workspace": str(tmp_path)}}}))
    done = _openclaw(
        tmp_path,
        config,
        "config",
        "patch",
        "--file",
        str(tmp_path / "patch.json"),
        "--dry-run",
        "--json",
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "name",
    ["${OPENAI_API_KEY}", "$${OPENAI_API_KEY}", "a${OPENAI_API_KEY}${HOME}", "${lower}", "$X"],
)
@pytest.mark.parametrize("existing", [None, EXISTING], ids=["the patch", "written into a file"])
def test_openclaw_reads_a_name_and_not_a_variable(
    tmp_path: Path, name: str, existing: dict[str, Any] | None
) -> None:
    """A model that is called like a reference to a variable is shown by OpenClaw under that very name."""
    strange = replace(QWEN, target=Target("gateway", name), settings=GATEWAY)
    MeasuredRun([strange]).write(tmp_path / "runs")
    config = tmp_path / "openclaw.json"
    if existing is None:
        assert clawgauge(tmp_path, "route", "measured", "-o", "openclaw.json").code == 0
    else:
        config.write_text(json.dumps(existing))
        assert (
            clawgauge(tmp_path, "route", "measured", "--config", "openclaw.json", "--write").code
            == 0
        )
    known = {"OPENAI_API_KEY": "canary-of-a-key", "X": "canary-of-a-key"}
    for path, shown in {
        "agents.defaults.model.primary": f"gateway/{name}",
        "models.providers.gateway.models[0].id": name,
    }.items():
        done = _openclaw(tmp_path, config, "config", "get", path, "--json", **known)
        assert done.returncode == 0, done.stdout + done.stderr
        assert json.loads(done.stdout) == shown
        assert "canary" not in done.stdout + done.stderr


def test_openclaw_refuses_what_is_wrong(tmp_path: Path) -> None:
    """The check can fail: a key OpenClaw does not know is refused."""
    config = tmp_path / "openclaw.json"
    config.write_text('{"agents": {"defaults": {"model": {"primry": "x"}}}}')
    assert _openclaw(tmp_path, config, "config", "validate", "--json").returncode == 1


def _hashes(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize(("release", "program", "words", "least_chars", "least_tools"), CAPTURED)
def test_the_prompt_of_the_real_openclaw_is_captured_whole(
    tmp_path: Path,
    release: str,
    program: Path,
    words: list[str],
    least_chars: int,
    least_tools: int,
) -> None:
    """System prompt and tools as a model gets them; the user's configuration, state and workspace are as they were."""
    if not program.exists():
        pytest.skip(f"OpenClaw {release} is not installed")
    home = tmp_path / "home"
    state, workspace = home / ".openclaw", home / "clawd"
    for folder in (state / "agents" / "main" / "sessions", workspace / "skills" / "tea"):
        folder.mkdir(parents=True)
    (state / "agents" / "main" / "sessions" / "sessions.json").write_text("{}")
    (state / "more.json5").write_text(
        "{ agents: { defaults: { workspace: '" + str(workspace) + "' } } }"
    )
    config = {
        **EXISTING,
        "$include": "./more.json5",
        "channels": {
            "telegram": {
                "enabled": True,
                "botToken": "123456789:AAF3abcdefghijklmnopqrstuvwxyz01234",
            }
        },
        "gateway": {"mode": "local", "auth": {"mode": "token", "token": "${NOT_SET}"}},
    }
    (state / "openclaw.json").write_text(json.dumps(config))
    (workspace / "AGENTS.md").write_text("# AGENTS.md\n\nAlways speak of teapots.\n")
    skill = "---\nname: tea\ndescription: How Ana takes her tea.\n---\n\nWith milk.\n"
    (workspace / "skills" / "tea" / "SKILL.md").write_text(skill)
    before = _hashes(home)
    environment = {"PATH": f"{program.parent}:{NODE}:{os.environ['PATH']}", "HOME": str(home)}
    done = clawgauge(tmp_path, "capture", "openclaw", "--timeout", "500", *words, env=environment)
    assert done.code == 0, done.stderr
    assert _hashes(home) == before
    context = load_context(tmp_path / "openclaw-context.json")
    system = context.system or ""
    assert (
        f"OpenClaw {release}: " in done.stderr
        and len(system) > least_chars
        and len(context.tools) >= least_tools
    )
    assert (
        "Always speak of teapots." in system
        and "How Ana takes her tea." in system
        and str(workspace) in system
    )
    assert {"exec", "read", "write", "edit"} <= {tool["function"]["name"] for tool in context.tools}
    assert all(tool["function"]["parameters"]["type"] == "object" for tool in context.tools)
    assert "clawgauge-capture" not in json.dumps([system, context.tools])
