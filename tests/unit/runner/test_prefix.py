"""The line that keeps caches out: where it goes, and how it differs."""

from __future__ import annotations

from clawgauge.journal import CellKey
from clawgauge.records import Prompt
from clawgauge.runner.agenda import make_prefix, prefixed

KEY = CellKey("p", "m", None, "s", "P0", 0)


def test_a_cell_keeps_its_line_and_no_other_has_it() -> None:
    """The same for every attempt at a cell; another for a repeat, a prompt, a target and a run."""
    line = make_prefix(b"salt", KEY)
    assert make_prefix(b"salt", KEY) == line
    others = [
        make_prefix(b"salt", KEY._replace(repeat=1)),
        make_prefix(b"salt", KEY._replace(prompt_id="P1")),
        make_prefix(b"salt", KEY._replace(model="n")),
        make_prefix(b"other", KEY),
    ]
    assert len({line, *others}) == 5
    assert len({other[:5] for other in [line, *others]}) == 5  # they differ from the first characters on
    assert "\n" not in line


def test_the_line_goes_before_what_comes_first_on_the_wire() -> None:
    """Before the system prompt where there is one, else before the prompt; nothing else changes."""
    plain = Prompt(id="P0", name="n", prompt="question", validator={"type": "noop"})
    with_system = Prompt(id="P0", name="n", prompt="question", system="be brief", validator={"type": "noop"})
    assert prefixed(plain, "[x]").prompt == "[x]\nquestion" and prefixed(plain, "[x]").system is None
    sent = prefixed(with_system, "[x]")
    assert (sent.system, sent.prompt) == ("[x]\nbe brief", "question")
