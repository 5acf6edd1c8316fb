"""What a server can carry: prompts of a known length, a steady load, the search for its limit."""
