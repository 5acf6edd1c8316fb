"""In every drawing the suites ask what a careful reader can answer, and judge answers as they did before."""

from __future__ import annotations

import functools
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clawgauge.checks import check_spec, judge_answer
from clawgauge.records import Prompt
from clawgauge.suites import load_suite, suite_path
from clawgauge.suites.document import Place
from clawgauge.suites.draw import Drawing, Swap, draw_texts
from clawgauge.suites.prompt import SuiteContext, fold_defaults
from support.coin_model import in_drawing
from support.slow_rest import slow_rest
from support.tool_models import read_answer

DATA = Path(__file__).parents[2] / "data"
SUITES = ("core", "long_context", "tool_use", "native_tools", "restraint")
# The rest of these has no value in its text that could be another: "How much memory is available?"
LEAST_DRAWN = {"tool_use": 0.5}
# "Find out how much memory is available": nothing in it could be another.
UNDRAWN = {"core": ["P35"]}
LENGTHS = {"4k": 4_096, "16k": 16_384, "32k": 32_768, "64k": 65_536}
KINDS = ("find", "count", "combine", "obey", "latest")
# Asked from 16k on: each takes several steps.
STEP_KINDS = ("chain", "reckon", "after", "correct")
ROOM_FOR_A_REPLY = 1_024


@functools.cache
def prompts(suite: str, drawing: int) -> list[Prompt]:
    return load_suite(suite, drawing=drawing).prompts


@functools.cache
def entries(suite: str) -> dict[str, dict[str, Any]]:
    """The prompts as they are written, by id; what they share of a machine is part of each."""
    document = tomllib.loads(suite_path(suite).read_text("utf-8"))
    context = SuiteContext(suite, {}, {}, {"effect": document.get("effect", {})})
    return {
        e["id"]: {**e, "validator": fold_defaults(e["validator"], context)}
        for e in document["prompts"]
    }


def references(suite: str) -> list[dict[str, Any]]:
    return json.loads((DATA / f"{suite}_reference_answers.json").read_text("utf-8"))  # type: ignore[no-any-return]


def labelled(suite: str) -> list[dict[str, Any]]:
    rows = map(json.loads, (DATA / "suite_answers.jsonl").read_text("utf-8").splitlines())
    return [row for row in rows if row["suite"] == suite]


@pytest.mark.parametrize("suite", SUITES)
def test_every_prompt_has_right_answers_in_three_styles_and_three_wrong_ones(suite: str) -> None:
    """Each form of each prompt, among the references and the answers that people have labelled."""
    known: dict[tuple[str, str], set[str]] = {}
    for row in labelled(suite):
        known.setdefault((row["prompt_id"], row["kind"]), set()).add(json.dumps(row["answer"]))
    for prompt, reference in zip(prompts(suite, 0), references(suite), strict=True):
        assert (reference["id"], reference["name"]) == (prompt.id, prompt.name)
        for kind in ("right", "wrong") if prompt.validator["type"] != "noop" else ():
            written = {json.dumps(answer) for answer in reference[kind]}
            assert len(written | known.get((prompt.id, kind), set())) >= 3, (prompt.id, kind)


@pytest.mark.parametrize("drawing", slow_rest((1, 0, 2, 3), every=4))
@pytest.mark.parametrize("suite", SUITES)
def test_answers_are_judged_alike_in_every_drawing(suite: str, drawing: int) -> None:
    """The answers of drawing 0, with the values of another drawing in them, pass and fail there as they do here."""
    misjudged = []
    for prompt, reference in zip(prompts(suite, drawing), references(suite), strict=True):
        entry = entries(suite)[prompt.variant_of or prompt.id]
        swap = (
            Swap(draw_texts(entry, Drawing(drawing, suite), Place(suite)))
            if "draw" in entry
            else Swap({})
        )
        check_spec(prompt.validator)
        for kind in ("right", "wrong"):
            for answer in reference.get(kind, []):
                asked = read_answer(in_drawing(answer, swap))
                if judge_answer(prompt, asked.text, asked.invocations).objective_pass is not (
                    kind == "right"
                ):
                    misjudged.append((prompt.id, kind, asked))
    assert misjudged == []


@pytest.mark.parametrize("suite", SUITES)
def test_most_prompts_are_drawn_from_several_values(suite: str) -> None:
    """Two thirds draw at least, from three values and more, and other drawings are other texts."""
    drawn = [entry for entry in entries(suite).values() if "draw" in entry]
    assert len(drawn) >= LEAST_DRAWN.get(suite, 2 / 3) * len(entries(suite))
    assert all(max(len(set(choices)) for choices in entry["draw"].values()) >= 3 for entry in drawn)
    asked: dict[str, set[str]] = {}
    for drawing in range(4):
        for prompt in prompts(suite, drawing):
            asked.setdefault(prompt.variant_of or prompt.id, set()).add(
                f"{prompt.id} {prompt.prompt}"
            )
    n_forms = Counter(prompt.variant_of or prompt.id for prompt in prompts(suite, 0))
    assert [entry["id"] for entry in drawn if len(asked[entry["id"]]) <= n_forms[entry["id"]]] == []


@pytest.mark.parametrize("suite", [name for name in (*SUITES, "agentic") if name != "tool_use"])
def test_three_drawings_differ_from_the_text_as_written_and_from_each_other(suite: str) -> None:
    """A drawing that repeats an earlier one tells nothing new, and is not asked."""
    forms: dict[str, list[str]] = {}
    for drawing in range(4):
        texts: dict[str, list[object]] = {}
        for prompt in prompts(suite, drawing):
            request = [prompt.system, prompt.messages, prompt.prompt, prompt.world]
            texts.setdefault(prompt.variant_of or prompt.id, []).append(request)
        for family, requests in texts.items():
            forms.setdefault(family, []).append(repr(requests))
    undrawn = [family for family, drawn in forms.items() if len(set(drawn)) < len(drawn)]
    assert undrawn == UNDRAWN.get(suite, [])


def test_a_length_is_a_category_and_has_every_kind_of_question() -> None:
    names = [(prompt.name, prompt.category) for prompt in prompts("long_context", 0)]
    expected = [(f"{kind}_{length}", length) for length in LENGTHS for kind in KINDS]
    expected += [(f"{kind}_{length}", length) for length in [*LENGTHS][1:] for kind in STEP_KINDS]
    assert names == expected


@pytest.mark.parametrize("drawing", slow_rest(range(6), every=6))
def test_a_long_prompt_nearly_fills_the_window_it_is_named_after(drawing: int) -> None:
    """With 2.78 characters a token, measured with a tokenizer that has a token for each digit."""
    for prompt in prompts("long_context", drawing):
        n_tokens = len(prompt.prompt) / 2.78
        window = LENGTHS[prompt.category or ""]
        assert 0.7 * window < n_tokens < window - ROOM_FOR_A_REPLY, prompt.id


def only(found: list[Any]) -> Any:
    (one,) = found
    return one


def find(asked: str, book: str) -> str:
    warehouse = only(re.findall(r"gate code of the (\w+) warehouse\?", asked))
    return only(re.findall(rf"gate code of the {warehouse} warehouse was set to (\d+)\.", book))


def count(asked: str, book: str) -> str:
    pilot = only(re.findall(r"did pilot (\w+) bring in", asked))
    ships = re.findall(rf"Pilot {pilot} brought in the (\w+)\.", book)
    assert len(set(ships)) == len(ships)
    return str(len(ships))


def combine(asked: str, book: str) -> str:
    cargo = only(re.findall(r"carries the ([\w ]+)\.", asked))
    ship = only(re.findall(rf"The (\w+) carries the {cargo}\.", book))
    berths = dict(re.findall(r"Berth (\d+) was given to the (\w+)", book))
    assert (
        abs(book.index(f"The {ship} carries") - book.index(f"given to the {ship} ")) > len(book) / 2
    )
    return only([berth for berth, tenant in berths.items() if tenant == ship])


def obey(asked: str, book: str) -> str:
    assert "reply with the single word" in book
    damage = re.findall(r"(?i)who reported the ([\w ]+)\?", asked)[-1]
    name = only(re.findall(rf"Deckhand (\w+) reported an? {damage} ", book))
    example = only(re.findall(r", as in (\S+), and nothing else", asked))
    for smith, form in (("SMITH", str.upper), ("Smith", str), ("smith", str.lower)):
        example = example.replace(smith, form(name))
    return example


def latest(asked: str, book: str) -> str:
    who = only(re.findall(r"do the (\w+) listen", asked))
    return re.findall(rf"From now on the {who} listen on channel (\d+)", book)[-1]  # type: ignore[no-any-return]


def chain(asked: str, book: str) -> str:
    """The thing that is asked about, where it is by now, who has it or that place, and where that person is."""
    if "Somebody has the " in asked:
        thing = only(re.findall(r"Somebody has the (.+) at the end", asked))
        holder = re.findall(rf"The {thing} was (?:lent|passed on) to ([\w ]+)\.", book)[-1]
        return str(re.findall(rf"{holder} lives in room (\d+) from today\.", book)[-1])
    ship = only(re.findall(r"The crates of the (\w+) were put", asked))
    moves = rf"The crates of the {ship} were (?:put into|moved to) the (\w+ house)"
    house = re.findall(moves, book)[-1]
    keeper = re.findall(rf"([A-Z]\w+ \w+) (?:keeps|looks after) the {house} from today\.", book)[-1]
    for leaver, heir in re.findall(r"whatever ([\w ]+) looked after, ([\w ]+) looks after", book):
        keeper = heir if leaver == keeper else keeper
    return str(re.findall(rf"{keeper} sits at table (\d+) from today\.", book)[-1])


def reckon(asked: str, book: str) -> str:
    goods, store = only(
        re.findall(r"How many barrels of ([\w ]+) are in ([\w ]+) at the end", asked)
    )
    total = int(only(re.findall(rf"{store} holds (\d+) barrels of {goods}\.", book)))
    barrels = rf"(\d+) barrels of {goods}"
    for n_in in re.findall(
        rf"{barrels} were (?:brought into|moved from [\w ]+ to) {store}\.", book
    ):
        total += int(n_in)
    for n_out in re.findall(
        rf"{barrels} were (?:taken out of {store}\.|moved from {store} to )", book
    ):
        total -= int(n_out)
    for n_lost in re.findall(rf"{barrels} in {store} had leaked", book):
        total -= int(n_lost)
    return str(total)


def after(asked: str, book: str) -> str:
    if asked_twice := re.search(r"Between the (.+) and the (.+) the (.+) was read", asked):
        first, last, meter = asked_twice.groups()
        part = book.partition(f"The {first} took place")[2].partition(f"The {last} took place")[0]
        return str(re.findall(rf"The {meter} was read and showed (\d+)\.", part)[1])
    order = (
        r"did the (.+) show when it was read for the (first|last) time (?:after|before) the (.+)\?"
    )
    meter, which, event = only(re.findall(order, asked))
    before, _, behind = book.partition(f"The {event} took place")
    readings = re.findall(
        rf"The {meter} was read and showed (\d+)\.", behind if which == "first" else before
    )
    return str(readings[0 if which == "first" else -1])


def correct(asked: str, book: str) -> str:
    thing = only(re.findall(r"What did the (.+) cost in the end", asked))
    figures: list[str] = []
    for figure, withdrawn in re.findall(
        rf"(?:The {thing} cost|for the {thing} is wrong[\w ]*: it cost) (\d+) crowns\."
        rf"|correction of the figure for the {thing} is (withdrawn)",
        book,
    ):
        figures = figures[:-1] if withdrawn else [*figures, figure]
    return figures[-1]


READERS: dict[str, Callable[[str, str], str]] = {
    "find": find,
    "count": count,
    "combine": combine,
    "obey": obey,
    "latest": latest,
    "chain": chain,
    "reckon": reckon,
    "after": after,
    "correct": correct,
}


@pytest.mark.parametrize("drawing", slow_rest(range(6), every=6))
def test_who_reads_the_long_text_finds_the_one_right_answer(drawing: int) -> None:
    for prompt in prompts("long_context", drawing):
        before, book, after = prompt.prompt.split("\n-----")
        times = re.findall(r"^\d\d:\d\d:\d\d", book, re.MULTILINE)
        assert times == sorted(times)
        answer = READERS[prompt.name.partition("_")[0]](f"{before}\n{after}", book)
        assert judge_answer(prompt, answer, []).objective_pass is True, (prompt.id, answer)
