"""The HTML report in a real Chromium, loaded from disk, used with mouse and keyboard."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.browser import Browser, chromium, find_chromium
from support.command import clawgauge
from support.kinds_of_runs import KINDS, share, write_kind
from support.sample_runs import HOSTILE, RUN_ID, write_large_run, write_sample_run
from unit.summary.run_folders import config, failed, prompt, record, write_run

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        find_chromium() is None, reason="no Chromium here: make test-real looks for one"
    ),
]
FIRST_ROW = "#calls-window tr[data-place='0']"
HOSTILE_SUITE = "hostile <i>&amp;"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        running.resize(1280, 900)
        yield running


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> str:
    return report(write_sample_run(tmp_path_factory.mktemp("sample") / RUN_ID))


@pytest.fixture
def page(browser: Browser, sample: str) -> Iterator[Browser]:
    """The sample's report, freshly loaded; afterwards nothing has gone wrong in it and nothing was asked for."""
    browser.open("about:blank#", until="true")
    browser.open(sample)
    yield browser
    assert browser.console == [] and browser.dialogs == []
    assert browser.requests == [sample.partition("#")[0]]


def report(folder: Path) -> str:
    done = clawgauge(folder.parent, "report", str(folder))
    assert done.code == 0, done.stderr
    return f"file://{folder}/report.html"


def text_of(page: Browser, selector: str) -> str:
    found: str = page.run(f"document.querySelector({selector!r}).textContent")
    return found


def choose(page: Browser, selector: str, value: str) -> None:
    """What a person does with a list of choices."""
    page.run(
        f"(() => {{ const list = document.querySelector({selector!r}); list.value = {value!r}; "
        "list.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )


def n_matching(page: Browser) -> int:
    return int(text_of(page, "#matching").split()[0].replace(",", ""))


def is_open(page: Browser) -> bool:
    opened: bool = page.run("document.getElementById('call').open")
    return opened


def wait_for_call(page: Browser) -> None:
    page.wait_for(
        "document.getElementById('call').open && document.querySelector('#call-body pre.foreign') !== null"
    )


def test_the_answer_and_every_chart_are_there(page: Browser) -> None:
    """Three answers, the charts each with a title and words for a screen reader, the matrix, and tables beside."""
    answers = page.run("[...document.querySelectorAll('.answer')].map(found => found.textContent)")
    assert len(answers) == 3 and answers[0].startswith(
        "Nobody for certain yet. qwen3:8b, gpt-5-codex@high"
    )
    charts = page.run(
        "[...document.querySelectorAll('figure.chart > svg')].map(chart => [chart.getAttribute('role'), "
        "chart.querySelector('title').textContent, chart.querySelector('desc').textContent.length > 100])"
    )
    assert [title for _, title, _ in charts] == [
        "Passed prompts against median time of a call",
        "Pass rate by model",
        "Latency of every successful call, by model",
        "Time to first token against time to the whole answer",
    ]
    assert all(role == "img" and described for role, _, described in charts)
    assert page.run("document.querySelectorAll('.matrix').length") == 4
    assert page.run("document.querySelectorAll('.as-table table').length") == 4


def test_every_heading_sorts_both_ways(page: Browser) -> None:
    """A click sorts the calls by time, slowest first, a second one turns it; the heading says so to a screen reader."""
    heading = "#calls-window th.time"
    first_time = f'document.querySelector("{FIRST_ROW} td.time").textContent'
    page.click(f"{heading} button")
    assert (
        page.run(f"document.querySelector({heading!r}).getAttribute('aria-sort')") == "descending"
    )
    assert page.run(first_time) == "5 min 00 s"
    page.click(f"{heading} button")
    assert page.run(f"document.querySelector({heading!r}).getAttribute('aria-sort')") == "ascending"
    assert page.run(first_time).endswith(" ms")
    page.click("#models-table th.number:nth-child(6) button")
    names = page.run(
        "[...document.querySelectorAll('#models-table tbody th .strong')].map(found => found.textContent)"
    )
    targets = page.run("JSON.parse(document.getElementById('data').textContent).targets")
    medians = {target["name"]: target["figures"]["cells"]["p50_ms"]["value"] for target in targets}
    assert names == sorted(medians, key=lambda name: medians[name] or 1e9), (
        "fastest first, what has no figure last"
    )


def test_filters_narrow_everything(page: Browser) -> None:
    """Suite, model, outcome and words each cut the list, and reset brings it all back."""
    everything = n_matching(page)
    choose(page, "#filter-suite", "=tool_use")
    assert n_matching(page) == 6 * 15
    choose(page, "#filter-model", "ollama_openai:qwen3:8b")
    assert n_matching(page) == 15
    assert page.run("document.querySelectorAll('#models-table tbody tr').length") == 1
    choose(page, "#filter-outcome", "wrong")
    assert n_matching(page) == 0 and "No call fits" in text_of(page, "#calls-window tbody")
    page.click("#filters button[type=reset]")
    page.wait_for(f"document.getElementById('matching').textContent === '{everything} calls'")
    page.click("#filter-text")
    page.type("use_nvidia")
    page.wait_for("document.getElementById('matching').textContent.startsWith('6 of')")


def test_words_inside_answers_are_found(page: Browser) -> None:
    """The search looks into the packed answers where it is told to, and only then."""
    page.click("#filter-text")
    page.type("permission denied")
    page.wait_for("document.getElementById('matching').textContent.startsWith('0 of')")
    page.click("#filter-answers")
    page.wait_for("/^[1-9]\\d* of/.test(document.getElementById('matching').textContent)")


def test_a_click_opens_a_call_and_escape_closes_it(page: Browser) -> None:
    """Prompt, answer, verdict and timings of the call that was clicked, under an address of its own."""
    choose(page, "#filter-outcome", "pass")
    page.click(f"{FIRST_ROW} td.prompt")
    wait_for_call(page)
    shown = text_of(page, "#call")
    for part in (
        "core/P0 echo_token",
        "qwen3:8b",
        "Relay-OK_7",
        "the answer met its check",
        "First token",
        "Attempts",
    ):
        assert part in shown
    call = f"call={RUN_ID}/ollama_openai:qwen3:8b/core/P0#0"
    assert page.run("decodeURIComponent(location.hash)") == f"#outcome=pass&{call}"
    page.press("Escape")
    page.wait_for("!document.getElementById('call').open && location.hash === '#outcome=pass'")


def test_what_failed_stands_first_with_its_reason_in_words(page: Browser) -> None:
    """Failed answers, then calls without one, then the rest; a reason is words, and whole for whoever points at it."""
    rows = "[...document.querySelectorAll('#calls-window tr[data-place]')]"
    assert set(page.run(f"{rows}.map(row => row.querySelector('.badge').textContent)")) == {"✗fail"}
    reasons = page.run(f"{rows}.map(row => row.querySelector('td.why').textContent)")
    assert "json parse error: Expecting value at character 0" in reasons
    page.run("document.getElementById('calls-window').scrollTop = 1e9")
    page.wait_for(f"{rows}.some(row => row.querySelector('.badge').textContent === '✓pass')")


def test_the_plot_names_every_model_and_draws_its_cost(page: Browser) -> None:
    """A mark a model, larger where a call costs more, its name beside it; who has no answer is named above."""
    plot = ".tradeoff figure svg"
    names = page.run(
        f"[...document.querySelectorAll('{plot} .mark-name')].map(found => found.firstChild.textContent)"
    )
    assert sorted(names) == [
        "claude-opus@low",
        "gpt-5-codex@high",
        "llama3.2:3b",
        "qwen3:8b",
        "smollm2-135m",
    ]
    assert "mistral-small:24b" in text_of(page, ".tradeoff .lead")
    width = (
        f"(name => [...document.querySelectorAll('{plot} .tradeoff-mark')]"
        ".find(mark => mark.querySelector('title').textContent.startsWith(name)).getBoundingClientRect().width)"
    )
    sizes = [
        page.run(f"{width}('{name}')")
        for name in ("claude-opus@low", "gpt-5-codex@high", "qwen3:8b")
    ]
    assert sizes == sorted(sizes, reverse=True) and len(set(sizes)) == 3
    assert "free of charge" in text_of(page, ".tradeoff tbody") and "a call" in text_of(
        page, ".tradeoff tbody"
    )
    inside = (
        f"[...document.querySelectorAll('{plot} text')]"
        ".every(text => text.getBoundingClientRect().right <= innerWidth)"
    )
    assert page.run(inside)


def test_sixteen_models_have_a_number_in_the_plot_and_every_mark_of_the_heat_map_in_sight(
    browser: Browser, tmp_path: Path
) -> None:
    """Names would lie over each other; the list below has them, in the verdict's order."""
    names = [f"model-{n}-of-a-rather-long-name" for n in range(16)]
    rows = [record(f"P{n}", model=name, e2e_ms=100 + n) for name in names for n in range(4)]
    plan = config([prompt(f"P{n}") for n in range(4)], names)
    browser.open(report(write_run(tmp_path / "run", rows, config=plan)))
    numbers = "[...document.querySelectorAll('.tradeoff .mark-name')].map(found => Number(found.textContent))"
    assert sorted(browser.run(numbers)) == list(range(1, 17))
    assert browser.run("document.querySelectorAll('.tradeoff-names li').length") == 16
    edges = (
        "[...document.querySelectorAll('.job-fit')].map(cell => cell.getBoundingClientRect().right)"
    )
    assert max(browser.run(edges)) <= 1280 and browser.console == []


def test_twelve_models_are_told_apart_and_stand_in_one_order(
    browser: Browser, tmp_path: Path
) -> None:
    """No two marks are alike in colour and shape, and the legend goes by the verdict's order, not by who came first."""
    names = [f"model-{n}" for n in range(12)]
    rows = [
        record(f"P{n}", model=name, e2e_ms=100, ok=place > 5)
        for place, name in enumerate(names)
        for n in range(4)
    ]
    rows = [row | {"timings_us": None, "ttft_ms": 40} for row in rows]
    browser.open(
        report(
            write_run(
                tmp_path / "run", rows, config=config([prompt(f"P{n}") for n in range(4)], names)
            )
        )
    )
    styles = "[...document.querySelectorAll('#first-token-chart li path')].map(mark => mark.getAttribute('class'))"
    assert len(set(browser.run(styles))) == 12
    legend = "[...document.querySelectorAll('#first-token-chart li')].map(item => item.textContent)"
    heat = "[...document.querySelectorAll('.job-model')].map(cell => cell.textContent)"
    assert browser.run(legend) == browser.run(heat) != names


def test_a_phone_shows_the_answer_for_every_job_on_its_first_screen(
    browser: Browser, tmp_path: Path
) -> None:
    """With twelve models, too: their marks stand below the answers, which are not said twice."""
    names = [f"model-{n}-of-a-rather-long-name" for n in range(12)]
    rows = [record(f"P{n}", model=name) for name in names for n in range(4)]
    address = report(
        write_run(tmp_path / "run", rows, config=config([prompt(f"P{n}") for n in range(4)], names))
    )
    browser.resize(390, 844, phone=True)
    try:
        browser.open(address)
        answers = "[...document.querySelectorAll('.jobs-answers dd')].map(cell => cell.getBoundingClientRect().bottom)"
        assert len(browser.run(answers)) == 6 and max(browser.run(answers)) <= 844
        assert browser.run(
            "[...document.querySelectorAll('.job-choice')].every(cell => cell.offsetWidth === 0)"
        )
    finally:
        browser.resize(1280, 900)
    browser.open("about:blank#", until="true")
    browser.open(address)
    assert browser.run("document.querySelector('.jobs-answers').offsetWidth") == 0


def test_a_filter_can_be_passed_on(page: Browser, sample: str) -> None:
    """What is chosen stands in the address; whoever opens it sees the same, and the links to sections keep it."""
    choose(page, "#filter-suite", "=tool_use")
    choose(page, "#filter-model", "ollama_openai:llama3.2:3b")
    choose(page, "#filter-outcome", "wrong")
    seen, address = text_of(page, "#matching"), page.run("location.hash")
    assert address == "#suite=tool_use&model=ollama_openai%3Allama3.2%3A3b&outcome=wrong"
    page.run("location.hash = '#latency'")
    page.wait_for(f"location.hash === {address!r}")
    page.open("about:blank#", until="true")
    page.open(f"{sample}{address}")
    assert (
        text_of(page, "#matching") == seen
        and page.run("document.getElementById('filter-outcome').value") == "wrong"
    )
    page.run("location.hash = '#words=permission+denied&answers=1'")
    page.wait_for("/^[1-9]\\d* of/.test(document.getElementById('matching').textContent)")
    assert page.run("document.getElementById('filter-suite').value") == ""
    page.run("location.hash = '#model=nobody&suite=none&run=other'")
    everything = page.run("JSON.parse(document.getElementById('data').textContent).calls.n")
    page.wait_for(f"document.getElementById('matching').textContent === '{everything} calls'")


def test_the_keyboard_alone_suffices(page: Browser) -> None:
    """Arrows walk the list far beyond what is drawn, Enter opens, the focus stays inside, and comes back at the end."""
    page.run(f'document.querySelector("{FIRST_ROW} a").focus()')
    for key in ("ArrowDown", "ArrowDown", "End", "ArrowUp"):
        page.press(key)
    last = n_matching(page) - 2
    assert page.run("Number(document.activeElement.closest('tr').dataset.place)") == last
    page.press("Enter")
    wait_for_call(page)
    assert page.run("document.activeElement.id") == "call-title"
    for _ in range(30):
        page.press("Tab")
        assert page.run("document.activeElement.matches('body, #call *')"), (
            "the focus left the call"
        )
    page.run("document.getElementById('call-title').focus()")
    before = page.run("location.hash")
    page.press("ArrowLeft")
    page.wait_for(f"location.hash.startsWith('#call=') && location.hash !== {before!r}")
    page.press("Escape")
    page.wait_for("document.activeElement.classList.contains('open-call')")


def test_the_matrix_is_one_tab_stop_with_arrows_inside(page: Browser) -> None:
    """A mark is reached by arrows, says in words what it shows, and Enter opens its call."""
    page.run("document.querySelector('.matrix button[tabindex=\"0\"]').focus()")
    page.press("ArrowRight")
    page.press("ArrowDown")
    assert (
        page.run("document.activeElement.getAttribute('aria-label')")
        == "llama3.2:3b, core/P1 csv_row: 1 × pass"
    )
    page.press("Enter")
    wait_for_call(page)
    assert "core/P1 csv_row" in text_of(page, "#call-title")


def test_a_link_opens_its_call(browser: Browser, sample: str) -> None:
    """An address with a call in it opens that call: here a task, with its conversation turn by turn."""
    browser.open("about:blank#", until="true")
    browser.open(f"{sample}#call={RUN_ID}%2Follama_openai%3Aqwen3%3A8b%2Ftasks%2FT0%230")
    wait_for_call(browser)
    shown = text_of(browser, "#call-body")
    assert "Turn 3" in shown and "12:01 out of memory" in shown and "mv /var/log/app.log" in shown
    browser.open("about:blank#", until="true")
    browser.open(f"{sample}#call=of-another-run")
    assert is_open(browser) and "not in this file" in text_of(browser, "#call-title")


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_answers_stay_text(page: Browser, name: str) -> None:
    """Nothing a model writes runs, loads, links, hides or reorders; a reader sees it, controls by their numbers."""
    number = list(HOSTILE).index(name)
    key = f"{RUN_ID}/embedded:smollm2-135m/{HOSTILE_SUITE}/H{number}#0"
    page.run(f"location.hash = '#call=' + encodeURIComponent({key!r})")
    wait_for_call(page)
    page.run("document.querySelectorAll('#call details').forEach(found => { found.open = true; })")
    assert (
        page.run(
            "document.querySelectorAll('#call :is(a, img, script, style, iframe, b, i)').length"
        )
        == 0
    )
    assert page.run("document.querySelectorAll('a:not([href^=\"#\"])').length") == 0
    shown = text_of(page, "#call-body pre.foreign")
    assert not set(shown) & set(
        "\x00\x07\x1b\x7f\u202e\u2066\u2069\u200b\ufeff\u2028\u2029\U000e0049"
    )
    if name in ("script", "comment", "link", "template", "style"):
        assert shown == HOSTILE[name]
    expected = {
        "bidi": "U+202E",
        "nul": "U+0000 ×3",
        "ansi": "U+001B",
        "separators": "U+2028",
        "tags": "U+E0049",
    }
    assert expected.get(name, "") in shown
    assert page.run("document.documentElement.scrollWidth <= innerWidth"), (
        "a long line does not widen the page"
    )


def test_the_policy_stops_what_got_in(browser: Browser, sample: str) -> None:
    """Were there a fault in the page after all: no added script runs, no string is markup, nothing is loaded."""
    browser.open("about:blank#", until="true")
    browser.open(sample)
    listener = socket.create_server(("127.0.0.1", 0))
    address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
    for attack in (
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = true'}))",
        "document.body.innerHTML = '<img src=x onerror=\"window.ran = true\">'",
        f"document.body.append(Object.assign(document.createElement('img'), {{src: '{address}'}}))",
        f"fetch('{address}').catch(() => null)",
        "setTimeout('window.ran = true')",
    ):
        browser.run(f"(() => {{ try {{ {attack}; }} catch {{ return; }} }})()")
    browser.run("new Promise(done => setTimeout(done, 100))")
    assert browser.run("window.ran") is None
    with listener, pytest.raises(BlockingIOError):
        listener.setblocking(False)
        listener.accept()
    assert sum("Content Security Policy" in line for line in browser.console) >= 3, (
        "it was the policy that did it"
    )


def test_a_phone_does_not_scroll_sideways(browser: Browser, sample: str) -> None:
    """At 390 pixels the page is 390 wide, and a call fills the screen."""
    browser.resize(390, 844, phone=True)
    try:
        browser.open("about:blank#", until="true")
        browser.open(sample)
        assert browser.run("document.documentElement.scrollWidth") == 390
        ids = (
            "[...document.querySelectorAll('.prompt-id')]"
            ".map(id => [id.textContent, id.scrollWidth <= id.clientWidth])"
        )
        assert all("/" in name and whole for name, whole in browser.run(ids)), "ids are whole"
        rows = "[...document.querySelectorAll('#calls-window tr[data-place]')].map(row => row.offsetHeight)"
        assert set(browser.run(rows)) == {104}, "rows are as high as the list reckons with"
        marks = "[...document.querySelectorAll('.job-fit')].every(cell => cell.getBoundingClientRect().right <= 390)"
        assert browser.run(marks), "every mark of the heat map is in sight"
        browser.click(f"{FIRST_ROW} td.prompt")
        wait_for_call(browser)
        assert browser.run("document.getElementById('call').getBoundingClientRect().width") == 390
    finally:
        browser.resize(1280, 900)


@pytest.mark.parametrize("width", [1024, 1200])
def test_no_figure_of_a_model_is_off_the_screen(browser: Browser, sample: str, width: int) -> None:
    """On a small laptop the table of models shows its last column, the cost, without scrolling."""
    browser.resize(width, 900)
    try:
        browser.open("about:blank#", until="true")
        browser.open(sample)
        table = "document.getElementById('models-table')"
        assert "Cost" in browser.run(f"{table}.querySelector('thead th:last-child').textContent")
        assert browser.run(f"{table}.scrollWidth <= {table}.clientWidth")
    finally:
        browser.resize(1280, 900)


def test_light_dark_and_paper(page: Browser, tmp_path: Path) -> None:
    """The page follows the system, the button overrules it, and paper gets every table and the calls."""
    background = "getComputedStyle(document.body).backgroundColor"
    page.prefer("dark")
    dark = page.run(background)
    page.prefer("light")
    light = page.run(background)
    assert dark != light
    page.click("#theme")
    page.click("#theme")
    assert "dark" in text_of(page, "#theme") and page.run(background) == dark
    page.click("#theme")
    opened = page.run("document.querySelectorAll('main details[open]').length")
    page.print_to(tmp_path / "page.pdf")
    assert (tmp_path / "page.pdf").read_bytes().startswith(b"%PDF")
    page.run("dispatchEvent(new Event('beforeprint'))")
    assert page.run("document.querySelectorAll('#calls-window tr[data-place]').length") == 200
    assert page.run("document.querySelectorAll('main details:not([open])').length") == 0
    page.prefer("light", media="print")
    page.resize(688, 900)
    edges = "[...document.querySelectorAll('main table, main svg')].map(found => found.getBoundingClientRect().right)"
    assert max(page.run(edges)) <= 690, "nothing is cut off at the edge of the paper"
    figures = "getComputedStyle(document.querySelector('#models-table td')).fontSize"
    assert page.run(figures) == page.run(
        "getComputedStyle(document.querySelector('.lead')).fontSize"
    )
    page.prefer("light")
    page.resize(1280, 900)
    page.run("dispatchEvent(new Event('afterprint'))")
    assert page.run("document.querySelectorAll('main details[open]').length") == opened


def test_every_prompt_of_a_long_suite_is_on_paper(browser: Browser, tmp_path: Path) -> None:
    """A hundred prompts stand in several rows of marks; on a screen in one that scrolls."""
    asked = [prompt(f"P{n}") for n in range(100)]
    browser.open(
        report(
            write_run(tmp_path / "run", [record(one["id"]) for one in asked], config=config(asked))
        )
    )
    tables = "document.querySelectorAll('.matrix').length"
    assert browser.run(tables) == 1
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert (
        browser.run(tables) == 5
        and browser.run("document.querySelectorAll('.matrix button').length") == 100
    )
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run(tables) == 1 and browser.console == []


def test_paper_has_a_row_a_category_and_not_one_a_model(browser: Browser, tmp_path: Path) -> None:
    """Whoever passed all of a category is not named there; on a screen each model has its row."""
    asked = [prompt(f"P{n}") | {"category": f"kind{n % 2}"} for n in range(4)]
    models = tuple(f"m{n}" for n in range(5))
    wrong = {("m3", "P1"): {"objective_pass": False, "violation": "not_exact"}}
    calls = [(model, one["id"]) for model in models for one in asked]
    rows = [record(key, model=model, **wrong.get((model, key), {})) for model, key in calls]
    browser.open(report(write_run(tmp_path / "run", rows, config=config(asked, models))))
    lines = (
        "[...document.querySelectorAll('#categories-table tbody tr')].map(row => row.textContent)"
    )
    assert len(browser.run(lines)) == 10
    browser.run("dispatchEvent(new Event('beforeprint'))")
    even, odd = browser.run(lines)
    assert "10/10" in even and "m3" not in even and "9/10" in odd and odd.endswith("m3 1/2")
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert len(browser.run(lines)) == 10 and browser.console == []


def test_timeouts_count_as_longer_than_any_answer(browser: Browser, tmp_path: Path) -> None:
    """As on the terminal: p95 of twenty calls, three of them cut off after nine seconds, is more than that."""
    rows = [record(f"P{n}", e2e_ms=100) for n in range(17)]
    rows += [failed(f"P{n}", "error", "timeout", e2e_ms=9_000) for n in range(17, 20)]
    folder = write_run(tmp_path / "run", rows, config=config([prompt(f"P{n}") for n in range(20)]))
    browser.open(report(folder))
    p95 = "document.querySelector('#models-table tbody td:nth-child(7)').textContent"
    chart = "document.querySelector('#latency-chart .p95 text').textContent"
    assert (browser.run(p95), browser.run(chart)) == ("> 9.0 s", "p95 > 9.0 s")
    assert "> 9.0 s" in clawgauge(tmp_path, "show", str(folder)).stdout
    choose(browser, "#filter-suite", "=core")
    assert browser.run(chart) == "p95 > 9.0 s" and browser.console == []


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_page_shows_the_figures_that_every_report_shows(
    browser: Browser, tmp_path: Path, kind: Any
) -> None:
    """In context, interrupted or timed out: rates, answers and times are those that were counted for all reports."""
    truth = write_kind(tmp_path / "run", kind)
    browser.open(report(tmp_path / "run"))

    def cells(table: str) -> list[str]:
        found: list[str] = browser.run(
            f"[...document.querySelectorAll('#{table} tbody tr')[0].cells].map((cell) => cell.textContent)"
        )
        return found

    models = cells("models-table")
    assert models[2].startswith("{}{}/{}".format(share(truth.passed), *truth.passed))
    assert models[3].startswith(
        "{}{}/{}".format(share(truth.passed_of_asked), *truth.passed_of_asked)
    )
    assert models[4].startswith("{}{}/{}".format(share(truth.answered), *truth.answered))
    p95 = truth.p95 if truth.p95_ms is None else f"{truth.p95} ms"
    assert models[5:7] == [f"{truth.p50_ms:.0f} ms", p95]
    assert cells("rates-table")[1] == "{} · {}/{}".format(share(truth.passed), *truth.passed)
    assert cells("latency-table")[1:4] == [str(truth.n_timed), f"{truth.p50_ms:.0f} ms", p95]
    assert cells("first-token-table")[3] == f"{truth.p50_ms:.0f} ms"
    choose(browser, "#filter-suite", "=core")
    assert cells("rates-table")[1] == "{} · {}/{}".format(share(truth.passed), *truth.passed)
    assert cells("latency-table")[1:4] == [str(truth.n_timed), f"{truth.p50_ms:.0f} ms", p95]


def test_without_scripts_the_answer_and_the_figures_are_tables(
    browser: Browser, sample: str
) -> None:
    browser.let_scripts_run(False)
    try:
        browser.open(sample, until="true")
        browser.wait_for("document.querySelectorAll('noscript table').length === 2")
        shown = browser.run("document.body.innerText")
        assert (
            "which model for which job" in shown
            and "qwen3:8b" in shown
            and "Who may be a subagent?" in shown
        )
        assert browser.run("getComputedStyle(document.querySelector('main')).display") == "none"
    finally:
        browser.let_scripts_run(True)


def test_two_runs_and_a_selector(browser: Browser, tmp_path: Path) -> None:
    """Both runs' models stand side by side until one run is chosen."""
    for name, seed in (("one", 1), ("two", 2)):
        write_sample_run(tmp_path / "runs" / name, run_id=name, seed=seed, hostile=False)
    assert clawgauge(tmp_path, "report", "one", "two", "-o", "both.html").code == 0
    browser.open(f"file://{tmp_path}/both.html")
    rows = "document.querySelectorAll('#models-table tbody tr').length"
    assert (
        browser.run(rows) == 12
        and browser.run("document.querySelectorAll('.run-findings').length") == 2
    )
    choose(browser, "#filter-run", "1")
    assert (
        browser.run(rows) == 6
        and browser.run("document.querySelectorAll('.run-findings').length") == 1
    )
    assert browser.console == []


def test_rates_by_category_are_a_table_where_there_are_any(
    browser: Browser, sample: str, tmp_path: Path
) -> None:
    """A length of text is a row, with its rate; a run whose prompts have no category has no such table."""
    plan = config([prompt("P0") | {"category": "4k"}, prompt("P1") | {"category": "16k"}])
    rows = [record("P0"), record("P1", objective_pass=False)]
    browser.open(report(write_run(tmp_path / "run", rows, config=plan)))
    found = (
        "[...document.querySelectorAll('#categories-table tbody tr')].map(row => row.textContent)"
    )
    (four, sixteen) = browser.run(found)
    assert "4k100%" in four and "16k0%" in sixteen
    browser.open(sample)
    assert browser.run("document.getElementById('categories').hidden") and browser.run(found) == []
    assert browser.console == []


def test_an_empty_run_opens(browser: Browser, tmp_path: Path) -> None:
    """Nothing recorded: the page says so, and shows no empty charts."""
    browser.open(report(write_run(tmp_path / "run", [])))
    assert text_of(browser, ".answer") == "This run recorded no call." and browser.console == []
    assert browser.run("document.getElementById('everything').hidden")


def test_a_folder_of_the_first_harness_opens(browser: Browser, tmp_path: Path) -> None:
    """Records without suite, timings or attempts are listed and open."""
    old = {
        "provider": "ollama",
        "model": "llama",
        "prompt_id": "P0",
        "raw_output": "yes",
        "latency_ms": 80.5,
        "success": True,
    }
    browser.open(
        report(
            write_run(tmp_path / "run", [old, {**old, "success": False, "failure_type": "timeout"}])
        )
    )
    browser.click(f"{FIRST_ROW} td.prompt")
    wait_for_call(browser)
    assert "yes" in text_of(browser, "#call-body") and browser.console == []


def test_twenty_thousand_calls(browser: Browser, tmp_path: Path) -> None:
    """A large run is a file under 15 MB that opens without drawing every row, and scrolls to its end."""
    folder = write_large_run(tmp_path / "run", 20_000)
    address = report(folder)
    size = (folder / "report.html").stat().st_size
    took_s = browser.open(address)
    print(f"20,000 calls: {size / 1e6:.1f} MB, open in {took_s:.2f} s")
    assert size < 15_000_000
    assert text_of(browser, "#matching") == "20,000 calls"
    assert browser.run("document.getElementsByTagName('*').length") < 5000
    browser.run("document.getElementById('calls-window').scrollTop = 1e9")
    browser.wait_for("document.querySelector('#calls-window tr[data-place=\"19999\"]') !== null")
    assert browser.console == []
