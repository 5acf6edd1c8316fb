"""Why something of a history is not in a suite. The value of each code is how it is shown."""

from __future__ import annotations

from enum import StrEnum


class LeftOut(StrEnum):
    # Of a store
    FOLDERS_UNREADABLE = "folders that cannot be read"
    FILES_UNREADABLE = "files that cannot be read"
    FILES_WITHOUT_SESSION = "files without a session"
    LINES_UNREADABLE = "lines that cannot be read"
    LINKS = "links, which are not followed"
    SESSIONS_TOO_LARGE = "sessions that are too large"
    SESSIONS_WITH_LARGE_ROW = "sessions with a row that is too large"
    # Of a session
    REWOUND = "rewound answers"
    INCOMPLETE_HISTORY = "incomplete histories"
    CUT_RESULTS = "results that were cut"
    UNHELD_CALLS = "calls that a suite cannot hold"
    GATEWAY = "answers of the gateway"
    IMAGES = "answers to images"
    FAILED_ANSWERS = "failed or empty answers"
    CUT_ANSWERS = "answers cut by the token limit"
    ANNOUNCEMENTS = "announcements of subagents"
    SLASH_COMMANDS = "slash commands"
    MASKED_SECRETS = "masked secrets"
    LONG_CONTEXTS = "contexts that are too long"
    STOPPED_CALLS = "stopped calls"
    FAILED_CALLS = "failed calls"
    CORRECTED = "answers that the user corrected"
    REPEATED_CALLS = "calls that were repeated"
    TOOL_SEARCHES = "searches for tools"
    RETRIED_RUNS = "retried runs"
    # Of the turns that can be asked
    NEAR_DUPLICATES = "near-duplicates"
    MORE_THAN_MAX = "more than --max"
