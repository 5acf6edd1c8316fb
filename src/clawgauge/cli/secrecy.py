"""Keeps the secrets of this process out of all it writes: found once, masked everywhere.

Owns: joining the finding of secrets to the places that mask them. Refuses: both; they are `config`'s and `redaction`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from clawgauge.cli.tracebacks import redact_tracebacks
from clawgauge.config import find_secrets
from clawgauge.journal import withhold
from clawgauge.providers.base import ProviderSettings
from clawgauge.redaction import Redactor


class Secrecy(NamedTuple):
    """Every secret value with the words a user knows it by, and what masks them in a text."""

    secrets: Mapping[str, str]
    redact: Redactor


def keep_secrets(settings: Mapping[str, ProviderSettings], environ: Mapping[str, str]) -> Secrecy:
    """From now on no run folder and no traceback of this process shows a secret."""
    secrets = find_secrets(settings, environ)
    redact = Redactor(secrets)
    withhold(secrets)
    redact_tracebacks(redact)
    return Secrecy(secrets, redact)
