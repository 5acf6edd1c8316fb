"""From evidence to configuration: which model answers, which takes over, which may have tools."""
