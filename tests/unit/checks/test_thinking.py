"""Inline thinking: what is removed, and where the answer starts."""

from __future__ import annotations

from clawgauge.checks import answer_start, split_thinking
from support.rows import every_row

ANSWERS = [
    ("plain", "plain"), ("", ""), ("<think>a</think>b", "b"), ("a<think>b</think>c", "ac"),
    ("<THINK>a</Think>b", "b"), ("<think>a", ""), ("a<think>b", "a"), ("a</think>b", "b"),
    ("a</think>b</think>c", "c"), ("<think>a<think>b</think>c</think>d", "d"),
    ("<think>a</think>b<think>c</think>d<think>e", "bd"), ("<think></think>", ""),
    ("<thinking>a</thinking>", "<thinking>a</thinking>"), ("a < think > b", "a < think > b"),
]  # fmt: skip


@every_row(("text", "answer"), ANSWERS)
def test_thinking_is_removed(text: str, answer: str) -> None:
    """Closed, unclosed and unopened thinking is no part of the answer."""
    assert split_thinking(text) == answer


@every_row(
    ("text", "start"),
    [
        ("plain", 0), ("  \n plain", 4), ("<think>a</think>\n b", 18), ("<think>a</think>", None), ("<think>a", None),
        ("a</think>b", 9), ("ok<think>a</think>", 0), (" \n<think>a</think> b", 19), ("", None), ("   ", None),
    ],
)  # fmt: skip
def test_the_answer_starts_at_its_first_visible_character(text: str, start: int | None) -> None:
    """White space and thinking before it do not count; without an answer there is no start."""
    assert answer_start(text) == start
