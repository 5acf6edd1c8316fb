"""OpenClaw, one turn of its agent at a time (`openclaw agent exec`)."""

from __future__ import annotations

import json
from typing import Any

from clawgauge.providers.agents.provider import AgentProvider, Launch, Setup
from clawgauge.registry import Wire
from clawgauge.world.mcp import SERVER_NAME

_PROVIDERS = {
    Wire.OLLAMA: "ollama",
    Wire.CHAT: "model",
    Wire.RESPONSES: "model",
    Wire.MESSAGES: "model",
}
_APIS = {
    Wire.OLLAMA: "ollama",
    Wire.CHAT: "openai-completions",
    Wire.RESPONSES: "openai-responses",
    Wire.MESSAGES: "anthropic-messages",
}
# Longer than any deadline of ours, which ends the program.
_TIMEOUT_S = 86_400
_DEFAULT_MAX_TOKENS = 8_192


class OpenClaw(AgentProvider):
    """OpenClaw with our tools alone, and none of them behind its tool search."""

    title = "OpenClaw"
    install_hint = "install it with `npm install -g openclaw`, or set `command` to its path"
    tested_versions = frozenset({"2026.9.6"})
    own_tools = frozenset(
        {
            "apply_patch",
            "browser",
            "cron",
            "edit",
            "exec",
            "image",
            "ls",
            "message",
            "process",
            "read",
            "sessions_spawn",
            "sessions_yield",
            "tool_call",
            "tool_describe",
            "tool_search",
            "web_fetch",
            "web_search",
            "write",
        }
    )
    levels = {
        "off": "off",
        "minimal": "minimal",
        "low": "low",
        "medium": "medium",
        "high": "high",
        "xhigh": "xhigh",
        "max": "max",
    }
    settings_files = frozenset({"openclaw.json"})
    tells_host_facts = "the folder, the host's name, its system, the version of Node, and the time"

    def wire_name(self, served_name: str) -> str:
        return f"{SERVER_NAME}__{served_name}"

    def sends_max_tokens(self, wire: Wire, *, asks_ollama: bool) -> bool:
        return wire is not Wire.OLLAMA

    def launch(self, setup: Setup) -> Launch:
        if setup.system:
            # It is put behind OpenClaw's own prompt.
            (setup.work / "AGENTS.md").write_text(setup.system, encoding="utf-8")
        provider = _PROVIDERS[setup.wire]
        reference = f"{provider}/{setup.model}"
        config = self._config(setup, provider, reference)
        config_file = setup.home / "openclaw.json"
        config_file.write_text(json.dumps(config, indent=1), encoding="utf-8")
        arguments = ["agent", "exec", "--message-file", "-", "--config", str(config_file)]
        arguments += ["--cwd", str(setup.work), "--model", reference, "--code-mode", "direct"]
        arguments += ["--timeout", str(_TIMEOUT_S), "--json"]
        if setup.level is not None:
            arguments += ["--thinking", self.levels[setup.level]]
        environment = {
            **self.base_environment(setup.home),
            "OPENCLAW_STATE_DIR": str(setup.home / "state"),
            "OPENCLAW_NO_AUTO_UPDATE": "1",
            "OPENCLAW_NO_RESPAWN": "1",
            "DO_NOT_TRACK": "1",
        }
        return Launch(arguments=tuple(arguments), environment=environment)

    def _config(self, setup: Setup, provider: str, reference: str) -> dict[str, Any]:
        compat: dict[str, Any] = {}
        if setup.tool_command is None:
            compat["supportsTools"] = False
        if setup.level is not None and setup.wire is Wire.CHAT:
            compat["supportsReasoningEffort"] = True
            compat["supportedReasoningEfforts"] = ["none", "low", "medium", "high", "xhigh"]
        model: dict[str, Any] = {
            "id": setup.model,
            "name": setup.model,
            "contextWindow": setup.context_tokens,
            "maxTokens": setup.max_tokens or _DEFAULT_MAX_TOKENS,
            "reasoning": setup.level is not None,
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
            "input": ["text"],
        }
        if compat:
            model["compat"] = compat
        config: dict[str, Any] = {
            "models": {
                "mode": "replace",
                "providers": {
                    provider: {
                        "baseUrl": setup.address,
                        "api": _APIS[setup.wire],
                        "apiKey": "none",
                        "models": [model],
                    }
                },
            },
            "agents": {"defaults": {"model": {"primary": reference}, "skipBootstrap": True}},
            "update": {"checkOnStart": False},
        }
        if setup.tool_command is not None:
            command, *arguments = setup.tool_command
            server = {"command": command, "args": arguments}
            config["mcp"] = {"servers": {SERVER_NAME: server}}
            config["tools"] = {"allow": [f"{SERVER_NAME}__*"], "toolSearch": False}
        return config
