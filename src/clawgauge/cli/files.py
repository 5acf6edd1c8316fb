"""For every verb: where runs are, where output goes, what is told of lines that cannot be read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from clawgauge.cli.process import DONE, UNREADABLE_LINES, as_typed, columns_of, tell
from clawgauge.config.settings import DEFAULT_RUNS_DIR, read_configuration
from clawgauge.errors import ConfigError, DiskFailure
from clawgauge.journal import encode_document, is_run_folder, locate_run
from clawgauge.journal.disk import FULL, replace_beside_records
from clawgauge.journal.folder import RunFolder
from clawgauge.records import RunSummary
from clawgauge.reports.document import Section, as_markdown
from clawgauge.reports.summary import render_markdown
from clawgauge.reports.words import word_unreadable
from clawgauge.run_data import Run
from clawgauge.run_data.resume import resume_command
from clawgauge.small_file import replacing
from clawgauge.summary import summarize_folder
from clawgauge.summary.stored import seal_summary


def open_run(ref: str, runs_dir: Path | None, *, loads: bool = True) -> Path:
    """The folder that a RUN on the command line stands for.

    Without --runs-dir, run ids are looked up where clawgauge.toml says.
    """
    if runs_dir is None and Path(ref).name != ref:
        # A path needs no configuration: whatever lies in the current directory has no say.
        runs_dir = Path(DEFAULT_RUNS_DIR)
    path = locate_run(ref, runs_dir or configured_runs_dir(), loads=loads)
    if not path.stat().st_mode & 0o077:
        # What is made of a folder that only its owner may read is for them alone, too.
        os.umask(0o077)
    return path


def configured_path(option: str) -> Path | None:
    """A path that `[run]` of ./clawgauge.toml gives; None where it gives none."""
    options = read_configuration(None, os.environ).under({}, [option])
    path = options.get(option)
    return Path(path) if path else None


def configured_runs_dir() -> Path:
    return configured_path("runs_dir") or Path(DEFAULT_RUNS_DIR)


def tell_unreadable(n_lines: int, *where: str) -> int:
    """The exit code; on stderr it is told why that is none of success, wherever the output goes."""
    if not n_lines:
        return DONE
    tell(word_unreadable(n_lines, *where))
    return UNREADABLE_LINES


@contextmanager
def output_file(path: Path, instead: str = "choose another place with -o") -> Iterator[BinaryIO]:
    """A binary file that takes the place of `path` once the block ends well.

    A device or a pipe is written directly. Where it cannot be written, `instead` tells the user
    what to do.
    """
    try:
        with _open_output(path) as file:
            yield file
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in FULL:
            raise DiskFailure(
                f"Cannot write {path} ({reason}); make room on the disk, then write it again."
            ) from error
        raise ConfigError(f"Cannot write {path} ({reason}); {instead}.") from error


def _open_output(path: Path) -> AbstractContextManager[BinaryIO]:
    if is_run_folder(path.parent):
        return replace_beside_records(path)
    if path.exists() and not path.is_file():
        return path.open("wb")
    # `Path.resolve` stumbles over a link to itself.
    return replacing(Path(os.path.realpath(path)))


def write_output(path: Path | None, text: str, *instead: str) -> None:
    """Write a text as the whole of a file, in UTF-8, or to standard output where none is named."""
    if path is None:
        sys.stdout.write(text)
        return
    with output_file(path, *instead) as file:
        file.write(text.encode("utf-8", "replace"))


def render(
    sections: list[Section],
    form: str = "text",
    *,
    document: Any = None,
    title: str = "",
    width: int | None = None,
    stream: TextIO | None = None,
) -> str:
    """What is reported in the `form` that is wanted.

    `text` are the sections, `width` wide where `stream` (standard output) is no terminal,
    `markdown` the same under a `title`, and `json` the `document`.
    """
    if form == "json":
        return encode_document(document).decode()
    if form == "markdown":
        return as_markdown(title, sections)
    # Loaded only now: what is not for a terminal needs none of it.
    from clawgauge.reports.terminal import as_text, paint

    stream = stream or sys.stdout
    # Before anything is measured: a command as it was typed may be longer than its name.
    typed = [section.spelled(as_typed) for section in sections]
    text = as_text(typed, columns_of(stream) or width, stream.encoding or "utf-8")
    return paint(text, stream, os.environ)


def write_summary(folder: RunFolder, config_file: Path | None = None) -> RunSummary:
    """Write summary.json and summary.md.

    `config_file` is the one that the user named: the command to go on with names it, too.
    """
    summary = seal_summary(summarize_folder(folder.path), folder.path)
    config = Run.open(folder.path).config
    refill = None
    if config is not None:
        refill = resume_command(folder.path, config_file, retry_errors=True)
    folder.write("summary.json", summary)
    folder.write("summary.md", render_markdown(summary, config, refill=refill))
    return summary
