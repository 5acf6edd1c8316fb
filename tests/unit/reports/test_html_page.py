"""The HTML report as a browser's parser finds it: one script, no way out, every foreign word still a word."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections import Counter
from datetime import UTC, datetime
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from clawgauge.reports.html import Survey, read_runs, render_report
from clawgauge.reports.html.texts import embed_json
from support.sample_runs import (
    CHARACTERS,
    HOSTILE,
    make_result,
    sample_prompts,
    write_folder,
    write_sample_run,
)
from unit.summary.run_folders import failed, record, write_run

AT = datetime(2026, 2, 14, tzinfo=UTC)
STATIC = files("clawgauge.reports.html") / "static"


class Page(HTMLParser):
    """Elements, attributes, and what stands inside scripts and styles."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.links, self.inside, self.meta, self.title = [], [], [], {}, ""
        self._open = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.elements.append(tag)
        self.links += [
            value
            for name, value in attrs
            if name in ("src", "href", "action", "data", "srcset", "poster")
        ]
        assert not any(name.startswith("on") or name == "style" for name in found), attrs
        if tag == "meta":
            self.meta[found.get("http-equiv") or found.get("name")] = found.get("content")
        self._open = (tag, found)
        if tag in ("script", "style"):
            self.inside.append([tag, found, ""])

    def handle_data(self, data):
        if self._open and self._open[0] in ("script", "style"):
            self.inside[-1][2] += data
        elif self._open and self._open[0] == "title":
            self.title += data

    def handle_endtag(self, tag):
        self._open = None

    def script(self, kind):
        return [
            text
            for tag, attrs, text in self.inside
            if tag == "script" and attrs.get("type") == kind
        ]

    @property
    def data(self):
        (text,) = self.script("application/json")
        return json.loads(text)

    def texts(self):
        """Every packed value, unpacked."""
        return [
            value
            for block in self.script("text/plain")
            for value in json.loads(gzip.decompress(base64.b64decode(block)))
        ]

    def details(self):
        return self.texts()[self.data["texts"]["firstDetail"] :]


def render(*folders, **options):
    survey = Survey()
    return render_report(read_runs(folders, survey), survey, generated_at=AT, **options)


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return Page(render(write_sample_run(tmp_path_factory.mktemp("runs") / "run")))


def test_nothing_is_loaded_and_one_script_may_run(sample):
    """No address leads out of the file, and the policy names the very script and style that are in it."""
    assert all(link.startswith("#") for link in sample.links)
    (script,), ((_, _, style),) = (
        sample.script(None),
        [part for part in sample.inside if part[0] == "style"],
    )
    policy = dict(
        rule.partition(" ")[::2] for rule in sample.meta["Content-Security-Policy"].split("; ")
    )
    assert policy["default-src"] == "'none'"
    for source, text in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert policy[source] == f"'sha256-{digest}'"
    assert "unsafe" not in sample.meta["Content-Security-Policy"]


def test_hostile_words_add_no_element(tmp_path):
    """A run full of tags, comments and closing scripts gives the same elements as a run of plain words."""
    names = [prompt.id for prompt in sample_prompts()]

    def say(words):
        return [
            record(
                name,
                model=words[n % 3],
                suite=words[n % 2],
                prompt_name=words[n % len(words)][:200],
                raw_output=words[n % len(words)],
                violation=words[n % len(words)][:90],
                objective_pass=False,
                error=words[n % len(words)][:90],
            )
            for n, name in enumerate(names)
        ]

    plain, hostile = say([f"word{n}" for n in range(len(HOSTILE))]), say(list(HOSTILE.values()))
    pages = [
        Page(render(write_run(tmp_path / name, rows)))
        for name, rows in (("a<b>&", plain), ("<script>&lt;x", hostile))
    ]
    first, second = (Counter(tag for tag in page.elements if tag != "script") for page in pages)
    assert first == second
    assert (
        [len(page.script(None)) for page in pages]
        == [len(page.script("application/json")) for page in pages]
        == [1, 1]
    )
    assert pages[1].title == "clawgauge · <script>&lt;x"
    assert not re.search("[<>&\u2028\u2029]", pages[1].script("application/json")[0])


def test_every_answer_is_in_the_file_as_it_was(sample):
    """Hostile answers come back from the packed blocks character for character; half a surrogate pair is U+FFFD."""
    answers = [detail.get("answer") for detail in sample.details()]
    for name, text in HOSTILE.items():
        assert text.replace("\ud83d", "\ufffd") in answers, name


def test_counts_are_of_all_calls(sample, tmp_path):
    """The matrix and the list hold each recorded call once."""
    assert (
        sum(cell[3] for cell in sample.data["matrix"])
        == sample.data["calls"]["n"]
        == len(sample.details())
    )
    assert sample.data["shown"]["all"] is True


def test_the_same_folder_gives_the_same_page(tmp_path):
    """Nothing in the page depends on when or where it was made, but for the stated time."""
    folder = write_sample_run(tmp_path / "run")
    assert render(folder) == render(folder)


def test_an_empty_run_says_so(tmp_path):
    """A run with nothing recorded gives a page whose answer is that."""
    page = Page(render(write_run(tmp_path / "run", [])))
    (finding,) = page.data["runs"][0]["findings"]
    assert finding["answer"] == "This run recorded no call." and page.data["calls"]["n"] == 0


def test_a_folder_of_the_first_harness(tmp_path):
    """Old records without suite, repeat, timings or attempts are shown, with dashes for what they lack."""
    old = {
        "record_type": "result",
        "provider": "ollama",
        "model": "llama",
        "prompt_id": "P0",
        "raw_output": "yes",
    }
    page = Page(render(write_run(tmp_path / "run", [old, {"record_type": "event", "event": "x"}])))
    columns = page.data["calls"]["columns"]
    assert page.data["calls"]["n"] == 1 and columns["ttft"] == {"every": None}
    assert page.details()[0]["answer"] == "yes"


def test_several_runs_stand_side_by_side(tmp_path):
    """Each run keeps its own models, findings and prompts, though ids are the same."""
    folders = [
        write_sample_run(tmp_path / name, run_id=name, seed=seed)
        for name, seed in (("one", 1), ("two", 2))
    ]
    page = Page(render(*folders))
    assert [run["id"] for run in page.data["runs"]] == ["one", "two"]
    assert Counter(target["run"] for target in page.data["targets"]) == {0: 6, 1: 6}
    assert page.data["runs"][0]["promptTexts"] == page.data["runs"][1]["promptTexts"], (
        "the same words are kept once"
    )


def test_two_runs_that_asked_differently_under_one_id(tmp_path):
    """A prompt that was reworded between two runs is shown in each run's own words."""
    prompt = sample_prompts()[0]
    reworded = type(prompt)(
        id=prompt.id,
        name=prompt.name,
        prompt="other words",
        suite=prompt.suite,
        validator={"type": "noop"},
    )
    folders = [
        write_folder(
            tmp_path / name,
            [make_result(CHARACTERS[0].target, asked)],
            [asked],
            [CHARACTERS[0].target],
        )
        for name, asked in (("one", prompt), ("two", reworded))
    ]
    page = Page(render(*folders))
    texts = [page.texts()[run["promptTexts"]["0"]]["prompt"] for run in page.data["runs"]]
    assert texts == [prompt.prompt, "other words"]


def test_too_many_calls_are_cut_and_it_is_said(tmp_path):
    """Above the cap the page embeds that many at most, with failures and a sample, and numbers to say so."""
    prompts = sample_prompts()[:2]
    target = CHARACTERS[0].target
    results = [
        make_result(
            target,
            prompts[n % 2],
            repeat=n // 2,
            objective_pass=n % 10 != 0,
            violation="v: x" if n % 10 == 0 else None,
        )
        for n in range(1000)
    ]
    page = Page(
        render(
            write_folder(tmp_path / "run", results, prompts, [target], repeats=500), max_calls=100
        )
    )
    shown, columns = page.data["shown"], page.data["calls"]["columns"]
    assert shown["ofCalls"] == 1000 and 90 <= shown["calls"] <= 100
    assert (shown["wrong"], shown["ofWrong"], shown["sampled"]) == (50, 100, 50)
    assert columns["outcome"].count(1) >= 50 and sum(columns["sampled"]) == 50
    assert sum(cell[3] for cell in page.data["matrix"]) == 1000, (
        "the matrix still counts every call"
    )


def test_figures_json_does_not_know():
    """Infinity and NaN are null in the page; one of them must not cost a reader the rest."""
    assert json.loads(embed_json({"a": [float("inf"), 1.5], "b": (float("nan"),)})) == {
        "a": [None, 1.5],
        "b": [None],
    }


def test_nobody_without_scripts_is_left_out(tmp_path):
    """The answer and the figures stand in the page as tables and sentences too."""
    text = render(
        write_run(
            tmp_path / "run", [record(), failed("P1", "error", "timeout", error="<b>slow</b>")]
        )
    )
    plain = re.search("<noscript>(.*?)</noscript>", text, re.DOTALL)[1]
    assert plain.count("<table") == 2 and "which model for which job" in plain
    assert "What failed, and why?" in plain and "1 × timeout" in plain and "&lt;b&gt;slow" in plain


def test_every_static_file_is_used(sample):
    """No stylesheet or script lies in the package unread, and none of them makes markup or code of strings."""
    text = "".join(part for _, _, part in sample.inside)
    for file in STATIC.iterdir():
        if file.name.endswith((".js", ".css")):
            assert file.read_text(encoding="utf-8") in text, file.name
    (script,) = sample.script(None)
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function|DOMParser",
        script,
    )
