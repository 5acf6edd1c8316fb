"""Prompt suites: the built-in ones as data, and the loader that refuses bad ones.

Owns: suite files and what they may say. Refuses: running them, judging answers, and every suite with a fault in it.
"""

from clawgauge.suites.loader import (
    builtin_path,
    check_recorded,
    describe_suite,
    is_suite_there,
    list_builtin,
    load_suite,
    prompts_sha256,
    suite_path,
)

__all__ = [
    "builtin_path",
    "check_recorded",
    "describe_suite",
    "is_suite_there",
    "list_builtin",
    "load_suite",
    "prompts_sha256",
    "suite_path",
]
