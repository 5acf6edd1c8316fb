"""A server as every HTTP provider reaches it: its address, its key, its list of models, a probe."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from clawgauge.errors import CallFailure
from clawgauge.providers.base import Call, Provider, ProviderSettings, Sampling
from clawgauge.providers.http.client import HttpClient
from clawgauge.providers.http.errors import decode_lenient
from clawgauge.providers.http.reply import Reader
from clawgauge.records import ModelInfo, ProviderProbe, SentSettings, as_count
from clawgauge.registry import VENDORS
from clawgauge.secrets import public_address, public_settings
from clawgauge.words import plural

MAX_MODELS = 10_000
MAX_LABEL_CHARS = 256
# The statuses of a server that can be asked, but has no list of its models.
_NO_LIST_STATUSES = (404, 405, 501)


def apply_extra_body(
    sampling: Sampling, extra_body: Mapping[str, Any], names: Mapping[str, tuple[str, ...]]
) -> Sampling:
    """The sampling of a request whose body is overridden by `extra_body`, which has the last word.

    `names` has the fields of the body for each sampling value that the protocol has: ours, and
    others that say the same.
    """
    values: dict[str, Any] = sampling._asdict()
    for name, body_fields in names.items():
        for body_field in body_fields:
            value = extra_body.get(body_field)
            if isinstance(value, int | float) and not isinstance(value, bool):
                values[name] = value
    return Sampling(**values)


class HttpServer(Provider):
    """One server at one address, the user's own where its table says `local = true`.

    A subclass says what it sends with `request_path` and `settings_body`, and writes `attempt`,
    which adds what is said to the model and sends it with `_post`.
    """

    default_base_url: str
    """Where it is when the settings do not say."""
    models_path = "/models"
    """Where it lists its models, after the base address."""
    sampling_names: Mapping[str, tuple[str, ...]] = {
        "temperature": ("temperature",),
        "max_tokens": ("max_tokens",),
        "seed": ("seed",),
    }
    """The fields of the request's body for each sampling value.

    The first is the one that is sent; others of the protocol say the same, and `extra_body` may
    have them in its place.
    """
    sampling_member: str | None = None
    """The member of the request's body that holds the sampling values; None where it is the body.

    Where `extra_body` has that member, its fields are put over ours.
    """
    protocol_headers: Mapping[str, str] = {}
    """Headers that the protocol wants with every request."""
    key_header = "Authorization"
    key_format = "Bearer {}"

    def __init__(self, settings: ProviderSettings) -> None:
        super().__init__(settings)
        self.local = self.local or bool(settings.extra.get("local", False))
        self.extra_body: dict[str, Any] = dict(settings.extra.get("extra_body", {}))
        # A key that is named but not set ends a call before anything is sent.
        self._lacks_key = bool(settings.api_key_env and not settings.api_key)
        # Identity, so that no decompression stands between the socket and the clock.
        headers = {"Accept-Encoding": "identity", "User-Agent": "clawgauge"}
        headers |= self.protocol_headers
        if settings.api_key:
            headers[self.key_header] = self.key_format.format(settings.api_key)
        self.client = HttpClient(settings.base_url or self.default_base_url, headers=headers)
        self.base_url = self.client.base_url

    async def __aexit__(self, *exc_info: object) -> None:
        await self.client.aclose()

    def relay_client(self) -> HttpClient:
        return self.client

    def sampling(self, call: Call) -> Sampling:
        return self.override_sampling(super().sampling(call))

    def override_sampling(self, sampling: Sampling) -> Sampling:
        """What is sent where this would be, but for `extra_body`."""
        overrides: Any = self.extra_body
        if self.sampling_member is not None:
            overrides = self.extra_body.get(self.sampling_member)
        if not isinstance(overrides, dict):
            return sampling
        return apply_extra_body(sampling, overrides, self.sampling_names)

    @abstractmethod
    def request_path(self, call: Call) -> str:
        """Where the request goes, after the base address."""

    @abstractmethod
    def settings_body(self, call: Call) -> dict[str, Any]:
        """The members of the request's body that are no part of what is said to the model.

        `attempt` adds the others to these, so that there is one place for each setting. A member
        that is None is not sent. Raises `CallFailure` for a call that cannot be sent.
        """

    def request_settings(self, call: Call) -> SentSettings | None:
        try:
            body = self._override_body(self.settings_body(call))
        except CallFailure:
            # The call itself will end with it.
            return None
        path = urlsplit(self.base_url).path + urlsplit(self.request_path(call)).path
        return SentSettings(path=path, body=body)

    def check_here(self, model: str) -> None:
        if self._lacks_key:
            message = f"{self.settings.api_key_env} is not set"
            raise CallFailure("auth_error", "api_key_missing", message)

    async def probe(self) -> ProviderProbe:
        try:
            self.check_here("")
            models = await self.models()
        except CallFailure as failure:
            return self.unreachable(failure)
        detail = plural(len(models), "model")
        if not models:
            detail = "it answers, but lists no models: which it has is not checked"
        elif self.settings.api_key and not self._list_checks_key():
            detail += "; whether calls take the key is not checked"
        return ProviderProbe(
            provider=self.name,
            reachable=True,
            address=public_address(self.base_url),
            detail=detail,
            models=models,
        )

    def _list_checks_key(self) -> bool:
        """Whether a server at this address gives its list of models to a valid key alone."""
        for vendor in VENDORS:
            if vendor.is_address(self.base_url):
                return vendor.lists_models_by_key
        return False

    def unreachable(self, failure: CallFailure) -> ProviderProbe:
        """The probe of a server that did not answer, with a hint at what to do."""
        return ProviderProbe(
            provider=self.name,
            reachable=False,
            address=public_address(self.base_url),
            detail=failure.message,
            hint=self.hint(failure),
        )

    async def query_list(self) -> bytes:
        """The server's list of its models; empty where it has none. Raises `CallFailure`."""
        try:
            return await self.client.query(self.base_url + self.models_path)
        except CallFailure as failure:
            if failure.http_status in _NO_LIST_STATUSES:
                return b""
            raise

    async def models(self) -> list[ModelInfo]:
        models = []
        for item in listed_models(await self.query_list()):
            context_tokens = as_count(item.get("max_model_len"))
            models.append(ModelInfo(name=item["id"], context_tokens=context_tokens))
        return models

    def describe(self) -> dict[str, Any]:
        description: dict[str, Any] = {
            "type": self.settings.type,
            "base_url": public_address(self.base_url),
        }
        if self.settings.api_key_env:
            description["api_key_env"] = self.settings.api_key_env
        if self.extra_body:
            description["extra_body"] = public_settings(self.extra_body)
        return description

    def hint(self, failure: CallFailure) -> str:
        """What the user can do about a failed probe."""
        key_variable = self.settings.api_key_env
        if failure.failure_type == "api_key_missing":
            return f"set {key_variable}"
        if failure.status == "auth_error":
            if key_variable:
                return f"check the value of {key_variable}"
            return "the server wants a key: name one with api_key_env"
        address = public_address(self.base_url)
        if failure.http_status is not None:
            return f"look at the log of the server at {address}"
        return f"is the server running at {address}?"

    def _override_body(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The body as it is sent: what was not asked for is left out, `extra_body` put over it."""
        if self.sampling_member is None:
            return put_over(body, self.extra_body, self.sampling_names)
        sent_body = _without_none(body) | self.extra_body
        overrides = self.extra_body.get(self.sampling_member, {})
        if isinstance(overrides, dict):
            member = put_over(body[self.sampling_member], overrides, self.sampling_names)
            sent_body[self.sampling_member] = member
        return sent_body

    async def _post(self, body: Mapping[str, Any], call: Call, reader: Reader) -> None:
        """Make one call, and report its reply through `reader`. Raises `CallFailure`.

        `body` is what is said to the model; the settings come beside it. A member that is None was
        not asked for, and is not sent.
        """
        if self._lacks_key:
            self.check_here(call.model)
        sent_body = self._override_body({**self.settings_body(call), **body})
        try:
            payload = msgspec.json.encode(sent_body)
        except UnicodeEncodeError:
            # A lone surrogate in a prompt is sent as its escape rather than failing the call.
            payload = json.dumps(sent_body).encode("ascii")
        url = self.base_url + self.request_path(call)
        await self.client.exchange(url, payload, reader, timeout_s=call.timeout_s)


def put_over(
    fields: Mapping[str, Any],
    overrides: Mapping[str, Any],
    sampling_names: Mapping[str, tuple[str, ...]],
) -> dict[str, Any]:
    """The fields that were asked for, with `overrides` in the place of ours."""
    sent = _without_none(fields)
    for names in sampling_names.values():
        # Servers refuse two fields that say the same.
        if not overrides.keys().isdisjoint(names):
            for name in names:
                sent.pop(name, None)
    return sent | dict(overrides)


def _without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def listed_models(data: bytes, list_name: str = "data", key: str = "id") -> list[dict[str, Any]]:
    """The models of a server's list, each name once, and no more than `MAX_MODELS`.

    The list is the member `list_name` of the reply, a model's name is its member `key`. A name is
    the server's own, and becomes a target, a file name and a line on the terminal: one that is no
    text of reasonable length is left out.
    """
    items = (decode_lenient(data) or {}).get(list_name)
    if not isinstance(items, list):
        return []
    models: dict[str, dict[str, Any]] = {}
    for item in items:
        if len(models) == MAX_MODELS:
            break
        if not isinstance(item, dict):
            continue
        name = label(item.get(key))
        if name is not None:
            models.setdefault(name, item)
    return list(models.values())


def label(value: Any) -> str | None:
    """A short printable text about a model; None for anything else that a server may send."""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_LABEL_CHARS:
        return None
    return value if value.isprintable() else None
