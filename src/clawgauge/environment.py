"""Which variables of the environment hold secrets, by their names or by their values, and which a
child is given."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from clawgauge.secrets import has_key_form, has_key_shape, is_bare_key, looks_like_key, looks_secret

# Whatever holds one of these words is named as keys are.
_SECRET_WORD = re.compile(
    "KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTHORIZATION|COOKIE|SSHPASS",
    re.IGNORECASE,
)
# The same as the end of a name, or of a part of one: `MAX_TOKENS_TYPE` is no token.
_SECRET_NAME = re.compile(f"(?:{_SECRET_WORD.pattern})S?(?=$|[_0-9])", re.IGNORECASE)
# These name a secret or something else: the value has to look like one.
_DOUBTFUL_PART = re.compile(
    r"(?:^|_)(?:PATS?|PASS|PWD|PW|AUTH|CREDS?|DSN|SESSION|SESSIONID|JWT|BEARER|SIG|SIGNATURE|SAS"
    r"|OTP|MNEMONIC|WEBHOOK|CONNECTION_STRING|CONNSTR)(?=$|[_0-9])",
    re.IGNORECASE,
)
_ORDINARY_NAME = re.compile(
    r"(?:XDG|DBUS|GNOME|KDE|GDM)_.*|(?:DESKTOP|WT)_SESSION|SESSION_MANAGER|TERM_SESSION_ID"
    r"|(?:OLD)?PWD|SSH_AUTH_SOCK|SSH_AGENT_PID",
    re.IGNORECASE,
)
# What such a variable names is not itself the secret.
_PLACE_NAME = re.compile(r"_(?:FILE|PATH|DIR|URL|URI|HOST|NAME|ENV|TYPE|MODEL)$", re.IGNORECASE)
_PLACE = re.compile(r"[/~.]|[A-Za-z]:\\|unix:")
# One path, or one of several: `CORP\\ana:…@proxy` is an address.
_WINDOWS_PATH = re.compile(r"(?:^|;)\"?[A-Za-z]:\\")
# In any of several addresses, behind a prefix (`rest:https://…`), or in JSON.
_USER_AND_PASSWORD = re.compile(r"://[^/\s@:]*+:[^/\s@]++@")
_PROXY_NAME = re.compile(r".*_PROXY", re.IGNORECASE)
_SECRET_PARAMETER = re.compile(r"key|token|secret|password|sig|code|auth", re.IGNORECASE)
# `Server=db;Password=…`, `host=db password=…`.
_CONNECTION_PART = re.compile(
    r"(?:^|[;\s])(?:password|passwd|pwd|secret|token|api[_ ]?key|accountkey|sharedaccesskey"
    r"|sharedaccesssignature)\s{0,9}=\s{0,9}(?:\"([^\"]+)\"|'([^']+)'|([^;\s]+))",
    re.IGNORECASE,
)
_MIN_CHARS = 8

# What a program needs to find itself, its libraries and its hardware, by the beginnings of the
# names.
_NEEDED = (
    *("PATH", "HOME", "USER", "LANG", "LC_", "TZ", "TMP", "TEMP", "XDG_", "LD_", "DYLD_"),
    *("SYSTEMROOT", "WINDIR", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "PATHEXT", "COMSPEC"),
    *("CUDA_", "NVIDIA_", "HIP_", "HSA_", "ROCR_", "ROCM_", "GGML_", "VK_", "ONEAPI_", "SYCL_"),
    *("ZE_", "MTL_", "OMP_", "KMP_", "OPENBLAS_", "MKL_", "GOMP_", "MALLOC_"),
)
# What ssh itself reads (ssh(1), ENVIRONMENT), what its helpers need (an agent, a security key,
# Kerberos, a ProxyCommand), and what a C library looks up names and writes messages by.
_NEEDED_BY_SSH = (
    *("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LANGUAGE", "TERM", "TZ", "TMPDIR"),
    *("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME"),
    *("SSH_AUTH_SOCK", "SSH_AGENT_PID", "SSH_SK_PROVIDER", "SSH_SK_HELPER", "SSH_PKCS11_HELPER"),
    *("KRB5CCNAME", "KRB5_CONFIG", "DBUS_SESSION_BUS_ADDRESS", "LD_LIBRARY_PATH"),
    *("HOSTALIASES", "LOCALDOMAIN", "RES_OPTIONS"),
    *("SYSTEMROOT", "WINDIR", "USERPROFILE", "USERNAME", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA"),
    *("TEMP", "TMP", "PATHEXT", "COMSPEC"),
)


class VariableSecret(NamedTuple):
    """A secret value in a variable. `in_address` where it is a part of an address that is there."""

    value: str
    in_address: bool = False


def secrets_of_variable(name: str, value: str) -> Iterator[VariableSecret]:
    """The secret values in a variable: all of it where it is named as keys are or is one, else what
    is inside."""
    if _SECRET_NAME.search(name) and not _PLACE_NAME.search(name):
        if len(value) >= _MIN_CHARS:
            for secret in _secrets_of_named(value):
                yield VariableSecret(secret)
        return
    has_some = False
    for secret in _address_secrets(value):
        has_some = True
        yield VariableSecret(secret, in_address=True)
    for secret in _connection_secrets(value):
        has_some = True
        yield VariableSecret(secret)
    if not has_some and (has_key_form(value) or _is_doubtful_secret(name, value)):
        yield VariableSecret(value)


def _secrets_of_named(value: str) -> Iterator[str]:
    """Of a JSON document (a service account's credentials) what is secret in it, not its common
    words."""
    if value.lstrip().startswith("{"):
        with suppress(ValueError, RecursionError):
            yield from list(secrets_of_settings(json.loads(value)))
            return
    yield value


def _address_secrets(value: str) -> Iterator[str]:
    """Credentials in a value that is an address."""
    if "://" in value:
        yield from secrets_of_address(value)
    elif _has_password(value):
        yield from secrets_of_address(f"http://{value}")


def _connection_secrets(value: str) -> Iterator[str]:
    """Credentials in a connection string."""
    for match in _CONNECTION_PART.finditer(value):
        yield match[1] or match[2] or match[3]


def _has_password(value: str) -> bool:
    """Whether an address has one. A proxy may be named without its scheme; `ana@example.org` is no
    address, nor is `C:\\Users\\ana@example.org`."""
    if "@" not in value or ("://" not in value and _WINDOWS_PATH.search(value)):
        return False
    with suppress(ValueError):
        return bool(urlsplit(value if "://" in value else f"http://{value}").password)
    return False


def _is_doubtful_secret(name: str, value: str) -> bool:
    if not _is_named_as_password(name):
        return False
    return looks_secret(value) and not _PLACE.match(value) and "://" not in value


def secrets_of_settings(value: Any, name: str = "") -> Iterator[str]:
    """The texts in a JSON-like value that are named like a secret or are a key by their shape."""
    if isinstance(value, str):
        if is_bare_key(value) or (_SECRET_NAME.search(name) and looks_secret(value)):
            yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from secrets_of_settings(item, str(key))
    elif isinstance(value, list):
        for item in value:
            yield from secrets_of_settings(item, name)


def secrets_of_address(address: str) -> Iterator[str]:
    """Credentials in an address, as written, as decoded, and as a request's Basic header carries
    them."""
    try:
        parts = urlsplit(address)
        user = parts.username or ""
        password = parts.password or ""
    except ValueError:
        return
    if user or password:
        decoded = f"{unquote(user)}:{unquote(password)}"
        yield password
        yield unquote(password)
        yield b64encode(decoded.encode("utf-8", "surrogateescape")).decode()
        # A token may stand alone, or beside a word such as x-oauth-basic; a plain login name is no
        # secret.
        if not password or looks_secret(user):
            yield user
            yield unquote(user)
    raw = dict(pair.partition("=")[::2] for pair in parts.query.split("&"))
    for name, value in [*raw.items(), *parse_qsl(parts.query)]:
        if _SECRET_PARAMETER.search(name) or looks_like_key(value):
            yield value
    for word in parts.path.split("/"):
        if looks_like_key(unquote(word)):
            yield word
            yield unquote(word)


def may_hold_secret(name: str, value: str) -> bool:
    """Whether a child that does not need this variable must not have it: it is named as keys or
    passwords are, or has in it what is shaped like a key, or the password of an address or of a
    database. One too many does no harm."""
    if _SECRET_WORD.search(name) or _may_have_password(value) or _CONNECTION_PART.search(value):
        return True
    if any(looks_secret(secret.value) for secret in secrets_of_variable(name, value)):
        return True
    # Without its paths a program may not start, and a folder may be called `sk-learn-models`.
    if _PLACE.match(value) or _WINDOWS_PATH.search(value):
        return False
    if value and _is_named_as_password(name):
        return True
    return has_key_shape(value)


def _is_named_as_password(name: str) -> bool:
    if _ORDINARY_NAME.fullmatch(name) or _PLACE_NAME.search(name):
        return False
    return _DOUBTFUL_PART.search(name) is not None


def _may_have_password(value: str) -> bool:
    """`_has_password`, or an address that has one is somewhere in the value, or one that cannot be
    taken apart."""
    if _has_password(value) or _USER_AND_PASSWORD.search(value):
        return True
    before, at_sign, _ = value.partition("@")
    if not at_sign or ":" not in before:
        return False
    try:
        urlsplit(value if "://" in value else f"http://{value}")
    except ValueError:
        return True
    return False


def without_secrets(
    environ: Mapping[str, str], allowed_prefixes: tuple[str, ...] = ()
) -> dict[str, str]:
    """An environment without what may hold a secret, but for variables with an allowed prefix."""
    allowed = {}
    for name, value in environ.items():
        if name.startswith(allowed_prefixes) or not may_hold_secret(name, value):
            allowed[name] = value
    return allowed


def with_proxies(environ: Mapping[str, str], allowed_prefixes: tuple[str, ...]) -> dict[str, str]:
    """`without_secrets`, and the proxies with the passwords they may have: for programs that are to
    reach a server."""
    proxies = {name: value for name, value in environ.items() if _PROXY_NAME.fullmatch(name)}
    return without_secrets(environ, allowed_prefixes) | proxies


def needed_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Of an environment, what a program that only computes needs: no key, no address of a server,
    no proxy."""
    needed = {name: value for name, value in environ.items() if name.upper().startswith(_NEEDED)}
    return without_secrets(needed)


def ssh_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Of an environment, what ssh and its helpers need, and no more: whatever SendEnv says, no key
    can be sent."""
    allowed = {}
    for name, value in environ.items():
        is_needed = name.upper() in _NEEDED_BY_SSH or name.startswith("LC_")
        if is_needed and not may_hold_secret(name, value):
            allowed[name] = value
    return allowed
