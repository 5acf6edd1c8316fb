"""Which values this process holds that nobody else may see.

Numbers are never secrets: `MAX_TOKENS=100000` is no token.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from clawgauge.providers.base import ProviderSettings
from clawgauge.secrets import is_bare_key, looks_like_key, looks_secret

_SECRET_NAME = re.compile(
    r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|AUTHORIZATION)S?(?=$|[_0-9])", re.IGNORECASE
)
# What such a variable names is not itself the secret.
_PLACE_NAME = re.compile(r"_(?:FILE|PATH|DIR|URL|URI|HOST|NAME|ENV|TYPE|MODEL)$", re.IGNORECASE)
_SECRET_PARAMETER = re.compile(r"key|token|secret|password|sig|code|auth", re.IGNORECASE)
_MIN_VARIABLE_CHARS = 8
_MIN_CHARS = 6


def find_secrets(settings: Mapping[str, ProviderSettings], environ: Mapping[str, str]) -> dict[str, str]:
    """Every secret value, and the words by which a user knows it: the variable's name, or the address it is in."""
    found: dict[str, str] = {}
    for name, value in environ.items():
        if _SECRET_NAME.search(name) and not _PLACE_NAME.search(name) and len(value) >= _MIN_VARIABLE_CHARS:
            within: Iterable[str] = (value,)
            # Of a JSON document (a service account's credentials) what is secret in it, not its common words.
            if value.lstrip().startswith("{"):
                with suppress(ValueError, RecursionError):
                    within = list(_secrets_of_settings(json.loads(value)))
            found |= dict.fromkeys(within, name)
        elif "://" in value or "@" in value:
            # A proxy may be named without its scheme, and still with a password.
            address = value if "://" in value else f"http://{value}"
            found |= dict.fromkeys(_secrets_of_address(address), f"the address in {name}")
    for provider, setting in settings.items():
        found |= dict.fromkeys(_secrets_of_settings(dict(setting.extra)), f"a setting of {provider}")
        if setting.base_url:
            found |= dict.fromkeys(_secrets_of_address(setting.base_url), f"the address of {provider}")
        if setting.api_key:
            found[setting.api_key] = setting.api_key_env or f"the key of {provider}"
    return {value: origin for value, origin in found.items() if len(value) >= _MIN_CHARS and not value.isdecimal()}


def _secrets_of_settings(value: Any, name: str = "") -> Iterator[str]:
    """The texts in a JSON-like value that are named like a secret or are a key by their shape."""
    if isinstance(value, str):
        if is_bare_key(value) or (_SECRET_NAME.search(name) and looks_secret(value)):
            yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _secrets_of_settings(item, str(key))
    elif isinstance(value, list):
        for item in value:
            yield from _secrets_of_settings(item, name)


def _secrets_of_address(address: str) -> Iterator[str]:
    """Credentials in an address, as written, as decoded, and as a request's Basic header carries them."""
    try:
        parts = urlsplit(address)
        user, password = parts.username or "", parts.password or ""
    except ValueError:
        return
    if user or password:
        decoded = f"{unquote(user)}:{unquote(password)}"
        yield from (password, unquote(password), b64encode(decoded.encode("utf-8", "surrogateescape")).decode())
        # A token may stand alone, or beside a word such as x-oauth-basic; a plain login name is no secret.
        if not password or looks_secret(user):
            yield from (user, unquote(user))
    raw = dict(pair.partition("=")[::2] for pair in parts.query.split("&"))
    for name, value in [*raw.items(), *parse_qsl(parts.query)]:
        if _SECRET_PARAMETER.search(name) or looks_like_key(value):
            yield value
    for word in parts.path.split("/"):
        if looks_like_key(unquote(word)):
            yield from (word, unquote(word))
