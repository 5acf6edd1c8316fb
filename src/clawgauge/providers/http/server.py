"""What every HTTP provider has in common: its client, its key, its `/models`, its probe."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Call, Provider, ProviderSettings
from clawgauge.providers.http.client import HttpClient
from clawgauge.providers.http.lenient_json import decode_lenient
from clawgauge.providers.http.reply import Reader
from clawgauge.records import ModelInfo, ProviderProbe
from clawgauge.secrets import public_address, public_settings
from clawgauge.words import plural

MAX_MODELS = 10_000
MAX_LABEL_CHARS = 256
# A server that can be asked, but has no list of its models.
_LISTS_NOTHING = (404, 405, 501)


class HttpServer(Provider):
    """One server at one address, the user's own where its table says `local = true`. Subclasses add `attempt`."""

    default_base_url: str

    def __init__(self, settings: ProviderSettings) -> None:
        super().__init__(settings)
        self.local = self.local or bool(settings.extra.get("local", False))
        self.extra_body: dict[str, Any] = dict(settings.extra.get("extra_body", {}))
        # Identity, so that no decompression stands between the socket and the clock.
        headers = {"Accept-Encoding": "identity", "User-Agent": "clawgauge"}
        if settings.api_key:
            headers["Authorization"] = f"Bearer {settings.api_key}"
        self.client = HttpClient(settings.base_url or self.default_base_url, headers=headers)
        self.base_url = self.client.base_url

    async def __aexit__(self, *exc_info: object) -> None:
        await self.client.aclose()

    async def probe(self) -> ProviderProbe:
        try:
            self.require_key()
            models = await self.models()
        except CallFailure as failure:
            return self.unreachable(failure)
        address, detail = public_address(self.base_url), plural(len(models), "model")
        return ProviderProbe(provider=self.name, reachable=True, address=address, detail=detail, models=models)

    def unreachable(self, failure: CallFailure) -> ProviderProbe:
        """The probe of a server that cannot be used, with the way out."""
        address, hint = public_address(self.base_url), self.hint(failure)
        return ProviderProbe(provider=self.name, reachable=False, address=address, detail=failure.message, hint=hint)

    async def models(self) -> list[ModelInfo]:
        try:
            data = await self.client.ask(self.base_url + "/models")
        except CallFailure as failure:
            if failure.http_status in _LISTS_NOTHING:
                return []
            raise
        return [ModelInfo(name=item["id"]) for item in listed_models(data, "data", "id")]

    def describe(self) -> dict[str, Any]:
        known: dict[str, Any] = {"type": self.settings.type, "base_url": public_address(self.base_url)}
        if self.settings.api_key_env:
            known["api_key_env"] = self.settings.api_key_env
        if self.extra_body:
            known["extra_body"] = public_settings(self.extra_body)
        return known

    def hint(self, failure: CallFailure) -> str:
        """What a user can do about a failed probe."""
        key_env = self.settings.api_key_env
        if failure.failure_type == "api_key_missing":
            return f"set {key_env}"
        if failure.status == "auth_error":
            return f"check the value of {key_env}" if key_env else "the server wants a key: name one with api_key_env"
        if failure.http_status is not None:
            return f"look at the log of the server at {public_address(self.base_url)}"
        return f"is the server running at {public_address(self.base_url)}?"

    async def _post(self, path: str, body: dict[str, Any], call: Call, reader: Reader) -> None:
        """Make one call. A member of `body` that is None was not asked for, and is not sent."""
        self.require_key()
        body = {name: value for name, value in body.items() if value is not None} | self.extra_body
        try:
            payload = msgspec.json.encode(body)
        except UnicodeEncodeError:  # a lone surrogate in a prompt is sent as its escape rather than failing the call
            payload = json.dumps(body).encode("ascii")
        await self.client.exchange(self.base_url + path, payload, reader, timeout_s=call.timeout_s)

    def require_key(self) -> None:
        """A key that is named but not set ends a call before anything is sent."""
        if self.settings.api_key_env and not self.settings.api_key:
            raise CallFailure("auth_error", "api_key_missing", f"{self.settings.api_key_env} is not set")


def listed_models(data: bytes, list_name: str, key: str) -> list[dict[str, Any]]:
    """The models of a server's list, each name once, as many as anybody may have.

    A name is the server's own, and becomes a target, a file name and a line on the terminal: one that is no text of
    reasonable length is left out.
    """
    items = (decode_lenient(data) or {}).get(list_name)
    found: dict[str, dict[str, Any]] = {}
    for item in items if isinstance(items, list) else []:
        name = label(item.get(key)) if isinstance(item, dict) else None
        if name is not None and len(found) < MAX_MODELS:
            found.setdefault(name, item)
    return list(found.values())


def label(value: Any) -> str | None:
    """A short printable word about a model; None for anything else a server may send in its place."""
    return value if isinstance(value, str) and 0 < len(value) <= MAX_LABEL_CHARS and value.isprintable() else None
