"""An independent count of results.jsonl against summary.json, over many hostile runs.

`recount` knows the schema page and nothing of this program: plain `json`, one dictionary per target.
"""

from __future__ import annotations

import json
import random
import statistics
from pathlib import Path
from typing import Any

import pytest

from clawgauge.journal import encode_document, iter_results
from clawgauge.records import Result
from clawgauge.run_data import Row
from clawgauge.summary import summarize_folder
from support.slow_rest import slow_rest
from support.written_runs import config, record, unanswered, write_run

VIEWS = [Result, Row]
STATUSES = ("ok", "skipped_unavailable", "auth_error", "rate_limited", "error")
TEXT_OR_NULL, TRUTH_OR_NULL = (str, type(None)), (bool, type(None))
# What names a cell and its outcome: a line that has one of these in another type is nobody's record.
REQUIRED = {"provider": str, "model": str, "prompt_id": str, "success": bool}
OPTIONAL = {
    "thinking_level": TEXT_OR_NULL, "failure_type": TEXT_OR_NULL, "objective_pass": TRUTH_OR_NULL,
    "tool_use_success": bool, "suite": str, "repeat": int,
}  # fmt: skip


def refuse(word: str) -> None:
    raise ValueError(word)


def integer(text: str) -> int | None:
    return int(text) if len(text) < 4000 else None


def whole(value: Any) -> int | None:
    """A count or a time, where it is a whole number, not below nothing, that every reader of JSON can hold."""
    return value if type(value) is int and 0 <= value <= 2**53 else None


def is_record(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and row.get("record_type", "result") == "result"
        and row.get("availability_status") in STATUSES
        and all(isinstance(row.get(name), kind) for name, kind in REQUIRED.items())
        and all(isinstance(row[name], kind) for name, kind in OPTIONAL.items() if name in row)
        and type(row.get("repeat", 0)) is int
    )


def recount(path: Path) -> tuple[dict[tuple[str, str, str | None], dict[str, Any]], int]:
    groups: dict[tuple[str, str, str | None], list[dict[str, Any]]] = {}
    n_unreadable = 0
    for line in path.read_bytes().split(b"\n"):
        try:
            row = json.loads(
                line.decode("utf-8", "replace"), parse_constant=refuse, parse_int=integer
            )
        except (ValueError, RecursionError):
            row = None
        if is_record(row):
            names = (row["provider"], row["model"], row.get("thinking_level"))
            groups.setdefault(tuple(mend(name) for name in names), []).append(row)  # type: ignore[arg-type]
        else:
            n_unreadable += bool(line.strip())
    return {target: count(rows) for target, rows in groups.items()}, n_unreadable


def mend(text: str | None) -> str | None:
    return text and text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def count(rows: list[dict[str, Any]]) -> dict[str, Any]:
    answered = [row for row in rows if row["availability_status"] == "ok"]
    succeeded = [row for row in answered if row["success"]]
    judged = [row for row in succeeded if row.get("objective_pass") is not None]
    times = [ms for row in succeeded if (ms := whole(row.get("e2e_ms"))) is not None]
    expecting = [row for row in answered if names_of(row.get("expected_tools"))]
    native = any(row.get("tools_offered") is True for row in expecting)
    pool = [row for row in expecting if (row.get("tools_offered") is True) == native]
    counted: dict[str, Any] = {
        "n_total": len(rows), "n_ok": len(answered), "n_success": len(succeeded), "n_judged": len(judged),
        "n_passed": sum(row["objective_pass"] for row in judged), "tool_n": len(pool),
        "tool_k": sum(row.get("tool_use_success", False) for row in pool),
        "mean": pytest.approx(statistics.fmean(times)) if times else None,
        "p50": pytest.approx(statistics.median(times)) if times else None,
    }  # fmt: skip
    for status in STATUSES[1:]:
        counted[f"n_{status}"] = sum(row["availability_status"] == status for row in rows)
    for name in ("input_tokens", "output_tokens", "cached_tokens"):
        known = [n for row in rows if (n := whole(row.get(name))) is not None]
        counted[name] = sum(known) if known else None
    return counted


def names_of(value: Any) -> list[str]:
    return value if isinstance(value, list) and all(isinstance(name, str) for name in value) else []


def said(summary: dict[str, Any], like: dict[str, Any]) -> dict[str, Any]:
    """The same figures as summary.json has them."""
    flat = (
        summary
        | {"tool_n": summary["tool_use"]["n"], "tool_k": summary["tool_use"]["k"]}
        | summary["latency_ms"]
    )
    return {name: flat[name] for name in like}


HUGE = "more digits than Python reads"
NUMBERS = (
    0,
    1,
    -1,
    7.0,
    1.5,
    2**53 - 1,
    2**53,
    2**53 + 1,
    -(2**63),
    2**64,
    10**30,
    HUGE,
    True,
    "12",
    None,
    [],
)
TEXTS = (
    "",
    "a\x00b",
    "\ud83d alone",
    "\U0001f600",
    "x" * 70_000,
    "</script>",
    "line\u2028end\n",
    None,
    5,
    {"a": []},
)
DEEP: Any = []
for _ in range(300):
    DEEP = [DEEP]

OBJECTS = (DEEP, {"e2e": 10**40, "lag": "x"}, [{"status": 3, "waited_ms": 2.5}])


def hostile_line(chance: random.Random) -> str | bytes:
    """A record as the runner writes them, then with a few values of a stranger's, then perhaps spoilt."""
    row = (record if chance.random() < 0.7 else unanswered)(f"P{chance.randrange(4)}")
    row["model"] = chance.choice(["a", "b", "\ud83d alone", "x\ny"])
    row["availability_status"] = (
        chance.choice(STATUSES) if chance.random() < 0.3 else row["availability_status"]
    )
    row["objective_pass"] = chance.choice([True, False, None])
    row["expected_tools"] = chance.choice([[], ["free"], ["free", "df"]])
    row["tool_use_success"], row["tools_offered"] = chance.random() < 0.5, chance.random() < 0.2
    row["e2e_ms"], row["input_tokens"], row["output_tokens"] = (
        chance.randrange(10**9) for _ in range(3)
    )
    for _ in range(chance.choice([0, 0, 1, 3])):
        name = chance.choice(
            [*row, "cached_tokens", "turns", "cost_usd", "record_type", "a new field"]
        )
        row[name] = chance.choice(
            [*NUMBERS, *TEXTS, DEEP, {"e2e": 10**40, "lag": "x"}, [{"status": 3, "waited_ms": 2.5}]]
        )
    for name in chance.sample(sorted(row), chance.choice([0, 0, 0, 1])):
        del row[name]
    return spoil(json.dumps(row).replace(json.dumps(HUGE), "1" * 5000), chance)


def spoil(line: str, chance: random.Random) -> str | bytes:
    kind = chance.randrange(40)
    if kind == 0:
        return line[: chance.randrange(len(line))]
    if kind == 1:
        return line.replace('"yes"', '"\x01"').replace("100", "NaN")
    if kind == 2:
        return line.encode().replace(b"name_P", b"\xff\xfe")
    if kind == 3:
        return line[:-1] + ', "objective_pass": false, "success": true}'
    if kind == 4:
        return line.replace('"e2e_ms": ', '"e2e_ms": 1e999, "was": ', 1)
    return line


@pytest.mark.parametrize(
    "seeds", slow_rest([range(n, n + 10) for n in range(0, 400, 10)], every=14), ids=str
)
def test_an_independent_reader_counts_the_same(tmp_path: Path, seeds: range) -> None:
    """Whatever stands in results.jsonl, every figure of summary.json is what anyone counts who reads the schema."""
    for seed in seeds:
        chance = random.Random(seed)
        folder = write_run(tmp_path / str(seed), [], config=config([], models=[]))
        lines = [hostile_line(chance) for _ in range(chance.randrange(1, 60))]
        data = [line if isinstance(line, bytes) else line.encode() for line in lines]
        (folder / "results.jsonl").write_bytes(b"\n".join([*data, b""]))
        counted, n_unreadable = recount(folder / "results.jsonl")
        summary = json.loads(encode_document(summarize_folder(folder)))
        assert summary["n_unreadable_lines"] == n_unreadable, seed
        groups = {(g["provider"], g["model"], g["thinking_level"]): g for g in summary["models"]}
        assert groups.keys() == counted.keys(), seed
        for view in VIEWS:
            reader = iter_results(folder, view)
            assert (len(list(reader)), reader.n_unreadable_lines) == (
                sum(g["n_total"] for g in counted.values()),
                n_unreadable,
            )
        for target, figures in counted.items():
            assert said(groups[target], figures) == figures, (seed, target)
