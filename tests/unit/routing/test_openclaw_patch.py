"""The patch for openclaw.json: only what the evidence speaks for, and what is there already stays."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clawgauge.errors import ConfigError, DiskFailure
from clawgauge.prices import load_prices
from clawgauge.records import CapacitySummary, Job, Target, WithinSlo
from clawgauge.routing.decision import Decision, decide
from clawgauge.routing.evidence import gather_evidence
from clawgauge.routing.litellm import litellm_config
from clawgauge.routing.openclaw import models_in_use, openclaw_routing
from clawgauge.routing.openclaw_file import (
    find_conflicts,
    merge_patch,
    read_openclaw,
    write_openclaw,
)
from clawgauge.routing.policy import Limits, Policy, Weights
from support.measured_models import Measured, MeasuredRun
from unit.routing.runs import CODEX, GPT, LLAMA, OPUS, QWEN, SMOL, TINY, decision_of

NOTHING = "no evidence of native calls, right arguments, restraint and tasks done"


def test_primary_fallbacks_and_subagents_come_from_the_evidence(tmp_path: Path) -> None:
    """The best first, the rest behind it; subagents get only models that are recommended for it."""
    routing = openclaw_routing(decision_of(tmp_path, LLAMA, QWEN, GPT, OPUS, for_subagents=True))
    defaults = routing.settings["agents"]["defaults"]
    named = [defaults["model"]["primary"], *defaults["model"]["fallbacks"]]
    assert sorted(named) == [
        "anthropic/claude-opus-5-20260101",
        "ollama/llama3.2:3b",
        "ollama/qwen3:8b",
        "openai/gpt-5",
    ]
    subagents = defaults["subagents"]["model"]
    assert sorted([subagents["primary"], *subagents["fallbacks"]]) == [
        "anthropic/claude-opus-5-20260101",
        "ollama/qwen3:8b",
    ]
    assert defaults["models"]["anthropic/claude-opus-5-20260101"] == {
        "agentRuntime": {"id": "claude-cli"}
    }


def test_gemini_is_openclaws_own_provider_google(tmp_path: Path) -> None:
    """At Google's address OpenClaw needs no entry for it; elsewhere it is told address, protocol and key."""
    google = {
        "type": "gemini",
        "base_url": "https://generativelanguage.googleapis.com/v1beta",
        "api_key_env": "GEMINI_API_KEY",
    }
    own = Measured(Target("gemini", "gemini-2.5-flash", "off"), google)
    patch = openclaw_routing(decision_of(tmp_path / "own", own)).settings
    assert patch["agents"]["defaults"]["model"]["primary"] == "google/gemini-2.5-flash"
    models = patch["agents"]["defaults"]["models"]
    assert models["google/gemini-2.5-flash"]["params"] == {"thinking": "off"}
    assert "models" not in patch
    gateway = {**google, "base_url": "http://gate:4000/v1beta", "api_key_env": "GATE_KEY"}
    elsewhere = Measured(Target("google", "gemini-2.5-flash"), gateway)
    patch = openclaw_routing(decision_of(tmp_path / "elsewhere", elsewhere)).settings
    assert patch["agents"]["defaults"]["model"]["primary"] == "google-2/gemini-2.5-flash"
    declared = patch["models"]["providers"]["google-2"]
    assert declared["api"] == "google-generative-ai"
    assert declared["baseUrl"] == "http://gate:4000/v1beta"
    assert declared["apiKey"]["id"] == "GATE_KEY"


def test_how_many_subagents_at_once_is_what_the_longest_prompts_say(tmp_path: Path) -> None:
    """Where these are carried by nobody, or were cut, shorter ones say nothing of them."""
    decision, common = (
        decision_of(tmp_path, QWEN, for_subagents=True),
        {"target": QWEN.target.label, "mode": "closed"},
    )

    def entry(tokens: int, at_once: int | None, **facts: Any) -> CapacitySummary:
        within = None if at_once is None else WithinSlo(concurrency=at_once)
        return CapacitySummary(**common, context_tokens=tokens, within_slo=within, **facts)

    for longest, wanted in (
        (entry(16_000, 2), 2),
        (entry(16_000, 0), None),
        (entry(16_000, None, truncated=True), None),
    ):
        routing = openclaw_routing(decision, capacity=[entry(2_000, 6), longest])
        assert routing.settings["agents"]["defaults"]["subagents"].get("maxConcurrent") == wanted
        assert any("maxConcurrent is left alone" in note for note in routing.notes) == (
            wanted is None
        )


def test_nobody_qualifies_for_subagents_without_decided_evidence(tmp_path: Path) -> None:
    """Six of six is Tier 1 but not decided: the subagents' model is left alone, and what is missing is said."""
    sure_looking = replace(QWEN, tool_passes=6)
    routing = openclaw_routing(decision_of(tmp_path, sure_looking, n_tool=6, for_subagents=True))
    assert "subagents" not in routing.settings["agents"]["defaults"]
    placed, _, missing, *_ = routing.notes
    assert placed.startswith(
        "ollama_openai:qwen3:8b is placed without the tools that act: cannot tell yet whether fit"
    )
    assert (
        "native calls 6 of 6 (Tier 1, not decided)" in placed and "native calls 6 of 6" in missing
    )


def test_calls_written_as_text_are_not_enough_for_subagents(tmp_path: Path) -> None:
    """However many: the subagents' model is left as it is, and the command that would tell is said."""
    routing = openclaw_routing(decision_of(tmp_path, QWEN, OPUS))
    assert "subagents" not in routing.settings["agents"]["defaults"]
    assert routing.notes == [
        "ollama_openai:qwen3:8b and claude_code_cli:opus are placed without the tools that act: cannot tell yet "
        "whether fit as main agent; not measured: native calls, right arguments, restraint and tasks",
        "no model is recommended for subagents with full tool access; their model is left alone",
        f"{QWEN.target.label} is not recommended: {NOTHING}",
        f"{OPUS.target.label} is not recommended: {NOTHING}",
        "to tell who may be a subagent, run clawgauge run -t ollama_openai:qwen3:8b -t claude_code_cli:opus "
        "-s native_tools -s restraint -s agentic",
        "no model of their own for heartbeat, utility and memory flush: no model that can be reached is shown to be "
        "fit for heartbeat and triage",
    ]


def test_tools_are_denied_unless_the_tier_is_sure_enough_for_them(tmp_path: Path) -> None:
    """Those that act want Tier 1 for sure, any at all Tier 2; also for a model that is not routed to."""
    passes = {"sure": 20, "tier_1_by_a_hair": 17, "tier_2": 15, "maybe_tier_2": 12, "tier_3": 2}
    models = [
        replace(LLAMA, target=Target("ollama_openai", name), tool_passes=k)
        for name, k in passes.items()
    ]
    routing = openclaw_routing(decision_of(tmp_path, *models, for_subagents=True))
    denied = {name: rule["deny"] for name, rule in routing.settings["tools"]["byProvider"].items()}
    assert {name: "*" in tools for name, tools in denied.items()} == {
        "ollama/tier_1_by_a_hair": False,
        "ollama/tier_2": False,
        "ollama/maybe_tier_2": True,
        "ollama/tier_3": True,
    }
    assert "group:runtime" in denied["ollama/tier_2"]
    declared = {
        model["id"]: model for model in routing.settings["models"]["providers"]["ollama"]["models"]
    }
    assert declared["tier_3"]["compat"] == {"supportsTools": False}
    assert declared["tier_1_by_a_hair"]["compat"] == {"supportsTools": True}
    (why,) = [
        one.why
        for one in routing.reasons
        if one.path.startswith("tools") and "by_a_hair" in one.path
    ]
    assert "not sure to be Tier 1" in why and "more right answers in a row would do" in why


RESTRAINT, TASK = "restraint_", "task_"


def with_failures(path: Path, kind: str, n: int, *, calls: bool = False) -> Decision:
    """The decision on a run in which the first `n` prompts of a kind were failed; with `calls`, by calling a tool."""
    results, left, lines = path / "results.jsonl", n, []
    for line in map(json.loads, results.read_text().splitlines()):
        if line["prompt_name"].startswith(kind) and left:
            line["objective_pass"], left = False, left - 1
            line["tool_invocations"] = [{"name": "free", "channel": "native"}] if calls else []
        lines.append(json.dumps(line))
    results.write_text("\n".join(lines) + "\n")
    return decide(gather_evidence([path], load_prices())[0], Policy())


@pytest.mark.parametrize(
    ("kind", "n", "told"),
    [
        (RESTRAINT, 9, "not fit as main agent; restraint 0 of 9 (at most 30%, needs 70%)"),
        (TASK, 9, "not fit as main agent; tasks done 0 of 9 (at most 30%, needs 50%)"),
        (RESTRAINT, 2, "cannot tell yet whether fit as main agent; restraint 7 of 9"),
    ],
)
def test_who_is_not_shown_to_be_fit_gets_no_tools_that_act(
    tmp_path: Path, kind: str, n: int, told: str
) -> None:
    """However sure its Tier 1 is; what stands against it is said in one sentence."""
    path = MeasuredRun([QWEN], for_subagents=True).write(tmp_path)
    routing = openclaw_routing(with_failures(path, kind, n))
    assert "group:runtime" in routing.settings["tools"]["byProvider"]["ollama/qwen3:8b"]["deny"]
    assert "subagents" not in routing.settings["agents"]["defaults"]
    assert routing.notes[0].startswith(
        "ollama_openai:qwen3:8b is placed without the tools that act: "
    )
    assert told in routing.notes[0]


def test_one_call_too_many_is_told_and_denies_nothing(tmp_path: Path) -> None:
    """Restraint is shown by 29 of 30, and the summary recommends it; so does the routing, with the caution."""
    path = MeasuredRun([QWEN], for_subagents=True, n_beside=30).write(tmp_path)
    routing = openclaw_routing(with_failures(path, RESTRAINT, 1, calls=True))
    assert "tools" not in routing.settings and "subagents" in routing.settings["agents"]["defaults"]
    told = "a caution stands; it called a tool in 1 of 30 answers where none was wanted"
    assert routing.notes[0] == f"ollama_openai:qwen3:8b is placed: {told}"


def test_who_is_fit_goes_before_who_is_not(tmp_path: Path) -> None:
    """A fast model that calls tools where none is wanted does not become primary beside one that is fit."""
    rash = replace(QWEN, target=Target("ollama_openai", "rash"), text_passes=10, e2e_ms=100)
    path = MeasuredRun([rash, QWEN], for_subagents=True).write(tmp_path)
    decision = with_failures(path, RESTRAINT, 9)
    assert [one.evidence.target.model for one in decision.standings] == ["qwen3:8b", "rash"]
    assert openclaw_routing(decision).settings["agents"]["defaults"]["model"] == {
        "primary": "ollama/qwen3:8b",
        "fallbacks": ["ollama/rash"],
    }


def test_a_place_on_thin_evidence_says_so(tmp_path: Path) -> None:
    """Three prompts without a tool: a primary, the tools that act denied, and a note of what was not measured."""
    path = MeasuredRun([QWEN], n_text=3, n_tool=0).write(tmp_path)
    decision = decide(gather_evidence([path], load_prices())[0], Policy())
    routing = openclaw_routing(decision)
    assert "group:runtime" in routing.settings["tools"]["byProvider"]["ollama/qwen3:8b"]["deny"]
    told = "cannot tell yet whether fit as main agent; not measured: native calls, right arguments, restraint and tasks"
    assert (
        routing.notes[0] == f"ollama_openai:qwen3:8b is placed without the tools that act: {told}"
    )
    assert litellm_config(decision).notes[0] == f"ollama_openai:qwen3:8b is placed: {told}"


def test_latest_is_no_name_of_its_own_to_ollama(tmp_path: Path) -> None:
    """`x` measured and `x:latest` in use are one model: it stays, and is named as the file names it."""
    model = replace(QWEN, target=Target("ollama_openai", "qwen3"), tool_passes=15)
    used = {
        "agents": {"defaults": {"model": "ollama/qwen3:latest"}},
        "models": {"providers": {"ollama": {"models": [{"id": "qwen3:latest", "name": "mine"}]}}},
    }
    decision = decision_of(tmp_path, model)
    assert models_in_use(used, decision.ranked) == ["ollama_openai:qwen3"]
    patch = openclaw_routing(decision, used).settings
    assert patch["agents"]["defaults"]["model"]["primary"] == "ollama/qwen3:latest"
    assert "ollama/qwen3:latest" in patch["tools"]["byProvider"]
    (declared,) = merge_patch(used, patch)["models"]["providers"]["ollama"]["models"]
    assert declared["name"] == "mine"


@pytest.mark.parametrize(
    ("config", "in_use"),
    [
        ({"agents": {"defaults": {"model": {"primary": "ollama/llama3.2:3b"}}}}, ["ollama_openai:llama3.2:3b"]),
        (
            {"agents": {"defaults": {"model": {"primary": "gpu/qwen3:8b", "fallbacks": ["openai/gpt-5", 7]}}},
             "models": {"providers": {"gpu": {"baseUrl": "http://localhost:11434"}}}},
            ["ollama_openai:qwen3:8b", "openai_responses:gpt-5"],
        ),
        ({"agents": {"defaults": {"model": "elsewhere/qwen3:8b"}}}, []),
        ({"agents": {"defaults": {"model": {"primary": {"a": 1}, "fallbacks": "x"}}}}, []),
        ({"agents": "x"}, []),
        ({}, []),
    ],
)  # fmt: skip
def test_what_is_in_use_is_known_by_provider_or_address(
    tmp_path: Path, config: dict[str, Any], in_use: list[str]
) -> None:
    """A provider of another name at the measured address is the same; whatever is no name is passed over."""
    assert models_in_use(config, decision_of(tmp_path, LLAMA, QWEN, GPT).ranked) == in_use


def test_an_embedded_model_is_not_routed_to(tmp_path: Path) -> None:
    """Its server ends with the run: a configuration that names it would be a dead end, and it is said why."""
    routing = openclaw_routing(
        decision_of(tmp_path, SMOL, policy=Policy(limits=Limits(min_pass_rate=None)))
    )
    assert routing.settings == {}
    assert any("embedded" in note for note in routing.notes)


def test_a_key_is_named_and_never_written(tmp_path: Path) -> None:
    """A provider that needs a key refers to its variable."""
    mine = {
        "type": "openai_chat",
        "base_url": "https://gateway.example.com/v1",
        "api_key_env": "MY_KEY",
    }
    model = replace(QWEN, target=Target("my gateway/é", "m"), settings=mine)
    provider = openclaw_routing(decision_of(tmp_path, model)).settings["models"]["providers"][
        "my-gateway"
    ]
    assert provider["apiKey"] == {"source": "env", "provider": "default", "id": "MY_KEY"}


def test_anthropics_own_api_is_openclaws_own_provider(tmp_path: Path) -> None:
    """A model measured at Anthropic's address needs no declaration, only its name."""
    settings = {
        "type": "anthropic_messages",
        "base_url": "https://api.anthropic.com",
        "api_key_env": "ANTHROPIC_API_KEY",
    }
    claude = replace(
        QWEN, target=Target("anthropic_messages", "claude-haiku-4-5"), settings=settings
    )
    patch = openclaw_routing(decision_of(tmp_path, claude)).settings
    assert (
        patch["agents"]["defaults"]["model"]["primary"] == "anthropic/claude-haiku-4-5"
        and "models" not in patch
    )


def test_one_model_at_two_thinking_levels_is_routed_once(tmp_path: Path) -> None:
    """A reference names a model: the better placed level is taken and set, the other is said to be left out."""
    slow = replace(CODEX, target=Target("openai_responses", "gpt-5-codex", "xhigh"), e2e_ms=9000)
    routing = openclaw_routing(decision_of(tmp_path, CODEX, slow))
    assert routing.settings["agents"]["defaults"]["model"] == {
        "primary": "openai/gpt-5-codex",
        "fallbacks": [],
    }
    assert routing.settings["agents"]["defaults"]["models"]["openai/gpt-5-codex"] == {
        "params": {"thinking": "high"}
    }
    assert any("xhigh" in note for note in routing.notes)


def test_every_line_has_its_reason(tmp_path: Path) -> None:
    """Model, tier, k of n, confidence, p95 and run stand behind each setting that is about a model."""
    routing = openclaw_routing(decision_of(tmp_path, LLAMA, QWEN, TINY))
    about_models = [reason for reason in routing.reasons if reason.model]
    assert about_models
    for reason in about_models:
        for word in ("Tier", "/20", "P(tier)=", "p95", "run measured"):
            assert word in reason.why


def test_what_is_there_already_stays(tmp_path: Path) -> None:
    """Other providers, other models of the same provider, and their keys survive; names the user chose too."""
    config = tmp_path / "openclaw.json"
    config.write_text(
        """{ // my own
          models: { providers: { ollama: { baseUrl: 'http://nas:11434/v1', apiKey: 'x',
            models: [ {id: 'old', name: 'Old'}, {id: 'llama3.2:3b', name: 'My Llama', contextWindow: 8192}, ] } } },
          agents: { defaults: { model: 'openai/gpt-4', workspace: '~/w' } }, channels: {telegram: {enabled: true}},
        }"""
    )
    before = read_openclaw(config)
    patch = openclaw_routing(decision_of(tmp_path, LLAMA, TINY)).settings
    after = merge_patch(before, patch)
    assert after["channels"] == before["channels"]
    assert after["agents"]["defaults"]["workspace"] == "~/w"
    assert after["agents"]["defaults"]["model"]["primary"] == "ollama/llama3.2:3b"
    models = {model["id"]: model for model in after["models"]["providers"]["ollama"]["models"]}
    assert list(models) == ["old", "llama3.2:3b", "tiny"]
    assert models["llama3.2:3b"]["name"] == "My Llama"
    assert models["llama3.2:3b"]["contextWindow"] == 8192


def test_writing_keeps_every_backup(tmp_path: Path) -> None:
    """What was there is kept under a free name, permissions and all, and a second write keeps a second copy."""
    config = tmp_path / "openclaw.json"
    config.write_text('{"a": 1}')
    config.chmod(0o600)
    first = write_openclaw(config, {"a": 2})
    second = write_openclaw(config, {"a": 3})
    assert first is not None
    assert second is not None
    assert (json.loads(first.read_text()), json.loads(second.read_text())) == ({"a": 1}, {"a": 2})
    assert json.loads(config.read_text()) == {"a": 3}
    assert {path.stat().st_mode & 0o777 for path in (config, first, second)} == {0o600}
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "openclaw.json",
        "openclaw.json.bak",
        "openclaw.json.bak.1",
    ]


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1 "b": 2,}', "\x00"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, text: str) -> None:
    """Nothing is written over what was not understood."""
    config = tmp_path / "openclaw.json"
    config.write_text(text)
    with pytest.raises(ConfigError, match=r"openclaw\.json"):
        read_openclaw(config)


def test_a_tool_the_user_denied_stays_denied(tmp_path: Path) -> None:
    """Denials add up: what the file takes from a model, no tier gives back, and it is said where that matters."""
    decision = decision_of(tmp_path, replace(LLAMA, tool_passes=15), QWEN)
    before = {
        "tools": {
            "byProvider": {
                "ollama/llama3.2:3b": {"deny": ["*"]},
                "ollama/qwen3:8b": {"deny": ["exec"]},
            }
        }
    }
    patch = openclaw_routing(decision).settings
    by_provider = merge_patch(before, patch)["tools"]["byProvider"]
    assert by_provider["ollama/llama3.2:3b"]["deny"] == ["*"]
    assert by_provider["ollama/qwen3:8b"]["deny"][0] == "exec"
    assert any("denies it tools (exec)" in words for words in find_conflicts(before, patch))
    browser = {"tools": {"byProvider": {"ollama/llama3.2:3b": {"deny": ["browser"]}}}}
    denied = merge_patch(browser, patch)["tools"]["byProvider"]["ollama/llama3.2:3b"]["deny"]
    assert denied[0] == "browser"
    assert "group:runtime" in denied


def test_a_provider_the_user_set_up_keeps_its_key_and_address(tmp_path: Path) -> None:
    """Only models are added to it; that it stands elsewhere than measured is said."""
    mine = {
        "baseUrl": "http://gpu:11434/v1",
        "apiKey": "my-real-key",
        "api": "ollama",
        "models": [],
    }
    before = {"models": {"providers": {"ollama": mine}}}
    patch = openclaw_routing(decision_of(tmp_path, QWEN)).settings
    after = merge_patch(before, patch)["models"]["providers"]["ollama"]
    assert {key: after[key] for key in ("baseUrl", "apiKey", "api")} == {
        "baseUrl": "http://gpu:11434/v1",
        "apiKey": "my-real-key",
        "api": "ollama",
    }
    assert [model["id"] for model in after["models"]] == ["qwen3:8b"]
    assert any("http://gpu:11434/v1" in words for words in find_conflicts(before, patch))


def test_whoever_is_named_is_declared(tmp_path: Path) -> None:
    """A subagent's model that is not the primary is declared too, or OpenClaw could not reach it."""
    lax = {"main agent": Job(needs=["answers"], weighs={"answers": 1})}
    run = MeasuredRun([LLAMA, QWEN], for_subagents=True, jobs=lax).write(tmp_path)
    policy = Policy(
        weights=Weights(pass_rate=0, tool_use=0, cost=0, ttft=0, latency=1), max_fallbacks=0
    )
    patch = openclaw_routing(decide(gather_evidence([run], load_prices())[0], policy)).settings
    assert patch["agents"]["defaults"]["model"]["primary"] == "ollama/llama3.2:3b"
    assert patch["agents"]["defaults"]["subagents"]["model"]["primary"] == "ollama/qwen3:8b"
    assert "qwen3:8b" in [model["id"] for model in patch["models"]["providers"]["ollama"]["models"]]


def test_a_recommended_model_that_a_limit_removed_is_named(tmp_path: Path) -> None:
    """It is not evidence that is missing then, and the note does not say so."""
    policy = Policy(limits=Limits(max_p95_ms=100))
    routing = openclaw_routing(decision_of(tmp_path, QWEN, policy=policy, for_subagents=True))
    note, _ = routing.notes[2:]
    assert note.startswith(
        "ollama_openai:qwen3:8b is recommended for subagents, but out: p95 2900 ms"
    )


def test_a_whole_patch(tmp_path: Path) -> None:
    """Six models: one removed by its passes, one that cannot be reached, and every setting with where it stands."""
    llama = replace(LLAMA, text_passes=2, tool_passes=15)
    routing = openclaw_routing(
        decision_of(tmp_path, llama, QWEN, TINY, CODEX, OPUS, SMOL, for_subagents=True)
    )
    opus, codex = "anthropic/claude-opus-5-20260101", "openai/gpt-5-codex"
    tool_words = {"id": "tiny", "name": "tiny", "compat": {"supportsTools": False}}
    acting = [
        "group:runtime",
        "write",
        "edit",
        "apply_patch",
        "group:automation",
        "group:nodes",
        "sessions_spawn",
    ]
    assert routing.settings == {
        "agents": {
            "defaults": {
                "model": {
                    "primary": "ollama/qwen3:8b",
                    "fallbacks": [opus, codex, "ollama/llama3.2:3b"],
                },
                "subagents": {"model": {"primary": "ollama/qwen3:8b", "fallbacks": [opus, codex]}},
                "models": {
                    opus: {"agentRuntime": {"id": "claude-cli"}},
                    codex: {"params": {"thinking": "high"}},
                    "ollama/qwen3:8b": {},
                    "ollama/llama3.2:3b": {},
                },
            }
        },
        "tools": {
            "byProvider": {"ollama/llama3.2:3b": {"deny": acting}, "ollama/tiny": {"deny": ["*"]}}
        },
        "models": {
            "providers": {
                "ollama": {
                    "baseUrl": "http://localhost:11434/v1",
                    "api": "openai-completions",
                    "apiKey": "ollama-local",
                    "timeoutSeconds": 60,
                    "models": [
                        {"id": "qwen3:8b", "name": "qwen3:8b", "compat": {"supportsTools": True}},
                        {
                            "id": "llama3.2:3b",
                            "name": "llama3.2:3b (3.2B, Q4_K_M)",
                            "compat": {"supportsTools": True},
                        },
                        tool_words,
                    ],
                }
            }
        },
    }
    model, subagents = "agents.defaults.model", "agents.defaults.subagents.model"
    assert [(reason.path, reason.setting) for reason in routing.reasons] == [
        (f"{model}.primary", "ollama/qwen3:8b"),
        (f"{model}.fallbacks", f"{opus}, {codex}, ollama/llama3.2:3b"),
        (f"{model}.fallbacks[0]", opus),
        (f"{model}.fallbacks[1]", codex),
        (f"{model}.fallbacks[2]", "ollama/llama3.2:3b"),
        (f"{subagents}.primary", "ollama/qwen3:8b"),
        (f"{subagents}.fallbacks", f"{opus}, {codex}"),
        (f"{subagents}.fallbacks[0]", opus),
        (f"{subagents}.fallbacks[1]", codex),
        ('tools.byProvider["ollama/llama3.2:3b"].deny', ", ".join(acting)),
        ('tools.byProvider["ollama/tiny"].deny', "*"),
        ('agents.defaults.models["ollama/qwen3:8b"]', "listed"),
        (f'agents.defaults.models["{opus}"]', "agentRuntime id claude-cli"),
        (f'agents.defaults.models["{codex}"]', "params thinking high"),
        ('agents.defaults.models["ollama/llama3.2:3b"]', "listed"),
        ("models.providers.ollama", "http://localhost:11434/v1: qwen3:8b, llama3.2:3b, tiny"),
    ]
    evidence = "Tier 1 (decided), tools 20/20 (native), P(tier)=0.99; passed 47/48; p95 2900 ms (n=48); run measured"
    assert routing.reasons[0].why == f"placed first; ollama_openai:qwen3:8b: {evidence}"
    assert routing.reasons[1].why == "the next in order"
    denied = [
        reason.why.partition(";")[0]
        for reason in routing.reasons
        if reason.path.startswith("tools")
    ]
    assert denied == [
        "tools that act denied: not sure to be Tier 1",
        "all tools denied: not sure to be Tier 2 or better",
    ]
    fallback, note, _ = routing.notes
    assert fallback.startswith(
        "ollama_openai:llama3.2:3b is placed without the tools that act: cannot tell yet"
    )
    assert note.startswith("embedded:smollm2-135m is not routed: measured on the embedded server")


@pytest.mark.parametrize(
    ("models", "n_tool", "missing"),
    [
        ((TINY,), 20, "tiny is not recommended: native calls 2 of 20 (Tier 3); right arguments 2 of 20 (at most 30%"),
        ((replace(LLAMA, tool_passes=15), TINY), 20,
         "run clawgauge run -t ollama_openai:llama3.2:3b -s native_tools -s restraint -s agentic"),
        ((QWEN,), 0, "qwen3:8b is not recommended: no evidence of native calls and right arguments"),
        ((QWEN, TINY), 6, "native calls 6 of 6 (Tier 1, not decided); right arguments 6 of 6 (at least 61%"),
        ((SMOL,), 20, "smollm2-135m is not recommended: native calls 0 of 20 (Tier 3)"),
        ((replace(SMOL, tool_passes=20),), 20, "recommended for subagents, but out: measured on the embedded server"),
    ],
)  # fmt: skip
def test_what_stands_between_the_models_and_subagents_is_said(
    tmp_path: Path, models: tuple[Measured, ...], n_tool: int, missing: str
) -> None:
    """Whether prompts, passes or a way to the model are missing."""
    anyone = Policy(limits=Limits(min_pass_rate=None))
    decision = decision_of(tmp_path, *models, policy=anyone, n_tool=n_tool, for_subagents=True)
    _, _, said = "\n".join(openclaw_routing(decision).notes).partition(
        "; their model is left alone\n"
    )
    assert missing in said


def test_where_nobody_is_left_the_primary_is_left_alone(tmp_path: Path) -> None:
    """A limit that removes them all changes no model, and the note says so; a lone model has nobody behind it."""
    routing = openclaw_routing(
        decision_of(tmp_path / "none", QWEN, policy=Policy(limits=Limits(max_p95_ms=1)))
    )
    assert "agents" not in routing.settings
    assert routing.notes[0] == (
        "no model keeps the policy's limits and can be reached: primary and fallbacks are left alone"
    )
    alone = openclaw_routing(decision_of(tmp_path / "alone", QWEN, for_subagents=True))
    assert [(r.setting, r.why) for r in alone.reasons if r.path.endswith("fallbacks")] == [
        ("none", "no other model keeps the policy's limits"),
        ("none", "no other model is recommended for subagents"),
    ]


@pytest.mark.parametrize(
    ("provider", "settings", "declared"),
    [
        ("ollama_openai", {}, ("ollama", "openai-completions", "ollama-local")),
        ("openai", {}, ("openai-2", "openai-completions", "ollama-local")),
        ("Anthropic", {}, ("anthropic-2", "openai-completions", "ollama-local")),
        ("é", {}, ("provider", "openai-completions", "ollama-local")),
        ("Lab 7", {"type": "openai_responses"}, ("lab-7", "openai-responses", "not-needed")),
        ("ollama", {"type": "ollama"}, ("ollama", "ollama", "ollama-local")),
        ("mine", {"type": "anthropic_messages"}, ("mine", "anthropic-messages", "not-needed")),
        ("far", {"base_url": "https://far.example.com/v1"}, ("far", "openai-completions", None)),
        ("odd", {"api_key_env": "not a name"}, ("odd", "openai-completions", "ollama-local")),
    ],
)
def test_a_server_openclaw_does_not_know_is_declared(
    tmp_path: Path, provider: str, settings: dict[str, str], declared: tuple[str, str, str | None]
) -> None:
    """Under a plain name that is not OpenClaw's own, with its protocol, and a marker for a key where it is local."""
    base = {"type": "openai_chat", "base_url": "http://10.0.0.7:8000/v1"}
    model = replace(QWEN, target=Target(provider, "m"), settings={**base, **settings})
    patch = openclaw_routing(decision_of(tmp_path, model)).settings
    ((provider_id, entry),) = patch["models"]["providers"].items()
    assert (provider_id, entry["api"], entry.get("apiKey")) == declared
    assert patch["agents"]["defaults"]["model"]["primary"] == f"{provider_id}/m"


def test_two_providers_of_one_plain_name_stay_two(tmp_path: Path) -> None:
    """Each with its own models, and the models of one provider under one name."""
    chat = {"type": "openai_chat", "base_url": "http://10.0.0.7:8000/v1"}
    names = [
        ("lab one", "a"),
        ("lab-one", "b"),
        ("lab one", "c"),
        ("LAB_ONE!", "d"),
        ("lab/one", "e"),
    ]
    models = [replace(QWEN, target=Target(*name), settings=chat) for name in names]
    decision = decision_of(tmp_path, *models, policy=Policy(max_fallbacks=4))
    providers = openclaw_routing(decision).settings["models"]["providers"]
    found = {
        provider_id: [model["id"] for model in entry["models"]]
        for provider_id, entry in providers.items()
    }
    assert sorted(map(sorted, found.values())) == [["a", "c"], ["b"], ["d"], ["e"]]
    assert set(found) == {"lab-one", "lab-one-2", "lab-one-3", "lab_one"}


@pytest.mark.parametrize(
    ("reported", "named"),
    [("claude-opus-5", "claude-opus-5"), ("claude-sonnet-5", "opus"), (None, "opus")],
)
def test_a_short_name_becomes_what_answered(
    tmp_path: Path, reported: str | None, named: str
) -> None:
    """`opus` is short for the model that said it was one; another's name is not taken over."""
    patch = openclaw_routing(decision_of(tmp_path, replace(OPUS, model_reported=reported))).settings
    assert patch["agents"]["defaults"]["model"]["primary"] == f"anthropic/{named}"


def test_a_provider_without_an_address_cannot_be_routed_to(tmp_path: Path) -> None:
    """And the note says what is missing."""
    model = replace(QWEN, target=Target("mine", "m"), settings={"type": "openai_chat"})
    assert openclaw_routing(decision_of(tmp_path, model)).notes[0] == (
        "mine:m is not routed: OpenClaw has no way to reach a provider of type openai_chat without an address"
    )


@pytest.mark.parametrize(
    ("there", "patch", "merged"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 3}}, {"a": {"b": 1, "c": 3}}),
        ({"list": [1, 2]}, {"list": [3]}, {"list": [3]}),
        ({"model": "x/y"}, {"model": {"primary": "p"}}, {"model": {"primary": "p"}}),
        ({"model": "x/y"}, {"model": {"fallbacks": ["f"]}}, {"model": {"primary": "x/y", "fallbacks": ["f"]}}),
        ({"deny": ["a"]}, {"deny": ["a", "b"]}, {"deny": ["a", "b"]}),
        ({"deny": ["a"]}, {"deny": ["*"]}, {"deny": ["*"]}),
        ({"deny": ["*", "a"]}, {"deny": ["b"]}, {"deny": ["*", "a"]}),
        ({"baseUrl": "mine", "api": None}, {"baseUrl": "x", "api": "y"}, {"baseUrl": "mine", "api": "y"}),
        ({"models": [{"id": 1, "n": 2}]}, {"models": [{"id": 1, "k": 3}]}, {"models": [{"id": 1, "n": 2, "k": 3}]}),
        ({"models": [7]}, {"models": [{"id": 1}]}, {"models": [7, {"id": 1}]}),
        ({"models": {}}, {"models": [{"id": 1}]}, {"models": [{"id": 1}]}),
        ({"timeoutSeconds": 900}, {"timeoutSeconds": 60}, {"timeoutSeconds": 900}),
        ({"contextTokens": 8}, {"contextTokens": 16}, {"contextTokens": 16}),
        ({"params": {"temperature": 0.7, "thinking": "low"}}, {"params": {"temperature": 0, "thinking": "high"}},
         {"params": {"temperature": 0.7, "thinking": "high"}}),
        ({"subagents": {"thinking": "low"}}, {"subagents": {"thinking": "high"}}, {"subagents": {"thinking": "low"}}),
        ({"cost": {"input": 1}}, {"cost": {"input": 2, "output": 3}}, {"cost": {"input": 1, "output": 3}}),
        ({"utilityModel": ""}, {"utilityModel": "o/m"}, {"utilityModel": ""}),
        ({"reasoning": False}, {"reasoning": True}, {"reasoning": True}),
        ({"supportedReasoningEfforts": ["mine"]}, {"supportedReasoningEfforts": ["none"]},
         {"supportedReasoningEfforts": ["mine", "none"]}),
        # With the marker OpenClaw makes no call to these; it is no key of the user's.
        ({"api": "anthropic-messages", "apiKey": "ollama-local"}, {"apiKey": "not-needed"},
         {"api": "anthropic-messages", "apiKey": "not-needed"}),
        ({"api": "anthropic-messages", "apiKey": "sk-mine"}, {"apiKey": "not-needed"},
         {"api": "anthropic-messages", "apiKey": "sk-mine"}),
    ],
)  # fmt: skip
def test_merging(there: dict[str, Any], patch: dict[str, Any], merged: dict[str, Any]) -> None:
    """Objects go into each other, lists and values are replaced, and what the user denied or set up stays."""
    before = json.dumps(there)
    assert merge_patch(there, patch) == merged
    assert json.dumps(there) == before


def test_conflicts_are_said_only_where_there_are_any(tmp_path: Path) -> None:
    """The same address, or tools denied to a model that gets no place, is nothing to decide."""
    patch = openclaw_routing(decision_of(tmp_path, QWEN, LLAMA, for_subagents=True)).settings
    same = {"models": {"providers": {"ollama": {"baseUrl": "http://localhost:11434/v1"}}}}
    elsewhere = {
        "tools": {
            "byProvider": {
                "ollama/llama3.2:3b": {"deny": ["exec"]},
                "ollama/qwen3:8b": {"deny": []},
            }
        }
    }
    assert (
        find_conflicts(same, patch)
        == find_conflicts(elsewhere, patch)
        == find_conflicts({"models": 3}, patch)
        == []
    )
    both = find_conflicts({"tools": {"byProvider": {"ollama/qwen3:8b": {"deny": "exec"}}}}, patch)
    assert both == [
        f"ollama/qwen3:8b becomes agents.defaults.{place}, and the file denies it tools (exec): left as it is"
        for place in ("model", "subagents.model")
    ]


def test_a_file_is_read_up_to_eight_mebibytes(tmp_path: Path) -> None:
    """A byte order mark is no fault; a byte too many is, and so is a file that is not there."""
    config = tmp_path / "openclaw.json"
    config.write_bytes(b'\xef\xbb\xbf{"a": 1}'.ljust(8 * 1024 * 1024))
    assert read_openclaw(config) == {"a": 1}
    config.write_bytes(b'{"a": 1}'.ljust(8 * 1024 * 1024 + 1))
    with pytest.raises(ConfigError, match="over 8 MiB"):
        read_openclaw(config)
    with pytest.raises(ConfigError, match="cannot read"):
        read_openclaw(tmp_path / "missing.json")


def test_a_written_file_keeps_its_permissions_and_its_links(tmp_path: Path) -> None:
    """What a link points at is replaced and not the link; a new file is the user's alone; a failure changes nothing."""
    real, link, fresh = tmp_path / "real.json", tmp_path / "openclaw.json", tmp_path / "fresh.json"
    real.write_text('{"a": 1}')
    real.chmod(0o640)
    link.symlink_to(real)
    backup = write_openclaw(link, {"a": "é"})
    assert link.is_symlink() and real.read_text(encoding="utf-8") == '{\n  "a": "é"\n}\n'
    assert backup is not None and backup.name == "real.json.bak"
    assert {path.stat().st_mode & 0o777 for path in (real, backup)} == {0o640}
    assert write_openclaw(fresh, {}) is None
    assert fresh.stat().st_mode & 0o777 == 0o600
    with pytest.raises(DiskFailure, match="it is as it was"):
        write_openclaw(tmp_path / "nowhere" / "openclaw.json", {})


def test_a_model_that_gets_no_place_is_not_declared(tmp_path: Path) -> None:
    """A sound model that a limit removed is left out of the patch; nothing is said of it there."""
    patch = openclaw_routing(
        decision_of(tmp_path, QWEN, LLAMA, policy=Policy(limits=Limits(max_p95_ms=1000)))
    ).settings
    assert [model["id"] for model in patch["models"]["providers"]["ollama"]["models"]] == [
        "llama3.2:3b"
    ]


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ({"agents": "mine"}, "agents"),
        ({"agents": {"defaults": [1]}}, "agents.defaults"),
        ({"models": {"providers": {"ollama": "here"}}}, "models.providers.ollama"),
        ({"models": {"providers": {"ollama": {"models": {"qwen3:8b": {}}}}}}, "models.providers.ollama.models"),
        ({"agents": {"defaults": {"models": ["ollama/x"]}}}, "agents.defaults.models"),
    ],
)  # fmt: skip
def test_what_openclaw_would_not_read_is_not_put_away(
    tmp_path: Path, config: dict[str, Any], place: str
) -> None:
    """A patch would replace it, and the user's own with it: one sentence names the place instead."""
    patch = openclaw_routing(decision_of(tmp_path, QWEN)).settings
    with pytest.raises(ConfigError, match=rf"at {re.escape(place)} where OpenClaw has"):
        merge_patch(config, patch)


def test_an_agents_own_settings_are_named(tmp_path: Path) -> None:
    """They go before what the patch sets for all; their values are not repeated."""
    config = {
        "agents": {
            "entries": {
                "work": {"model": "secret/one", "heartbeat": {"model": "secret/two"}},
                "odd": 7,
                "plain": {"workspace": "/w"},
            },
            "list": [{"id": "old", "subagents": {"thinking": "low"}}, "odd"],
        }
    }
    notes = openclaw_routing(decision_of(tmp_path, QWEN), config).notes
    own = "of its own, which goes before what is set for all"
    assert f"agents.entries.work has model and heartbeat.model {own}" in notes
    assert f"agents.list old has subagents.thinking {own}" in notes
    assert not any("secret" in note or "plain" in note for note in notes)
