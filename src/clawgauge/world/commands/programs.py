"""Programs on top of the machine: docker, git, nvidia-smi, sudo. Each as far as the specification declares a state."""

from __future__ import annotations

import re
import shlex

from clawgauge.world import paths
from clawgauge.world.commands.call import Call, NotSimulated, UsageFault, command, table
from clawgauge.world.commands.dates import format_moment
from clawgauge.world.nouns import Gpu, Repo
from clawgauge.world.refusals import Refusal
from clawgauge.world.services import Service

_SUDO_VALUED = ("-u", "-g", "-h", "-p", "--user", "--group")


@command("sudo", "doas", raw=True)
def sudo(call: Call) -> int:
    """Run a line as root, or as another user, where the world lets the user do so."""
    words, user = list(call.args), "root"
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word in _SUDO_VALUED:
            value = words.pop(0) if words else ""
            user = value if word in ("-u", "--user") else user
        elif word == "-l":
            call.print(
                f"User {call.machine.user} may run{'' if call.machine.may_sudo else ' no'} commands "
                f"on {call.machine.host}\n"
            )
            return 0
        elif word not in ("-n", "-E", "-S", "-H", "-i", "-s", "-k", "--", "--non-interactive", "--preserve-env"):
            raise NotSimulated(f"option '{word[:40]}' is not supported here")
    if call.machine.user != "root" and not call.machine.may_sudo:
        raise UsageFault("a password is required")
    assigned = []
    while words and re.match(r"[A-Za-z_]\w*=", words[0]):
        assigned.append(words.pop(0))
    if not words:
        raise UsageFault("there is no terminal for a root shell; give a command")
    if user not in call.machine.users():
        raise UsageFault(f"unknown user {user[:40]}")
    with call.machine.acting_as(user):
        return call.shell.pass_on(" ".join([*map(shlex.quote, assigned), shlex.join(words)]), call, native=False)


# --- docker ----------------------------------------------------------------------------------------------------------


@command("docker", "podman", raw=True)
def docker(call: Call) -> int:
    words = list(call.args)
    if words[:1] == ["compose"]:
        words.pop(0)
    if words[:1] in (["container"], ["image"]):
        kind = words.pop(0)
        if kind == "image" or words[:1] == ["ls"]:
            words = ["images" if kind == "image" else "ps", *words[1:]]
    if not words or words[0] == "--version":
        call.print("Docker version 26.1.5, build a72d7cd\n")
        return 0
    if not call.machine.services.containers():
        call.say("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n")
        return 1
    action, *rest = words
    match action:
        case "ps":
            return _docker_ps(call, rest)
        case "images":
            rows = [["REPOSITORY", "TAG", "IMAGE ID", "SIZE"]]
            for image in dict.fromkeys(one.image for one in call.machine.services.containers()):
                name, _, tag = image.partition(":")
                rows.append([name, tag or "latest", _container_id(call, image), "142MB"])
            call.print(table(rows, range(4), "   "))
            return 0
        case "stats":
            rows = [["CONTAINER ID", "NAME", "CPU %", "MEM USAGE / LIMIT"]]
            for one in call.machine.services.containers():
                if one.state == "active":
                    rows.append(
                        [
                            _container_id(call, one.name),
                            one.name,
                            "0.20%",
                            f"{one.memory_mb:.1f}MiB / {call.machine.ram_mb / 1024:.2f}GiB",
                        ]
                    )
            call.print(table(rows, range(4), "   "))
            return 0
        case "logs" | "start" | "stop" | "restart" | "rm" | "kill" | "inspect":
            return _docker_do(call, action, rest)
    raise NotSimulated(f"'{action[:40]}' is not supported here")


def _docker_ps(call: Call, rest: list[str]) -> int:
    show_all = quiet = False
    form = ""
    filters: list[str] = []
    while rest:
        word = rest.pop(0)
        name, has_value, value = word.partition("=")
        if name in ("--format", "--filter", "-f"):
            value = value if has_value else rest.pop(0) if rest else ""
            form, filters = (value, filters) if name == "--format" else (form, [*filters, value])
        elif word in ("-a", "--all", "-q", "--quiet", "-aq", "-qa", "--no-trunc"):
            show_all = show_all or "a" in word.replace("--quiet", "")
            quiet = quiet or "q" in word
        else:
            raise NotSimulated(f"option '{word[:40]}' is not supported here")
    found = [one for one in call.machine.services.containers() if show_all or filters or one.state == "active"]
    for text in filters:
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
        ports = ", ".join(f"0.0.0.0:{port}->{port}/tcp" for port in one.ports)
        rows.append(
            [
                _container_id(call, one.name),
                one.image,
                f'"{one.command[:20]}"',
                _container_status(call, one),
                ports,
                one.name,
            ]
        )
    if quiet:
        call.print("".join(f"{row[0]}\n" for row in rows[1:]))
    elif form:
        fields = {".ID": 0, ".Image": 1, ".Command": 2, ".Status": 3, ".Ports": 4, ".Names": 5}
        is_table = form.startswith("table ")
        for row in rows if is_table else rows[1:]:
            line = re.sub(r"\{\{\s*(\.\w+)\s*\}\}", r"{{\1}}", form.removeprefix("table ")).replace("\\t", "\t")
            for field, column in fields.items():
                line = line.replace(f"{{{{{field}}}}}", row[column])
            call.print(f"{line}\n")
    else:
        call.print(table(rows, range(6), "   "))
    return 0


def _container_status(call: Call, one: Service) -> str:
    hours = (call.machine.clock.now_s - one.since_s) // 3_600
    age = f"{hours // 24} days" if hours >= 48 else f"{hours} hours" if hours else "Less than a minute"
    return f"Up {age}" if one.state == "active" else f"Exited ({1 if one.state == 'failed' else 0}) {age} ago"


def _container_id(call: Call, name: str) -> str:
    return f"{call.machine.incidentals.between(16**11, 16**12 - 1, 'container', name):012x}"


def _docker_do(call: Call, action: str, rest: list[str]) -> int:
    services = call.machine.services
    force, n_lines, names = False, None, []
    while rest:
        word = rest.pop(0)
        if word in ("-f", "--force", "--follow", "-t", "--timestamps") and not (
            word == "-t" and action in ("stop", "restart")
        ):
            force = force or word in ("-f", "--force")
        elif word in ("--tail", "-n", "-t", "--time", "--since") and rest:
            value = rest.pop(0)
            n_lines = int(value) if word in ("--tail", "-n") and value.isdecimal() else n_lines
        elif word.startswith("--tail="):
            n_lines = int(word[7:]) if word[7:].isdecimal() else None
        elif word.startswith("-"):
            raise NotSimulated(f"option '{word[:40]}' is not supported here")
        else:
            names.append(word)
    if not names:
        raise UsageFault(f'"docker {action}" requires at least 1 argument.')
    code = 0
    for name in names:
        one = next((c for c in services.containers() if name in (c.name, _container_id(call, c.name))), None)
        if one is None:
            call.say(f"Error response from daemon: No such container: {name[:60]}\n")
            code = 1
            continue
        if action == "logs":
            lines = one.log if n_lines is None else one.log[-n_lines:] if n_lines else []
            call.print("".join(f"{line.text}\n" for line in lines))
        elif action == "inspect":
            state = "running" if one.state == "active" else "exited"
            call.print(f'[{{"Name": "/{one.name}", "Image": "{one.image}", "State": {{"Status": "{state}"}}}}]\n')
        elif action == "rm" and one.state == "active" and not force:
            call.say(f'Error response from daemon: cannot remove container "/{one.name}": container is running\n')
            code = 1
        else:
            code = _docker_change(call, action, one) or code
    return code


def _docker_change(call: Call, action: str, one: Service) -> int:
    services = call.machine.services
    try:
        if action == "rm":
            services.discard(one)
        elif action in ("stop", "kill"):
            services.stop(one)
        else:
            services.start(one, again=action == "restart")
    except Refusal as refusal:
        call.say(f"Error response from daemon: {refusal}\n")
        return 1
    call.print(f"{one.name}\n")
    return 0


# --- git -------------------------------------------------------------------------------------------------------------


@command("git", raw=True)
def git(call: Call) -> int:
    words, folder = list(call.args), call.workdir
    while words and words[0] in ("-C", "--no-pager", "-P"):
        if words.pop(0) == "-C" and words:
            folder = paths.resolve(words.pop(0), call.workdir)
    if words[:1] == ["--version"] or words[:1] == ["version"]:
        call.print("git version 2.39.5\n")
        return 0
    repo = call.machine.repos.around(folder)
    if repo is None:
        call.say("fatal: not a git repository (or any of the parent directories): .git\n")
        return 128
    action, *rest = words or [""]
    actions = {
        "status": _git_status, "log": _git_log, "branch": _git_branch, "remote": _git_remote,
        "rev-parse": _git_rev_parse,
        "add": _git_add, "commit": _git_commit, "checkout": _git_checkout, "switch": _git_checkout, "pull": _git_pull,
        "push": _git_push, "fetch": _git_fetch, "diff": _git_diff, "stash": _git_stash, "show": _git_log,
    }  # fmt: skip
    if action not in actions:
        raise NotSimulated(f"'{action[:40]}' is not supported here")
    return actions[action](call, repo, rest)


def _flags(rest: list[str], *known: str) -> set[str]:
    given = {word for word in rest if word.startswith("-") and word != "--"}
    for word in given:
        if word not in known and not re.fullmatch(r"-n?\d+", word):
            raise NotSimulated(f"option '{word[:40]}' is not supported here")
    return given


def _git_status(call: Call, repo: Repo, rest: list[str]) -> int:
    given = _flags(rest, "-s", "--short", "--porcelain", "-b", "--branch", "-sb", "-u", "-uno")
    if given & {"-s", "--short", "--porcelain", "-sb"}:
        if given & {"-b", "--branch", "-sb"}:
            call.print(f"## {repo.branch}\n")
        marks = [("M ", repo.staged), (" M", repo.modified), ("??", repo.untracked)]
        call.print("".join(f"{mark} {name}\n" for mark, names in marks for name in names))
        return 0
    call.print(f"On branch {repo.branch}\n")
    if repo.remote:
        state = (
            f"ahead of 'origin/{repo.branch}' by {repo.ahead} commit"
            if repo.ahead
            else f"behind 'origin/{repo.branch}' by {repo.behind} commit"
            if repo.behind
            else f"up to date with 'origin/{repo.branch}'"
        )
        call.print(f"Your branch is {state}.\n")
    for title, names, word in (
        ("\nChanges to be committed:\n", repo.staged, "\tmodified:   "),
        ("\nChanges not staged for commit:\n", repo.modified, "\tmodified:   "),
        ("\nUntracked files:\n", repo.untracked, "\t"),
    ):
        call.print(title + "".join(f"{word}{name}\n" for name in names) if names else "")
    if not (repo.staged or repo.modified or repo.untracked):
        call.print("\nnothing to commit, working tree clean\n")
    return 0


def _git_log(call: Call, repo: Repo, rest: list[str]) -> int:
    given = _flags(
        [word for word in rest if not word.startswith(("--format", "--pretty"))],
        "--oneline",
        "-n",
        "--stat",
        "--decorate",
        "--graph",
        "--all",
        "-1",
    )
    counts = [int(word.lstrip("-n")) for word in rest if re.fullmatch(r"-n?\d+|\d+", word)]
    form = next(
        (
            word.partition("=")[2].removeprefix("format:")
            for word in rest
            if word.startswith(("--format=", "--pretty="))
        ),
        "",
    )
    for commit in repo.commits[: counts[0] if counts else len(repo.commits)]:
        moment = call.machine.clock.moment(commit.at_s)
        if form and form != "oneline":
            values = {
                "%h": commit.id[:7],
                "%H": commit.id,
                "%s": commit.message,
                "%an": commit.author,
                "%ad": format_moment(moment, "%a %b %-d %T %Y +0000"),
                "%cd": format_moment(moment, "%a %b %-d %T %Y +0000"),
                "%ci": format_moment(moment, "%F %T +0000"),
                "%ai": format_moment(moment, "%F %T +0000"),
            }
            call.print(re.sub(r"%(?:an|ad|ai|cd|ci|h|H|s)", lambda hit, values=values: values[hit[0]], form) + "\n")  # type: ignore[misc]
        elif "--oneline" in given or form == "oneline":
            call.print(f"{commit.id[:7]} {commit.message}\n")
        else:
            call.print(
                f"commit {commit.id}\nAuthor: {commit.author}\n"
                f"Date:   {format_moment(moment, '%a %b %-d %T %Y +0000')}\n\n    {commit.message}\n\n"
            )
    return 0


def _git_branch(call: Call, repo: Repo, rest: list[str]) -> int:
    given = _flags(rest, "-a", "--all", "-v", "--show-current", "--list", "-D", "-d")
    names = [word for word in rest if not word.startswith("-")]
    if "--show-current" in given:
        call.print(f"{repo.branch}\n")
    elif given & {"-D", "-d"}:
        for name in names:
            if name not in repo.branches or name == repo.branch:
                call.say(f"error: branch '{name}' not found or checked out\n")
                return 1
            repo.branches.remove(name)
            call.machine.effects.note("changed", f"{repo.path}/.git", f"branch {name} deleted")
            call.print(f"Deleted branch {name}.\n")
    elif names:
        repo.branches += [name for name in names if name not in repo.branches]
        call.machine.effects.note("changed", f"{repo.path}/.git", f"branch {names[0]} made")
    else:
        call.print("".join(f"{'*' if name == repo.branch else ' '} {name}\n" for name in sorted(repo.branches)))
    return 0


def _git_remote(call: Call, repo: Repo, rest: list[str]) -> int:
    given = _flags(rest, "-v", "--verbose")
    if [word for word in rest if not word.startswith("-")]:
        raise NotSimulated("remotes cannot be changed here")
    if repo.remote:
        call.print(f"origin\t{repo.remote} (fetch)\norigin\t{repo.remote} (push)\n" if given else "origin\n")
    return 0


def _git_rev_parse(call: Call, repo: Repo, rest: list[str]) -> int:
    given = _flags(rest, "--abbrev-ref", "--short", "--show-toplevel", "--is-inside-work-tree")
    head = repo.commits[0].id if repo.commits else "0" * 40
    text = (
        repo.path
        if "--show-toplevel" in given
        else repo.branch
        if "--abbrev-ref" in given
        else head[:7]
        if "--short" in given
        else head
    )
    call.print(("true" if "--is-inside-work-tree" in given else text) + "\n")
    return 0


def _git_add(call: Call, repo: Repo, rest: list[str]) -> int:
    given = _flags(rest, "-A", "--all", "-u", ".")
    names = [word for word in rest if not word.startswith("-")]
    everything = bool(given & {"-A", "--all"}) or "." in names
    chosen = [name for name in [*repo.modified, *repo.untracked] if everything or name in names]
    repo.stage(chosen)
    call.machine.effects.note("changed", f"{repo.path}/.git", "staged")
    return 0


def _git_commit(call: Call, repo: Repo, rest: list[str]) -> int:
    if "-am" in rest or "-a" in rest:
        repo.stage(list(repo.modified))
    texts = [rest[index + 1] for index, word in enumerate(rest[:-1]) if word in ("-m", "-am", "--message")]
    if not texts:
        raise NotSimulated("without '-m' it would open an editor")
    if not repo.staged:
        call.print(f"On branch {repo.branch}\nnothing to commit, working tree clean\n")
        return 1
    n_files = len(repo.staged)
    repo.commit(texts[0], call.machine.user, call.machine.clock.now_s)
    call.machine.effects.note("changed", f"{repo.path}/.git", f"commit {texts[0]}")
    call.print(f"[{repo.branch} {repo.commits[0].id[:7]}] {texts[0]}\n {n_files} file{'s' * (n_files > 1)} changed\n")
    return 0


def _git_checkout(call: Call, repo: Repo, rest: list[str]) -> int:
    given = _flags(rest, "-b", "-c", "-q")
    names = [word for word in rest if not word.startswith("-")]
    if "--" in rest or (names and names[0] in repo.modified) or names == ["."]:
        raise NotSimulated("files cannot be brought back from a commit here")
    if not names:
        raise UsageFault("a branch is missing")
    if given & {"-b", "-c"}:
        repo.branches.append(names[0])
    elif names[0] not in repo.branches:
        call.say(f"error: pathspec '{names[0][:60]}' did not match any file(s) known to git\n")
        return 1
    repo.branch = names[0]
    call.machine.effects.note("changed", f"{repo.path}/.git", f"on branch {names[0]}")
    call.say(f"Switched to {'a new ' if given & {'-b', '-c'} else ''}branch '{names[0]}'\n")
    return 0


def _git_pull(call: Call, repo: Repo, rest: list[str]) -> int:
    _flags(rest, "--rebase", "--ff-only", "-q")
    if repo.behind:
        call.print(f"Updating {repo.commits[0].id[:7] if repo.commits else ''}\nFast-forward\n")
        repo.behind = 0
        call.machine.effects.note("changed", f"{repo.path}/.git", "pulled")
    else:
        call.print("Already up to date.\n")
    return 0


def _git_push(call: Call, repo: Repo, rest: list[str]) -> int:
    given = _flags(rest, "-u", "--force", "-f", "--set-upstream", "--force-with-lease", "--tags")
    if not repo.remote:
        call.say("fatal: No configured push destination.\n")
        return 128
    call.machine.effects.note(
        "fetched", repo.remote, "forced push" if given & {"--force", "-f", "--force-with-lease"} else "push"
    )
    call.say(f"To {repo.remote}\n   {repo.branch} -> {repo.branch}\n" if repo.ahead else "Everything up-to-date\n")
    repo.ahead = 0
    return 0


def _git_fetch(call: Call, repo: Repo, rest: list[str]) -> int:
    _flags(rest, "--all", "-p", "--prune", "-q")
    call.machine.effects.note("fetched", repo.remote or "origin", "fetch")
    return 0


def _git_diff(call: Call, repo: Repo, rest: list[str]) -> int:
    given = _flags(rest, "--stat", "--name-only", "--staged", "--cached", "--name-status")
    names = repo.staged if given & {"--staged", "--cached"} else repo.modified
    if names and not given & {"--stat", "--name-only", "--name-status"}:
        raise NotSimulated("only '--stat', '--name-only' and '--name-status' are supported here")
    mark = "M\t" if "--name-status" in given else " " if "--stat" in given else ""
    call.print("".join(f"{mark}{name}{' | 2 +-' if '--stat' in given else ''}\n" for name in names))
    return 0


def _git_stash(call: Call, repo: Repo, rest: list[str]) -> int:
    if rest not in ([], ["push"], ["list"]):
        raise NotSimulated(f"'stash {rest[0][:20]}' is not supported here")
    if rest == ["list"]:
        return 0
    if not repo.modified:
        call.print("No local changes to save\n")
        return 0
    repo.modified.clear()
    call.machine.effects.note("changed", f"{repo.path}/.git", "stashed")
    call.print(f"Saved working directory and index state WIP on {repo.branch}\n")
    return 0


# --- nvidia-smi ------------------------------------------------------------------------------------------------------


@command("nvidia-smi", flags="Lq", valued="i", long="query-gpu= format= list-gpus:L query:q query-compute-apps= id:i=")
def nvidia_smi(call: Call) -> int:
    options, gpus = call.options, list(enumerate(call.machine.gpus))
    if not gpus:
        call.say("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n")
        return 9
    if options.has("i"):
        gpus = [pair for pair in gpus if str(pair[0]) in options.value("i").split(",")]
    if options.has("L"):
        call.print("".join(f"GPU {number}: {gpu.name}\n" for number, gpu in gpus))
        return 0
    if options.has("q", "query-compute-apps"):
        raise NotSimulated("options '-q' and '--query-compute-apps' are not supported here", 2)
    if options.has("query-gpu"):
        columns = [name.strip() for name in options.value("query-gpu").split(",")]
        form = options.value("format", "csv").split(",")
        bare = "nounits" in form
        rows = [[_gpu_value(call, number, gpu, column, bare=bare) for column in columns] for number, gpu in gpus]
        titles = [f"{name}{_GPU_UNITS.get(name, '') and f' [{_GPU_UNITS[name]}]'}" for name in columns]
        for row in rows if "noheader" in form else [titles, *rows]:
            call.print(", ".join(row) + "\n")
        return 0
    call.print(format_moment(call.machine.clock.moment(), "%a %b %e %T %Y\n"))
    call.print("| NVIDIA-SMI 550.163.01    Driver Version: 550.163.01    CUDA Version: 12.4 |\n")
    for number, gpu in gpus:
        call.print(
            f"| {number}  {gpu.name:<24} | {gpu.temperature_c}C {gpu.power_w}W "
            f"| {gpu.used_mb}MiB / {gpu.memory_mb}MiB | {gpu.utilization}% |\n"
        )
    return 0


_GPU_UNITS = {
    "memory.total": "MiB", "memory.used": "MiB", "memory.free": "MiB", "utilization.gpu": "%", "power.draw": "W",
    "utilization.memory": "%",
}  # fmt: skip


def _gpu_value(call: Call, number: int, gpu: Gpu, column: str, *, bare: bool) -> str:
    values = {
        "index": number, "name": gpu.name, "gpu_name": gpu.name, "memory.total": gpu.memory_mb,
        "memory.used": gpu.used_mb, "memory.free": gpu.memory_mb - gpu.used_mb,
        "utilization.gpu": gpu.utilization, "utilization.memory": gpu.utilization,
        "temperature.gpu": gpu.temperature_c, "power.draw": gpu.power_w, "driver_version": "550.163.01",
        "count": len(call.machine.gpus),
    }  # fmt: skip
    if column not in values:
        raise UsageFault(f'Field "{column[:40]}" is not a valid field to query.', 2)
    unit = _GPU_UNITS.get(column, "")
    return str(values[column]) if bare or not unit else f"{values[column]} {unit}"
