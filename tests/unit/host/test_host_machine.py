"""Facts about the machine are read from its files, on processors and in containers that this one is not."""

from __future__ import annotations

from pathlib import Path

from clawgauge.host.machine import describe_cpu, describe_host, describe_memory
from support.fake_tools import install_tool, path_of
from support.rows import every_row

NOTHING = {"PATH": ""}
X86 = """processor\t: 0
model name\t: AMD Ryzen 9 7950X 16-Core Processor
flags\t\t: fpu sse4_2 fma avx avx2 avx512f nonsense

processor\t: 1
model name\t: another core
flags\t\t: fpu
"""
ARM = "processor\t: 0\nFeatures\t: fp asimd asimddp\nCPU part\t: 0xd0c\n"


def make_root(root: Path, **files: str) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def test_the_first_processor_is_described(tmp_path: Path) -> None:
    """Model and the telling instruction sets come from the first block of cpuinfo."""
    cpu = describe_cpu(NOTHING, make_root(tmp_path, **{"proc/cpuinfo": X86}))
    assert cpu["model"] == "AMD Ryzen 9 7950X 16-Core Processor"
    assert cpu["flags"] == ["sse4_2", "fma", "avx", "avx2", "avx512f"]


def test_an_arm_model_comes_from_lscpu(tmp_path: Path) -> None:
    """Where cpuinfo has no model name lscpu is asked, and without it the model is null."""
    root = make_root(tmp_path / "root", **{"proc/cpuinfo": ARM})
    assert describe_cpu(NOTHING, root)["model"] is None
    install_tool(
        tmp_path / "bin", "lscpu", "printf 'Architecture: aarch64\\n  Model name:   Neoverse-N1\\n'"
    )
    cpu = describe_cpu(path_of(tmp_path / "bin"), root)
    assert (cpu["model"], cpu["flags"]) == ("Neoverse-N1", ["asimd", "asimddp"])


def test_a_mac_is_asked_through_sysctl(tmp_path: Path) -> None:
    """Without /proc the brand string of sysctl is the model."""
    install_tool(tmp_path, "sysctl", "printf 'Apple M2 Pro\\n'")
    assert describe_cpu(path_of(tmp_path), tmp_path)["model"] == "Apple M2 Pro"


@every_row(
    ("cpu_max", "cores"),
    [("150000 100000", 1.5), ("max 100000", None), ("rubbish", None), ("1 0", None)],
)
def test_a_container_limits_the_processor(
    tmp_path: Path, cpu_max: str, cores: float | None
) -> None:
    """The share of the processor that a container grants is told in cores."""
    root = make_root(tmp_path, **{"sys/fs/cgroup/cpu.max": cpu_max})
    assert describe_cpu(NOTHING, root)["quota_cores"] == cores


@every_row(
    ("file", "content", "limit_bytes"),
    [
        ("memory.max", "2147483648\n", 1 << 31),
        ("memory.max", "max\n", None),
        ("memory.max", "rubbish", None),
        ("memory/memory.limit_in_bytes", "9223372036854771712", None),
        ("memory/memory.limit_in_bytes", "1073741824", 1 << 30),
    ],
)
def test_a_container_limits_memory(
    tmp_path: Path, file: str, content: str, limit_bytes: int | None
) -> None:
    """The memory limit is read from both versions of cgroups; no limit and rubbish are null."""
    root = make_root(tmp_path, **{f"sys/fs/cgroup/{file}": content})
    assert describe_memory(root)["limit_bytes"] == limit_bytes


@every_row(
    ("file", "content", "container"),
    [
        (".dockerenv", "", "docker"),
        ("run/.containerenv", "", "podman"),
        ("run/systemd/container", "systemd-nspawn\n", "systemd-nspawn"),
        ("proc/self/cgroup", "0::/kubepods/besteffort/pod1\n", "kubepods"),
        ("proc/self/cgroup", "0::/user.slice\n", None),
    ],
)
def test_containers_are_recognised(
    tmp_path: Path, file: str, content: str, container: str | None
) -> None:
    """Each kind of container leaves its own mark, and a plain machine has none."""
    assert describe_host(NOTHING, make_root(tmp_path, **{file: content}))["container"] == container
