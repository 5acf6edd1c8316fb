"""The one order of models, for jobs and for a router."""

from __future__ import annotations

from itertools import permutations

from clawgauge.verdict.ranking import (
    Fitness,
    Score,
    find_best_by_error,
    find_best_by_shares,
    number_places,
    rank_model,
)


def test_limits_count_more_than_fitness_and_fitness_more_than_any_score() -> None:
    """Then whether there was an answer at all; of equals the name decides, in whatever order they came."""
    first_to_last = [
        rank_model("fit", Fitness.YES, 0.1, is_without_answer=False),
        rank_model("open, best score", Fitness.CANNOT_TELL, 0.9, is_without_answer=False),
        rank_model("open, a", Fitness.CANNOT_TELL, 0.5, is_without_answer=False),
        rank_model("open, b", Fitness.CANNOT_TELL, 0.5, is_without_answer=False),
        rank_model("open, silent", Fitness.CANNOT_TELL, 1.0, is_without_answer=True),
        rank_model("not fit", Fitness.NO, 1.0, is_without_answer=False),
        rank_model("removed", Fitness.YES, 1.0, is_without_answer=False, is_removed=True),
    ]
    for shuffled in list(permutations(first_to_last))[::97]:
        assert sorted(shuffled) == first_to_last


def test_who_rests_on_the_same_shares_the_place_of_the_first() -> None:
    assert number_places(["x", "y", "x", "z", "y"]) == [1, 2, 1, 4, 2]
    assert number_places([]) == []


def test_a_tie_is_a_distance_that_both_errors_together_explain() -> None:
    """1.645 standard errors of the difference: 0.16 of two errors of 0.07 is one, 0.17 is none."""
    assert find_best_by_error([Score(0.9, 0.07), Score(0.74, 0.07), Score(0.73, 0.07)]) == [0, 1]
    assert find_best_by_error([Score(0.9, 0.0), Score(0.9, 0.0)]) == [0, 1]
    assert find_best_by_error([Score(0.9, 0.07)]) == [0]
    assert find_best_by_error([]) == []


def test_as_few_models_as_are_the_best_in_95_of_100_resamplings_are_a_tie() -> None:
    assert find_best_by_shares([0.95, 0.05]) == [0]
    assert find_best_by_shares([0.94, 0.06]) == [0, 1]
    assert find_best_by_shares([0.10, 0.50, 0.40]) == [0, 1, 2]
    assert find_best_by_shares([0.04, 0.56, 0.40]) == [1, 2], "in the order of the scores"
    assert find_best_by_shares([]) == []
