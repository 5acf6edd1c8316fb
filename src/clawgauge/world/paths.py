"""Absolute paths of the simulated machine, as text."""

import posixpath


def resolve(path: str, workdir: str = "/") -> str:
    """`path` made absolute from `workdir`, without `.`, `..`, double or trailing slashes."""
    # Not `normpath`, which in some versions of Python ends a path at its first null.
    parts: list[str] = []
    for part in posixpath.join(workdir, path).split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def prefix_of(directory: str) -> str:
    """What every path inside a directory begins with."""
    return f"{directory.rstrip('/')}/"


def ancestors(path: str) -> list[str]:
    """The directories above a path, from the root."""
    parts = path.split("/")[1:-1]
    directories = ["/"]
    for count in range(1, len(parts) + 1):
        directories.append("/" + "/".join(parts[:count]))
    return directories
