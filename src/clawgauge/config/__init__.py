"""Flags, environment and TOML made into settings. Nothing after this room reads any of them again."""

from clawgauge.config.providers import TargetPattern as TargetPattern
from clawgauge.config.providers import apply_patterns as apply_patterns
from clawgauge.config.providers import find_secrets as find_secrets
from clawgauge.config.providers import parse_target as parse_target
from clawgauge.config.providers import provider_settings as provider_settings
from clawgauge.config.settings import DEFAULT_NAME as DEFAULT_NAME
from clawgauge.config.settings import DEFAULT_RUNS_DIR as DEFAULT_RUNS_DIR
from clawgauge.config.settings import FIELDS as FIELDS
from clawgauge.config.settings import OPTIONS as OPTIONS
from clawgauge.config.settings import Configuration as Configuration
from clawgauge.config.settings import Settings as Settings
from clawgauge.config.settings import check_options as check_options
from clawgauge.config.settings import flag_of as flag_of
from clawgauge.config.settings import make_settings as make_settings
from clawgauge.config.settings import read_configuration as read_configuration
from clawgauge.config.settings import read_file as read_file
from clawgauge.config.trust import TrustStore as TrustStore
from clawgauge.config.trust import place_of as place_of
