"""goose, of the Agentic AI Foundation. It speaks chat completions, with Ollama too."""

from __future__ import annotations

import shlex

from clawgauge.providers.agents.provider import AgentProvider, Launch, Setup
from clawgauge.registry import Wire
from clawgauge.world.mcp import SERVER_NAME

# One more than we pass on: the recorder ends it, so that it never sums up by itself.
_TURNS_BEYOND = 1


class Goose(AgentProvider):
    """`goose run` without a profile, its extensions and its session."""

    title = "goose"
    install_hint = "install it with `npm install -g @aaif/goose`, or set `command` to its path"
    tested_versions = frozenset({"1.34.0"})
    own_tools = frozenset(
        {
            "developer__shell",
            "developer__text_editor",
            "developer__write",
            "platform__manage_extensions",
            "shell",
            "text_editor",
            "todo__todo_write",
        }
    )
    settings_files = frozenset({SERVER_NAME})
    tells_host_facts = "the folder and the time"

    def wire_name(self, served_name: str) -> str:
        # It puts the file name of the extension's command before each name.
        return f"{SERVER_NAME}__{served_name}"

    def sends_max_tokens(self, wire: Wire, *, asks_ollama: bool) -> bool:
        # For Ollama it stands in `options`, which Ollama's /v1 does not read.
        return not asks_ollama

    def launch(self, setup: Setup) -> Launch:
        arguments = ["run", "-i", "-", "--no-session", "--no-profile", "--quiet"]
        arguments += ["--output-format", "stream-json"]
        arguments += ["--max-turns", str(setup.max_turns + _TURNS_BEYOND)]
        if setup.tool_command is not None:
            program = setup.tools / SERVER_NAME
            program.write_text(f"#!/bin/sh\nexec {shlex.join(setup.tool_command)}\n")
            program.chmod(0o700)
            arguments += ["--with-extension", shlex.quote(str(program))]
        if setup.system:
            arguments += ["--system", setup.system]
        environment = {
            **self.base_environment(setup.home),
            "GOOSE_MODEL": setup.model,
            "GOOSE_MODE": "auto",
            "GOOSE_DISABLE_KEYRING": "1",
            "GOOSE_PATH_ROOT": str(setup.home / "goose"),
            "GOOSE_TELEMETRY_ENABLED": "false",
            "GOOSE_TELEMETRY_OFF": "1",
            "GOOSE_DISABLE_SESSION_NAMING": "true",
            "GOOSE_CONTEXT_LIMIT": str(setup.context_tokens),
        }
        if setup.max_tokens is not None:
            environment["GOOSE_MAX_TOKENS"] = str(setup.max_tokens)
        if setup.asks_ollama:
            environment["GOOSE_PROVIDER"] = "ollama"
            environment["OLLAMA_HOST"] = setup.address
        else:
            environment["GOOSE_PROVIDER"] = "openai"
            environment["OPENAI_HOST"] = setup.address
            environment["OPENAI_BASE_PATH"] = "chat/completions"
            environment["OPENAI_API_KEY"] = "none"
        return Launch(arguments=tuple(arguments), environment=environment)
