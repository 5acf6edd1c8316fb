"""Keeps the secrets of this process out of all it writes: found once, masked everywhere.

Owns: joining the finding of secrets to the places that mask them. Refuses: both; they are `config`'s and `redaction`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from clawgauge.cli.streams import mask_output
from clawgauge.cli.tracebacks import redact_tracebacks
from clawgauge.config import find_secrets
from clawgauge.journal import encode_line, withhold
from clawgauge.providers.base import ProviderSettings
from clawgauge.records import Prompt, Target
from clawgauge.redaction import Redactor, SecretMask, mask_shapes


class Secrecy(NamedTuple):
    """Every secret value with the words a user knows it by, and what masks them in a text."""

    secrets: Mapping[str, str]
    redact: Redactor


def keep_secrets(settings: Mapping[str, ProviderSettings], environ: Mapping[str, str]) -> Secrecy:
    """From now on no run folder, no output and no traceback of this process shows a secret."""
    secrets = find_secrets(settings, environ)
    redact = Redactor(secrets)
    withhold(secrets)
    mask = SecretMask(secrets).mask
    # By value first of all: a path or a command that a person is to paste keeps its ordinary words.
    mask_output(results=mask, words=lambda text: mask_shapes(mask(text)))
    redact_tracebacks(redact)
    return Secrecy(secrets, redact)


def spare_own_words(secrets: Mapping[str, str], prompts: Sequence[Prompt], targets: Sequence[Target]) -> None:
    """What the user asks, and of whom, is recorded as it is, though a few letters of it may also be those of a key.

    None of it holds a whole key: that has been refused.
    """
    withhold(secrets, encode_line((prompts, targets)).decode())
