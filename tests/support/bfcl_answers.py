"""Answers to cases of the Berkeley collection: the official one and seven mutations of it, right and wrong ones."""

from __future__ import annotations

import copy
import importlib
import random
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clawgauge.checks import judge_answer
from clawgauge.records import Prompt, ToolInvocation

Calls = list[tuple[str, dict[str, Any]]]


def official(truth: list[dict[str, Any]]) -> Calls:
    """The first allowed value of everything."""
    return [(name, {key: _first(values) for key, values in given.items() if _first(values) != ""})
            for call in truth for name, given in call.items()]  # fmt: skip


def _first(values: list[Any]) -> Any:
    value = next((one for one in values if one not in ("", None)), "")
    if isinstance(value, list):
        return [_first([one]) if isinstance(one, dict) else one for one in value]
    if isinstance(value, dict):
        chosen = {key: _first(one) if isinstance(one, list) else one for key, one in value.items()}
        return {key: one for key, one in chosen.items() if one != ""}
    return copy.deepcopy(value)


def mutations(calls: Calls, seed: str) -> dict[str, Calls]:
    """The answer itself and seven others made of it."""
    draw = random.Random(seed)

    def changed(change: Callable[[dict[str, Any], str], None]) -> Calls:
        other = copy.deepcopy(calls)
        given = other[draw.randrange(len(other))][1]
        if given:
            change(given, draw.choice(sorted(given)))
        return other

    def respell(given: dict[str, Any], key: str) -> None:
        value = given[key]
        given[key] = value.upper().replace(" ", "-") if isinstance(value, str) else value

    def alter(given: dict[str, Any], key: str) -> None:
        value = given[key]
        given[key] = (
            f"{value} altogether"
            if isinstance(value, str)
            else not value
            if isinstance(value, bool)
            else 40_177
        )

    def retype(given: dict[str, Any], key: str) -> None:
        given[key] = str(given[key]) if not isinstance(given[key], str) else [given[key]]

    def turn(given: dict[str, Any], key: str) -> None:
        given[key] = given[key][::-1] if isinstance(given[key], list) else given[key]

    return {
        "as it is": calls,
        "respelled": changed(respell),
        "altered": changed(alter),
        "another type": changed(retype),
        "turned round": changed(turn),
        "one missing": changed(lambda given, key: given.pop(key)),
        "one more argument": changed(lambda given, key: given.update(surplus="x")),
        "one more call": [*calls, calls[0]],
    }


def our_verdict(prompt: dict[str, Any], calls: Calls) -> bool:
    made = [
        ToolInvocation(name=name.replace(".", "_"), arguments=given, channel="native")
        for name, given in calls
    ]
    asked = Prompt(
        id="x", name="x", prompt="x", validator=prompt["validator"], tools=prompt["tools"]
    )
    return judge_answer(asked, "", made).objective_pass is True


def load_checker(wheel: Path) -> Callable[..., bool]:
    """BFCL's own checker, out of its wheel. The list of models, which loads every vendor's library, is left away."""
    config = types.ModuleType("bfcl_eval.constants.model_config")
    config.MODEL_CONFIG_MAPPING = {"any": types.SimpleNamespace(underscore_to_dot=True)}  # type: ignore[attr-defined]
    sys.modules[config.__name__] = config
    sys.path.insert(0, str(wheel))
    try:
        checker = importlib.import_module("bfcl_eval.eval_checker.ast_eval.ast_checker")
        language = importlib.import_module("bfcl_eval.constants.enums").Language.PYTHON
    finally:
        sys.path.remove(str(wheel))

    def is_right(
        row: dict[str, Any], truth: list[dict[str, Any]], calls: Calls, category: str
    ) -> bool:
        made = [{name.replace(".", "_"): given} for name, given in calls]
        return bool(
            checker.ast_checker(row["function"], made, truth, language, category, "any")["valid"]
        )

    return is_right
