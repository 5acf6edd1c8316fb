"""What the tools take, as types: the schema that an agent is shown, and what refuses all else."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

_MAX_NAME_CHARS = 500

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=_MAX_NAME_CHARS)]
RunName = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=_MAX_NAME_CHARS,
        description="a run's name, as list_runs gives it, or latest",
    ),
]
TargetName = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=_MAX_NAME_CHARS,
        description="a model as PROVIDER:MODEL or PROVIDER:MODEL@LEVEL",
    ),
]
FigureNames = Annotated[
    list[Name],
    msgspec.Meta(
        max_length=100,
        description="names of figures, such as passed_of_asked, ttft_p50_ms, cost_per_call_usd; "
        "default: all that are known",
    ),
]
Offset = Annotated[int, msgspec.Meta(ge=0, le=1_000_000, description="how many to pass over")]


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of a tool. A name that is not there is refused, not passed over."""


class ListQuery(Arguments, frozen=True, kw_only=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=50, description="how many runs")] = 10
    offset: Offset = 0


class JobQuery(Arguments, frozen=True, kw_only=True):
    run: RunName = "latest"
    job: Annotated[Name, msgspec.Meta(description="one job only, such as subagent")] | None = None


class FiguresQuery(Arguments, frozen=True, kw_only=True):
    run: RunName = "latest"
    target: TargetName | None = None
    figures: FigureNames | None = None


class CallsQuery(Arguments, frozen=True, kw_only=True):
    run: RunName = "latest"
    target: TargetName | None = None
    suite: Name | None = None
    outcome: Literal["pass", "fail", "no_verdict", "no_answer", "not_asked"] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20
    offset: Offset = 0


class CallQuery(Arguments, frozen=True, kw_only=True):
    call: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=2_000,
            description="PROMPT_ID, SUITE/PROMPT_ID or TARGET/SUITE/PROMPT_ID#REPEAT",
        ),
    ]
    run: RunName = "latest"
    max_chars: Annotated[
        int, msgspec.Meta(ge=100, le=10_000, description="how long a text may be before it is cut")
    ] = 3_000


MaxCalls = Annotated[
    int, msgspec.Meta(ge=1, le=1_000_000, description="requests to each target at most")
]
MaxSeconds = Annotated[
    int, msgspec.Meta(ge=1, le=604_800, description="begin no call after so many seconds")
]


class Asking(Arguments, frozen=True, kw_only=True):
    """What a run would ask, of whom, and how much at most."""

    targets: Annotated[list[TargetName], msgspec.Meta(min_length=1, max_length=20)]
    suites: Annotated[
        list[Name],
        msgspec.Meta(
            max_length=20,
            description="built-in suites, by name; default: what it takes to decide the jobs",
        ),
    ] = []
    jobs: Annotated[
        list[Name], msgspec.Meta(max_length=20, description="decide only these jobs")
    ] = []
    max_calls: MaxCalls | None = None
    max_time_s: MaxSeconds | None = None


class ProgressQuery(Arguments, frozen=True, kw_only=True):
    run: RunName = "latest"


class StopOrder(Arguments, frozen=True, kw_only=True):
    run: Annotated[Name, msgspec.Meta(description="a run that start_run has started")]


class NoArguments(Arguments, frozen=True, kw_only=True):
    pass
