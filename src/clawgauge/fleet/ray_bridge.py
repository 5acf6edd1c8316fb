"""The machines of a Ray cluster as nodes.

Ray lives in a process of its own, a bridge that is started as ssh would be: an actor on the machine
runs the node program, and the bridge passes the lines on. As a program, this module is that bridge.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from clawgauge.child_processes import isolated_module
from clawgauge.config.settings import NodeTable
from clawgauge.fleet.connection import NodeAddress, bridge_environment
from clawgauge.fleet.wire import NodeLost
from clawgauge.journal.disk import write_all

_LIST_TIMEOUT_S = 90.0
_PIECE_BYTES = 1 << 20
# What Ray tells of a machine, in the order of `_Machine`.
_RAY_FIELDS = ("NodeManagerHostname", "NodeManagerAddress", "NodeID", "Labels")


class _Machine(NamedTuple):
    """A machine of a cluster."""

    host: str
    address: str
    ray_id: str
    labels: dict[str, str]


def find_machines(name: str, table: NodeTable) -> list[NodeAddress]:
    """The machines of a cluster that have the labels of its table.

    They are named by their hosts; of several with one host's name each has its address too, so that
    it keeps its name when another one is gone. Raises `NodeLost` where no cluster can be had.
    """
    bridge = isolated_module("clawgauge.fleet.ray_bridge", table.ray or "")
    machines = sorted(_list_machines(name, table, bridge))
    hosts = [machine.host for machine in machines]
    nodes: dict[str, NodeAddress] = {}
    for machine in machines:
        machine_name = f"{machine.host}-{machine.address}"
        if hosts.count(machine.host) == 1:
            machine_name = machine.host.partition(".")[0]
        node_name = f"{name}-{re.sub('[^A-Za-z0-9_-]', '-', machine_name)}"
        if node_name in nodes:
            node_name = f"{node_name}-{len(nodes) + 1}"
        if table.labels.items() <= machine.labels.items():
            command = [*bridge, machine.ray_id]
            nodes[node_name] = NodeAddress(node_name, command, table.address or machine.address)
    return list(nodes.values())


def _list_machines(name: str, table: NodeTable, bridge: list[str]) -> list[_Machine]:
    reason = f"no word within {_LIST_TIMEOUT_S:g} s"
    try:
        done = subprocess.run(
            bridge,
            check=False,
            env=bridge_environment(),
            capture_output=True,
            timeout=_LIST_TIMEOUT_S,
            stdin=subprocess.DEVNULL,
        )
        error_lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        reason = error_lines[-1] if error_lines else "no machine"
        if b"InvalidAuthToken" in done.stderr:
            reason = "RAY_AUTH_TOKEN is missing or wrong"
        return msgspec.json.decode(done.stdout, type=list[_Machine])
    except (subprocess.TimeoutExpired, msgspec.DecodeError):
        raise NodeLost(
            f"node {name}: no Ray cluster can be had at {table.ray} ({reason})"
        ) from None


class NodeActor:
    """The actor: the node program on its machine, with that machine's own environment."""

    def __init__(self) -> None:
        # A worker has one thread, by Ray's choice and for Ray's tasks.
        environment = dict(os.environ)
        environment.pop("OMP_NUM_THREADS", None)
        # Ray kills the children of a worker that ends, and calls in flight are to come to their
        # end: the program is no child of it.
        orphaned = [
            "sh",
            "-c",
            'exec 3<&0; "$@" <&3 3<&- &',
            "sh",
            *isolated_module("clawgauge", "node"),
        ]
        self._child: Any = subprocess.Popen(
            orphaned,
            start_new_session=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path.home(),
            env=environment,
        )

    def send(self, data: bytes) -> None:
        """Pass data on to the program; none at all ends its input."""
        self._child.stdin.write(data)
        if data:
            self._child.stdin.flush()
        else:
            self._child.stdin.close()

    def receive(self) -> bytes:
        """What the program says next; nothing once it has ended."""
        return os.read(self._child.stdout.fileno(), _PIECE_BYTES)


def main(address: str, ray_id: str | None = None) -> None:
    """The bridge to one machine of the cluster at this address; without its id, list them all."""
    # Whatever Ray prints goes to standard error.
    sink = os.dup(1)
    os.dup2(2, 1)
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError:
        sys.exit("Ray is not installed here: pip install 'clawgauge[fleet]'")
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        if ray_id is None:
            _print_machines(ray.nodes(), sink)
        else:
            _pass_lines(ray, ray_id, sink)
    except (ray.exceptions.RayError, ConnectionError, RuntimeError, ValueError) as fault:
        lines = str(fault).strip().splitlines() or [""]
        sys.exit(f"{type(fault).__name__}: {lines[0]}")


def _print_machines(nodes: list[dict[str, Any]], sink: int) -> None:
    machines = []
    for node in nodes:
        if node["Alive"]:
            machines.append([node.get(name) for name in _RAY_FIELDS])
    write_all(sink, msgspec.json.encode(machines))


def _pass_lines(ray: Any, ray_id: str, sink: int) -> None:
    """Run the node program on a machine, and pass on what comes from either side."""
    # By the name it is installed under: a reference is sent, not its code.
    from clawgauge.fleet.ray_bridge import NodeActor as InstalledActor

    on_machine = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(ray_id, soft=False)
    actor_class = ray.remote(InstalledActor).options(
        num_cpus=0,
        max_concurrency=2,
        scheduling_strategy=on_machine,
    )
    actor = actor_class.remote()

    def pass_input_on() -> None:
        while data := os.read(0, _PIECE_BYTES):
            ray.get(actor.send.remote(data))
        ray.get(actor.send.remote(b""))

    threading.Thread(target=pass_input_on, daemon=True).start()
    while data := ray.get(actor.receive.remote()):
        write_all(sink, data)


if __name__ == "__main__":
    main(*sys.argv[1:])
