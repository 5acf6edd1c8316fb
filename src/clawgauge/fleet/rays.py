"""The machines of a Ray cluster as nodes. Ray lives in a process of its own, a bridge that is started as ssh would be:
an actor on the machine runs the node program, and the bridge passes the lines on. As a program, this is that bridge."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec

from clawgauge.child_processes import isolated_module
from clawgauge.config.settings import NodeTable
from clawgauge.fleet.wire import Member, NodeLost, bridge_environment
from clawgauge.journal.disk import write_all

_LIST_S = 90.0
_FACTS = ("NodeManagerHostname", "NodeManagerAddress", "NodeID", "Labels")


def find_machines(name: str, table: NodeTable) -> list[Member]:
    """The machines of a cluster with these labels, by their hosts' names; those of one name by their addresses too."""
    bridge, words = (
        isolated_module("clawgauge.fleet.rays", table.ray or ""),
        f"no word within {_LIST_S:g} s",
    )
    machines: list[tuple[str, str, str, dict[str, str]]] = []
    try:
        how: Any = {"capture_output": True, "timeout": _LIST_S, "stdin": subprocess.DEVNULL}
        done = subprocess.run(bridge, check=False, env=bridge_environment(), **how)
        words = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no machine"])[-1]
        words = (
            "RAY_AUTH_TOKEN is missing or wrong" if b"InvalidAuthToken" in done.stderr else words
        )
        machines = msgspec.json.decode(done.stdout, type=list[tuple[str, str, str, dict[str, str]]])
    except (subprocess.TimeoutExpired, msgspec.DecodeError):
        raise NodeLost(f"node {name}: no Ray cluster can be had at {table.ray} ({words})") from None
    members, hosts = dict[str, Member](), [machine[0] for machine in machines]
    for host, address, node_id, labels in sorted(machines):
        own = host.partition(".")[0] if hosts.count(host) == 1 else f"{host}-{address}"
        own = f"{name}-{re.sub('[^A-Za-z0-9_-]', '-', own)}"
        own = own if own not in members else f"{own}-{len(members) + 1}"
        if table.labels.items() <= labels.items():
            members[own] = Member(own, [*bridge, node_id], table.address or address)
    return list(members.values())


class Program:
    """The actor: the node program on its machine, of that machine's own environment."""

    def __init__(self) -> None:
        # A worker has one thread, by Ray's choice and for Ray's tasks.
        env = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
        how: Any = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "cwd": Path.home(),
            "env": env,
        }
        # Ray kills the children of a worker that ends, and calls in flight are to come to their end: no child of it.
        orphaned = [
            "sh",
            "-c",
            'exec 3<&0; "$@" <&3 3<&- &',
            "sh",
            *isolated_module("clawgauge", "node"),
        ]
        self._child: Any = subprocess.Popen(orphaned, start_new_session=True, **how)

    def send(self, data: bytes) -> None:
        self._child.stdin.write(data)
        self._child.stdin.flush() if data else self._child.stdin.close()

    def receive(self) -> bytes:
        return os.read(self._child.stdout.fileno(), 1 << 20)


def main(address: str, *node_id: str) -> None:
    """Without the id of a machine: list all."""
    sink = os.dup(1)
    os.dup2(2, 1)
    try:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
    except ImportError:
        sys.exit("Ray is not installed here: pip install 'clawgauge[fleet]'")
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        if not node_id:
            listed = [[one.get(name) for name in _FACTS] for one in ray.nodes() if one["Alive"]]
            write_all(sink, msgspec.json.encode(listed))
            return
        # By the name it is installed under: a reference is sent, not its code.
        from clawgauge.fleet.rays import Program as Installed

        where = NodeAffinitySchedulingStrategy(node_id[0], soft=False)
        actor = (
            ray.remote(Installed)
            .options(num_cpus=0, max_concurrency=2, scheduling_strategy=where)
            .remote()
        )

        def pass_on() -> None:
            while data := os.read(0, 1 << 20):
                ray.get(actor.send.remote(data))
            ray.get(actor.send.remote(b""))

        threading.Thread(target=pass_on, daemon=True).start()
        while said := ray.get(actor.receive.remote()):
            write_all(sink, said)
    except (ray.exceptions.RayError, ConnectionError, RuntimeError, ValueError) as fault:
        sys.exit(f"{type(fault).__name__}: {(str(fault).strip().splitlines() or [''])[0]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
