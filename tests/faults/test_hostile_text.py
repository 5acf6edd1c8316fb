"""Rows 42-44 and 53: text that would run in a browser, break a table, steer a terminal or end a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from faults.terminal import on_a_terminal
from support.command import Outcome, clawgauge, read_records, write_suite
from support.scripted_server import InstalledModel, ScriptedServer, Status, Text

CLIPBOARD = "\x1b]52;c;ZXZpbA==\x07"
STEERING = (
    f"{CLIPBOARD}\x1b[38;5;199m\x1b[2J\x1b]0;title\x1b\\\x9b5A\x90q\x9c\rover\b\x7f"
    "\u202egnp.exe\u2066\u200f\ufeff"
)
MARKUP = "<script>alert(1)</script><img src=x onerror=alert(2)>[go](javascript:alert(3)) javascript:alert(4)"
TABLE = "a|b`c`|d\\|e\n\n| f |\n# h\n```\n- i"
HOSTILE = f"{STEERING}{MARKUP}{TABLE}"
LINE_ENDERS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
# What must not stand raw in a file, and not at all on a terminal: controls, bidi marks, line separators of others.
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Outcome]:
    """A run in which everything foreign is hostile: models, suites, prompts, answers, tools, errors, names."""
    with ScriptedServer(
        models=["plain", InstalledModel(HOSTILE, digest=HOSTILE)], loaded=[HOSTILE]
    ) as server:
        (tmp_path / "clawgauge.toml").write_text(
            f'[providers.fake]\ntype = "openai_chat"\nbase_url = "{server.v1_url}"\nlocal = true\n'
        )
        suite_name = "s|<script>`x`\u202e\x9b"
        write_suite(
            tmp_path / "hostile.json",
            {"prompt": HOSTILE, "name": HOSTILE, "validator": {"type": "exact", "value": "yes"}},
            {
                "prompt": "p",
                "name": f"n{HOSTILE}",
                "validator": {"type": "tool_invocation", "expected_tools": ["x"]},
            },
            {"prompt": "q", "id": "P|`\u202e<b>", "validator": {"type": "max_words", "value": 1}},
            {"prompt": "r"},
            name=suite_name,
        )

        def reply(request):
            if request.prompt == "r":
                return Status(400, message=HOSTILE)
            calls = [(HOSTILE, json.dumps({HOSTILE: HOSTILE}))] if request.prompt == "p" else []
            return Text(chunks=[HOSTILE], reasoning=HOSTILE, tool_calls=calls, model=HOSTILE)

        server.reply_with(reply)
        # A bracket would make a pattern of it, and a list with such a name in it is cut down.
        targets = (
            "-t",
            "fake:plain",
            "-t",
            "fake:" + HOSTILE.replace("[", "("),
            "-t",
            "ollama_openai:plain",
        )
        env = {"OLLAMA_HOST": server.base_url}
        done = clawgauge(tmp_path, "run", *targets, "-s", "hostile.json", "--run-id", "r", env=env)
        assert done.code == 0, done.stderr
        yield done


class Page(HTMLParser):
    """Which elements a page has, with which attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))


def test_row_42_markup_is_inert_in_the_summary(hostile: Outcome) -> None:
    """summary.md as a web page has tables, lists and text: no element, link or handler that came from outside."""
    text = (hostile.folder / "summary.md").read_text(encoding="utf-8")
    assert "alert(1)" in text  # it was there to be run
    page = Page()
    page.feed(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))
    ours = {
        "h1",
        "h2",
        "p",
        "ul",
        "li",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "pre",
        "code",
        "br",
    }
    assert {tag for tag, _ in page.elements} <= ours
    assert {name for _, attributes in page.elements for name in attributes} <= {"style"}


def test_row_43_a_table_keeps_its_columns(
    hostile: Outcome, place: Path, server: ScriptedServer
) -> None:
    """Pipes, line ends and back-ticks in names and errors leave every table with its columns, every row with all."""
    server.reply_with(Status(400))
    plain = clawgauge(
        place, "run", "-t", "fake:scripted-model", "-s", "small.json", "--run-id", "plain"
    )
    wanted = tables(plain.folder)
    found = tables(hostile.folder)
    assert list(found) == list(wanted)
    for heading, rows in found.items():
        assert {len(row) for row in rows} == {len(wanted[heading][0])}
        assert rows[0] == wanted[heading][0]
    assert len(found["Models"]) == 2 + 3


def tables(folder: Path) -> dict[str, list[list[str]]]:
    """Every table of summary.md under the heading before it: each line that begins a row, cut at its true pipes.

    Cut by hand, since a Markdown parser drops the cells that a broken row has too many.
    """
    found: dict[str, list[list[str]]] = {}
    heading = ""
    for line in (folder / "summary.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif line.startswith("|"):
            cells = re.split(r"(?<!\\)(?:\\\\)*\|", line)[1:-1]
            found.setdefault(heading, []).append([cell.strip() for cell in cells])
    return found


def test_row_44_files_hold_escapes(hostile: Outcome) -> None:
    """In every file of the run such characters are \\u escapes or gone, and the record reads back as it came."""
    files = [path for path in hostile.folder.iterdir() if path.is_file()]
    assert len(files) == 6 + 3 * 2
    for path in files:
        found = set(RAW.findall(path.read_text(encoding="utf-8")))
        assert found <= ({"\ufeff"} if path.suffix == ".txt" else set()), path.name
    lines = (hostile.folder / "results.jsonl").read_bytes()
    for escape in (b"\\u001b]52;", b"\\u009b", b"\\u202e", b"\\u2066", b"\\ufeff", b"\\u007f"):
        assert escape in lines
    answers = {record["raw_output"] for record in read_records(hostile.folder) if record["success"]}
    assert answers == {HOSTILE}


def test_row_44_printed_lines_steer_nothing(hostile: Outcome) -> None:
    """Piped output, of every verb, holds the words and none of the marks; JSON on stdout has them escaped."""
    assert RAW.findall(hostile.stderr) == [] and "alert(1)" in hostile.stderr
    where = hostile.cwd
    for words in (
        ("show", "r"), ("show", "r", "P0"), ("show", "r", "P0", "--json"), ("show", "r", "--json"), ("summarize", "r"),
        ("rescore", "r", "--dry-run"), ("suites", "show", "hostile.json"), ("suites", "check", "hostile.json"),
        ("suites", "show", "hostile.json", "--json"), ("doctor",), ("doctor", "--json"),
        ("run", "--dry-run", "-t", "fake:*", "-s", "hostile.json"), ("run", "--resume", "r", "-t", "fake:plain"),
        ("run", "-t", f"fake:{HOSTILE}@x"),
    ):  # fmt: skip
        done = clawgauge(where, *words)
        assert "Traceback" not in done.stderr
        assert RAW.findall(done.stdout + done.stderr) == [], words


def test_row_44_a_real_terminal_is_not_steered(hostile: Outcome) -> None:
    """On a terminal, live table included, no clipboard, title, cursor or colour sequence of a model's gets through."""
    where, steering = (
        hostile.cwd,
        re.compile(rb"\x1b[\]PX^_]|\x07|\x08|\xc2[\x80-\x9f]|38;5;199|\x1b\[2J"),
    )
    marks = re.compile("[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
    live = on_a_terminal(where, "run", "-t", "fake:*", "-s", "hostile.json")
    assert (
        b"alert(1)" in live and b"\x1b[" in live
    )  # a table was drawn, with the hostile words in it
    assert steering.findall(live) == [] and marks.findall(live.decode()) == []
    for words in (
        ("show", "r"),
        ("show", "r", "P0"),
        ("suites", "show", "hostile.json", "--source"),
        ("doctor",),
    ):
        # What is left besides our own colours is whatever a model managed to send.
        drawn = re.sub(r"\x1b\[(?:3[123]|0)m", "", on_a_terminal(where, *words).decode())
        assert drawn and RAW.findall(drawn) == [], words


def test_row_53_characters_that_end_lines_elsewhere(place: Path, server: ScriptedServer) -> None:
    """Whatever reads the file, line by line or by Unicode's rules, finds as many records as there were answers."""
    answers = [f"one{enders}two" for enders in (*LINE_ENDERS, LINE_ENDERS, LINE_ENDERS[::-1])]
    write_suite(place / "small.json", *({"prompt": f"say {n}"} for n in range(len(answers))))
    server.reply_with(lambda request: Text(chunks=[answers[int(request.prompt.split()[-1])]]))
    done = clawgauge(place, "run", "-t", "fake:scripted-model", "-s", "small.json")
    assert [record["raw_output"] for record in done.records()] == answers
    text = (done.folder / "results.jsonl").read_bytes().decode()
    assert len(text.splitlines()) == text.count("\n") == len(answers)
    assert clawgauge(place, "rescore", "latest").code == 0
    assert [record["raw_output"] for record in done.records()] == answers
