"""Who may see the pages: one-time tokens in addresses, and the secret in every path.

There is no cookie: a browser sends those of 127.0.0.1 to every port of it, whoever listens
there."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from enum import Enum, auto

TOKEN_LIFETIME_S = 600.0
_SECRET_BYTES = 24


class Redemption(Enum):
    """What became of a token that somebody showed."""

    ACCEPTED = auto()
    USED = auto()
    EXPIRED = auto()
    UNKNOWN = auto()


class Access:
    """Tokens that open the view once each, and the secret that they are exchanged for."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.secret = secrets.token_urlsafe(_SECRET_BYTES)
        self._clock = clock
        # By their hashes: how long it takes to find one tells nothing about it.
        self._unused: dict[bytes, tuple[float, Callable[[], None]]] = {}
        self._used: set[bytes] = set()
        self._expired: set[bytes] = set()

    def issue(self, on_use: Callable[[], None]) -> str:
        """A new token. `on_use` is called when it is exchanged, which is once at most."""
        token = secrets.token_urlsafe(_SECRET_BYTES)
        self._unused[_digest(token)] = (self._clock() + TOKEN_LIFETIME_S, on_use)
        return token

    def redeem(self, token: str) -> Redemption:
        self._expire()
        digest = _digest(token)
        if digest in self._unused:
            _, on_use = self._unused.pop(digest)
            self._used.add(digest)
            on_use()
            return Redemption.ACCEPTED
        if digest in self._used:
            return Redemption.USED
        if digest in self._expired:
            return Redemption.EXPIRED
        return Redemption.UNKNOWN

    def is_open(self, token: str) -> bool:
        """Whether a token can still be exchanged."""
        self._expire()
        return _digest(token) in self._unused

    def knows_secret(self, secret: str) -> bool:
        return hmac.compare_digest(secret.encode("utf-8", "surrogateescape"), self.secret.encode())

    def _expire(self) -> None:
        now_s = self._clock()
        for digest, (expires_at_s, _) in list(self._unused.items()):
            if expires_at_s <= now_s:
                del self._unused[digest]
                self._expired.add(digest)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
