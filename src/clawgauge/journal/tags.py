"""A file-safe name for a target.

Owns: `<tag>` in `resources_<tag>_before.txt`. Refuses: ever giving two targets the same tag, on any file system.
"""

from __future__ import annotations

import hashlib
import json
import re

from clawgauge.records import Target

MAX_TAG_CHARS = 120

_HASH_CHARS = 16
# A plain tag can be read back in one way only: the model has no '_', so the last '_' ends the provider; '@' and '~' are
# in neither; and there are no capitals, so file systems that ignore case tell plain tags apart.
_PLAIN_PROVIDER = re.compile(r"[a-z0-9][a-z0-9_.-]*")
_PLAIN_MODEL = re.compile(r"[a-z0-9.-]+")
_PLAIN_LEVEL = re.compile(r"[a-z]+")
_UNSAFE_RUN = re.compile(r"[^a-z0-9_.@-]+")


def resource_tag(target: Target) -> str:
    """The target's name where that is unmistakable, otherwise a readable likeness, `~` and a hash of the target."""
    level = "" if target.thinking_level is None else f"@{target.thinking_level}"
    name = f"{target.provider}_{target.model}{level}"
    if _is_plain(target) and len(name) <= MAX_TAG_CHARS:
        return name
    identity = json.dumps([target.provider, target.model, target.thinking_level])
    digest = hashlib.sha256(identity.encode()).hexdigest()[:_HASH_CHARS]
    likeness = _UNSAFE_RUN.sub("-", name.lower()).lstrip(".@-")[: MAX_TAG_CHARS - _HASH_CHARS - 1]
    return f"{likeness}~{digest}"


def _is_plain(target: Target) -> bool:
    return (
        _PLAIN_PROVIDER.fullmatch(target.provider) is not None
        and _PLAIN_MODEL.fullmatch(target.model) is not None
        and (target.thinking_level is None or _PLAIN_LEVEL.fullmatch(target.thinking_level) is not None)
    )
