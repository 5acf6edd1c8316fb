"""Programs on top of the machine: docker, git, nvidia-smi. Each as far as the specification declares a state."""

from __future__ import annotations

import re
from collections.abc import Mapping

from clawgauge.world import paths
from clawgauge.world.commands.call import Call, NotSimulated, Options, UsageFault, command, read_options, table
from clawgauge.world.commands.status import format_moment
from clawgauge.world.nouns import Repo
from clawgauge.world.refusals import Refusal
from clawgauge.world.services import Service


@command("docker", "podman", raw=True)
def docker(call: Call) -> int:
    words = call.args[1:] if call.args[:1] in (["compose"], ["container"]) else list(call.args)
    if call.args[:2] in (["container", "ls"], ["image", "ls"]):
        words = ["ps" if call.args[0] == "container" else "images", *call.args[2:]]
    if not words or words[0] == "--version":
        return call.print("Docker version 26.1.5, build a72d7cd\n")
    containers = call.machine.services.containers()
    if not containers:
        return call.say("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is it running?\n")
    action, *rest = words
    match action:
        case "ps":
            return _docker_ps(call, rest)
        case "images":
            images = [one.partition(":") for one in dict.fromkeys(container.image for container in containers)]
            rows = [["REPOSITORY", "TAG", "IMAGE ID", "SIZE"]]
            rows += [
                [name, tag or "latest", _container_id(call, f"{name}{colon}{tag}"), "142MB"]
                for name, colon, tag in images
            ]
            return call.print(table(rows, range(4), "   "))
        case "stats":
            limit = f"{call.machine.ram_mb / 1024:.2f}GiB"
            rows = [["CONTAINER ID", "NAME", "CPU %", "MEM USAGE / LIMIT"]]
            rows += [
                [_container_id(call, one.name), one.name, "0.20%", f"{one.memory_mb:.1f}MiB / {limit}"]
                for one in containers
                if one.state == "active"
            ]
            return call.print(table(rows, range(4), "   "))
        case "logs" | "start" | "stop" | "restart" | "rm" | "kill":
            options = read_options(
                rest, flags="f", valued="nt", long="force:f follow:f tail:n= time:t= timestamps", idle="t"
            )
            if not options.operands:
                raise UsageFault(f'"docker {action}" requires at least 1 argument.')
            n_lines = options.whole("n", 1_000) if options.value("n") != "all" else 1_000
            return max(
                _docker_do(call, action, name, force=options.has("f"), n_lines=n_lines) for name in options.operands
            )
    raise NotSimulated(f"'{action[:40]}' is not supported here")


def _docker_ps(call: Call, rest: list[str]) -> int:
    options = read_options(
        rest, flags="aq", valued="f", long="all:a quiet:q filter:f= format= no-trunc", idle_words="no-trunc"
    )
    found = call.machine.services.containers()
    if not options.has("a", "f"):
        found = [one for one in found if one.state == "active"]
    for text in options.all("f"):
        key, _, value = text.partition("=")
        if key not in ("name", "status"):
            raise NotSimulated(f"the filter '{text[:40]}' is not supported here")
        found = [
            one
            for one in found
            if (value in one.name if key == "name" else (value == "running") == (one.state == "active"))
        ]
    rows = [["CONTAINER ID", "IMAGE", "COMMAND", "STATUS", "PORTS", "NAMES"]]
    for one in found:
        hours = (call.machine.clock.now_s - one.since_s) // 3_600
        age = f"{hours // 24} days" if hours >= 48 else f"{hours} hours" if hours else "Less than a minute"
        is_up = one.state == "active"
        status = f"Up {age}" if is_up else f"Exited ({1 if one.state == 'failed' else 0}) {age} ago"
        ports = ", ".join(f"0.0.0.0:{port}->{port}/tcp" for port in one.ports)
        rows.append([_container_id(call, one.name), one.image, f'"{one.command[:20]}"', status, ports, one.name])
    if options.has("q"):
        return call.print("".join(f"{row[0]}\n" for row in rows[1:]))
    form = options.value("format")
    if not form:
        return call.print(table(rows, range(6), "   "))
    line = form.removeprefix("table ").replace("\\t", "\t")
    for row in rows if form.startswith("table ") else rows[1:]:
        fields = dict(zip((".ID", ".Image", ".Command", ".Status", ".Ports", ".Names"), row, strict=True))
        call.print(_filled(r"\{\{\s*(\.\w+)\s*\}\}", fields, line) + "\n")
    return 0


def _filled(pattern: str, values: Mapping[str, str], form: str) -> str:
    def fill(found: re.Match[str]) -> str:
        if found[1] not in values:
            raise NotSimulated(f"'{found[0][:40]}' is not supported here")
        return values[found[1]]

    return re.sub(pattern, fill, form)


def _container_id(call: Call, name: str) -> str:
    return f"{call.machine.incidentals.between(16**11, 16**12 - 1, 'container', name):012x}"


def _docker_do(call: Call, action: str, name: str, *, force: bool, n_lines: int) -> int:
    services = call.machine.services
    one: Service | None = next(
        (one for one in services.containers() if name in (one.name, _container_id(call, one.name))), None
    )
    if one is None:
        return call.say(f"Error response from daemon: No such container: {name[:60]}\n")
    if action == "logs":
        return call.print("".join(f"{line.text}\n" for line in one.log[max(0, len(one.log) - n_lines) :]))
    try:
        if action == "rm" and one.state == "active" and not force:
            raise Refusal(f'cannot remove container "/{one.name}": container is running')
        if action == "rm":
            services.discard(one)
        elif action in ("stop", "kill"):
            services.stop(one)
        else:
            services.start(one, again=action == "restart")
    except Refusal as refusal:
        return call.say(f"Error response from daemon: {refusal}\n")
    return call.print(f"{one.name}\n")


@command("git", raw=True)
def git(call: Call) -> int:
    """What a repository is like; nothing changes it."""
    words, folder = list(call.args), call.workdir
    while words and words[0] in ("-C", "--no-pager", "-P"):
        if words.pop(0) == "-C" and words:
            folder = paths.resolve(words.pop(0), call.workdir)
    action, *rest = words or [""]
    if action in ("--version", "version"):
        return call.print("git version 2.39.5\n")
    repo = call.machine.repo_around(folder)
    if repo is None:
        return call.say("fatal: not a git repository (or any of the parent directories): .git\n", 128)
    if action not in ("status", "log", "branch", "remote", "rev-parse", "diff"):
        raise NotSimulated(f"'{action[:40]}' is not supported here")
    options = read_options(
        [re.sub(r"^-(\d+)$", r"-n\1", word) for word in rest], flags="sbav", valued="nu",
        long="short:s porcelain:s branch:b oneline format= pretty= stat name-only name-status staged cached all:a "
        "show-current list abbrev-ref show-toplevel verbose:v max-count:n=", idle_words="decorate graph",
    )  # fmt: skip
    if options.operands not in ([], ["HEAD"]) and action not in ("log", "rev-parse", "status"):
        raise NotSimulated(f"'{action} {options.operands[0][:40]}' is not supported here")
    match action:
        case "status":
            return _git_status(call, repo, options)
        case "log":
            return _git_log(call, repo, options)
        case "branch":
            shown = "".join(f"{'*' if name == repo.branch else ' '} {name}\n" for name in sorted(repo.branches))
            return call.print(f"{repo.branch}\n" if options.has("show-current") else shown)
        case "remote":
            both = f"origin\t{repo.remote} (fetch)\norigin\t{repo.remote} (push)\n"
            return call.print("" if not repo.remote else both if options.has("v") else "origin\n")
        case "rev-parse":
            head = repo.commits[0].id if repo.commits else "0" * 40
            text = repo.branch if options.has("abbrev-ref") else head[:7] if options.has("s") else head
            return call.print(f"{repo.path if options.has('show-toplevel') else text}\n")
    names = [] if options.has("staged", "cached") else repo.modified
    if names and not options.has("stat", "name-only", "name-status"):
        raise NotSimulated("only '--stat', '--name-only' and '--name-status' are supported here")
    before, after = ("M\t", "") if options.has("name-status") else (" ", " | 2 +-")
    before, after = ("", "") if options.has("name-only") else (before, after)
    return call.print("".join(f"{before}{name}{after}\n" for name in names))


def _git_status(call: Call, repo: Repo, options: Options) -> int:
    if options.has("s"):
        marked = [*(f" M {name}\n" for name in repo.modified), *(f"?? {name}\n" for name in repo.untracked)]
        return call.print((f"## {repo.branch}\n" if options.has("b") else "") + "".join(marked))
    call.print(f"On branch {repo.branch}\n")
    if repo.remote:
        word, count = ("ahead of", repo.ahead) if repo.ahead else ("behind", repo.behind)
        place = f"'origin/{repo.branch}'"
        call.print(f"Your branch is {f'{word} {place} by {count} commit' if count else f'up to date with {place}'}.\n")
    for title, names, word in (
        ("Changes not staged for commit", repo.modified, "modified:   "),
        ("Untracked files", repo.untracked, ""),
    ):
        call.print(f"\n{title}:\n" + "".join(f"\t{word}{name}\n" for name in names) if names else "")
    is_clean = not (repo.modified or repo.untracked)
    return call.print("\nnothing to commit, working tree clean\n" if is_clean else "")


def _git_log(call: Call, repo: Repo, options: Options) -> int:
    form = (options.value("format") or options.value("pretty")).removeprefix("format:")
    form = "%h %s" if options.has("oneline") or form == "oneline" else form
    form = form or "commit %H%nAuthor: %an%nDate:   %ad%n%n    %s%n"
    for commit in repo.commits[: options.whole("n", len(repo.commits))]:
        moment = call.machine.clock.moment(commit.at_s)
        long, iso = format_moment(moment, "%a %b %-d %T %Y +0000"), format_moment(moment, "%F %T +0000")
        values = {
            "h": commit.id[:7], "H": commit.id, "s": commit.message, "an": commit.author, "n": "\n",
            "ad": long, "cd": long, "ci": iso, "ai": iso,
        }  # fmt: skip
        call.print(_filled(r"%([ac][a-z]|\w)", values, form) + "\n")
    return 0


_GPU_UNITS = {
    "memory.total": "MiB", "memory.used": "MiB", "memory.free": "MiB", "utilization.gpu": "%", "power.draw": "W",
    "utilization.memory": "%",
}  # fmt: skip


@command("nvidia-smi", flags="L", valued="i", long="query-gpu= format= list-gpus:L id:i=")
def nvidia_smi(call: Call) -> int:
    options, gpus = call.options, list(enumerate(call.machine.gpus))
    if not gpus:
        return call.say("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", 9)
    if options.has("i"):
        gpus = [pair for pair in gpus if str(pair[0]) in options.members("i")]
    if options.has("L"):
        return call.print("".join(f"GPU {number}: {gpu.name}\n" for number, gpu in gpus))
    form = options.value("format", "csv").split(",")
    columns = options.members("query-gpu")
    if columns:
        units = {name: f" {unit}" for name, unit in _GPU_UNITS.items() if "nounits" not in form}
        titles = [f"{name} [{_GPU_UNITS[name]}]" if name in _GPU_UNITS else name for name in columns]
        call.print("" if "noheader" in form else ", ".join(titles) + "\n")
        for number, gpu in gpus:
            values = {
                "index": number, "name": gpu.name, "gpu_name": gpu.name, "memory.total": gpu.memory_mb,
                "memory.used": gpu.used_mb, "memory.free": gpu.memory_mb - gpu.used_mb,
                "utilization.gpu": gpu.utilization, "utilization.memory": gpu.utilization,
                "temperature.gpu": gpu.temperature_c, "power.draw": gpu.power_w, "driver_version": "550.163.01",
                "count": len(call.machine.gpus),
            }  # fmt: skip
            for name in columns:
                if name not in values:
                    raise UsageFault(f'Field "{name[:40]}" is not a valid field to query.', 2)
            call.print(", ".join(f"{values[name]}{units.get(name, '')}" for name in columns) + "\n")
        return 0
    call.print(format_moment(call.machine.clock.moment(), "%a %b %e %T %Y\n"))
    call.print("| NVIDIA-SMI 550.163.01    Driver Version: 550.163.01    CUDA Version: 12.4 |\n")
    for number, gpu in gpus:
        call.print(
            f"| {number}  {gpu.name:<24} | {gpu.temperature_c}C {gpu.power_w}W "
            f"| {gpu.used_mb}MiB / {gpu.memory_mb}MiB | {gpu.utilization}% |\n"
        )
    return 0
