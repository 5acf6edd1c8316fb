"""Which variables hold secrets, and which of them a child is given."""

from __future__ import annotations

import json

from clawgauge.config.providers import find_secrets
from clawgauge.environment import (
    may_hold_secret,
    needed_environment,
    ssh_environment,
    with_proxies,
    without_secrets,
)
from support.rows import every_row

SECRET = "Zq8vT2mK5xW9bN4c"


@every_row(
    ("name", "value", "secret"),
    [
        ("OPENAI_API_KEY", SECRET, SECRET),
        ("GITHUB_PAT", f"ghp_{SECRET}aaaa", f"ghp_{SECRET}aaaa"),
        ("AZURE_DEVOPS_EXT_PAT", SECRET, SECRET),
        ("MYSQL_PWD", SECRET, SECRET),
        ("SSHPASS", SECRET, SECRET),
        ("REDISCLI_AUTH", SECRET, SECRET),
        ("SITE_COOKIE", SECRET, SECRET),
        ("APP_SESSION", SECRET, SECRET),
        ("GCP_CREDS", SECRET, SECRET),
        ("DATABASE_URL", f"postgres://app:{SECRET}@db.example/prod", SECRET),
        ("BROKER", f"amqp://app:{SECRET}@mq", SECRET),
        ("HTTPS_PROXY", f"app:{SECRET}@proxy:3128", SECRET),
        ("HTTPS_PROXY", f"CORP\\ana:{SECRET}@proxy:3128", SECRET),
        ("SENTRY_DSN", f"https://{SECRET}@o1.ingest.example/42", SECRET),
        ("PG_DSN", f"host=db user=app password={SECRET}", SECRET),
        ("CUSTOM_DB", f"Server=db;Password='{SECRET}';Encrypt=true", SECRET),
        (
            "AZURE_STORAGE_CONNECTION_STRING",
            f"AccountName=a;AccountKey={SECRET}==;Endpoint=e",
            f"{SECRET}==",
        ),
        ("FOO", "sk-proj-abcdefgh12345678", "sk-proj-abcdefgh12345678"),
        ("CI_DATA", f"ghp_{SECRET}aaaa", f"ghp_{SECRET}aaaa"),
    ],
)
def test_a_secret_is_known_by_the_name_or_the_value_of_its_variable(
    name: str, value: str, secret: str
) -> None:
    """It is masked wherever it is seen, and no child that does not need it is given it."""
    assert secret in find_secrets({}, {name: value})
    assert may_hold_secret(name, value)
    for made in (needed_environment, ssh_environment, without_secrets):
        assert name not in made({name: value, "PATH": "/bin"})


@every_row(
    ("name", "value"),
    [
        ("PWD", "/home/ana/work-2024/very/long/path"),
        ("OLDPWD", "/home/ana/work-2024"),
        ("SSH_AUTH_SOCK", "/tmp/ssh-XXXXabcd1234/agent.4242"),
        ("XDG_SESSION_ID", "c2"),
        ("XDG_SESSION_DESKTOP", "plasma-wayland6"),
        ("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/user/1000/bus"),
        ("SESSION_MANAGER", "local/box:@/tmp/.ICE-unix/1234,unix/box:/tmp/.ICE-unix/1234"),
        ("EMAIL", "ana.maria77@example.org"),
        ("GITHUB_SHA", "0a1b" * 10),
        ("PYTHON_SHA256", "0a1b" * 16),
        ("PATH", "/usr/local/bin:/usr/bin"),
        ("PATH", "C:\\Program Files\\node@20\\bin;C:\\Windows"),
        ("PATH", "%SystemRoot%\\system32;C:\\node@20\\bin"),
        ("USERPROFILE", "C:\\Users\\ana@corp"),
        ("LS_COLORS", "rs=0:di=01;34:ln=01;36"),
        ("PS1", "\\u@\\h:\\w$ "),
        ("COMPAT_MODE", "version-2024-08-06"),
        ("OLLAMA_HOST", "http://127.0.0.1:11434"),
    ],
)
def test_an_ordinary_variable_is_no_secret(name: str, value: str) -> None:
    """Its value may stand in an answer, and children are given it."""
    assert find_secrets({}, {name: value}) == {}
    assert without_secrets({name: value}) == {name: value}


def test_a_windows_path_with_an_at_sign_goes_to_the_programs_that_need_it() -> None:
    environ = {"PATH": "C:\\node@20\\bin;C:\\Windows", "USERPROFILE": "C:\\Users\\ana@corp"}
    assert needed_environment(environ) == environ
    assert ssh_environment(environ) == environ


def test_a_key_in_json_credentials_is_known_by_its_variable() -> None:
    """There is no address in them, though one of their fields is a mail address."""
    credentials = json.dumps({"client_email": "app@project.example", "private_key": SECRET})
    assert find_secrets({}, {"GOOGLE_CREDENTIALS": credentials}) == {SECRET: "GOOGLE_CREDENTIALS"}


@every_row(
    ("name", "value"),
    [
        ("RESTIC_REPOSITORY", "rest:https://u:passw0rd12@h/"),
        ("MIRRORS", "http://a,http://u:passw0rd1@b"),
        ("SERVERS", '[{"url":"https://u:passw0rd1@h"}]'),
        ("BROKEN", "http://u:pass]w0rd1@[h"),
        ("BROKEN_PROXY", "u:passw0rd1@[h"),
        (
            "CERTIFICATE",
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE+a/b=\n-----END RSA PRIVATE KEY-----",
        ),
        (
            "ACCOUNT",
            '{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\\nMIIE"}',
        ),
        ("HEADERS", "Authorization: Bearer abcdefgh12345678"),
        ("NOTIFY", "https://hooks.slack.com/services/T000/B000/XXXXXXXXXXXXXXXXXXXXXXXX"),
        ("MYSQL_PWD", "hunter2"),
        ("MYAPP_PASS", "correcthorse"),
    ],
)
def test_a_password_in_any_part_of_a_variable_is_given_to_no_child(name: str, value: str) -> None:
    """Short or made of words, one of several addresses, inside JSON, or in an address that is not well formed."""
    assert without_secrets({name: value, "PATH": "/bin"}) == {"PATH": "/bin"}


@every_row(
    ("name", "value"),
    [
        ("PATH", "/home/ana/sk-learn-project/bin:/usr/bin"),
        ("PATH", "C:\\sk-learn-project\\bin;C:\\node@20\\bin"),
        ("LD_LIBRARY_PATH", "/opt/pkg-0123456789abcdef0123456789abcdef/lib"),
        ("DBUS_SESSION_BUS_ADDRESS", f"unix:path=/run/user/1000/bus,guid={'0a1b' * 8}"),
        ("CUDA_VISIBLE_DEVICES", "GPU-01ae95ec-c683-4b40-80a7-9e18d8d51e48"),
        ("XDG_SESSION_TYPE", "wayland"),
    ],
)
def test_a_program_keeps_its_paths_whatever_their_folders_are_called(name: str, value: str) -> None:
    assert needed_environment({name: value}) == ({} if name.startswith("DBUS") else {name: value})
    assert without_secrets({name: value}) == {name: value}


def test_programs_that_reach_a_server_keep_their_proxy() -> None:
    environ = {
        "HTTPS_PROXY": f"http://app:{SECRET}@proxy:3128",
        "PIP_INDEX_URL": f"https://app:{SECRET}@index",
        "A_KEY": SECRET,
    }
    assert with_proxies(environ, allowed_prefixes=("PIP_",)).keys() == {
        "HTTPS_PROXY",
        "PIP_INDEX_URL",
    }


def test_ssh_keeps_what_it_reads_itself() -> None:
    needed = {
        "HOME": "/h",
        "SSH_AUTH_SOCK": "/s",
        "LANG": "C",
        "LC_ALL": "C",
        "TERM": "xterm",
        "DISPLAY": ":0",
    }
    assert (
        ssh_environment({**needed, "EDITOR": "vi", "AWS_PROFILE": "a", "PYTHONPATH": "/p"})
        == needed
    )
