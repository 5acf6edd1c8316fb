"""The prompts of all runs: a numbered list, and what was asked, once for each different text.

Owns: keeping apart prompts that share an id and differ between runs. Refuses: the calls made with them.
"""

from __future__ import annotations

from typing import Any

from clawgauge.records import Prompt, RunConfig
from clawgauge.reports.html.foreign_json import show_json
from clawgauge.reports.html.survey import Survey
from clawgauge.reports.html.texts import Text, TextStore


class PromptTexts:
    """What each run asked, prompt by prompt; the same words are kept once."""

    def __init__(self, texts: TextStore) -> None:
        self._texts = texts
        self._known: dict[str, int] = {}

    def number_by_prompt(self, config: RunConfig | None, survey: Survey) -> dict[str, int]:
        """The text's number for every prompt of a run, by the prompt's number; keys are strings as in JSON."""
        prompts = config.prompts if config else []
        return {
            str(survey.prompts[p.suite, p.id]): self._number(p) for p in prompts if (p.suite, p.id) in survey.prompts
        }

    def _number(self, prompt: Prompt) -> int:
        detail = _prompt_detail(prompt)
        key = repr(detail)
        if key not in self._known:
            self._known[key] = self._texts.add(detail)
        return self._known[key]


def register_prompts(config: RunConfig | None, survey: Survey) -> None:
    """Number the prompts in the order of the suites, asked or not."""
    for prompt in config.prompts if config else ():
        survey.prompt_number(prompt.suite, prompt.id, prompt.name)


def list_prompts(survey: Survey) -> list[list[str]]:
    """`[suite, id, name]` of every prompt, by number."""
    return [[suite, prompt_id, survey.prompt_names[n]] for (suite, prompt_id), n in survey.prompts.items()]


def _prompt_detail(prompt: Prompt) -> dict[str, Any]:
    detail: dict[str, Any] = {
        "prompt": Text(prompt.prompt),
        "system": Text(prompt.system or ""),
        "validator": Text(show_json(prompt.validator)),
        "tools": Text(show_json(prompt.tools)) if prompt.tools else "",
        "world": Text(show_json(prompt.world)) if prompt.world else "",
        "category": prompt.category or "",
        "maxTurns": prompt.max_turns,
    }
    return {key: value for key, value in detail.items() if value}
