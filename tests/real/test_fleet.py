"""`run --nodes` through a real sshd on this machine, and through a real Ray cluster of a head and two more nodes.

The two boxes behind sshd are two keys, each with a home of its own by a forced command. The claims are those of the
default and slow tests, made again over the real thing.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from end_to_end import test_fleet as claims
from end_to_end.test_fleet import CANARY, Gate, asked, boxes, check_whole, events, ollama
from support.boxes import Boxes
from support.command import Outcome, clean_environment, read_records, trust_configuration
from support.scripted_server import ScriptedServer, Text
from support.waiting import PATIENCE_S, wait_until

__all__ = ["boxes"]
SSHD = Path("/usr/sbin/sshd")
RAY = Path(__file__).parents[2] / ".cache/ray/bin"
TOKEN = "ray-canary-0f1e2d3c4b5a69788796a5b4c3d2e1f0"
pytestmark = pytest.mark.real
needs_sshd = pytest.mark.skipif(
    not SSHD.exists(), reason="no sshd here: apt-get install openssh-server"
)
needs_ray = pytest.mark.skipif(
    not (RAY / "ray").exists(), reason="Ray is not installed: scripts/get-ray"
)


def free_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


class SshBoxes(Boxes):
    """Boxes behind a real sshd: `ssh NAME` is the real program, with a configuration of its own."""

    def ssh(self) -> str:
        return f'#!/bin/sh\nexec /usr/bin/ssh -F {self.place}/ssh_config "$@"\n'

    def start(self, names: str) -> subprocess.Popen[bytes]:
        port, allowed, hosts = free_port(), [], []
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f"]
        subprocess.run([*make, str(self.place / "host_key")], check=True)
        for name in names.split():
            key = self.place / f"key_{name}"
            subprocess.run([*make, str(key)], check=True)
            command = f'command="{self.root}/box {name} \\"$SSH_ORIGINAL_COMMAND\\""'
            allowed.append(f"{command},no-pty {key.with_suffix('.pub').read_text()}")
            hosts.append(f"Host {name}\n  IdentityFile {key}\n")
        (self.place / "allowed").write_text("".join(allowed))
        known = (self.place / "host_key.pub").read_text()
        (self.place / "known").write_text(f"[127.0.0.1]:{port} {known}")
        every = f"Host *\n  HostName 127.0.0.1\n  Port {port}\n  IdentitiesOnly yes\n"
        (self.place / "ssh_config").write_text(
            "".join(hosts) + every + f"  UserKnownHostsFile {self.place}/known\n"
        )
        settings = [
            f"Port {port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {self.place}/host_key",
            "PidFile none",
        ]
        settings += [
            f"AuthorizedKeysFile {self.place}/allowed",
            "StrictModes no",
            "UsePAM no",
            "PermitRootLogin yes",
        ]
        (self.place / "sshd_config").write_text(
            "\n".join([*settings, "PasswordAuthentication no", ""])
        )
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        return subprocess.Popen(
            [SSHD, "-D", "-e", "-f", self.place / "sshd_config"], stderr=subprocess.DEVNULL
        )


@pytest.fixture
def ssh_boxes(tmp_path: Path, boxes: Boxes) -> Iterator[SshBoxes]:
    shutil.rmtree(tmp_path / "bin")
    shutil.rmtree(tmp_path / "boxes")
    made = SshBoxes(tmp_path)
    sshd = made.start("ana bob")
    try:
        yield made
    finally:
        sshd.kill()
        sshd.wait()


@needs_sshd
@pytest.mark.parametrize(
    "claim",
    [
        claims.test_two_machines_make_one_run_and_no_key_travels,
        claims.test_a_killed_node_loses_its_open_cells_and_nothing_else,
        claims.test_what_a_cut_connection_kept_from_us_is_handed_over,
        claims.test_ctrl_c_ends_the_nodes_work_and_keeps_all,
        claims.test_merged_figures_are_those_of_one_client,
        claims.test_a_load_that_two_nodes_make_is_that_of_one_client,
        claims.test_a_load_ends_with_a_node_and_goes_on_when_it_is_back,
    ],
)
def test_through_a_real_sshd(claim: Callable[[Boxes], None], ssh_boxes: SshBoxes) -> None:
    claim(ssh_boxes)


@needs_sshd
def test_another_version_is_refused_through_ssh(ssh_boxes: SshBoxes) -> None:
    box = ssh_boxes.add("ana")
    old = (
        "import clawgauge; clawgauge.__version__ = '0.0.9'; from clawgauge.cli import main; main()"
    )
    (box / "old").write_text(f"#!{sys.executable}\n{old}\n")
    (box / "old").chmod(0o755)
    toml = ssh_boxes.place / "clawgauge.toml"
    toml.write_text(f'[nodes.ana]\nssh = "ana"\ncommand = "{box}/old"\n')
    done = claims.run(ssh_boxes, "run", "--nodes", "ana", "-s", "small.json")
    assert done.code == 2 and "node ana: it has clawgauge 0.0.9" in done.stderr, done.stderr


class RayBoxes(Boxes):
    """The same homes as machines of a Ray cluster; the command runs in the environment that has Ray."""

    ray = Path("nowhere")

    def cluster(self, **environments: dict[str, str]) -> None:
        # Short: Ray makes sockets in it, and a socket's name has its limit.
        self.ray = Path(tempfile.mkdtemp(prefix="ray"))
        port, every = (
            free_port(),
            {"RAY_worker_niceness": "0", "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN},
        )
        self.env = {**self.env, **every, "RAY_USAGE_STATS_ENABLED": "0"}
        for number, (name, own) in enumerate(environments.items()):
            box = self.add(name)
            env = {**clean_environment(**self.env), **own, "HOME": str(box)}
            del env["XDG_STATE_HOME"]
            where = [
                "--head",
                f"--port={port}",
                "--include-dashboard=false",
                f"--temp-dir={self.ray}",
            ]
            where = where if number == 0 else [f"--address=127.0.0.1:{port}"]
            size = ["--num-cpus=1", "--object-store-memory=80000000", "--disable-usage-stats"]
            words = [
                RAY / "ray",
                "start",
                "--node-ip-address=127.0.0.1",
                *where,
                *size[: 3 if number == 0 else 2],
            ]
            subprocess.run(words, env=env, check=True, capture_output=True, timeout=PATIENCE_S)
        (self.place / "clawgauge.toml").write_text(f'[nodes.rack]\nray = "127.0.0.1:{port}"\n')
        trust_configuration(self.place)

    def start(self, *words: str, **env: str) -> subprocess.Popen[bytes]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        environment = clean_environment(**{**self.env, **env})
        return subprocess.Popen(
            [RAY / "python", "-m", "clawgauge", *words],
            cwd=self.place, env=environment, start_new_session=True, **pipes,
        )  # fmt: skip

    def run(self, *words: str, **env: str) -> Outcome:
        with self.start(*words, **env) as process:
            out, err = process.communicate(timeout=PATIENCE_S)
        return Outcome(process.returncode, out.decode(), err.decode(), self.place)

    def node(self, name: str) -> psutil.Process:
        """The node program in that home, which an actor has started."""
        home, found = str(self.root / name), []

        def look() -> bool:
            for one in psutil.process_iter():
                try:
                    if (
                        one.cmdline()[-2:] == ["clawgauge", "node"]
                        and one.environ().get("HOME") == home
                    ):
                        found.append(one)
                except psutil.Error:
                    continue
            return bool(found)

        wait_until(look, every_s=0.2)
        return found[-1]


@pytest.fixture
def ray_boxes(tmp_path: Path, boxes: Boxes) -> Iterator[RayBoxes]:
    before = {one.pid for one in psutil.process_iter()}
    shutil.rmtree(tmp_path / "bin")
    shutil.rmtree(tmp_path / "boxes")
    made = RayBoxes(tmp_path)
    try:
        yield made
    finally:
        # Of this cluster alone: those that name its folder, or were started with its token.
        for one in [one for one in psutil.process_iter() if one.pid not in before]:
            try:
                if (
                    str(made.ray) in " ".join(one.cmdline())
                    or one.environ().get("RAY_AUTH_TOKEN") == TOKEN
                ):
                    one.kill()
            except psutil.Error:
                continue
        shutil.rmtree(made.ray, ignore_errors=True)


@needs_ray
def test_a_ray_cluster_of_three(ray_boxes: RayBoxes) -> None:
    """One cluster for all claims: to start one takes half a minute."""
    words = (
        "run",
        "--nodes",
        "rack",
        "-t",
        "*.ollama_openai:*",
        "-s",
        "small.json",
        "--run-id",
        "r",
    )
    with (
        ScriptedServer(models=["m"]) as one,
        ScriptedServer(models=["m"]) as two,
        ScriptedServer(models=["m"]) as three,
    ):
        servers = {"ana": one, "bob": two, "eve": three}
        one.reply_with(Text(f"your key is {CANARY}"))
        for server in (two, three):
            server.reply_with(Text("yes"))
        own = {name: {"OLLAMA_HOST": ollama(server)} for name, server in servers.items()}
        own["ana"]["OPENAI_API_KEY"] = CANARY
        ray_boxes.cluster(**own)
        wrong = ray_boxes.run(*words, RAY_AUTH_TOKEN="wrong-0f1e2d3c4b5a69788796a5b4c3d2e1f0")
        assert wrong.code == 2 and "RAY_AUTH_TOKEN is missing or wrong" in wrong.stderr, (
            wrong.stderr
        )
        assert not one.calls
        done = ray_boxes.run(*words)
        assert done.code == 0, done.stderr
        nodes = Counter(record["node"] for record in done.records())
        assert (
            len(nodes) == 3
            and set(nodes.values()) == {6}
            and all(name.startswith("rack-") for name in nodes)
        )
        assert all(max(asked(server).values()) == 1 for server in servers.values())
        joined = [
            event["detail"] for event in events(done.folder) if event["event"] == "node_joined"
        ]
        print(
            "clocks over Ray, ms:",
            [(round(each["offset_ms"], 3), round(each["error_ms"], 3)) for each in joined],
        )
        assert {each["nice"] for each in joined} == {os.nice(0)}
        files = [
            path for path in [*done.folder.iterdir(), *ray_boxes.ray.rglob("*")] if path.is_file()
        ]
        everything = (
            b"".join(path.read_bytes() for path in files) + (done.stdout + done.stderr).encode()
        )
        assert CANARY.encode() not in everything and TOKEN.encode() not in everything

        # A node program is killed, then the driver; both come to a whole run.
        gate = Gate(two, after=len(two.calls) + 2)
        with ray_boxes.start(*words[:-1], "killed") as process:
            gate.wait()
            ray_boxes.node("bob").kill()
            out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0 and b"the connection ended" in err, err
        folder = ray_boxes.place / out.decode().strip()
        lost = [record for record in read_records(folder) if record["failure_type"] == "node_lost"]
        assert len(lost) == 4
        gate.open()
        two.reply_with(Text("yes"))
        resumed = ray_boxes.run("run", "--resume", "killed", "--retry-errors")
        assert resumed.code == 0, resumed.stderr
        assert Counter(record["availability_status"] for record in read_records(folder)) == {
            "ok": 18
        }

        before = asked(three)
        gate = Gate(three, after=len(three.calls) + 2)
        with ray_boxes.start(*words[:-1], "driver") as process:
            gate.wait()
            node = ray_boxes.node("eve")
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=PATIENCE_S)
        gate.open()
        wait_until(lambda: not node.is_running() or node.status() == psutil.STATUS_ZOMBIE)
        three.reply_with(Text("yes"))
        resumed = ray_boxes.run("run", "--resume", "driver", "--retry-errors")
        assert resumed.code == 0, resumed.stderr
        assert max((asked(three) - before).values()) == 1, "what was answered was asked again"
        records = read_records(ray_boxes.place / "runs" / "driver")
        assert (
            len({(record["node"], record["prompt_id"]) for record in records}) == len(records) == 18
        )
        assert (
            json.loads((ray_boxes.place / "runs/driver/config.json").read_bytes())["run_id"]
            == "driver"
        )
    assert check_whole is claims.check_whole
