"""What an untrusted file may say is a list of what is allowed; keys go where they belong."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from clawgauge.config.providers import provider_settings
from clawgauge.config.settings import (
    FIELDS,
    Configuration,
    ProviderTable,
    Settings,
    harmless_fields,
    read_configuration,
)
from clawgauge.providers.base import ProviderSettings
from clawgauge.records import Harmless
from support.rows import every_row

# Whoever adds an option decides here whether a stranger may set it.
HARMLESS = {
    "suites", "prompt_ids", "repeats", "concurrency", "timeout", "max_tokens", "temperature", "seed", "stream",
    "warm_up", "max_retries", "max_wait", "unique_prefix", "until_decided", "max_calls", "max_cost", "fail_under",
    "stop_after_errors", "draw", "full", "interleave", "job", "order", "max_time",
    "require", "best",
}  # fmt: skip
VALUES: tuple[Any, ...] = (["x"], "here", 1, 1.0, True)


def untrusted(toml: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configuration:
    (tmp_path / "clawgauge.toml").write_text(toml)
    monkeypatch.chdir(tmp_path)
    return read_configuration(None, {"XDG_STATE_HOME": str(tmp_path / "state")})


def _fitting(name: str) -> Any:
    for value in VALUES:
        with contextlib.suppress(msgspec.ValidationError):
            msgspec.convert({FIELDS[name]: value}, Settings)
            return value
    raise AssertionError(f"no value fits {name}")


@pytest.mark.parametrize("name", FIELDS)
def test_every_option_is_withheld_unless_it_is_declared_harmless(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each option of [run] in an untrusted file either counts or is named as left out; none is in between."""
    toml = f"[run]\n{name} = {msgspec.json.encode(_fitting(name)).decode()}\n"
    found = untrusted(toml, tmp_path, monkeypatch)
    counts = name in found.run
    assert counts == (name in HARMLESS) and (name in found.withheld["run"]) == (not counts)


@pytest.mark.parametrize(
    "name", [one for one in ProviderTable.__struct_fields__ if one != "extra_body"]
)
def test_no_field_of_a_provider_is_taken_from_an_untrusted_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a table says, its provider is there only to say that it is not trusted."""
    value = {"local": "true", "context": "4096"}.get(name, '"x"')
    found = untrusted(f"[providers.openai_responses]\n{name} = {value}\n", tmp_path, monkeypatch)
    assert (
        not found.run
        and not found.providers
        and found.withheld["providers"] == {"openai_responses"}
    )
    settings = provider_settings(found, {"OPENAI_API_KEY": "sk-1"}, lambda line: None)
    refused = settings["openai_responses"]
    assert refused.unusable and "clawgauge trust" in refused.unusable and refused.api_key is None


def test_an_option_added_tomorrow_is_not_harmless() -> None:
    """Only a declaration makes a field harmless, whatever its name or type."""

    class Tomorrow(msgspec.Struct):
        nodes: list[str] | None = None
        repeats: int | None = None
        declared: Harmless[int | None] = None

    assert harmless_fields(Tomorrow) == {"declared"}


ENVIRON = {"OPENAI_API_KEY": "sk-openai-0123456789", "MINE": "mine-0123456789"}


def settings_of(toml: str, tmp_path: Path, **environ: str) -> dict[str, ProviderSettings]:
    path = tmp_path / "named.toml"
    path.write_text(toml)
    environ = {**ENVIRON, **environ}
    return provider_settings(read_configuration(path, environ), environ, lambda line: None)


@every_row(
    ("base_url", "gets_key"),
    [
        ("https://api.openai.com/v1", True),
        ("HTTPS://API.OpenAI.com:443/v1", True),
        ("http://api.openai.com/v1", False),
        ("https://api.openai.com:8443/v1", False),
        ("https://api.openai.com./v1", False),
        ("https://api.openai.com@evil.example/v1", False),
        ("https://me@api.openai.com/v1", False),
        ("https://api.openai.com.evil.example/v1", False),
        ("https://evil.example/api.openai.com/v1", False),
        ("https://evil.example\\@api.openai.com/v1", False),
        ("https://api.openai.com\\.evil.example/v1", False),
        ("https://api.openai.com/v1\n", False),
        ("https://api.openai.cоm/v1", False),
        ("https://xapi.openai.com/v1", False),
    ],
)
@every_row("name", ["openai_responses", "other"])
def test_openais_key_goes_to_openais_host(
    name: str, base_url: str, gets_key: bool, tmp_path: Path
) -> None:
    """Another address of a file gets the key its table names, or none; a look-alike is another address."""
    written = msgspec.json.encode(base_url).decode()
    table = f'[providers.{name}]\ntype = "openai_responses"\nbase_url = {written}\n'
    found = settings_of(table, tmp_path)[name]
    assert (found.api_key, found.api_key_env) == (
        (ENVIRON["OPENAI_API_KEY"], "OPENAI_API_KEY") if gets_key else (None, None)
    )
    assert settings_of(f'{table}api_key_env = "MINE"\n', tmp_path)[name].api_key == ENVIRON["MINE"]


def test_an_address_of_the_environment_goes_with_the_environments_key(tmp_path: Path) -> None:
    """OPENAI_BASE_URL and OPENAI_API_KEY are one word of one user; a bare chat server on this machine gets no key."""
    found = settings_of("", tmp_path, OPENAI_BASE_URL="http://gateway:1/v1")
    assert [found[name].api_key for name in ("openai_responses", "openai_chat")] == [
        ENVIRON["OPENAI_API_KEY"]
    ] * 2
    assert settings_of("", tmp_path)["openai_responses"].api_key == ENVIRON["OPENAI_API_KEY"]
    assert settings_of("", tmp_path)["openai_chat"].api_key is None
    overridden = settings_of(
        '[providers.openai_chat]\nbase_url = "http://x/v1"\n',
        tmp_path,
        OPENAI_BASE_URL="http://g/v1",
    )
    assert overridden["openai_chat"].api_key is None
