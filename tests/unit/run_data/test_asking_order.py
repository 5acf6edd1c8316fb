"""The order in which everybody asks the same suites: seeded, by categories in turns, blind to difficulty."""

from __future__ import annotations

import functools
from collections import Counter

from clawgauge.run_data.asking_order import order_sources, order_texts
from clawgauge.run_data.evidence import find_pools
from clawgauge.suites import load_suite
from clawgauge.verdict import BUILT_IN
from support.simulated_decisions import built_in


@functools.cache
def tasks():
    return load_suite("agentic").prompts


def texts_of(order: int = 0, version: str = "1", n_drawings: int = 3):
    prompts = tasks()
    pools = find_pools(prompts, {})
    return order_texts(prompts, pools, {"agentic": version}, order, n_drawings)


def test_the_order_is_the_same_for_everybody_and_another_where_it_is_wanted() -> None:
    assert texts_of() == texts_of()
    assert texts_of(order=1) != texts_of() and texts_of(version="2") != texts_of()


def test_all_are_asked_as_written_before_any_is_drawn() -> None:
    draws = [text.draw for text in texts_of()]
    assert draws == sorted(draws) and set(draws) == {0, 1, 2, 3}


def test_every_prompt_comes_first_about_as_often() -> None:
    """Over a hundred orders the hard tasks are not kept for the end: who comes first is drawn."""
    firsts = Counter(texts_of(order=order, n_drawings=0)[0].prompt.id for order in range(100))
    category = texts_of()[0].prompt.category
    members = {p.id for p in tasks() if p.category == category}
    assert set(firsts) <= members and len(firsts) >= 0.8 * len(members)
    assert max(firsts.values()) < 0.35 * 100


def test_variants_come_after_every_family() -> None:
    prompts = load_suite("native_tools").prompts
    texts = order_texts(prompts, find_pools(prompts, {}), {}, 0, 0)
    families = [text.prompt.family for text in texts]
    n_families = len(set(families))
    assert len(set(families[:n_families])) == n_families < len(texts)


def test_both_halves_of_a_pair_are_asked_one_after_the_other() -> None:
    prompts, _ = built_in()
    pools = find_pools(prompts, BUILT_IN)
    sources = order_sources(prompts, pools, {}, 0, 0)
    (restraint,) = [source for source in sources if source.pools == ("restraint",)]
    keys = [text.prompt.key for text in restraint.texts]
    assert pools.pairs
    for index, key in enumerate(keys):
        if key in pools.pairs:
            assert pools.family(keys[index + 1]) == key


def test_every_cheap_need_has_forty_families() -> None:
    """So many it takes that a model that is right nine times in ten is decided nearly always."""
    prompts, _ = built_in()
    pools = find_pools(prompts, BUILT_IN)
    sizes = {}
    for name in ("calls", "restraint", "job/heartbeat and triage", "job/structured data"):
        sizes[name] = len({pools.family(prompt) for prompt in pools.pools[name].prompts})
    assert min(sizes.values()) >= 40, sizes
