"""How one call is put to Claude Code: its arguments, its environment, and what cannot be put at all.

Owns: every flag and variable we set, and which of the user's own variables are withheld. Refuses: running anything.

Of the user's environment the CLI gets everything (proxies, certificates, its own login) except: whatever is named as
keys are, unless it is Anthropic's or of the cloud that the CLI is told to use; marks of a Claude Code session we may be
running inside; and variables that would overrule the target, as `CLAUDE_CODE_EFFORT_LEVEL` overrules `--effort`. Where
a configuration file sends the CLI to an address that is not Anthropic's, it gets none of Anthropic's keys either.
"""

from __future__ import annotations

from collections.abc import Mapping

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Call, ProviderSettings, is_vendor
from clawgauge.providers.claude_program import ClaudeProgram
from clawgauge.python_child import may_be_key

DEFAULT_SYSTEM_PROMPT = "You are a helpful assistant."
KEY_VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
BASE_URL_VARIABLE = "ANTHROPIC_BASE_URL"
_HEADERS_VARIABLE = "ANTHROPIC_CUSTOM_HEADERS"

FORCED_ENVIRONMENT = {
    # One attempt is one request: retries and the silent second, unstreamed try are the runner's business.
    "CLAUDE_CODE_MAX_RETRIES": "0",
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
}
_OWN_PREFIXES = ("ANTHROPIC_", "CLAUDE_")
_CLOUD_PREFIXES = {
    "CLAUDE_CODE_USE_BEDROCK": ("AWS_",),
    "CLAUDE_CODE_USE_VERTEX": ("GOOGLE_", "GCLOUD_", "CLOUDSDK_", "VERTEX_"),
    "CLAUDE_CODE_USE_FOUNDRY": ("AZURE_",),
}
# Takes the place of a key at an address of the user's own that wants none: without one the CLI would send its login.
NO_KEY = "none"
_SESSION_MARKS = frozenset({"CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT"})
_OVERRULING = frozenset(
    {"CLAUDE_CODE_EFFORT_LEVEL", "CLAUDE_CODE_MAX_OUTPUT_TOKENS", "MAX_THINKING_TOKENS"}
    | {"ENABLE_TOOL_SEARCH", "MCP_CONNECTION_NONBLOCKING"}
)

_SWITCHES: tuple[tuple[str, ...], ...] = (
    ("--include-partial-messages",),
    ("--tools", ""),
    ("--setting-sources", ""),
    ("--strict-mcp-config",),
    ("--no-session-persistence",),
    ("--disable-slash-commands",),
)
# For a CLI without `--tools`, whose `--disallowedTools` knows no wildcard.
_BUILT_IN_TOOLS = (
    "Bash,BashOutput,Edit,ExitPlanMode,Glob,Grep,KillBash,KillShell,LS,MultiEdit,NotebookEdit,NotebookRead,Read,Skill,"
    "SlashCommand,Task,TodoRead,TodoWrite,WebFetch,WebSearch,Write,exit_plan_mode"
)


def refuse_unsendable(call: Call) -> None:
    """Raise for text that no process can be given: a NUL, or half a surrogate pair."""
    for what, text in (("prompt", call.prompt), ("system prompt", call.system or ""), ("model name", call.model)):
        if "\0" in text:
            raise CallFailure("error", "invalid_prompt", f"the {what} contains a NUL character, which cannot be sent")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as fault:
            message = f"the {what} is not valid Unicode at character {fault.start}, and cannot be sent"
            raise CallFailure("error", "invalid_prompt", message) from fault


def call_arguments(program: ClaudeProgram, call: Call, *, bare: bool) -> tuple[str, ...]:
    """The command line without the prompt, which goes through stdin. Flags the program does not know are left out."""
    # `--system-prompt` is never left out: older CLIs take it without listing it.
    arguments = ["-p", "--model", call.model, "--output-format", "stream-json", "--verbose"]
    arguments += ["--system-prompt", call.system if call.system is not None else DEFAULT_SYSTEM_PROMPT]
    for switch in _switches(bare):
        if program.knows(switch[0]):
            arguments += switch
    if not program.knows("--tools") and program.knows("--disallowedTools"):
        arguments += ["--disallowedTools", _BUILT_IN_TOOLS]
    if call.thinking_level is not None and program.knows("--effort"):
        arguments += ["--effort", call.thinking_level]
    return tuple(arguments)


def dropped_flags(program: ClaudeProgram, *, bare: bool) -> list[str]:
    """The flags we would use that this program does not know."""
    wanted = [switch[0] for switch in _switches(bare)] + ["--effort"]
    return [flag for flag in wanted if not program.knows(flag)]


def base_environment(settings: ProviderSettings) -> dict[str, str]:
    """The child's environment but for what a single call sets."""
    environ = settings.environ
    ours = _OWN_PREFIXES + tuple(
        prefix for switch, own in _CLOUD_PREFIXES.items() if environ.get(switch) for prefix in own
    )
    env = {name: value for name, value in environ.items() if not _is_withheld(name, ours)}
    if settings.base_url and not is_vendor("anthropic", settings.base_url):
        env = {name: value for name, value in env.items() if not may_be_key(name) and name != _HEADERS_VARIABLE}
        env["ANTHROPIC_API_KEY"] = NO_KEY
    if settings.api_key:
        env["ANTHROPIC_API_KEY"] = settings.api_key
    if settings.base_url:
        env[BASE_URL_VARIABLE] = settings.base_url
    return env | FORCED_ENVIRONMENT


def call_environment(base: Mapping[str, str], call: Call) -> dict[str, str]:
    """`base` with the call's own limits.

    Thinking is off unless a level is asked. The CLI would otherwise think with nearly all of the token limit, and below
    1025 tokens it sends a thinking budget that is not under the limit, which the API refuses.
    """
    env = dict(base)
    if call.max_tokens is not None:
        env["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(call.max_tokens)
    if call.thinking_level is None:
        env["MAX_THINKING_TOKENS"] = "0"
    return env


def uses_key(env: Mapping[str, str]) -> bool:
    """Whether a key is used rather than a login: `--bare` starts cleaner, but cannot read a login."""
    return any(env.get(name) for name in KEY_VARIABLES)


def _switches(bare: bool) -> tuple[tuple[str, ...], ...]:
    return (*_SWITCHES, ("--bare",)) if bare else _SWITCHES


def _is_withheld(name: str, ours: tuple[str, ...]) -> bool:
    others_key = may_be_key(name) and not name.startswith(ours)
    return others_key or name in _SESSION_MARKS or name in _OVERRULING
