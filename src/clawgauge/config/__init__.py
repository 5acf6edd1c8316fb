"""Flags, environment and TOML made into one decided plan. Nothing after this room reads any of them again."""

from clawgauge.config.providers import provider_settings
from clawgauge.config.secrets import find_secrets
from clawgauge.config.settings import (
    DEFAULT_NAME,
    DEFAULT_RUNS_DIR,
    DEFAULT_SUITES,
    Configuration,
    FileConfig,
    RunSettings,
    check_options,
    checked_fail_under,
    choose_from,
    choose_prompts,
    harmless_fields,
    load_suites,
    make_options,
    read_configuration,
    read_environment,
    read_file,
)
from clawgauge.config.targets import TargetPattern, apply_patterns, parse_target, provider_name
from clawgauge.config.trust import TrustStore, place_of

__all__ = [
    "DEFAULT_NAME",
    "DEFAULT_RUNS_DIR",
    "DEFAULT_SUITES",
    "Configuration",
    "FileConfig",
    "RunSettings",
    "TargetPattern",
    "TrustStore",
    "apply_patterns",
    "check_options",
    "checked_fail_under",
    "choose_from",
    "choose_prompts",
    "find_secrets",
    "harmless_fields",
    "load_suites",
    "make_options",
    "parse_target",
    "place_of",
    "provider_name",
    "provider_settings",
    "read_configuration",
    "read_environment",
    "read_file",
]
