"""What a server can carry: prompts of a known length, load that is steady, the search for where more no longer pays."""
