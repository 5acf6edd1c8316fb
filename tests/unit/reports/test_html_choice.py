"""Which calls and how much of their texts a page holds, where it cannot hold all."""

from __future__ import annotations

import base64
import gzip
import json
import random

from hypothesis import given
from hypothesis import strategies as st

from clawgauge.records import Target
from clawgauge.reports.html.survey import CallCounter, Survey, choose_calls, share_room
from clawgauge.reports.html.texts import Text, TextStore
from clawgauge.run_data import Row


def survey_of(**n_by_model):
    """Every fifth call of each model fails."""
    survey = Survey()
    for model, n in n_by_model.items():
        rows = [
            Row(provider="p", model=model, prompt_id=f"P{i % 10}", availability_status="ok", success=True,
                objective_pass=i % 5 != 0, repeat=i // 10)
            for i in range(n)
        ]  # fmt: skip
        CallCounter(survey, 0).add(rows, list(range(n)))
    return survey


def unpacked(blocks):
    return [
        value
        for block in blocks.blocks
        for value in json.loads(gzip.decompress(base64.b64decode(block)))
    ]


@given(st.dictionaries(st.integers(0, 20), st.integers(0, 1000), min_size=1), st.integers(0, 3000))
def test_room_is_shared_fairly(sizes, room):
    """Nobody gets more than they have, all room is used while it is wanted, and less never goes to who has more."""
    shares = share_room(sizes, room)
    assert all(shares[key] <= size for key, size in sizes.items())
    assert sum(shares.values()) == min(room, sum(sizes.values()))
    for small, large in zip(
        sorted(sizes, key=sizes.get), sorted(sizes, key=sizes.get)[1:], strict=False
    ):
        assert shares[small] <= shares[large]


def test_a_small_model_is_not_crowded_out():
    """A model with few calls is there whole beside one with very many."""
    survey = survey_of(large=5000, small=40)
    choice = choose_calls(survey, 400)
    small = survey.targets[0, Target("p", "small")]
    assert all(choice.is_sampled(digest) for digest in survey.digests[small])


def test_the_sample_does_not_depend_on_the_order():
    """The same calls are drawn however they were recorded, in whatever order."""
    survey = survey_of(one=3000)
    digests = survey.digests[0]
    shuffled = survey_of(one=3000)
    random.Random(1).shuffle(shuffled.digests[0])
    assert choose_calls(survey, 300).sampled == choose_calls(shuffled, 300).sampled
    assert len(choose_calls(survey, 300).sampled) == 150 and len(set(digests)) == 3000


def test_every_prompt_is_in_a_fair_sample():
    """A sample of a run that cycles through its prompts has each of them about as often."""
    survey = survey_of(one=10_000)
    sampled = choose_calls(survey, 2000).sampled
    per_prompt = [
        sum(survey.digests[0][i] in sampled for i in range(prompt, 10_000, 10))
        for prompt in range(10)
    ]
    assert min(per_prompt) > 60 and sum(per_prompt) == 1000


def test_texts_come_back_and_the_short_ones_whole():
    """Over the budget the long texts are cut, with their whole length told; what is short is untouched."""
    chance = random.Random(2)
    long = [Text(base64.b64encode(chance.randbytes(20_000)).decode()) for _ in range(50)]
    store = TextStore(budget_bytes=100_000)
    for number, text in enumerate(long):
        assert (
            store.add({"answer": text, "short": Text("yes"), "list": [Text("a"), 1, None]})
            == number
        )
    packed = store.pack()
    values = unpacked(packed)
    assert sum(len(base64.b64decode(block)) for block in packed.blocks) <= 100_000
    assert packed.n_cut == 50 and len(values) == 50
    for text, value in zip(long, values, strict=True):
        assert value["answer"]["n"] == len(text) and text.startswith(value["answer"]["t"])
        assert len(value["answer"]["t"]) == packed.cut_chars
        assert (value["short"], value["list"]) == ("yes", ["a", 1, None])


def test_nothing_is_cut_without_need():
    """Within the budget every text is whole, however long, and each value is found by its block's start."""
    store = TextStore()
    texts = [Text("y" * n) for n in (0, 1, 65_536, 150_000, 3, 60_000, 5)]
    for text in texts:
        store.add([text])
    packed = store.pack()
    assert packed.n_cut == 1, "only what is longer than any recorded answer"
    assert [
        value[0] if isinstance(value[0], str) else value[0]["n"] for value in unpacked(packed)
    ] == [str(text) if len(text) <= 65_536 else len(text) for text in texts]
    assert (
        packed.starts == sorted(packed.starts)
        and packed.starts[0] == 0
        and len(packed.starts) == len(packed.blocks)
    )
