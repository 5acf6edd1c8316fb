"""Tags for resource files: readable, safe, and never shared."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawgauge.journal import resource_tag
from clawgauge.records import Target

NAMES = st.text(st.characters(exclude_categories=()), max_size=12) | st.text(
    st.sampled_from("aAb_/:@~.- éß\ud800"), max_size=12
)
TARGETS = st.builds(Target, NAMES, NAMES, st.none() | NAMES)


def on_any_file_system(tag: str) -> str:
    return tag.casefold()


@given(st.lists(TARGETS, min_size=2, max_size=6, unique=True))
def test_two_targets_never_share_a_tag(targets: list[Target]) -> None:
    """Different targets have different tags even where the file system ignores case."""
    assert len({on_any_file_system(resource_tag(target)) for target in targets}) == len(targets)


def test_every_way_to_cut_the_same_letters_stays_apart() -> None:
    """Moving the border between provider, model and level never yields the same tag."""
    texts = ["".join(letters) for n in range(5) for letters in itertools.product("a_@", repeat=n)]
    targets = {
        Target(p, m, level)
        for p, m in itertools.product(texts[:40], repeat=2)
        for level in (None, "", "a")
    }
    assert len({resource_tag(target) for target in targets}) == len(targets)


@given(TARGETS)
def test_tags_are_safe_file_names(target: Target) -> None:
    """A tag is at most 120 plain characters, so it fits into a file name anywhere."""
    assert re.fullmatch(r"[a-z0-9_][a-z0-9_.@~-]{0,119}", resource_tag(target))


@pytest.mark.parametrize(
    ("target", "tag"),
    [
        (Target("embedded", "smollm2-135m"), "embedded_smollm2-135m"),
        (Target("openai_responses", "gpt-5-codex", "high"), "openai_responses_gpt-5-codex@high"),
    ],
)
def test_plain_targets_keep_their_name(target: Target, tag: str) -> None:
    """A target that is a safe name already needs no hash."""
    assert resource_tag(target) == tag


def test_awkward_models_stay_readable_and_apart() -> None:
    """`a/b:c`, `a_b_c`, `A_B_C` and two long names get separate tags that still show the model."""
    models = ["a/b:c", "a_b_c", "A_B_C", "a-b-c", "x" * 300, "x" * 301, "模型", "模型二"]
    tags = [resource_tag(Target("ollama_openai", model)) for model in models]
    assert len({on_any_file_system(tag) for tag in tags}) == len(models)
    assert tags[0].startswith("ollama_openai_a-b-c~")
    assert all(len(tag) <= 120 for tag in tags)
