"""What a person need not say twice, and what a hostile name cannot do."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from clawgauge.records import RunSummary
from clawgauge.reports.summary import describe_summary
from clawgauge.reports.terminal import as_text
from faults.terminal import on_a_terminal
from support.command import clawgauge, clean_environment, trust_configuration
from support.scripted_server import ScriptedServer, Status, Text
from support.waiting import PATIENCE_S

SMALL = ("run", "-t", "fake:scripted-model", "-s", "small.json")


def test_show_without_a_run_shows_the_newest(place: Path, server: ScriptedServer) -> None:
    """`show` alone is `show latest`."""
    clawgauge(place, *SMALL, "--run-id", "older")
    clawgauge(place, *SMALL, "--run-id", "newer")
    assert clawgauge(place, "show").stdout == clawgauge(place, "show", "newer").stdout
    assert json.loads(clawgauge(place, "show", "--json").stdout)["run_id"] == "newer"


def test_the_bare_command_says_what_to_do_first(tmp_path: Path) -> None:
    """Exit 2, as for every request that is not one; nothing on stdout."""
    done = clawgauge(tmp_path)
    assert (done.code, done.stdout) == (2, "") and "usage" not in done.stderr
    assert "clawgauge init " in done.stderr and "clawgauge --help " in done.stderr
    assert max(map(len, done.stderr.splitlines()[1:])) <= 80


def test_a_run_that_nobody_answered_says_nothing_of_timing(
    place: Path, server: ScriptedServer
) -> None:
    """Nothing was timed, however busy the machine was."""
    server.reply_with(Status(500))
    run = clawgauge(place, *SMALL, "--max-retries", "0")
    assert run.code == 3
    summary = msgspec.json.decode(
        (place / run.stdout.strip() / "summary.json").read_bytes(), type=RunSummary
    )
    clock = msgspec.structs.replace(summary.models[0].clock, busy=True, lag_p99_ms=30.0)
    busy = msgspec.structs.replace(summary.models[0], clock=clock)
    told = as_text(describe_summary(msgspec.structs.replace(summary, models=[busy])))
    assert "http_500" in told and "timing" not in told
    answered = msgspec.structs.replace(busy, n_success=1)
    assert "timing: rough" in as_text(
        describe_summary(msgspec.structs.replace(summary, models=[answered]))
    )


def test_the_runs_folder_of_the_configuration_is_known_to_the_readers(
    place: Path, server: ScriptedServer
) -> None:
    """A run kept where clawgauge.toml says is found by show, summarize and rescore without --runs-dir."""
    with (place / "clawgauge.toml").open("a") as file:
        file.write('[run]\nruns_dir = "kept/here"\n')
    done = clawgauge(place, *SMALL, "--run-id", "one")
    assert done.stdout == f"{Path('kept', 'here', 'one')}\n"
    for words in (("show",), ("summarize", "one"), ("rescore", "latest")):
        found = clawgauge(place, *words)
        assert found.code == 0, found.stderr
    assert clawgauge(place, "show", "one", "--runs-dir", "elsewhere").code == 2


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["suites", "list"],
        ["show", "--json"],
        ["export", "latest"],
        ["history", "--json"],
    ],
)
def test_what_needs_no_table_loads_no_layout(
    place: Path, server: ScriptedServer, words: list[str]
) -> None:
    """Laying out tables takes a tenth of a second to load: whoever prints none does not wait for it."""
    assert clawgauge(place, *SMALL).code == 0
    script = f"import sys; sys.argv[1:] = {words}; from clawgauge.cli import main\ntry: main()\n"
    script += "finally: print('rich' in sys.modules, file=sys.stderr)"
    command = [sys.executable, "-c", script]
    env = clean_environment()
    done = subprocess.run(
        command, cwd=place, env=env, capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.stderr.endswith("False\n"), done.stderr


def test_a_help_text_loads_none_of_what_runs_and_reads() -> None:
    """Whoever asks for help waits for the interpreter, argparse and little else."""
    script = "import sys; sys.argv[1:] = ['--help']; from clawgauge.cli import main\n"
    script += "heavy = {'asyncio', 'msgspec', 'pathlib', 'subprocess', 'traceback'}\n"
    script += "try: main()\nfinally: print(*heavy & sys.modules.keys(), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", script], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert done.stderr == "\n"


def test_the_examples_are_read_for_a_help_text_alone(place: Path) -> None:
    script = "import sys\nfrom pathlib import Path\nopened = set()\n"
    script += (
        "hook = lambda event, facts: event == 'open' and opened.add(Path(str(facts[0])).name)\n"
    )
    script += "sys.addaudithook(hook)\nfrom clawgauge.cli import main\n"
    script += "try: main()\nfinally: print('examples.txt' in opened, file=sys.stderr)"

    def reads_examples(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments],
            cwd=place,
            env=clean_environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        return done.stderr.splitlines()[-1]

    assert reads_examples("suites", "list") == "False"
    assert reads_examples("suites", "--help") == "True"


def test_a_stream_that_is_not_utf_8_gets_marks_it_can_show(
    place: Path, server: ScriptedServer
) -> None:
    """No escapes where a table has our own signs; a name that cannot be shown is escaped."""
    clawgauge(place, *SMALL)
    shown = clawgauge(place, "show", env={"PYTHONIOENCODING": "ascii"})
    assert shown.code == 0 and "\\u" not in shown.stdout and "which model " in shown.stdout


def test_a_drawing_of_nothing_is_said(place: Path) -> None:
    """`--draw` on a suite without values to draw asks it as written, and says so."""
    said = clawgauge(place, *SMALL, "-s", "core", "--draw", "3", "--dry-run").stderr
    assert "--draw 3: nothing can be drawn in small; asked as written\n" in said


def test_a_level_that_does_nothing_is_said_to(place: Path) -> None:
    """`@high` on the embedded model is ignored in one line; the run goes on."""
    done = clawgauge(place, "run", "-t", "embedded:smollm2-135m@high", "-s", "small.json", "--prompt-ids", "P0",
                     "--max-tokens", "4")  # fmt: skip
    assert done.stderr.count("embedded takes no thinking level: @high is ignored\n") == 1
    assert [record["thinking_level"] for record in done.records()] == ["high"]


def test_prose_is_broken_between_words_at_the_edge_of_a_terminal(place: Path) -> None:
    """Errors, notes and lists alike; a pipe gets one line each, for who reads it goes by lines."""
    narrow = {"COLUMNS": "60"}
    for words in (("suites", "list"), ("run", "-s", "no-such-suite")):
        drawn, piped = (
            on_a_terminal(place, *words, env=narrow).decode(),
            clawgauge(place, *words, env=narrow),
        )
        text = piped.stdout + piped.stderr
        assert max(map(len, drawn.splitlines())) <= 60 < max(map(len, text.splitlines()))
        assert drawn.split() == text.split() and not any(
            line.startswith(" ") for line in text.splitlines()
        )


def test_the_screen_is_as_wide_as_the_terminal_it_is_on(
    place: Path, server: ScriptedServer
) -> None:
    """`RUN=$(clawgauge run)`: the path goes into the variable, the answer to a terminal of 200 columns."""
    server.reply_with(Text("yes"))
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, 200))
    words = [sys.executable, "-m", "clawgauge", *SMALL]
    env = clean_environment(TERM="dumb")
    trust_configuration(place)
    with subprocess.Popen(words, cwd=place, env=env, stdout=subprocess.PIPE, stderr=theirs) as run:
        os.close(theirs)
        drawn = b""
        with suppress(OSError):  # how Linux says that the other end is closed
            while piece := os.read(ours, 65536):
                drawn += piece
        assert run.stdout is not None and run.stdout.read().startswith(b"runs/")
    os.close(ours)
    assert b"no room for" not in drawn and b"first token" in drawn


def test_printed_commands_can_be_pasted_where_the_program_is_not_on_the_path(
    tmp_path: Path,
) -> None:
    """Called by its path, it names itself by that path; called by its name, by its name."""
    program = tmp_path / "bin" / "clawgauge"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nimport sys\nfrom clawgauge.cli import main\nsys.exit(main())\n"
    )
    program.chmod(0o755)
    environment = clean_environment()

    def ask(command: str, path: str) -> str:
        done = subprocess.run(
            [command, "show"],
            cwd=tmp_path,
            env={**environment, "PATH": path},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        return done.stderr

    assert "make one with `bin/clawgauge run`" in ask("bin/clawgauge", os.defpath)
    on_path = f"{program.parent}{os.pathsep}{os.defpath}"
    assert "make one with `clawgauge run`" in ask(str(program), on_path)


def test_a_command_keeps_its_row_however_long_the_path_of_the_program(place: Path) -> None:
    """In eighty columns nothing that is shown is wider, and no command is broken in two."""
    program = place / "a-rather-long-folder" / "bin" / "clawgauge"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"#!{sys.executable}\nimport sys\nfrom clawgauge.cli import main\nsys.exit(main())\n"
    )
    program.chmod(0o755)
    clawgauge(place, *SMALL)
    done = subprocess.run(
        ["a-rather-long-folder/bin/clawgauge", "show"],
        cwd=place,
        env={**clean_environment(), "PATH": os.defpath, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 80, done.stdout
    assert any("(a-rather-long-folder/bin/clawgauge run tells)" in line for line in lines)


def test_a_run_of_ones_own_prompts_speaks_of_jobs_in_one_line(place: Path) -> None:
    """What passed is the last table, and jobs that the prompts cannot tell of take a line together."""
    done = clawgauge(place, *SMALL, env={"COLUMNS": "80"})
    lines = done.stderr.splitlines()
    (about_jobs,) = [line for line in lines if "job" in line]
    assert (
        about_jobs == "which model for which job: not told by these prompts (clawgauge run tells)"
    )
    (table,) = [number for number, line in enumerate(lines) if line.startswith("model ")]
    assert "pass" in lines[table] and table > lines.index(about_jobs)


def test_a_suite_of_ones_own_begins_with_three_prompts_that_can_be_asked(
    place: Path, server: ScriptedServer
) -> None:
    """`suites new` writes a file that is fine and can be asked as it is, and never writes over one."""
    made = clawgauge(place, "suites", "new", "night shift.toml")
    assert (made.code, made.stdout) == (0, "night shift.toml\n")
    assert "clawgauge run -s 'night shift.toml'" in made.stderr
    checked = clawgauge(place, "suites", "check", "night shift.toml")
    assert checked.stdout == "night shift: 3 prompts are fine (exact 1, json_keys 1, one_of 1)\n"
    server.script(Text("no"), Text("outage"), Text('{"host": "web-3", "port": 8443}'))
    done = clawgauge(place, "run", "-t", "fake:scripted-model", "-s", "night shift.toml")
    assert [record["objective_pass"] for record in done.records()] == [True, True, True]
    again = clawgauge(place, "suites", "new", "night shift.toml")
    assert again.code == 2 and "is there already" in again.stderr
    other = clawgauge(place, "suites", "new", "shift.json")
    assert other.code == 2 and "must end in .toml" in other.stderr
