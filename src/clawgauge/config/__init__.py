"""Flags, environment and TOML made into one decided plan. Nothing after this room reads any of them again."""

from clawgauge.config.environment import read_environment
from clawgauge.config.file import FileConfig, read_file_config
from clawgauge.config.plan import (
    DEFAULT_RUNS_DIR,
    DEFAULT_SUITES,
    check_options,
    checked_fail_under,
    choose_from,
    choose_prompts,
    load_suites,
    make_options,
)
from clawgauge.config.providers import provider_settings
from clawgauge.config.secrets import find_secrets
from clawgauge.config.settings import RunSettings
from clawgauge.config.targets import TargetPattern, apply_patterns, parse_target, provider_name

__all__ = [
    "DEFAULT_RUNS_DIR",
    "DEFAULT_SUITES",
    "FileConfig",
    "RunSettings",
    "TargetPattern",
    "apply_patterns",
    "check_options",
    "checked_fail_under",
    "choose_from",
    "choose_prompts",
    "find_secrets",
    "load_suites",
    "make_options",
    "parse_target",
    "provider_name",
    "provider_settings",
    "read_environment",
    "read_file_config",
]
