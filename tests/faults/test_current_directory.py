"""A folder that came from somebody else: what lies in it neither runs, nor gets a key, nor decides who is asked."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from clawgauge.run_data.resume import resume_command
from faults.terminal import on_a_terminal
from support.command import Outcome, clawgauge, clean_environment, write_suite
from support.scripted_server import ScriptedServer, Status
from support.slow_rest import slow_rest
from support.waiting import PATIENCE_S

KEYS = {
    "OPENAI_API_KEY": "sk-canary-openai-0123456789",
    "ANTHROPIC_API_KEY": "sk-ant-canary-0123456789",
    "AWS_SECRET_ACCESS_KEY": "canary/aws+0123456789abcdef",
}
RUN = ("run", "-s", "small.json")


def in_clone(place: Path, *words: str, **env: str) -> Outcome:
    """The command in a folder whose clawgauge.toml nobody has vouched for."""
    state = {"XDG_STATE_HOME": str(place / "state")}
    return clawgauge(place, *words, env={**KEYS, **state, **env}, trusting=False)


@pytest.fixture
def clone(place: Path, server: ScriptedServer) -> Path:
    """A clawgauge.toml that reaches for everything, with a program beside it that leaves a mark when it runs."""
    evil = place / "evil.sh"
    evil.write_text(f"#!/bin/sh\nenv > {place}/ran\n")
    evil.chmod(0o755)
    (place / "clawgauge.toml").write_text(
        f"""
        [providers.claude_code_cli]
        command = "./evil.sh"
        [providers.openai_responses]
        base_url = "{server.v1_url}"
        [providers.ollama_openai]
        base_url = "{server.v1_url}"
        api_key_env = "AWS_SECRET_ACCESS_KEY"
        [providers.fake]
        type = "openai_chat"
        base_url = "{server.v1_url}"
        [providers.plug]
        type = "no_such_plug_in"
        """
    )
    return place


def assert_untouched(place: Path, server: ScriptedServer) -> None:
    assert not (place / "ran").exists() and server.requests == []


def test_doctor_in_a_clone_asks_nobody_the_file_names(clone: Path, server: ScriptedServer) -> None:
    """Nothing of the file's runs or is contacted; each of its tables is named with the way out, the rest is probed."""
    done = in_clone(clone, "doctor")
    assert_untouched(clone, server)
    assert done.code == 0 and "ok embedded" in done.stdout, done.stdout + done.stderr
    for name in ("claude_code_cli", "openai_responses", "ollama_openai", "fake", "plug"):
        assert f"no {name}: [providers.{name}]" in done.stdout
    assert "not trusted" in done.stdout and "`clawgauge trust`" in done.stdout
    probes = json.loads(in_clone(clone, "doctor", "--json").stdout)
    assert {probe["provider"]: probe["reachable"] for probe in probes}["fake"] is False


def test_a_tables_name_forges_no_line_of_doctor(place: Path) -> None:
    """What an untrusted file calls its tables stands in their own lines."""
    (place / "clawgauge.toml").write_text(
        '[providers."x\\nok  mine: 3 models"]\ntype = "openai_chat"\n'
    )
    done = in_clone(place, "doctor")
    assert (
        not any(line.startswith("ok mine") for line in done.stdout.splitlines())
        and "ok mine" in done.stdout
    )


@pytest.mark.parametrize(
    "target",
    [
        "fake:m",
        "openai_responses:gpt",
        "claude_code_cli:opus",
        "ollama_openai:llama",
        "ollama_openai:*",
        "plug:m",
    ],
)
@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["run", "dry"])
def test_a_run_that_needs_an_untrusted_table_stops(
    target: str, dry: tuple[str, ...], clone: Path, server: ScriptedServer
) -> None:
    """Exit 2 and `clawgauge trust`: neither the file's address is asked nor the vendor's own."""
    done = in_clone(clone, *RUN, "-t", target, *dry)
    assert (
        done.code == 2 and "`clawgauge trust`" in done.stderr and len(done.stderr.splitlines()) == 1
    )
    assert_untouched(clone, server)
    assert not (clone / "runs").exists()


def test_a_run_without_targets_does_not_look_for_the_files_ollama(
    clone: Path, server: ScriptedServer
) -> None:
    """Where nothing is named, the models of Ollama are looked for; not where an untrusted file says it is."""
    done = in_clone(clone, *RUN)
    assert done.code == 2 and "[providers.ollama_openai]" in done.stderr
    assert_untouched(clone, server)


def test_what_needs_nothing_of_the_file_goes_on_and_says_so(
    clone: Path, server: ScriptedServer
) -> None:
    """A server of the user's own environment is asked with the environment's own key; the line names what was left."""
    (clone / "clawgauge.toml").write_text(
        '[run]\nrepeats = 2\nsuites = ["small.json"]\n[providers.x]\ntype = "openai_chat"\nbase_url = "http://evil/v1"\n'
    )
    done = in_clone(
        clone,
        "run",
        "-t",
        "openai_responses:m",
        "--prompt-ids",
        "P3",
        OPENAI_BASE_URL=server.v1_url,
    )
    assert done.code == 0, done.stderr
    assert (
        "using clawgauge.toml (not trusted)" in done.stderr
        and "[providers.x]" in done.stderr.splitlines()[0]
    )
    assert len(done.records()) == 2, "repeats and suites are harmless"
    assert {call.headers["authorization"] for call in server.calls} == {
        f"Bearer {KEYS['OPENAI_API_KEY']}"
    }


@pytest.mark.parametrize(
    ("setting", "flag"),
    [
        ('targets = ["embedded:smollm2-135m"]', "--target"),
        ('runs_dir = "elsewhere"', "--runs-dir"),
        ('prices = "p.toml"', "--prices"),
        ("unload_others = true", "--unload-others"),
    ],
)
def test_a_setting_the_user_may_expect_is_not_left_out_in_silence(
    setting: str, flag: str, place: Path, server: ScriptedServer
) -> None:
    """A run stops where the file would choose who is asked, where records go or what they cost."""
    (place / "clawgauge.toml").write_text(f"[run]\n{setting}\n")
    target = () if flag == "--target" else ("-t", "openai_responses:m")
    done = in_clone(place, *RUN, *target, OPENAI_BASE_URL=server.v1_url)
    assert done.code == 2 and flag in done.stderr and "`clawgauge trust`" in done.stderr
    assert server.requests == [] and not (place / "elsewhere").exists()


def test_flags_make_the_files_say_unneeded(place: Path, server: ScriptedServer) -> None:
    """Whoever says it themselves needs no trust; a budget on the command line cannot be raised by the file."""
    (place / "clawgauge.toml").write_text(
        '[run]\ntargets = ["x:y"]\nruns_dir = "elsewhere"\nmax_calls = 9\n'
    )
    words = ("-t", "openai_responses:m", "--runs-dir", "mine", "--max-calls", "1")
    done = in_clone(place, *RUN, *words, OPENAI_BASE_URL=server.v1_url)
    assert done.code == 0 and len(server.calls) == 1, done.stderr
    assert not (place / "elsewhere").exists()


def test_reading_verbs_do_not_go_where_an_untrusted_file_points(
    place: Path, server: ScriptedServer
) -> None:
    """`show latest` would open the folder the file names; a path of the user's own needs no configuration."""
    in_clone(
        place, *RUN, "-t", "openai_responses:m", "--run-id", "r", OPENAI_BASE_URL=server.v1_url
    )
    (place / "clawgauge.toml").write_text('[run]\nruns_dir = "/nowhere"\nprices = "p.toml"\n')
    for words in (("show", "latest"), ("history",), ("route", "runs/r")):
        refused = in_clone(place, *words)
        assert refused.code == 2 and "`clawgauge trust`" in refused.stderr, words
    assert in_clone(place, "show", "runs/r").code == 0
    assert in_clone(place, "show", "r", "--runs-dir", "runs").code == 0


SUITES_ELSEWHERE = [
    "/etc/hosts.json",
    "../out.json",
    "link.json",
    "~/x.json",
    "~nobody-here/x.json",
]


@pytest.mark.parametrize("suite", slow_rest(SUITES_ELSEWHERE, every=2))
def test_an_untrusted_file_names_suites_beside_it_alone(
    suite: str, place: Path, server: ScriptedServer
) -> None:
    """What lies outside the folder is not read on an untrusted file's word, links out of it included."""
    write_suite(place.parent / "out.json", {"prompt": "private"})
    (place / "link.json").symlink_to(place.parent / "out.json")
    (place / "clawgauge.toml").write_text(f'[run]\nsuites = ["{suite}"]\n')
    done = in_clone(place, "run", "-t", "openai_responses:m", OPENAI_BASE_URL=server.v1_url)
    assert done.code == 2 and "outside this folder" in done.stderr and server.requests == []
    assert "`clawgauge trust`" in done.stderr and "--suite" in done.stderr
    # Who names suites needs none of the file's, and who only reads runs needs no suite at all.
    assert (
        in_clone(place, *RUN, "-t", "openai_responses:m", OPENAI_BASE_URL=server.v1_url).code == 0
    )
    for words in (("show",), ("history",), ("doctor",), ("run", "--resume", "latest")):
        done = in_clone(place, *words, OPENAI_BASE_URL=server.v1_url)
        assert done.code == 0, (words, done.stderr)


def test_trust_shows_what_it_allows_and_then_the_file_counts(
    clone: Path, server: ScriptedServer
) -> None:
    """Programs, addresses and variables are listed first; the file counts until it changes, and that is said."""
    text = (clone / "clawgauge.toml").read_text()
    (clone / "clawgauge.toml").write_text(text.partition("[providers.plug]")[0])
    done = in_clone(clone, "trust")
    assert done.code == 0 and "trusted" in done.stdout
    for word in ("'./evil.sh'", server.v1_url, "'AWS_SECRET_ACCESS_KEY'"):
        assert word in done.stderr
    store = clone / "state" / "clawgauge" / "trusted.json"
    assert (
        stat.S_IMODE(store.stat().st_mode) == 0o600
        and stat.S_IMODE(store.parent.stat().st_mode) == 0o700
    )
    asked = in_clone(clone, *RUN, "-t", "fake:scripted-model")
    assert asked.code == 0 and "using clawgauge.toml (trusted)" in asked.stderr, asked.stderr
    with (clone / "clawgauge.toml").open("a") as file:
        file.write("\n")
    changed = in_clone(clone, *RUN, "-t", "fake:scripted-model")
    assert changed.code == 2 and "changed since it was trusted" in changed.stderr
    listed = in_clone(clone, "trust", "--list")
    assert f"{clone / 'clawgauge.toml'}: changed" in listed.stdout
    assert in_clone(clone, "trust", "--remove").code == 0
    assert in_clone(clone, "trust", "--list").stdout == ""
    assert in_clone(clone, "trust", "--remove").code == 2


def test_trust_is_of_one_place(clone: Path, tmp_path: Path) -> None:
    """A copy of a trusted file, or a link to one, is not trusted where it lies."""
    state = str(clone / "state")
    assert in_clone(clone, "trust").code == 0
    for name, put in (("copied", shutil.copy), ("linked", os.symlink)):
        (tmp_path / name).mkdir()
        put(clone / "clawgauge.toml", tmp_path / name / "clawgauge.toml")
        assert (
            "not trusted"
            in in_clone(tmp_path / name, "run", "-t", "fake:m", XDG_STATE_HOME=state).stderr
        )


def test_a_value_cannot_forge_a_line_of_what_trust_shows(place: Path) -> None:
    """Line ends and terminal sequences in a command or a table's name are shown as what they are."""
    (place / "clawgauge.toml").write_text(
        '[providers."x\\n  harmless"]\ntype = "claude_code_cli"\ncommand = "a\\u001b[2K\\r\\nasks for nothing"\n'
    )
    done = in_clone(place, "trust")
    assert done.code == 0 and "\x1b" not in done.stderr and "\r" not in done.stderr
    assert all(line.startswith(("  ", str(place), "others")) for line in done.stderr.splitlines())
    assert not any(
        line.strip() in ("asks for nothing", "harmless") for line in done.stderr.splitlines()
    )


def test_on_a_terminal_trust_asks(place: Path) -> None:
    """Somebody who can answer is asked; no answer is no."""
    drawn = on_a_terminal(place, "trust", typed=b"n\n", trusting=False)
    assert b"trust it?" in drawn and b"nothing was changed" in drawn


@pytest.mark.parametrize("content", [b"not json", b'{"files": {"a": 1}}', b" " * (5 << 20)])
def test_a_damaged_list_of_trusted_files_trusts_nothing(
    content: bytes, clone: Path, server: ScriptedServer
) -> None:
    """One sentence names it and says what to do."""
    store = clone / "state" / "clawgauge" / "trusted.json"
    store.parent.mkdir(parents=True, mode=0o700)
    store.write_bytes(content)
    store.chmod(0o600)
    done = in_clone(clone, *RUN, "-t", "fake:scripted-model")
    assert done.code == 2 and "trusted.json" in done.stderr and "Traceback" not in done.stderr
    assert server.requests == []


def test_a_list_that_others_can_write_is_not_believed(clone: Path) -> None:
    """Whoever can write the list could trust anything."""
    assert in_clone(clone, "trust").code == 0
    (clone / "state" / "clawgauge" / "trusted.json").chmod(0o666)
    done = in_clone(clone, *RUN, "-t", "fake:scripted-model")
    assert done.code == 2 and "others can write" in done.stderr


# What lies about must not run.

SHADOWS = (
    "argparse",
    "msgspec",
    "json",
    "runpy",
    "xllamacpp",
    "sitecustomize",
    "usercustomize",
    "site",
)


@pytest.fixture
def booby_trapped(place: Path) -> Path:
    """A folder in which every module a child might load leaves a mark when it is loaded."""
    trap = f"open({str(place / 'ran')!r}, 'a').write(__name__)\n"
    for name in SHADOWS:
        (place / f"{name}.py").write_text(trap)
    (place / "pip").mkdir()
    (place / "pip" / "__init__.py").write_text(trap)
    (place / "start.py").write_text(trap)
    return place


@pytest.mark.slow
def test_nothing_of_the_current_directory_runs_in_the_embedded_models_child(
    booby_trapped: Path,
) -> None:
    """The console script and its child load this installation alone, and the child holds no key."""
    script = Path(sys.executable).with_name("clawgauge")
    words = (
        "run",
        "-t",
        "embedded:smollm2-135m",
        "-s",
        "small.json",
        "--prompt-ids",
        "P3",
        "--max-tokens",
        "4",
    )
    env = clean_environment(**KEYS, PYTHONSTARTUP=str(booby_trapped / "start.py"))
    (booby_trapped / "clawgauge.toml").unlink()
    done = subprocess.run(
        [script, *words], cwd=booby_trapped, env=env, capture_output=True, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr.decode()
    assert not (booby_trapped / "ran").exists()


# Files that are none.


READERS = {
    "--config": ((*RUN, "-t", "fake:m", "--config", "it.toml"), "it.toml"),
    "found": ((*RUN, "-t", "openai_responses:m"), "clawgauge.toml"),
    "doctor": (("doctor",), "clawgauge.toml"),
    "suite": (("run", "-t", "openai_responses:m", "-s", "it.json"), "it.json"),
    "check": (("suites", "check", "it.toml"), "it.toml"),
    "prices": ((*RUN, "-t", "openai_responses:m", "--prices", "it.toml"), "it.toml"),
    "template": ((*RUN, "-t", "embedded:smollm2-135m", "--config", "names.toml"), "it.jinja"),
}
KINDS = ("fifo", "device", "directory", "sparse", "link to a fifo")


@pytest.mark.parametrize(
    ("reader", "kind"),
    [
        *((reader, "fifo") for reader in READERS),
        *(("--config", kind) for kind in KINDS[1:]),
        ("suite", "sparse"),
    ],
)
def test_what_is_no_small_regular_file_is_one_sentence(
    reader: str, kind: str, place: Path, server: ScriptedServer
) -> None:
    """Never a hang, never the memory of the machine: exit 2, the file named, nothing asked."""
    words, name = READERS[reader]
    (place / "clawgauge.toml").unlink()
    (place / "names.toml").write_text('[providers.embedded]\nchat_template_file = "it.jinja"\n')
    put(place / name, kind)
    done = clawgauge(place, *words, env={**KEYS, "OPENAI_BASE_URL": server.v1_url}, trusting=False)
    assert done.code == 2 and name in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1 or reader == "template"
    assert server.calls == []


def put(path: Path, kind: str) -> None:
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "directory":
        path.mkdir()
    elif kind == "sparse":
        path.touch()
        os.truncate(path, 10 << 30)
    else:
        os.mkfifo(path.with_suffix(".fifo"))
        path.symlink_to(path.with_suffix(".fifo"))


def test_the_policy_of_route_is_held_to_the_same(place: Path, server: ScriptedServer) -> None:
    """`route --policy FIFO` is one sentence."""
    done = clawgauge(place, *RUN, "-t", "fake:scripted-model", "--run-id", "r")
    assert done.code == 0, done.stderr
    os.mkfifo(place / "policy.toml")
    refused = clawgauge(place, "route", "runs/r", "--policy", "policy.toml")
    assert (
        refused.code == 2 and "policy.toml" in refused.stderr and "Traceback" not in refused.stderr
    )


# The environment and the folder themselves.


@pytest.mark.parametrize("address", ["http://[::1", "host:port:port", "ftp://host"])
def test_a_malformed_ollama_host_is_the_trouble_of_ollama_alone(
    address: str, place: Path, server: ScriptedServer
) -> None:
    """Other targets run; Ollama's own get one sentence, and doctor says it among the rest."""
    done = clawgauge(place, *RUN, "-t", "fake:scripted-model", env={"OLLAMA_HOST": address})
    assert done.code == 0, done.stderr
    asked = clawgauge(place, *RUN, "-t", "ollama_openai:m", env={"OLLAMA_HOST": address})
    assert asked.code == 2 and "Traceback" not in asked.stderr and "ddress" in asked.stderr
    examined = clawgauge(place, "doctor", env={"OLLAMA_HOST": address})
    assert (
        examined.code == 0
        and "no ollama_openai" in examined.stdout
        and "Traceback" not in examined.stderr
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [(("doctor",), 0), (("suites", "list"), 0), (("run", "-t", "embedded:x.gguf"), 2)],
)
def test_a_current_directory_that_is_gone(
    words: tuple[str, ...], code: int, tmp_path: Path
) -> None:
    """What needs no folder works; a run says in one sentence that it has nowhere to write."""
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f'cd {gone} && rmdir {gone} && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", sys.executable, "-m", "clawgauge", *words],
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == code and "Traceback" not in done.stderr, done.stderr


def test_a_server_that_answers_500_to_everything_is_not_ok(
    place: Path, server: ScriptedServer
) -> None:
    """doctor says what was answered."""
    for path in ("/v1/models", "/api/tags", "/api/ps", "/api/version"):
        server.route(path, Status(500))
    done = clawgauge(place, "doctor", env={"OLLAMA_HOST": server.base_url})
    assert "no fake" in done.stdout and "answered 500 to /models" in done.stdout
    assert "no ollama_openai" in done.stdout and "answered 500 to /api/tags" in done.stdout


@pytest.mark.parametrize(
    ("budget", "limit", "words"),
    [
        ("max_calls", 600_000, " --max-calls 1200000 "),
        ("max_cost", 0.00002, " --max-cost 0.00004 "),
        ("max_cost", 2.5, " --max-cost 5 "),
        ("config=evil.toml", 1, None),
        (["max_calls"], 1, None),
        ("max_cost", 1e308, None),
    ],
)
def test_the_printed_command_takes_numbers_as_they_are_typed(
    budget: object, limit: float, words: str | None, place: Path, server: ScriptedServer
) -> None:
    """No exponent that the option would refuse; and no option that a run folder makes up."""
    assert clawgauge(place, *RUN, "-t", "fake:scripted-model", "--run-id", "r").code == 0
    spent = {
        "event": "budget_spent",
        "at_ms": 1,
        "target": None,
        "detail": {"budget": budget, "limit": limit},
    }
    with (place / "runs" / "r" / "events.jsonl").open("a") as events:
        events.write(json.dumps(spent) + "\n")
    command = resume_command(place / "runs" / "r")
    assert words in command if words else "max" not in command and "evil" not in command


def test_a_run_folder_has_no_say_in_which_file_is_named(
    place: Path, server: ScriptedServer
) -> None:
    """Whoever made the folder may have recorded any --config, and a file that is named counts in full."""
    server.reply_with(Status(400))
    words = (*RUN, "-t", "fake:scripted-model", "--run-id", "r", "--config", "clawgauge.toml")
    done = clawgauge(place, *words)
    assert " --config clawgauge.toml" in done.stderr
    summary = place / "runs" / "r" / "summary.md"
    assert " --config clawgauge.toml" in summary.read_text()
    assert clawgauge(place, "summarize", "r").code == 0
    assert "--resume r" in summary.read_text() and "--config" not in summary.read_text()
    assert "--config" not in clawgauge(place, "history", "--fill").stdout


def test_an_option_is_not_cut_short(place: Path, server: ScriptedServer) -> None:
    """`--conf` for `--config` would be lost from the printed command that goes on with the run."""
    refused = clawgauge(place, *RUN, "-t", "fake:scripted-model", "--conf", "clawgauge.toml")
    assert refused.code == 2 and "--conf" in refused.stderr and server.requests == []


def test_a_socks_proxy_is_one_sentence(place: Path) -> None:
    """It cannot be used, and is not passed by: exit 2, and the variable is named."""
    done = clawgauge(
        place,
        *RUN,
        "-t",
        "openai_responses:m",
        env={"ALL_PROXY": "socks5://me:canary-pass@127.0.0.1:1", **KEYS},
    )
    assert (
        done.code == 2
        and "ALL_PROXY" in done.stderr
        and "socks5" in done.stderr
        and "canary" not in done.stderr
    )
