"""Claude through the user's own Claude Code."""
