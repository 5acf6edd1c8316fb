"""Files, environment and flags become settings, or one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clawgauge.config.providers import find_secrets, ollama_base_url, provider_settings
from clawgauge.config.settings import OPTIONS, Configuration, make_settings, read_configuration
from clawgauge.errors import ConfigError
from clawgauge.providers.base import ProviderSettings, provider_types
from clawgauge.records import Option, RunOptions
from clawgauge.registry import PROVIDER_TYPES
from support.rows import every_row


def settings_of(toml: str, environ: dict[str, str], tmp_path: Path) -> dict[str, ProviderSettings]:
    path = tmp_path / "clawgauge.toml"
    path.write_text(toml)
    return provider_settings(read_configuration(path, environ), environ, lambda line: None)


@every_row(
    ("environ", "address"),
    [
        ({}, None),
        ({"OLLAMA_OPENAI_BASE": "http://box:1/v1"}, "http://box:1/v1"),
        ({"OLLAMA_OPENAI_BASE": "http://box:1/v1", "OLLAMA_HOST": "other"}, "http://box:1/v1"),
        ({"OLLAMA_HOST": "box"}, "http://box:11434/v1"),
        ({"OLLAMA_HOST": "box:99"}, "http://box:99/v1"),
        ({"OLLAMA_HOST": "0.0.0.0"}, "http://127.0.0.1:11434/v1"),
        ({"OLLAMA_HOST": "0.0.0.0:8080"}, "http://127.0.0.1:8080/v1"),
        ({"OLLAMA_HOST": "https://box.example/ollama/"}, "https://box.example:443/ollama/v1"),
        ({"OLLAMA_HOST": "[::1]:5"}, "http://[::1]:5/v1"),
    ],
)
def test_where_ollama_is(environ: dict[str, str], address: str | None) -> None:
    """OLLAMA_OPENAI_BASE as it stands, else OLLAMA_HOST in every form that Ollama accepts."""
    assert ollama_base_url(environ) == address


def test_a_further_server_is_a_provider(tmp_path: Path) -> None:
    """A table with type openai_chat is usable under its own name, its key taken from the variable it names."""
    toml = '[providers.router]\ntype = "openai_chat"\nbase_url = "https://r.example/v1"\napi_key_env = "R_KEY"\n'
    router = settings_of(toml, {"R_KEY": "secret-value", "OPENAI_API_KEY": "other"}, tmp_path)[
        "router"
    ]
    assert (router.name, router.type, router.base_url) == (
        "router",
        "openai_chat",
        "https://r.example/v1",
    )
    assert (router.api_key_env, router.api_key) == ("R_KEY", "secret-value")
    assert "secret-value" not in repr(router)


def test_openais_key_never_goes_to_a_further_server(tmp_path: Path) -> None:
    """A server named in the file without a key variable gets no key, whatever OPENAI_API_KEY holds."""
    toml = '[providers.mine]\ntype = "openai_chat"\nbase_url = "http://mine:1/v1"\n'
    assert settings_of(toml, {"OPENAI_API_KEY": "sk-openai"}, tmp_path)["mine"].api_key is None


@every_row(
    ("toml", "names"),
    [
        ("[run]\nrepeat = 2\n", ["repeat", "run"]),
        ("[run]\nrepeats = 'two'\n", ["repeats", "whole number"]),
        ("[providers.x]\nbase_url = 'http://a/v1'\n", ["providers.x", "openai_chat"]),
        ("[providers.x]\ntype = 'openai_chta'\n", ["openai_chta", "did you mean 'openai_chat'"]),
        ("[providers.x]\ntype = 'openai_chat'\nbase_url = 'localhost:1'\n", ["x", "http"]),
        (
            "[providers.x]\ntype = 'openai_chat'\napi_key = 'sk-in-file'\n",
            ["providers.x", "api_key_env"],
        ),
        ("run = [", ["TOML"]),
    ],
)
def test_a_bad_file_gets_a_sentence(toml: str, names: list[str], tmp_path: Path) -> None:
    """The file, the place and the way out are named; a key written into the file is not repeated."""
    with pytest.raises(ConfigError) as caught:
        settings_of(toml, {}, tmp_path)
    for name in names:
        assert name in str(caught.value)
    assert "sk-in-file" not in str(caught.value)


def test_a_missing_file_that_was_named_is_refused_and_the_default_one_is_not_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--config must exist; ./clawgauge.toml need not."""
    with pytest.raises(ConfigError, match=r"nowhere\.toml"):
        read_configuration(tmp_path / "nowhere.toml", {})
    monkeypatch.chdir(tmp_path)
    assert read_configuration(None, {}) == Configuration()


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    """A flag beats the file, the file beats the default."""
    path = tmp_path / "clawgauge.toml"
    path.write_text("[run]\nrepeats = 3\nconcurrency = 4\ntimeout = 9.5\n")
    said = read_configuration(path, {}).under({"repeats": 7})
    options = make_settings(said, {"CLAWGAUGE_RETRY_BASE_S": "0.01"})
    assert (options.repeats, options.concurrency, options.timeout_s) == (7, 4, 9.5)
    assert (options.max_retries, options.retry_base_s) == (5, 0.01)


def test_the_file_and_the_flags_say_the_same_words(tmp_path: Path) -> None:
    """Each option can be set in [run]; what neither says is left to the defaults."""
    path = tmp_path / "clawgauge.toml"
    path.write_text(
        '[run]\nunique_prefix = true\nuntil_decided = true\nmax_calls = 40\nprompt_ids = ["P1"]\n'
    )
    options = make_settings(
        read_configuration(path, {}).under({"max_calls": 9, "stream": False}), {}
    )
    assert (options.unique_prefix, options.until_decided, options.max_calls) == (True, True, 9)
    assert (options.prompt_ids, options.stream, options.repeats) == (["P1"], False, 1)


def test_plug_ins_are_looked_for_only_where_one_may_be_meant() -> None:
    """Built-in names need no search through installed packages; an unknown one is told all that there are."""

    def settings(*named: str) -> set[str]:
        return set(provider_settings(Configuration(), {}, lambda line: None, named=named))

    assert settings("embedded") == settings("no_such_thing") == set(PROVIDER_TYPES)
    assert set(PROVIDER_TYPES) <= set(provider_types())


@every_row(
    ("said", "option"),
    [
        ({"repeats": 0}, "--repeats"),
        ({"repeats": 10**400}, "--repeats"),
        ({"max_cost": float("inf")}, "--max-cost"),
        ({"stop_after_errors": 0}, "--stop-after-errors"),
        ({"concurrency": -1}, "--concurrency"),
        ({"timeout": 0.0}, "--timeout"),
        ({"timeout": float("nan")}, "--timeout"),
        ({"max_tokens": 0}, "--max-tokens"),
        ({"temperature": -0.1}, "--temperature"),
        ({"max_retries": -1}, "--max-retries"),
        ({"max_wait": -1.0}, "--max-wait"),
        ({"max_calls": 0}, "--max-calls"),
    ],
)
def test_values_out_of_bounds_are_refused(said: dict[str, Any], option: str) -> None:
    """A number that makes no sense is named by its option."""
    with pytest.raises(ConfigError, match=option):
        make_settings(said, {})


# Whoever adds an option decides here what changing it does to a run that is gone on with; "fixed" unless it says more.
RESUME = {
    "free": {
        "max_retries", "retry_base_s", "max_wait_s", "concurrency", "timeout_s", "warm_up", "prompt_ids",
        "stop_after_errors",
    },
    "extent": {"until_decided", "max_calls", "max_cost_usd", "max_time_s", "job", "best"},
    "more": {"repeats"},
    "fixed": {"max_tokens", "temperature", "seed", "stream", "unload_others", "unique_prefix", "draw", "interleave",
              "order"},
}  # fmt: skip


@every_row("name", RunOptions.__struct_fields__)
def test_what_changing_an_option_does_to_a_resumed_run_is_declared_beside_it(name: str) -> None:
    """An option that says nothing cannot be changed without giving up the comparison."""
    assert name in RESUME[OPTIONS[name].resume] and Option().resume == "fixed"


def test_the_environment_sets_what_no_file_can(tmp_path: Path) -> None:
    """CLAWGAUGE_RETRY_BASE_S has no word in [run], and a value that is no number of seconds is refused by its name."""
    path = tmp_path / "clawgauge.toml"
    path.write_text("[run]\nretry_base_s = 0.1\n")
    with pytest.raises(ConfigError, match="retry_base_s"):
        read_configuration(path, {})
    for word in ("soon", "-1", "inf", "nan"):
        with pytest.raises(ConfigError, match="CLAWGAUGE_RETRY_BASE_S"):
            make_settings({}, {"CLAWGAUGE_RETRY_BASE_S": word})


def test_secrets_are_known_by_their_names_and_places() -> None:
    """Values of variables named like secrets, and credentials inside addresses, are what must never be shown."""
    address = "http://user:p%40ss-word@host/v1?key=query-secret&page=1234567"
    found = find_secrets(
        {
            "mine": ProviderSettings(
                "mine", "openai_chat", base_url=address, api_key="k-0000000001", api_key_env="MINE"
            )
        },
        {
            "OPENAI_API_KEY": "sk-123456789",
            "MY_TOKEN": "tok-123456",
            "HTTPS_PROXY": "http://me:proxy-pass@proxy:3128",
            "HOME": "/home/me/long",
            "TOKENIZERS_PARALLELISM": "false-or-true",
            "SSH_KEY_FILE": "/home/me/.ssh/id_rsa",
            "MAX_THINKING_TOKENS": "10000000",
        },
    )
    assert found == {
        "sk-123456789": "OPENAI_API_KEY",
        "tok-123456": "MY_TOKEN",
        "k-0000000001": "MINE",
        "proxy-pass": "the address in HTTPS_PROXY",
        "bWU6cHJveHktcGFzcw==": "the address in HTTPS_PROXY",
        "p%40ss-word": "the address of mine",
        "p@ss-word": "the address of mine",
        "dXNlcjpwQHNzLXdvcmQ=": "the address of mine",
        "query-secret": "the address of mine",
    }
