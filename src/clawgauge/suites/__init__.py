"""Prompt suites: the built-in ones as data, and the loader that refuses bad ones."""

from clawgauge.suites.load import BUILTIN_SUITES as BUILTIN_SUITES
from clawgauge.suites.load import SELECTION as SELECTION
from clawgauge.suites.load import check_recorded as check_recorded
from clawgauge.suites.load import describe_suite as describe_suite
from clawgauge.suites.load import is_suite_there as is_suite_there
from clawgauge.suites.load import list_builtin as list_builtin
from clawgauge.suites.load import load_suite as load_suite
from clawgauge.suites.load import prompts_sha256 as prompts_sha256
from clawgauge.suites.load import suite_path as suite_path
