"""OpenAI's Codex CLI. It speaks the Responses API alone."""

from __future__ import annotations

import json
from typing import Any

from clawgauge.providers.agents.provider import AgentProvider, Launch, Setup
from clawgauge.world.mcp import SERVER_NAME

_PROVIDER = "clawgauge_model"
_KEY_VARIABLE = "CLAWGAUGE_NO_KEY"
_IDLE_TIMEOUT_MS = 3_600_000
_ARGUMENTS = (
    "exec",
    "--json",
    "--ephemeral",
    "--skip-git-repo-check",
    "-s",
    "read-only",
    "--color",
    "never",
    "-",
)
# Whatever it would do beside asking the model with our tools. A switch that a version does not know
# costs a line in its output.
_FEATURES_OFF = (
    "shell_tool",
    "unified_exec",
    "apps",
    "plugins",
    "remote_plugin",
    "plugin_sharing",
    "goals",
    "view_image",
    "image_generation",
    "browser_use",
    "browser_use_external",
    "in_app_browser",
    "computer_use",
    "skill_search",
    "skill_mcp_dependency_install",
    "tool_suggest",
    "sleep_tool",
    "hooks",
    "memories",
    "shell_snapshot",
    "enable_request_compression",
    "code_mode_host",
    "daemon_auto_start",
    "workspace_dependencies",
    "api_key_model_discovery",
    "auth_elicitation",
    "tool_call_mcp_elicitation",
    "guardian_approval",
    "unbounded_connection_retries",
)


class Codex(AgentProvider):
    """`codex exec` with everything of its own switched off."""

    title = "codex"
    install_hint = "install it with `npm install -g @openai/codex`, or set `command` to its path"
    tested_versions = frozenset({"0.169.0"})
    harmless_tools = frozenset(
        {"list_mcp_resources", "list_mcp_resource_templates", "read_mcp_resource"}
    )
    own_tools = frozenset(
        {
            "apply_patch",
            "create_goal",
            "exec_command",
            "get_goal",
            "local_shell",
            "request_user_input",
            "shell",
            "shell_command",
            "update_goal",
            "update_plan",
            "view_image",
            "web_search",
            "write_stdin",
        }
    )
    levels = {
        "off": "none",
        "minimal": "minimal",
        "low": "low",
        "medium": "medium",
        "high": "high",
        "xhigh": "xhigh",
    }
    settings_files = frozenset({"config.toml", "system.md"})
    tells_host_facts = "nothing of this machine"

    def wire_name(self, served_name: str) -> str:
        return f"mcp__{SERVER_NAME}.{served_name}"

    def launch(self, setup: Setup) -> Launch:
        system_file = setup.home / "system.md"
        system_file.write_text(setup.system or "You are a helpful assistant.", encoding="utf-8")
        folder = setup.home / ".codex"
        folder.mkdir()
        settings: dict[str, Any] = {
            "model": setup.model,
            "model_provider": _PROVIDER,
            "model_context_window": setup.context_tokens,
            "model_instructions_file": str(system_file),
            "web_search": "disabled",
            "include_permissions_instructions": False,
            "include_apps_instructions": False,
            "include_environment_context": False,
            "project_doc_max_bytes": 0,
            "check_for_update_on_startup": False,
        }
        if setup.level is not None:
            settings["model_reasoning_effort"] = self.levels[setup.level]
        tables: dict[str, dict[str, Any]] = {
            "analytics": {"enabled": False},
            "feedback": {"enabled": False},
            "agents": {"enabled": False},
            "history": {"persistence": "none"},
            "features": dict.fromkeys(_FEATURES_OFF, False),
            "skills": {"include_instructions": False},
            "skills.bundled": {"enabled": False},
            "tools.experimental_request_user_input": {"enabled": False},
            f"model_providers.{_PROVIDER}": {
                "name": _PROVIDER,
                "base_url": setup.address,
                "wire_api": "responses",
                "env_key": _KEY_VARIABLE,
                "request_max_retries": 0,
                "stream_max_retries": 0,
                "stream_idle_timeout_ms": _IDLE_TIMEOUT_MS,
            },
        }
        if setup.tool_command is not None:
            command, *arguments = setup.tool_command
            tables[f"mcp_servers.{SERVER_NAME}"] = {
                "command": command,
                "args": arguments,
                "required": True,
                "default_tools_approval_mode": "approve",
            }
        (folder / "config.toml").write_text(_write_toml(settings, tables), encoding="utf-8")
        environment = {
            **self.base_environment(setup.home),
            "CODEX_HOME": str(folder),
            _KEY_VARIABLE: "none",
        }
        return Launch(arguments=_ARGUMENTS, environment=environment)


def _write_toml(settings: dict[str, Any], tables: dict[str, dict[str, Any]]) -> str:
    """Settings of plain values and lists of texts as TOML, whose texts are written as in JSON."""
    lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
    for title, members in tables.items():
        lines.append(f"[{title}]")
        lines += [f"{name} = {json.dumps(value)}" for name, value in members.items()]
    return "\n".join(lines) + "\n"
