"""Paths of the simulated file system as text.

Owns: making a path absolute and plain, and taking it apart. Refuses: knowing which paths exist.
"""

from __future__ import annotations


def resolve(path: str, workdir: str = "/") -> str:
    """`path` made absolute from `workdir`, without `.`, `..`, double or trailing slashes."""
    joined = path if path.startswith("/") else f"{workdir}/{path}"
    parts: list[str] = []
    for part in joined.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def base(path: str) -> str:
    return path.rpartition("/")[2] or "/"


def join(directory: str, name: str) -> str:
    return f"/{name}" if directory == "/" else f"{directory}/{name}"


def prefix_of(directory: str) -> str:
    """What the paths inside `directory` begin with."""
    return "/" if directory == "/" else f"{directory}/"


def ancestors(path: str) -> list[str]:
    """The directories above `path`, the root first."""
    parts = path.split("/")[1:-1]
    return ["/", *("/" + "/".join(parts[: count + 1]) for count in range(len(parts)))]
