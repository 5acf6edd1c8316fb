"""System tools are run within limits, whatever they do."""

from __future__ import annotations

import gc
from pathlib import Path

import psutil
import pytest

from clawgauge.host.commands import OUTPUT_CAP_BYTES, CommandOutput, run_command, run_together
from support.fake_tools import install_tool, path_of
from support.waiting import PATIENCE_S, growing_deadlines, wait_until


def is_running(pid: int) -> bool:
    """A zombie counts as ended: only its parent has not looked yet."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_a_tool_is_found_on_the_given_path_only(tmp_path: Path) -> None:
    """A tool that is not on the PATH given is missing, even if the machine has it."""
    install_tool(tmp_path, "free", "printf 'all free'")
    found = run_command(["free"], path_of(tmp_path), PATIENCE_S)
    assert found is not None
    assert (found.text, found.exit_code) == ("all free", 0)
    assert run_command(["free"], {"PATH": ""}) is None
    assert run_command(["free"], {}) is None
    assert run_command(["df"], path_of(tmp_path)) is None


def test_a_file_that_cannot_run_is_missing(tmp_path: Path) -> None:
    """A file without the right to run, and one that is no program, are as good as not there."""
    install_tool(tmp_path, "free", "printf x").chmod(0o644)
    install_tool(tmp_path, "df", "").write_bytes(b"\x7fELF garbage")
    outputs = run_together({"free": ["free"], "df": ["df"]}, path_of(tmp_path))
    assert outputs == {"free": None, "df": None}


def test_a_failing_tool_keeps_its_words_and_code(tmp_path: Path) -> None:
    """What a tool prints before it fails is kept with its exit code."""
    install_tool(tmp_path, "nvidia-smi", "printf 'could not reach the driver'; exit 9")
    output = run_command(["nvidia-smi"], path_of(tmp_path), PATIENCE_S)
    assert output is not None
    assert (output.text, output.exit_code) == ("could not reach the driver", 9)


def test_hostile_bytes_become_plain_text(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 are replaced; escapes, direction marks and carriage returns are dropped."""
    install_tool(tmp_path, "df", r"printf '\377 ok \033[31m\r\302\205\342\200\256\n\tnext'")
    output = run_command(["df"], path_of(tmp_path), PATIENCE_S)
    assert output is not None
    assert output.text == "\ufffd ok [31m\n\tnext"


def test_a_tool_has_no_input_and_no_keys(tmp_path: Path) -> None:
    """A tool finds its standard input at an end, and of the environment only what it may need."""
    install_tool(
        tmp_path,
        "claude",
        "read line || printf 'no input '; printf '%s/%s' \"$HOME\" \"$OPENAI_API_KEY\"",
    )
    environ = {**path_of(tmp_path), "HOME": "/home/u", "OPENAI_API_KEY": "sk-canary"}
    output = run_command(["claude"], environ, PATIENCE_S)
    assert output is not None
    assert output.text == "no input /home/u/"


@pytest.fixture(scope="module")
def lingering(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CommandOutput | None]:
    """Tools that do not go away, all run at once, within a limit long enough for this machine to start them."""
    bin_dir = tmp_path_factory.mktemp("bin")
    install_tool(bin_dir, "hangs", "/bin/sleep 600 & printf '%s %s' $$ $!; wait")
    install_tool(bin_dir, "leaves-a-child", "/bin/sleep 600 & printf '%s' $!; exit 3")
    install_tool(bin_dir, "closes-its-output", "printf '%s' $$; exec >&-; /bin/sleep 600")
    names = ("hangs", "leaves-a-child", "closes-its-output")
    for timeout_s in growing_deadlines(0.5):
        outputs = run_together(
            {name: [name] for name in names}, path_of(bin_dir), timeout_s=timeout_s
        )
        left = outputs["leaves-a-child"]
        if (
            all(output and output.text for output in outputs.values())
            and left
            and left.exit_code is not None
        ):
            break
    return outputs


@pytest.mark.parametrize(
    ("name", "exit_code", "processes"),
    [("hangs", None, 2), ("leaves-a-child", 3, 1), ("closes-its-output", None, 1)],
)
def test_a_tool_that_lingers_is_killed_with_its_children(
    lingering: dict[str, CommandOutput | None], name: str, exit_code: int | None, processes: int
) -> None:
    """A tool that hangs, leaves a child holding its pipe, or only closes its output is ended with all its children."""
    output = lingering[name]
    assert output is not None
    assert output.exit_code == exit_code
    pids = [int(pid) for pid in output.text.split()]
    assert len(pids) == processes
    wait_until(lambda: not any(is_running(pid) for pid in pids))


def test_endless_output_is_cut(tmp_path: Path) -> None:
    """A tool that never stops printing is stopped at the cap."""
    install_tool(tmp_path, "df", "while :; do printf '0123456789abcdef0123456789abcdef'; done")
    output = run_command(["df"], path_of(tmp_path), timeout_s=PATIENCE_S)
    assert output is not None
    assert len(output.text) == OUTPUT_CAP_BYTES
    assert output.exit_code is None


def test_tools_run_at_the_same_time(tmp_path: Path) -> None:
    """Two tools that each wait for the other both end, which they can only do side by side."""
    rendezvous = "cd {dir}; : > {mine}; while [ ! -e {other} ]; do :; done; printf met"
    install_tool(tmp_path, "a", rendezvous.format(dir=tmp_path, mine="came_a", other="came_b"))
    install_tool(tmp_path, "b", rendezvous.format(dir=tmp_path, mine="came_b", other="came_a"))
    outputs = run_together({"a": ["a"], "b": ["b"]}, path_of(tmp_path), timeout_s=PATIENCE_S)
    assert [output.text for output in outputs.values() if output] == ["met", "met"]


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    """Running tools, hanging ones among them, leaves this process with as many open files as before."""
    install_tool(tmp_path, "quick", "printf x")
    install_tool(tmp_path, "slow", "/bin/sleep 600")
    tools = {"quick": ["quick"], "slow": ["slow"], "missing": ["missing"]}
    run_together(
        tools, path_of(tmp_path), 0.1
    )  # the first tool of a process starts its supervisor, which stays
    gc.collect()  # what others have left is not counted
    before = psutil.Process().num_fds()
    for _ in range(3):
        run_together(tools, path_of(tmp_path), 0.1)
    assert (
        psutil.Process().num_fds() <= before
    )  # fewer, where something of an earlier test is closed meanwhile
