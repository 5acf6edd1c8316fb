"""Prompt suites: the built-in ones as data, and the loader that refuses bad ones."""

from clawgauge.suites.load import (
    BUILTIN_SUITES,
    check_recorded,
    describe_suite,
    is_suite_there,
    list_builtin,
    load_suite,
    prompts_sha256,
    suite_path,
)
