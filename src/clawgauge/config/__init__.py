"""Flags, environment and TOML made into settings. Nothing after this room reads any of them again."""

from clawgauge.config.providers import provider_settings
from clawgauge.config.secrets import find_secrets
from clawgauge.config.settings import (
    DEFAULT_NAME,
    DEFAULT_RUNS_DIR,
    FIELDS,
    OPTIONS,
    Configuration,
    Settings,
    check_options,
    flag_of,
    make_settings,
    read_configuration,
    read_environment,
    read_file,
)
from clawgauge.config.targets import TargetPattern, apply_patterns, parse_target, provider_name
from clawgauge.config.trust import TrustStore, place_of

__all__ = [
    "DEFAULT_NAME",
    "DEFAULT_RUNS_DIR",
    "FIELDS",
    "OPTIONS",
    "Configuration",
    "Settings",
    "TargetPattern",
    "TrustStore",
    "apply_patterns",
    "check_options",
    "find_secrets",
    "flag_of",
    "make_settings",
    "parse_target",
    "place_of",
    "provider_name",
    "provider_settings",
    "read_configuration",
    "read_environment",
    "read_file",
]
