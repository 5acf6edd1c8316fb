"""What a server can carry: prompts of a known length, a steady load, and the search for its limit."""
