"""What Claude Code is started with: the flags of one call, and of the user's environment what it may see."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Call, ProviderSettings, Sampling
from clawgauge.providers.claude.program import (
    DEFAULT_SYSTEM_PROMPT,
    ClaudeProgram,
    ask_program,
    base_environment,
    call_arguments,
    call_environment,
    find_program,
)
from clawgauge.providers.one_text import refuse_unsendable
from support.fake_claude import install_fake_claude
from support.rows import every_row
from unit.providers.claude_calls import environment, kind_of, write_program

CURRENT = ClaudeProgram(path=Path("/bin/claude"))
OLD = ClaudeProgram(
    path=Path("/bin/claude"),
    version="1.0.40",
    flags=frozenset({"--print", "--model", "--output-format", "--verbose", "--disallowedTools"}),
)


def call(**fields: Any) -> Call:
    return Call(**{"model": "m", "prompt": "hi", **fields})


def value_of(arguments: tuple[str, ...], flag: str) -> str:
    return arguments[arguments.index(flag) + 1]


def settings(environ: dict[str, str], **fields: Any) -> ProviderSettings:
    return ProviderSettings(
        name="claude_code_cli", type="claude_code_cli", environ=environ, **fields
    )


def test_a_call_has_no_tools_no_settings_and_no_session() -> None:
    """The model answers alone: nothing of the user's set-up takes part, and nothing can be run."""
    arguments = call_arguments(CURRENT, call(), bare=False)
    assert arguments[:6] == ("-p", "--model", "m", "--output-format", "stream-json", "--verbose")
    assert value_of(arguments, "--tools") == "" and value_of(arguments, "--setting-sources") == ""
    assert {"--strict-mcp-config", "--no-session-persistence", "--disable-slash-commands"} <= set(
        arguments
    )
    assert "hi" not in arguments and "--bare" not in arguments and "--effort" not in arguments


def test_the_system_prompt_is_the_suites_or_a_neutral_one() -> None:
    """An empty system prompt is a choice; only a missing one is replaced."""
    assert (
        value_of(call_arguments(CURRENT, call(system="Be terse."), bare=True), "--system-prompt")
        == "Be terse."
    )
    assert value_of(call_arguments(CURRENT, call(system=""), bare=True), "--system-prompt") == ""
    assert (
        value_of(call_arguments(CURRENT, call(), bare=True), "--system-prompt")
        == DEFAULT_SYSTEM_PROMPT
    )


def test_a_thinking_level_is_an_effort() -> None:
    """The level asked for is the level sent."""
    assert (
        value_of(call_arguments(CURRENT, call(thinking_level="xhigh"), bare=True), "--effort")
        == "xhigh"
    )


def test_an_older_program_gets_only_flags_it_knows_and_still_no_tools() -> None:
    """Unknown flags are left out; where `--tools` is one of them each tool is refused by name."""
    arguments = call_arguments(OLD, call(thinking_level="low"), bare=True)
    assert {word for word in arguments if word.startswith("--")} - {"--system-prompt"} <= (
        OLD.flags or set()
    )
    assert {"Bash", "Write", "WebFetch", "Task"} <= set(
        value_of(arguments, "--disallowedTools").split(",")
    )


def test_the_users_environment_is_kept_but_for_what_is_not_its_business() -> None:
    """Proxies and its own keys pass; other providers' keys, an outer session and overruling variables do not."""
    kept = {
        "HOME": "/h",
        "HTTPS_PROXY": "p",
        "AWS_PROFILE": "p",
        "ANTHROPIC_API_KEY": "a",
        "ANTHROPIC_FOUNDRY_API_KEY": "f",
        "CLAUDE_CODE_OAUTH_TOKEN": "o",
    }
    withheld = {
        "OPENAI_API_KEY": "x",
        "OPENROUTER_API_KEY": "x",
        "MY_VLLM_API_KEY": "x",
        "HF_TOKEN": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "GITHUB_TOKEN": "x",
        "CLAUDECODE": "1",
        "CLAUDE_CODE_ENTRYPOINT": "cli",
        "CLAUDE_CODE_EFFORT_LEVEL": "max",
        "MAX_THINKING_TOKENS": "31999",
        "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "7",
    }
    env = base_environment(settings({**kept, **withheld, "CLAUDE_CODE_MAX_RETRIES": "10"}))
    assert {name: env[name] for name in kept} == kept
    assert not withheld.keys() & env.keys()
    assert (
        env["CLAUDE_CODE_MAX_RETRIES"] == "0"
        and env["CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK"] == "1"
    )


@every_row(
    ("switch", "key"),
    [
        ("CLAUDE_CODE_USE_BEDROCK", "AWS_SECRET_ACCESS_KEY"),
        ("CLAUDE_CODE_USE_VERTEX", "GOOGLE_APPLICATION_CREDENTIALS"),
        ("CLAUDE_CODE_USE_FOUNDRY", "AZURE_CLIENT_SECRET"),
    ],
)
def test_a_clouds_keys_go_to_the_cli_that_uses_that_cloud(switch: str, key: str) -> None:
    """Told to use a cloud, the CLI gets that cloud's credentials, and no other's."""
    every = {
        "AWS_SECRET_ACCESS_KEY": "a",
        "GOOGLE_APPLICATION_CREDENTIALS": "g",
        "AZURE_CLIENT_SECRET": "z",
    }
    assert every.keys() & base_environment(settings({**every, switch: "1"})).keys() == {key}


@pytest.mark.parametrize("own_key", [None, "own-key"])
def test_anthropics_keys_stay_away_from_a_configured_address(own_key: str | None) -> None:
    """A server of the file's gets the key its table names, or none; and never the login, which a key keeps unread."""
    keys = {"ANTHROPIC_API_KEY": "a", "ANTHROPIC_AUTH_TOKEN": "b", "CLAUDE_CODE_OAUTH_TOKEN": "c"}
    keys |= {"ANTHROPIC_CUSTOM_HEADERS": "x-api-key: d"}
    env = base_environment(
        settings(keys, api_key=own_key, base_url="https://api.anthropic.com.evil.example")
    )
    assert {name: value for name, value in env.items() if name in keys} == {
        "ANTHROPIC_API_KEY": own_key or "none"
    }
    home = base_environment(settings(keys, base_url="https://api.anthropic.com"))
    assert {name: home[name] for name in keys} == keys


def test_a_configured_key_and_address_are_used() -> None:
    """What the user's configuration says about this provider comes before the shell's variables."""
    given = settings(
        {"ANTHROPIC_BASE_URL": "http://shell"}, api_key="configured", base_url="http://configured"
    )
    env = base_environment(given)
    assert (env["ANTHROPIC_API_KEY"], env["ANTHROPIC_BASE_URL"]) == (
        "configured",
        "http://configured",
    )


def test_a_token_limit_is_sent_only_where_there_is_one() -> None:
    """Without a limit of ours the program keeps its own."""
    assert (
        call_environment({}, call(max_tokens=64), Sampling(max_tokens=64))[
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS"
        ]
        == "64"
    )
    assert "CLAUDE_CODE_MAX_OUTPUT_TOKENS" not in call_environment({}, call(), Sampling())


def test_thinking_is_off_unless_a_level_is_asked() -> None:
    """No level means no thinking, as with a plain API call; with a level the program decides its budget."""
    assert call_environment({}, call(), Sampling())["MAX_THINKING_TOKENS"] == "0"
    assert "MAX_THINKING_TOKENS" not in call_environment({}, call(thinking_level="low"), Sampling())


@every_row("fields", [{"prompt": "a\0b"}, {"system": "\0"}, {"model": "\0"}, {"prompt": "\ud800"}])
def test_what_cannot_be_sent_is_refused(fields: dict[str, str]) -> None:
    """A NUL or half a character is refused before anything is started."""
    with pytest.raises(CallFailure) as caught:
        refuse_unsendable(call(**fields))
    assert kind_of(caught.value) == ("error", "invalid_prompt")


def test_the_program_is_found_on_the_path_it_was_given(tmp_path: Path) -> None:
    """PATH is searched in order, a folder and a plain file of that name are passed over."""
    (tmp_path / "a" / "claude").mkdir(parents=True)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "claude").write_text("not a program")
    program = write_program(tmp_path / "c" / "claude", "exit 0")
    assert find_program({"PATH": ":".join(str(tmp_path / name) for name in "abc")}) == program


def test_a_configured_command_is_used_instead(tmp_path: Path) -> None:
    """`command` is a path, or another name on PATH."""
    program = write_program(tmp_path / "claude-next", "exit 0")
    assert find_program({"PATH": ""}, str(program)) == program
    assert find_program({"PATH": str(tmp_path)}, "claude-next") == program


def test_version_and_flags_are_asked(tmp_path: Path) -> None:
    """The version is the program's own, and the flags are those its help lists."""
    fake = install_fake_claude(tmp_path, version="2.0.7 (Claude Code)", missing_flags=["--tools"])
    program = asyncio.run(ask_program(fake.path, environment(tmp_path), tmp_path))
    assert program.version == "2.0.7"
    assert program.knows("--effort") and not program.knows("--tools")


def test_only_the_first_column_of_the_help_lists_flags(tmp_path: Path) -> None:
    """A flag that is merely mentioned in a description is not taken for one that exists."""
    help_text = (
        "Options:\n  -p, --print   Print\n  --allowedTools, --allowed-tools <tools...>\n      Like --quoted\n"
        "  --bare    Use it\n                --system-prompt[-file], --add-dir\n"
    )
    fake = write_program(tmp_path / "claude", f"cat <<'END'\n{help_text}END")
    program = asyncio.run(ask_program(fake, environment(tmp_path), tmp_path))
    assert program.flags == {"--print", "--allowedTools", "--allowed-tools", "--bare"}


def test_a_program_without_a_readable_help_is_taken_for_a_current_one(tmp_path: Path) -> None:
    """Help that is not understood drops no flags."""
    fake = write_program(tmp_path / "claude", "echo hello; exit 1")
    program = asyncio.run(ask_program(fake, environment(tmp_path), tmp_path))
    assert program.version is None and program.flags is None and program.knows("--anything")
