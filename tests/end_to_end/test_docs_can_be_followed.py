"""Whoever follows the docs gets there: links lead somewhere, commands are taken, examples load, names exist."""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import runpy
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from clawgauge.cli import VERBS, build_parser, process
from clawgauge.config.settings import FIELDS, NodeTable, ProviderTable, read_file
from clawgauge.errors import MachineError, RequestError
from clawgauge.prices import load_prices
from clawgauge.records import Job
from clawgauge.registry import PROVIDER_TYPES
from clawgauge.routing.policy import read_policy
from clawgauge.suites import list_builtin, load_suite
from clawgauge.verdict.jobs import BUILT_IN
from support.rows import every_row

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted(DOCS.rglob("*.md")),
]
GENERATOR = runpy.run_path(str(ROOT / "scripts" / "generate_docs.py"))

# Commands of the docs that are other programs'.
NOT_OURS = {"cd", "docker", "export", "mkdir", "openclaw", "pip", "pipx", "ray", "uvx"}
FOREIGN_COMMANDS = {*NOT_OURS, "ls", "python", "scripts/busy-machine"}
OPTION = re.compile(r"(?<!\S)--[a-zA-Z][\w-]*")
# Options of other programs that the docs speak of in passing.
FOREIGN_OPTIONS = {
    "--allowedTools": "claude",
    "--effort": "claude",
    "--enable-auto-tool-choice": "vLLM",
    "--jinja": "llama.cpp",
    "--max-turns": "claude",
    "--password": "mysql",
    "--scripted": "scripts/screens.py",
    "--system-prompt": "claude",
    "--tool-call-parser": "vLLM",
}
# Keys of other programs' settings.
FOREIGN_KEYS = {"allow_quoted_nulls": "DuckDB", "cache_prompt": "llama.cpp"}
# Providers that a reader is to put a name of their own for.
PLACEHOLDERS = {"NAME", "PROVIDER", "box", "shout"}
# Jobs and suites that examples make up.
MADE_UP = {"changelog writer", "NAME", "JOB", "SUITE"}
EXIT_CODES = {
    process.DONE,
    process.GATE_FAILED,
    RequestError.exit_code,
    process.NOTHING_ANSWERED,
    MachineError.exit_code,
    process.UNREADABLE_LINES,
    process.OWN_FAULT,
    process.INTERRUPTED,
}


class Block(NamedTuple):
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def find_blocks(page: Path) -> Iterator[Block]:
    lines = page.read_text(encoding="utf-8").splitlines()
    begin: int | None = None
    language = ""
    for number, line in enumerate(lines):
        stripped = line.strip()
        if not stripped.startswith("```"):
            continue
        if begin is None:
            begin = number
            language = stripped.removeprefix("```")
        else:
            yield Block(page, begin + 2, language, "\n".join(lines[begin + 1 : number]))
            begin = None


def without_blocks(page: Path) -> str:
    """The text of a page without its fenced blocks."""
    text = page.read_text(encoding="utf-8")
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)


def inline_code() -> list[tuple[str, str]]:
    """Every span of code in the text of a page, with the page's name."""
    spans = []
    for page in PAGES:
        if page.name == "commands.md":
            continue
        for paragraph in re.split(r"\n\s*\n|\n\|", without_blocks(page)):
            for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", paragraph):
                spans.append((page.name, span.replace("\n", " ")))
    return spans


BLOCKS = [block for page in PAGES for block in find_blocks(page)]


def test_every_block_says_what_it_is() -> None:
    """A block without a language would be checked by nobody."""
    assert [block.place for block in BLOCKS if not block.language] == []


def heading_anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as the site and GitHub both make them."""
    anchors: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *$", without_blocks(page), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        anchors.add(re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", text)))
    return anchors


def test_every_link_leads_somewhere() -> None:
    """Each relative link names a file that is there, and each anchor a heading of it."""
    broken = []
    n_links = 0
    for page in [*PAGES, ROOT / "CHANGELOG.md"]:
        for link in re.findall(r"\]\(([^)\s]+)\)", without_blocks(page)):
            if re.match(r"[a-z]+:", link):
                continue
            n_links += 1
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if not target.exists() or (anchor and anchor not in heading_anchors(target)):
                broken.append(f"{page.name}: {link}")
            elif page.is_relative_to(DOCS) and not target.is_relative_to(DOCS):
                broken.append(f"{page.name}: {link} leads out of the site")
    assert broken == []
    assert n_links > 100


def test_every_page_is_on_the_site() -> None:
    """mkdocs.yml names each page of docs/ once, and no other."""
    pages: list[str] = []

    def collect(entry: object) -> None:
        if isinstance(entry, str):
            pages.append(entry)
        elif isinstance(entry, dict):
            for inner in entry.values():
                collect(inner)
        elif isinstance(entry, list):
            for inner in entry:
                collect(inner)

    collect(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    assert sorted(pages) == [
        page.relative_to(DOCS).as_posix() for page in sorted(DOCS.rglob("*.md"))
    ]


def test_pictures_are_shown_and_small() -> None:
    """Each picture is on a page, and none takes long to load."""
    shown = {
        (page.parent / link).resolve()
        for page in PAGES
        for link in re.findall(r"!\[[^\]]+\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    }
    pictures = {path.resolve() for path in (DOCS / "images").iterdir()}
    assert shown == pictures
    assert [path.name for path in pictures if path.stat().st_size > 150_000] == []


class Command(NamedTuple):
    """A line that a reader types."""

    place: str
    words: list[str]


def find_commands() -> Iterator[Command]:
    """What is typed in shell blocks, behind a `$` of what a terminal shows, and in the examples of each help."""
    for block in BLOCKS:
        text = block.text.replace("\\\n", " ")
        lines: list[str] = []
        if block.page.name == "commands.md":
            # An explanation stands behind two blanks or more.
            lines = re.findall(r"^  (clawgauge .+?)(?:  .*)?$", text, re.MULTILINE)
        elif block.language == "sh":
            lines = text.splitlines()
        elif block.language == "text":
            lines = re.findall(r"^\$ (.+)$", text, re.MULTILINE)
        for line in lines:
            words = first_command(line)
            if words:
                yield Command(block.place, words)


def first_command(line: str) -> list[str]:
    """The words of a line up to a redirection or another command, without variables before them."""
    words = shlex.split(line, comments=True)
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    for sign in (">", "|", "&&"):
        if sign in words:
            words = words[: words.index(sign)]
    return words


COMMANDS = list(find_commands())


def is_ours(words: list[str]) -> bool:
    return words[0].rpartition("/")[2] == "clawgauge"


def parse(words: list[str]) -> argparse.Namespace | str:
    """What the program makes of a command, or what it says against it."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            return build_parser(words).parse_args(words)
        except SystemExit as end:
            return argparse.Namespace() if end.code in (0, None) else said.getvalue()


def test_every_command_is_taken() -> None:
    """Each command of a shell block is one that the parser takes, or known to be another program's."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    faults = []
    for place, words in COMMANDS:
        if is_ours(words):
            parsed = parse(words[1:])
            if isinstance(parsed, str):
                faults.append(f"{place}: {shlex.join(words)}: {parsed.strip().splitlines()[-1]}")
        elif words[0] == "make":
            faults += [f"{place}: make {word}" for word in words[1:] if word not in targets]
        elif words[0] == ".venv/bin/python":
            if not ((ROOT / words[1]).is_file() or words[1] == "-m"):
                faults.append(f"{place}: {shlex.join(words)}")
        elif words[0] not in NOT_OURS:
            faults.append(f"{place}: {words[0]} is not known")
    assert faults == []
    assert sum(is_ours(command.words) for command in COMMANDS) > 100


def test_targets_suites_and_jobs_of_commands_exist() -> None:
    """What stands behind -t, -s, --job and --require is there, or on the same pages as an example."""
    suites = {suite.name for suite in list_builtin()}
    tables = {
        name
        for block in BLOCKS
        if block.language == "toml"
        for name in re.findall(r"^\[(?:providers|nodes)\.(\w+)\]", block.text, re.MULTILINE)
    }
    providers = {*PROVIDER_TYPES, *tables, *PLACEHOLDERS, "llamacpp", "lmstudio", "bob", "*"}
    faults = []
    for place, words in COMMANDS:
        parsed = parse(words[1:]) if is_ours(words) else ""
        if isinstance(parsed, str):
            continue
        for target in getattr(parsed, "targets", None) or []:
            provider, colon, _ = target.removeprefix("!").partition(":")
            if colon and not set(provider.split(".")) <= providers:
                faults.append(f"{place}: -t {target}")
        for suite in getattr(parsed, "suites", None) or []:
            if suite not in suites | MADE_UP and not re.search(r"[./]", suite):
                faults.append(f"{place}: -s {suite}")
        for option in ("job", "require"):
            for job in getattr(parsed, option, None) or []:
                if job not in BUILT_IN and job not in MADE_UP:
                    faults.append(f"{place}: --{option} {job}")
    assert faults == []


def test_every_option_that_is_mentioned_exists() -> None:
    """An option in the text belongs to one of our commands, or to another program that is known."""
    known = {"--version", "--help"}.union(
        *(parser._option_string_actions for _, _, parser in GENERATOR["iter_parsers"]())
    )
    faults = []
    for page, span in inline_code():
        if span.split()[0] in FOREIGN_COMMANDS:
            continue
        for option in OPTION.findall(span):
            if option not in known and option not in FOREIGN_OPTIONS:
                faults.append(f"{page}: {span}")
    assert faults == []


def test_every_command_that_is_mentioned_exists() -> None:
    """`clawgauge VERB --option` in the text is a verb, and one that has this option."""
    options_by_verb: dict[str, set[str]] = {verb: {"--help"} for verb in VERBS}
    for words, _, parser in GENERATOR["iter_parsers"]():
        options_by_verb[words.split()[0]].update(parser._option_string_actions)
    faults = []
    for page, span in inline_code():
        match = re.match(r"clawgauge ([a-z]\S*)", span)
        if match is None:
            continue
        options = options_by_verb.get(match[1])
        if options is None or not options.issuperset(OPTION.findall(span)):
            faults.append(f"{page}: {span}")
    assert faults == []


def test_every_key_that_is_mentioned_exists() -> None:
    """`key = value` in the text is a key of clawgauge.toml. Those of suites are tried with their examples."""
    known = {*FIELDS, *FOREIGN_KEYS}
    for table in (ProviderTable, NodeTable, Job):
        known.update(table.__struct_fields__)
    mentioned = []
    for page, span in inline_code():
        match = re.match(r"(?:\[run\] )?([a-z_]+) = |\[run\] (\w+)$", span)
        if match is not None and page not in ("suites.md", "tasks.md"):
            mentioned.append((page, span, match[1] or match[2]))
    assert [(page, span) for page, span, key in mentioned if key not in known] == []
    assert len(mentioned) > 5


def test_every_exit_code_that_is_mentioned_exists() -> None:
    """The page of exit codes has all of them, and no page names another."""
    page = (DOCS / "exit_codes.md").read_text(encoding="utf-8")
    assert {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)} == EXIT_CODES
    mentioned = {
        int(code)
        for page in PAGES
        for code in re.findall(r"\b[Ee]xits? (?:codes? )?(?:with )?(\d+)", without_blocks(page))
    }
    assert mentioned <= EXIT_CODES
    assert len(mentioned) > 4


@every_row(
    "block",
    [block for block in BLOCKS if block.language == "toml"],
    ids=lambda block: block.place,
)
def test_every_toml_example_loads(block: Block, tmp_path: Path) -> None:
    """A whole file of configuration, policy, prices or prompts can be pasted and is taken."""
    tables = tomllib.loads(block.text)
    path = tmp_path / f"example{block.line}.toml"
    path.write_text(block.text, encoding="utf-8")
    if tables.keys() & {"run", "providers", "nodes", "jobs"}:
        read_file(path)
    elif tables.keys() & {"limits", "weights"}:
        read_policy(path)
    elif "price" in tables:
        load_prices(path)
    elif {"name", "prompts"} <= tables.keys():
        load_suite(str(path))
    else:
        # Parts of a prompt, which test_suites_page puts into a whole one, and a package's file.
        assert block.page.name in ("suites.md", "tasks.md", "providers.md"), block.place
