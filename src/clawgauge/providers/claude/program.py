"""The installed Claude Code: where it is, what it takes, its command line and its environment."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from clawgauge.child_processes.child import Captured, ChildCommand, capture
from clawgauge.client_limits import client_limit
from clawgauge.environment import with_proxies
from clawgauge.errors import CallFailure
from clawgauge.providers.base import Call, ProviderSettings, Sampling
from clawgauge.registry import ANTHROPIC, CLAUDE_CODE_CLI

QUESTION_TIMEOUT_S = 10.0
INSTALL_HINT = (
    "install it with `npm install -g @anthropic-ai/claude-code`, or set `command` to its path"
)
# What a shell and `env` say of a program they cannot start: a launcher whose interpreter is
# missing, for one.
_CANNOT_RUN_CODES = (126, 127)
_OPTION_ROW = re.compile(r"^ {1,6}(?:-\w, )?(--[\w-]+)(?:, (--[\w-]+))?", re.MULTILINE)
_VERSION = re.compile(r"\d+\.\d+\.\d+\S*")

DEFAULT_SYSTEM_PROMPT = "You are a helpful assistant."
KEY_VARIABLES = (ANTHROPIC.key_variable, "ANTHROPIC_AUTH_TOKEN")
BASE_URL_VARIABLE = ANTHROPIC.address_variable
_HEADERS_VARIABLE = "ANTHROPIC_CUSTOM_HEADERS"
# Takes the place of a key at an address of the user's own that wants none: without one the CLI
# would send its login.
NO_KEY = "none"
# One attempt is one request: retries and the silent second, unstreamed try are the runner's
# business.
FORCED_ENVIRONMENT = {
    "CLAUDE_CODE_MAX_RETRIES": "0",
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
}
# The variables that each cloud's switch lets through.
CLOUD_PREFIXES = {
    "CLAUDE_CODE_USE_BEDROCK": ("AWS_",),
    "CLAUDE_CODE_USE_VERTEX": ("GOOGLE_", "GCLOUD_", "CLOUDSDK_", "VERTEX_"),
    "CLAUDE_CODE_USE_FOUNDRY": ("AZURE_",),
}
_WITHHELD = frozenset(
    {
        # The marks of an outer session.
        "CLAUDECODE",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_SSE_PORT",
        # What would overrule a call.
        "CLAUDE_CODE_EFFORT_LEVEL",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
        "MAX_THINKING_TOKENS",
        "ENABLE_TOOL_SEARCH",
        "MCP_CONNECTION_NONBLOCKING",
    }
)
# Flags of every call, each with its value where it has one.
SWITCHES: tuple[tuple[str, ...], ...] = (
    ("--include-partial-messages",),
    ("--tools", ""),
    ("--setting-sources", ""),
    ("--strict-mcp-config",),
    ("--no-session-persistence",),
    ("--disable-slash-commands",),
)
# For a CLI without `--tools`, whose `--disallowedTools` knows no wildcard.
_BUILT_IN_TOOLS = (
    "Bash,BashOutput,Edit,ExitPlanMode,Glob,Grep,KillBash,KillShell,LS,MultiEdit,NotebookEdit,"
    "NotebookRead,Read,Skill,SlashCommand,Task,TodoRead,TodoWrite,WebFetch,WebSearch,Write,"
    "exit_plan_mode"
)


@dataclass(frozen=True, slots=True)
class ClaudeProgram:
    """What is installed."""

    path: Path
    version: str | None = None
    flags: frozenset[str] | None = None
    """None where its help could not be read: it is then taken for a current one."""

    def knows(self, flag: str) -> bool:
        return self.flags is None or flag in self.flags

    def __str__(self) -> str:
        return f"Claude Code {self.version or 'of unknown version'}"


def find_program(environ: Mapping[str, str], command: str | None = None) -> Path:
    """The program on the user's PATH, or at `command`.

    Raises `CallFailure` when it is missing or cannot be run.
    """
    search_path = environ.get("PATH", os.defpath)
    name = command or str(CLAUDE_CODE_CLI.program)
    is_path = os.sep in name
    if is_path:
        name = os.fspath(Path(name).expanduser())
    program = shutil.which(name, path=search_path)
    if program:
        return Path(program).absolute()
    file = shutil.which(name, os.F_OK, path=search_path)
    if file:
        raise not_executable(Path(file), "it has no execute permission")
    where = f"at {name}" if is_path else "on PATH"
    message = f"Claude Code is not {where}: {INSTALL_HINT}"
    raise CallFailure("skipped_unavailable", "cli_missing", message)


async def ask_program(path: Path, env: Mapping[str, str], cwd: Path) -> ClaudeProgram:
    """Ask for version and flags.

    A program that does not answer is taken as it is. Raises `CallFailure` for one that cannot
    start.
    """
    version_text = ""
    help_text = ""
    try:
        answer = await _ask(path, "--version", env, cwd)
        if answer.exit_code in _CANNOT_RUN_CODES:
            reason = answer.stderr.strip() or f"exit code {answer.exit_code}"
            raise not_executable(path, reason)
        version_text = answer.stdout
        help_text = (await _ask(path, "--help", env, cwd)).stdout
    except TimeoutError:
        pass
    except OSError as fault:
        reason = fault.strerror or str(fault)
        raise client_limit(fault) or not_executable(path, reason) from fault
    version = _VERSION.search(version_text)
    flags: set[str] = set()
    for row in _OPTION_ROW.findall(help_text):
        flags.update(flag for flag in row if flag)
    return ClaudeProgram(
        path=path,
        version=version[0] if version else None,
        flags=frozenset(flags) if "--print" in flags else None,
    )


async def _ask(path: Path, question: str, env: Mapping[str, str], cwd: Path) -> Captured:
    command = ChildCommand((str(path), question), env, cwd)
    return await capture(command, timeout_s=QUESTION_TIMEOUT_S)


def not_executable(path: Path, reason: str) -> CallFailure:
    message = f"{path} cannot be run ({reason}): repair it, or set `command` to another Claude Code"
    return CallFailure("skipped_unavailable", "cli_not_executable", message)


def call_arguments(program: ClaudeProgram, call: Call, *, bare: bool) -> tuple[str, ...]:
    """The command line without the prompt, which goes through stdin.

    Flags that the program does not know are left out.
    """
    # `--system-prompt` is never left out: older CLIs take it without listing it.
    system_prompt = DEFAULT_SYSTEM_PROMPT if call.system is None else call.system
    arguments = ["-p", "--model", call.model, "--output-format", "stream-json", "--verbose"]
    arguments += ["--system-prompt", system_prompt]
    for switch in SWITCHES:
        if program.knows(switch[0]):
            arguments += switch
    if bare and program.knows("--bare"):
        arguments.append("--bare")
    if not program.knows("--tools") and program.knows("--disallowedTools"):
        arguments += ["--disallowedTools", _BUILT_IN_TOOLS]
    arguments += level_arguments(program, call)
    return tuple(arguments)


def level_arguments(program: ClaudeProgram | None, call: Call) -> tuple[str, ...]:
    """How the program is told the thinking level; a program that was not asked yet knows all."""
    if call.thinking_level is None or (program is not None and not program.knows("--effort")):
        return ()
    return ("--effort", call.thinking_level)


def base_environment(settings: ProviderSettings) -> dict[str, str]:
    """The environment of every run of the CLI: of the user's own, what it needs and no more.

    At an address that is not Anthropic's it gets neither Anthropic's keys nor the user's login.
    """
    environ = {}
    for name, value in settings.environ.items():
        if name not in _WITHHELD:
            environ[name] = value
    allowed_prefixes = ["ANTHROPIC_", "CLAUDE_"]
    for switch, prefixes in CLOUD_PREFIXES.items():
        if settings.environ.get(switch):
            allowed_prefixes.extend(prefixes)
    env = with_proxies(environ, allowed_prefixes=tuple(allowed_prefixes))
    if settings.base_url and not ANTHROPIC.is_address(settings.base_url):
        env = with_proxies(env, allowed_prefixes=())
        env.pop(_HEADERS_VARIABLE, None)
        env[ANTHROPIC.key_variable] = NO_KEY
    if settings.api_key:
        env[ANTHROPIC.key_variable] = settings.api_key
    if settings.base_url:
        env[BASE_URL_VARIABLE] = settings.base_url
    return env | FORCED_ENVIRONMENT


def call_environment(base: Mapping[str, str], call: Call, sampling: Sampling) -> dict[str, str]:
    """`base` with the call's own limits. Thinking is off unless a level is asked for.

    The CLI would otherwise think with nearly all of the token limit, and below 1025 tokens it sends
    a thinking budget that is not under the limit, which the API refuses.
    """
    env = dict(base)
    if sampling.max_tokens is not None:
        env["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(sampling.max_tokens)
    if call.thinking_level is None:
        env["MAX_THINKING_TOKENS"] = "0"
    return env
