"""What to ask next so that the jobs of a run are decided with as few calls as that takes.

The prompt at a position of a run's order depends on the verdicts at earlier positions alone, and
never on when they came: a run that was killed goes on with the same prompts in the same order.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from clawgauge.records import FamilyTally, Job, Prompt, PromptKey, Result
from clawgauge.run_data.asking_order import Effort, Source, TextToAsk
from clawgauge.run_data.evidence import (
    TEXT_CALLS,
    Evidence,
    EvidencePools,
    Observation,
    Observations,
    TextKey,
    Weight,
    observe,
)
from clawgauge.runner.agenda import (
    Budget,
    Cell,
    Outcome,
    SpendingKey,
    TimeBudget,
    describe_spent,
)
from clawgauge.stats.decision import CALLS_ZONE, NO_AT, YES_AT, Decision, FamilyCounts, score
from clawgauge.suites.drawings import Drawings
from clawgauge.verdict.decision import Decisions, Question
from clawgauge.verdict.states import JobState, find_states

CALLS_OF_A_TASK = 7
"""What a task is expected to take, as long as nothing is known of the model."""
# The pass rate that is expected of a model before it was asked, as passes among answers.
_EXPECTED_PASSES = 14
_EXPECTED_ANSWERS = 15
# Of so many first answers to prompts with tools most must have reached the model.
_CALLS_WITH_TOOLS = 4
# Below this a score is as good as drawn to neither end.
_NO_DRIFT = 1e-3


class DecisionAgenda:
    """The cells of a target, chosen one at a time by what the answers have decided so far.

    The cell at position i is chosen by the answers at positions up to i - `calls_ahead`: so many
    calls may be under way at once. Answers of earlier stretches (`recorded`) are taken as they
    are, in the same order. `leftovers` tell of no need: they are all asked, at the end.
    """

    def __init__(
        self,
        *,
        sources: Sequence[Source],
        pools: EvidencePools,
        jobs: Mapping[str, Job],
        decisions: Decisions,
        drawings: Drawings,
        calls_ahead: int,
        budgets: list[Budget],
        recorded: Mapping[SpendingKey, Observation],
        leftovers: Sequence[Prompt] = (),
        skipped: Sequence[Outcome] = (),
        takes_tools: bool | None = None,
    ) -> None:
        self.skipped = skipped
        self.answered = asyncio.Event()
        self._sources = sources
        self._prompt_keys = {text.prompt.key for source in sources for text in source.texts}
        self._drawings = drawings
        self.calls_ahead = calls_ahead
        self._budgets = budgets
        self._recorded = dict(recorded)
        self._evidence = Evidence(pools, Observations())
        self._jobs = jobs
        self._decisions = decisions
        self._decisions.learn({}, 0)
        self._asked_texts: set[TextKey] = set()
        # By position: the cell that was chosen, and what came of it, None as long as it is out.
        self._cells: list[Cell] = []
        self._observed: list[Observation | None] = []
        self._position_of: dict[SpendingKey, int] = {}
        # The positions whose answers have been counted.
        self._n_applied = 0
        # How far each source has been asked, and whether all there is has been asked again.
        self._next_text = [0] * len(sources)
        self._asked_again: set[TextKey] = set()
        self._leftovers = [TextToAsk(prompt, 0) for prompt in leftovers]
        # Whether all is decided that is to be, and what is asked now is to find the best model.
        self._is_asked_on = False
        self._is_over = False
        self._is_given_up = False
        self._chosen: Cell | None = None
        self._n_recorded = 0
        # Of the first answers to prompts with tools, which of them never reached the model.
        self._first_drops: list[bool] = []
        # Why the target is asked nothing with tools any more, as a code; None while it takes them.
        self._no_tools: str | None = None
        if takes_tools is False:
            self._leave_out_tools("provider")
        self._choose()

    @property
    def is_decided(self) -> bool:
        """Whether no question is open any more."""
        return not self._decisions.open_questions()

    @property
    def n_answers(self) -> int:
        """How many answers have been counted."""
        return self._n_applied

    @property
    def sources(self) -> Sequence[Source]:
        """Where its texts are from."""
        return self._sources

    @property
    def evidence(self) -> Evidence:
        """What the answers that were counted say of the model."""
        return self._evidence

    @property
    def asked_texts(self) -> Collection[TextKey]:
        """What was asked of it so far, or is being asked."""
        return self._asked_texts

    @property
    def prompt_keys(self) -> Collection[PromptKey]:
        """The prompts that it may be asked."""
        return self._prompt_keys

    @property
    def is_asked_on(self) -> bool:
        """Whether it is asked on although all is decided, to find the best of several models."""
        return self._is_asked_on

    @property
    def can_be_asked_on(self) -> bool:
        """Whether the asking has come to its end, and more may be asked all the same."""
        if not self._is_over or self._is_given_up:
            return False
        return all(budget.is_open() for budget in self._budgets)

    def is_fit_for(self, job: str) -> bool:
        """Whether the model is decided fit for a job."""
        return job in self._decisions.jobs and self._decisions.of_job(job) is Decision.YES

    def offers(self, text: TextToAsk) -> bool:
        """Whether there is such a text, and the model takes it."""
        if not self._can_be_asked(text.prompt):
            return False
        return self._drawings.draw(text.prompt, text.draw) is not None

    def settle(self) -> None:
        """Count every answer that is in, also those that came after all was decided."""
        self._apply_up_to(len(self._cells))

    def ask_on(self, texts: Sequence[TextToAsk]) -> None:
        """Ask these as well, in this order, although all is decided."""
        self._is_asked_on = True
        self._leftovers += texts
        self._asked_texts.update((text.prompt.key, text.draw) for text in texts)
        self._is_over = False
        self._choose()

    def states(self) -> dict[str, JobState]:
        """What is known of the model for each job by now."""
        return find_states(self._decisions, self._evidence.count_all(), self._jobs)

    @property
    def is_waiting(self) -> bool:
        """Whether another cell can be told only once one that is out has been answered."""
        return not self._is_over and self._chosen is None and not self._is_given_up

    @property
    def n_untaken(self) -> int:
        """How many calls are expected to be left."""
        if self._is_over or self._is_given_up:
            return 0
        return max(1, self._expect_calls())

    @property
    def n_open(self) -> int:
        """How many calls are expected from here, as far as the budgets allow them."""
        n_open = self.n_untaken
        for budget in self._budgets:
            calls_left = budget.calls_left
            if calls_left is not None:
                n_open = min(n_open, calls_left)
        return n_open

    @property
    def n_at_most(self) -> int:
        """How many calls there could be from here if all that there is were asked, as far as the
        budgets allow them."""
        n_calls = 0
        for source in self._sources:
            n_calls += len(source.texts) * _calls_of_a_text(source.effort)
        for budget in self._budgets:
            calls_left = budget.calls_left
            if calls_left is not None:
                n_calls = min(n_calls, calls_left)
        return n_calls

    def holds(self, cell: Cell) -> bool:
        """Whether the cell is the next one."""
        return self._chosen is not None and self._chosen == cell

    def take(self, only: Cell | None = None) -> Cell | None:
        """The next cell to ask; None where none is left, or one that is out decides the next.

        What others are asked (`only`) does not matter: each target has its own next cell.
        """
        if self._is_given_up or not all(budget.is_open() for budget in self._budgets):
            return None
        cell = self._chosen
        if cell is None:
            return None
        for budget in self._budgets:
            budget.issue(cell)
        self._chosen = None
        self._choose()
        return cell

    def pause(self) -> None:
        """The target is not asked for now: its time stands still."""
        for budget in self._budgets:
            if isinstance(budget, TimeBudget):
                budget.pause()

    def resume(self) -> None:
        """The target is asked again."""
        for budget in self._budgets:
            if isinstance(budget, TimeBudget):
                budget.resume()

    def give_up(self) -> bool:
        """Take nothing more of a target that cannot answer. What was not asked has no record."""
        self._is_given_up = True
        self._wake()
        return True

    def learn(self, result: Result) -> None:
        """Count a result against the budgets, and let it decide what is asked next."""
        for budget in self._budgets:
            budget.learn(result)
        key = (result.suite, result.prompt_id, result.repeat, result.draw)
        position = self._position_of.get(key)
        if position is not None:
            self._observed[position] = observe(result)
            if self._chosen is None:
                self._choose()
        self._wake()

    def _wake(self) -> None:
        self.answered.set()
        self.answered = asyncio.Event()

    def _choose(self) -> None:
        """Find the next cell that nobody has asked yet, if the answers that it hangs on are in."""
        while self._chosen is None and not self._is_over:
            position = len(self._cells)
            if not self._apply_up_to(position - self.calls_ahead + 1):
                return
            text = None
            if not self._is_asked_on:
                text = self._choose_text()
            repeat = 0
            if text is None and not self.is_decided and not self._is_asked_on:
                # Nothing is left to ask for the first time: that is sure once all is in.
                if not self._apply_up_to(position):
                    return
                text = self._choose_text()
                if text is None and not self.is_decided:
                    text = self._choose_unanswered()
                    repeat = 1
            if text is None and self._leftovers:
                text = self._leftovers.pop(0)
            if text is None:
                self._is_over = True
                self._apply_up_to(position)
                return
            self._add(text, repeat)

    def _add(self, text: TextToAsk, repeat: int) -> None:
        """Put a text at the next position: to be asked, or as an earlier stretch has asked it."""
        # Only drawings that there are get chosen.
        prompt = self._drawings.draw(text.prompt, text.draw) or text.prompt
        cell = Cell(prompt, repeat, text.draw)
        self._position_of[cell.spending_key] = len(self._cells)
        self._cells.append(cell)
        observation = self._recorded.pop(cell.spending_key, None)
        self._observed.append(observation)
        if observation is None:
            self._chosen = cell
        else:
            self._n_recorded += 1

    def _apply_up_to(self, n_positions: int) -> bool:
        """Count the answers at the first positions, in their order; False where one is not in."""
        learned = False
        is_complete = True
        while self._n_applied < n_positions:
            observation = self._observed[self._n_applied]
            if observation is None:
                is_complete = False
                break
            cell = self._cells[self._n_applied]
            self._evidence.observations.add(cell.prompt.key, cell.draw, cell.repeat, observation)
            self._n_applied += 1
            learned = True
            if cell.prompt.tools and self._no_tools is None:
                self._learn_of_tools(observation)
        if learned:
            self._decisions.learn(self._evidence.count_all(), self._evidence.observations.n_harm)
        return is_complete

    def _learn_of_tools(self, observation: Observation) -> None:
        """See whether the target takes tools at all: by its word, or by the first few answers."""
        if observation.refuses_tools:
            self._leave_out_tools("refused")
            return
        if observation.weight is not Weight.ANSWER or len(self._first_drops) == _CALLS_WITH_TOOLS:
            return
        self._first_drops.append(observation.drops_tools)
        if sum(self._first_drops) > _CALLS_WITH_TOOLS / 2:
            self._leave_out_tools("dropped")

    def _leave_out_tools(self, why: str) -> None:
        """Ask nothing with tools any more, and what shows calls that are written as text
        instead."""
        self._no_tools = why
        with_tools = {text.prompt.key for text in self._texts() if text.prompt.tools}
        closed = []
        for name, pool in self._evidence.pools.pools.items():
            if pool.prompts and pool.prompts <= with_tools | self._evidence.pools.pairs:
                closed.append(name)
        self._decisions.close(closed)
        if any(TEXT_CALLS in source.pools for source in self._sources):
            self._decisions.add_question(Question(TEXT_CALLS, CALLS_ZONE))
            self._decisions.learn(self._evidence.count_all(), self._evidence.observations.n_harm)
        self._leftovers = [text for text in self._leftovers if not text.prompt.tools]

    def _texts(self) -> Iterator[TextToAsk]:
        for source in self._sources:
            yield from source.texts

    def _can_be_asked(self, prompt: Prompt) -> bool:
        return self._no_tools is None or not prompt.tools

    def _choose_text(self) -> TextToAsk | None:
        """The next text of the source that is furthest from being good, of the least effort."""
        open_questions = self._decisions.open_questions()
        candidates: list[tuple[Effort, float, int, TextToAsk]] = []
        for index, source in enumerate(self._sources):
            questions = [question for question in open_questions if question.pool in source.pools]
            text = self._peek(index) if questions else None
            if text is not None:
                lowest = min(self._expected_score(question) for question in questions)
                candidates.append((source.effort, lowest, index, text))
        if not candidates:
            return None
        *_, text = min(candidates, key=lambda candidate: candidate[:3])
        self._asked_texts.add((text.prompt.key, text.draw))
        return text

    def _peek(self, index: int) -> TextToAsk | None:
        """The first text of a source that was not asked yet, for this need or another."""
        texts = self._sources[index].texts
        while self._next_text[index] < len(texts):
            text = texts[self._next_text[index]]
            is_over = (text.prompt.key, text.draw) in self._asked_texts
            is_over = is_over or not self._can_be_asked(text.prompt)
            if not is_over and self._drawings.draw(text.prompt, text.draw) is not None:
                return text
            self._next_text[index] += 1
        return None

    def _expected_score(self, question: Question) -> float:
        """The score of a question if all that is out is passed.

        Without that, all calls that are out at once would be of one source.
        """
        pool = self._evidence.pools.pools[question.pool]
        under_way: list[TextKey] = []
        for cell in self._cells[self._n_applied :]:
            if cell.prompt.key in pool.prompts:
                under_way.append((cell.prompt.key, cell.draw))
        if not under_way:
            return self._decisions.scores[question]
        return question.score(self._evidence.count(question.pool, under_way))

    def _choose_unanswered(self) -> TextToAsk | None:
        """A text that was asked and not answered, for a question that is open: each once more."""
        open_pools = {question.pool for question in self._decisions.open_questions()}
        for source in self._sources:
            if not open_pools & set(source.pools):
                continue
            for text in source.texts:
                key = (text.prompt.key, text.draw)
                if key not in self._asked_texts or key in self._asked_again:
                    continue
                if not self._can_be_asked(text.prompt):
                    continue
                if not self._evidence.observations.is_settled(*key):
                    self._asked_again.add(key)
                    return text
        return None

    def _expect_calls(self) -> int:
        """How many calls are expected until all questions are decided, if the rates stay so."""
        n_by_source = [0.0] * len(self._sources)
        open_questions = [] if self._is_asked_on else self._decisions.open_questions()
        for question in open_questions:
            tallies = self._evidence.count(question.pool)
            n_expected = _expect_answers(question, tallies, self._decisions.scores[question])
            for index, source in enumerate(self._sources):
                if question.pool in source.pools:
                    n_left = len(source.texts) - self._next_text[index]
                    n_by_source[index] = max(n_by_source[index], min(n_expected, n_left))
        total = 0.0
        for source, n_answers in zip(self._sources, n_by_source, strict=True):
            total += n_answers * _calls_of_a_text(source.effort)
        for text in self._leftovers:
            total += CALLS_OF_A_TASK if text.prompt.world is not None else 1
        return math.ceil(total)

    def outcomes(self) -> list[Outcome]:
        """What a reader of the run must know about what was decided, and what was not asked."""
        if self._is_asked_on:
            # What was decided has been told.
            return describe_spent(self._budgets, self.n_untaken)
        outcomes: list[Outcome] = list(self.skipped)
        questions = {}
        scores = {}
        for question in self._decisions.questions:
            if question.pool in self._evidence.pools.pools:
                questions[question.label] = self._decisions.of_question(question).value
                scores[question.label] = round(self._decisions.scores[question], 6)
        if self._no_tools is not None:
            outcomes.append(Outcome("takes_no_tools", {"why": self._no_tools}))
        jobs = {name: self._decisions.of_job(name) for name in self._decisions.jobs}
        is_left_open = self._no_tools is not None and Decision.OPEN in jobs.values()
        detail: dict[str, Any] = {
            "questions": questions,
            "scores": scores,
            "jobs": {name: decision.value for name, decision in jobs.items()},
            "answers": self._n_applied,
            "all_asked": self._is_over and (is_left_open or not self.is_decided),
        }
        is_decided = self.is_decided and not is_left_open
        event = "jobs_decided" if is_decided else "jobs_undecided"
        outcomes.append(Outcome(event, detail))
        outcomes += describe_spent(self._budgets, self.n_untaken)
        return outcomes


def _calls_of_a_text(effort: Effort) -> int:
    return CALLS_OF_A_TASK if effort is Effort.TASK else 1


def _expect_answers(
    question: Question, tallies: Sequence[FamilyTally], current_score: float
) -> float:
    """How many further families are expected to decide a question, if the rate stays as it is."""
    passes = sum(tally.passes * tally.n for tally in tallies)
    answers = sum(tally.answers * tally.n for tally in tallies)
    rate = (passes + _EXPECTED_PASSES) / (answers + _EXPECTED_ANSWERS)
    a_pass = score([FamilyCounts(1, 1, question.zone)])
    a_failure = score([FamilyCounts(0, 1, question.zone)])
    step = rate * a_pass + (1 - rate) * a_failure
    variance = rate * (1 - rate) * (a_pass - a_failure) ** 2
    to_yes = YES_AT - current_score
    to_no = current_score - NO_AT
    # A walk with this drift and spread until it leaves at either end (Wald 1945).
    pull = 2 * step / variance
    if abs(pull) * (to_yes + to_no) < _NO_DRIFT:
        return to_yes * to_no / variance
    chance_of_yes = math.expm1(-pull * to_no) / math.expm1(-pull * (to_yes + to_no))
    return (chance_of_yes * to_yes - (1 - chance_of_yes) * to_no) / step
