"""Which further prompts the fit models of a run are asked until the best of them is known.

They are asked in rounds. What a round holds depends on the answers before it alone, and all that
are in it are asked the same: a run that was killed goes on with the same rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from clawgauge.records import Job, Target
from clawgauge.run_data.asking_order import Source, TextToAsk
from clawgauge.run_data.evidence import TextKey
from clawgauge.runner.decision import DecisionAgenda
from clawgauge.verdict.best import (
    BestOfJob,
    PairKey,
    compare_fit_models,
    find_weighed_pools,
)

# So many prompts of each kind are asked of one model before the next one has its turn: a model of
# one's own may have to be loaded for them.
_TEXTS_OF_A_ROUND = 5


class ToldApart(NamedTuple):
    """One model is ahead of another for a job."""

    job: str
    ahead: Target
    behind: Target
    n_shared: int
    only_ahead: int
    only_behind: int
    p: float
    """Of this pair alone."""

    def describe(self) -> dict[str, Any]:
        """The detail of the event, which is one of the model that is behind."""
        return {
            "job": self.job,
            "ahead": self.ahead.label,
            "n_shared": self.n_shared,
            "only_ahead": self.only_ahead,
            "only_behind": self.only_behind,
            "p": self.p,
        }


class BestSearch:
    """The fit models of a run, for each of its jobs, and who of them may still be the best.

    `look` has to be called before each round: what it tells decides what comes next.
    """

    def __init__(self, agendas: Mapping[Target, DecisionAgenda], jobs: Mapping[str, Job]) -> None:
        self._agendas = agendas
        self._target_by_label = {target.label: target for target in agendas}
        self._jobs: dict[str, Job] = {}
        for name, job in jobs.items():
            if find_weighed_pools(name, job):
                self._jobs[name] = job
        self._told_apart: dict[PairKey, float] = {}
        self._best: dict[str, BestOfJob] = {}

    def look(self) -> list[ToldApart]:
        """Compare the fit models by all answers that are in; who is told apart now."""
        for agenda in self._agendas.values():
            agenda.settle()
        found = []
        for name in self._jobs:
            best = self._compare(name, self._told_apart)
            self._best[name] = best
            for key, p in best.told_apart.items():
                if key not in self._told_apart:
                    found.append(self._describe(key, p, best))
            self._told_apart |= best.told_apart
        return found

    def _describe(self, key: PairKey, p: float, best: BestOfJob) -> ToldApart:
        for pair in best.pairs:
            if {pair.a, pair.b} == {key.ahead, key.behind}:
                break
        is_a_ahead = pair.a == key.ahead
        return ToldApart(
            job=key.job,
            ahead=self._target_by_label[key.ahead],
            behind=self._target_by_label[key.behind],
            n_shared=pair.n_shared,
            only_ahead=pair.only_a if is_a_ahead else pair.only_b,
            only_behind=pair.only_b if is_a_ahead else pair.only_a,
            p=p,
        )

    def choose_round(self) -> dict[Target, list[TextToAsk]]:
        """What each model is asked next; nothing where more could not tell who is best."""
        further: dict[Target, list[TextToAsk]] = {}
        for name, job in self._jobs.items():
            contenders = self._find_contenders(name)
            if len(contenders) < 2:
                continue
            pools = find_weighed_pools(name, job)
            for _ in range(_TEXTS_OF_A_ROUND):
                for source in self._agendas[contenders[0]].sources:
                    if set(pools) & set(source.pools):
                        self._add_next(source, contenders, further)
        return further

    def find_best(self, told_before: Mapping[PairKey, float]) -> dict[str, list[Target]]:
        """For each job that two models or more are fit for: the best, or those that may be.

        `told_before` has the pairs that earlier stretches have told apart.
        """
        best = {}
        for name in self._jobs:
            if len(self._find_fit(name)) > 1:
                self._best[name] = self._compare(name, {**told_before, **self._told_apart})
                best[name] = self._find_unbeaten(name)
        return best

    def _compare(self, name: str, told_apart: Mapping[PairKey, float]) -> BestOfJob:
        evidence = {}
        for target in self._find_fit(name):
            evidence[target.label] = self._agendas[target].evidence
        return compare_fit_models(name, self._jobs[name], evidence, told_apart)

    def _find_fit(self, job: str) -> list[Target]:
        return [target for target, agenda in self._agendas.items() if agenda.is_fit_for(job)]

    def _find_unbeaten(self, job: str) -> list[Target]:
        behind = self._best[job].behind_p if job in self._best else {}
        return [target for target in self._find_fit(job) if target.label not in behind]

    def _find_contenders(self, job: str) -> list[Target]:
        """Who may be the best and can be asked more."""
        contenders = []
        for target in self._find_unbeaten(job):
            if self._agendas[target].can_be_asked_on:
                contenders.append(target)
        return contenders

    def _add_next(
        self,
        source: Source,
        contenders: Sequence[Target],
        further: dict[Target, list[TextToAsk]],
    ) -> None:
        """The next text of a source that not all contenders have been asked, for those of them."""
        for text in source.texts:
            key = (text.prompt.key, text.draw)
            lacking = []
            for target in contenders:
                if not self._is_asked(target, key, further):
                    lacking.append(target)
            if not lacking:
                continue
            if not all(self._offers(target, text) for target in contenders):
                continue
            for target in lacking:
                further.setdefault(target, []).append(text)
            return

    def _is_asked(
        self, target: Target, key: TextKey, further: Mapping[Target, Sequence[TextToAsk]]
    ) -> bool:
        """Whether a model was asked a text, or will be in this round."""
        if key in self._agendas[target].asked_texts:
            return True
        return any((text.prompt.key, text.draw) == key for text in further.get(target, ()))

    def _offers(self, target: Target, text: TextToAsk) -> bool:
        """Whether a model can be asked a text: not one that its window is too short for."""
        agenda = self._agendas[target]
        return (text.prompt.key in agenda.prompt_keys) and agenda.offers(text)
