"""Ask OpenClaw what it would send, model by model, and hold that against what was measured."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from clawgauge.child_processes.child import Captured
from clawgauge.registry import find_type
from clawgauge.routing.evidence import Evidence
from clawgauge.routing.openclaw_keys import find_keys, measured_request
from clawgauge.routing.request_facts import read_request
from clawgauge.routing.verification.comparison import (
    Comparison,
    Size,
    compare_requests,
    measure_size,
)
from clawgauge.routing.verification.isolation import (
    find_variables,
    is_vendors_own,
    isolate,
    isolated_environment,
)
from clawgauge.routing.verification.program import (
    TESTED_VERSIONS,
    Deadline,
    OpenClaw,
    RefusedConfiguration,
    Untold,
    find_missing_key,
    find_program,
    read_version,
    word_output,
    write_private,
)
from clawgauge.routing.verification.recorder import Recorder, SeenRequest, recording
from clawgauge.routing.verification.slots import FilledSlot, find_slots


class Outcome(Enum):
    """What came of a place."""

    SAME = "same"
    DIFFERS = "differs"
    UNTOLD = "untold"
    NOT_MEASURED = "not_measured"
    NOT_COMPARED = "not_compared"


@dataclass(frozen=True, slots=True)
class SlotResult:
    """A place, and what would be sent from it."""

    slot: FilledSlot
    outcome: Outcome
    comparison: Comparison | None = None
    why: str = ""
    at_another_address: bool = False
    seen: SeenRequest | None = None
    """The request itself. It holds OpenClaw's own text, and is shown to nobody."""


@dataclass(slots=True)
class Verification:
    """The whole: why nothing could be told (`problem`), or what came of each place."""

    version: str | None = None
    results: list[SlotResult] = field(default_factory=list)
    sizes: list[Size] = field(default_factory=list)
    problem: str | None = None
    is_refused: bool = False
    """Whether the problem is that OpenClaw does not take the configuration."""

    @property
    def is_tested_version(self) -> bool:
        return self.version in TESTED_VERSIONS

    def count(self, *outcomes: Outcome) -> int:
        return sum(result.outcome in outcomes for result in self.results)

    @property
    def n_places(self) -> int:
        return len(self.results)

    @property
    def n_differ(self) -> int:
        return self.count(Outcome.DIFFERS)

    @property
    def exit_code(self) -> int:
        """0 where all is the same, 1 where something differs, 2 where it could not be told."""
        if self.count(Outcome.DIFFERS):
            return 1
        if self.problem is not None or self.count(Outcome.UNTOLD):
            return 2
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """How a verification goes about."""

    timeout_s: float
    with_gateway: bool
    environ: Mapping[str, str]
    notify: Callable[[str], None]


class Told:
    """What a model sent, asked once for all places that send the same."""

    def __init__(self) -> None:
        self.seen: SeenRequest | None = None
        self.problem: str | None = None
        self.is_keyless = False


async def verify_routing(
    config: Mapping[str, Any], evidence: Sequence[Evidence], options: VerifyOptions
) -> Verification:
    """Ask the OpenClaw of this machine about a whole configuration. Nothing leaves the machine, and
    nothing of the user's is written to."""
    verification = Verification()
    program = find_program(options.environ)
    if program is None:
        verification.problem = "no `openclaw` is on PATH: install it, or run this where it is"
        return verification
    verification.version = read_version(program)
    options.notify(word_start(verification))
    slots = find_slots(config, evidence)
    if not slots:
        verification.problem = "the configuration names no model"
        return verification
    with _temporary_folder() as root, recording() as recorder:
        openclaw = _set_up(root, program, config, slots, recorder, options, verification.version)
        try:
            await _validate(openclaw, config, root)
            if options.with_gateway:
                from clawgauge.routing.verification.gateway import ask_gateway

                await ask_gateway(openclaw, slots, recorder, verification)
            else:
                await _ask_each(openclaw, slots, recorder, verification)
        except RefusedConfiguration as refused:
            verification.problem = str(refused)
            verification.is_refused = True
        except Untold as untold:
            verification.problem = str(untold)
    return verification


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    prefix = "clawgauge-verify-"
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name:
        yield Path(name).resolve()


def word_start(verification: Verification) -> str:
    """What is about to be done, with which version."""
    version = verification.version or "of an unknown version"
    line = f"asking OpenClaw {version} what it would send; nothing leaves this machine"
    if not verification.is_tested_version:
        tested = ", ".join(TESTED_VERSIONS)
        line += f" (tested with {tested}: what is not understood is not compared)"
    return line


def _set_up(
    root: Path,
    program: Path,
    config: Mapping[str, Any],
    slots: Sequence[FilledSlot],
    recorder: Recorder,
    options: VerifyOptions,
    version: str | None,
) -> OpenClaw:
    workspace = root / "workspace"
    for folder in (workspace, root / "home", root / "state"):
        folder.mkdir()
    copy = root / "openclaw.json"
    refs = [slot.ref for slot in slots]
    write_private(copy, isolate(config, workspace, recorder.address, refs))
    return OpenClaw(
        path=program,
        version=version,
        environ=isolated_environment(options.environ, root, copy),
        workspace=workspace,
        config=copy,
        deadline=Deadline.in_s(options.timeout_s),
    )


async def _validate(openclaw: OpenClaw, config: Mapping[str, Any], root: Path) -> None:
    """Have the configuration itself checked, as it would be written."""
    whole = root / "whole.json"
    write_private(whole, config)
    try:
        # OpenClaw puts their values into the file before it looks at it.
        await openclaw.validate(whole, dict.fromkeys(find_variables(config), "verify"))
    finally:
        whole.unlink(missing_ok=True)


async def _ask_each(
    openclaw: OpenClaw,
    slots: Sequence[FilledSlot],
    recorder: Recorder,
    verification: Verification,
) -> None:
    """One turn for each model, with the level that its place sets."""
    told_by_model: dict[tuple[str, str | None], Told] = {}
    for slot in slots:
        if not is_comparable(slot):
            verification.results.append(leave_out(slot))
            continue
        key = (slot.ref, slot.level)
        told = told_by_model.get(key)
        if told is None:
            told = await ask_model(openclaw, slot, recorder)
            told_by_model[key] = told
            if told.seen is not None:
                verification.sizes.append(measure_size(told.seen.body))
        verification.results.append(judge_slot(slot, told.seen, told.problem, told.is_keyless))


def is_comparable(slot: FilledSlot) -> bool:
    """Whether anything of this place's model can be held against a request."""
    return (
        slot.evidence is not None
        and not is_vendors_own(slot.ref)
        and find_type(slot.evidence.provider_type).openclaw_runtime is None
        and measured_request(slot.evidence) is not None
    )


def leave_out(slot: FilledSlot) -> SlotResult:
    """The result of a place that is not asked about."""
    if slot.evidence is None:
        return SlotResult(slot, Outcome.NOT_MEASURED, why="not measured")
    if find_type(slot.evidence.provider_type).openclaw_runtime is not None:
        why = "not compared: OpenClaw runs a program for it, whose requests are that program's own"
        return SlotResult(slot, Outcome.NOT_COMPARED, why=why)
    if is_vendors_own(slot.ref):
        why = "not compared: OpenClaw's own provider does otherwise at another address"
        return SlotResult(slot, Outcome.NOT_COMPARED, why=why)
    why = "not compared: its run was made before requests were kept; measure it again"
    return SlotResult(slot, Outcome.NOT_COMPARED, why=why)


async def ask_model(openclaw: OpenClaw, slot: FilledSlot, recorder: Recorder) -> Told:
    """One turn of the agent with the model of a place."""
    told = Told()
    n_before = len(recorder.requests)
    done: Captured | None = None
    try:
        done = await openclaw.ask(slot.ref, slot.level)
    except Untold as untold:
        told.problem = str(untold)
    told.seen = find_request(recorder.requests[n_before:], slot.ref)
    if told.seen is None and done is not None:
        missing_key = find_missing_key(done)
        told.is_keyless = missing_key is not None
        told.problem = missing_key or word_output(done)
    return told


def find_request(requests: Sequence[SeenRequest], ref: str) -> SeenRequest | None:
    """The first request to a model."""
    provider_id, _, model = ref.partition("/")
    for request in requests:
        if request.provider_id == provider_id and request.model == model:
            return request
    for request in requests:
        # Under another name of its own for the model.
        if request.provider_id == provider_id:
            return request
    return None


def judge_slot(
    slot: FilledSlot,
    seen: SeenRequest | None,
    problem: str | None,
    is_keyless: bool = False,
    *,
    has_own_sampling: bool = False,
) -> SlotResult:
    """Hold what a place's model was seen to send against what was measured of it."""
    evidence = slot.evidence
    if evidence is None:
        return leave_out(slot)
    measured = measured_request(evidence)
    if measured is None:
        return leave_out(slot)
    is_own = is_vendors_own(slot.ref)
    if seen is None:
        outcome = Outcome.DIFFERS if is_keyless else Outcome.UNTOLD
        why = f"no call was made: {problem}" if is_keyless else f"could not be told: {problem}"
        return SlotResult(slot, outcome, why=why, at_another_address=is_own)
    comparison = compare_requests(
        measured,
        read_request(seen.path, seen.body),
        has_reasoned=evidence.has_reasoned,
        compares_limit="maxTokens" in find_keys(evidence).entry,
        has_own_sampling=has_own_sampling,
    )
    outcome = Outcome.DIFFERS if comparison.differences else Outcome.SAME
    return SlotResult(slot, outcome, comparison, at_another_address=is_own, seen=seen)
