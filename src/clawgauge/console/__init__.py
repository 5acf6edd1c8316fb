"""What a person sees while a run goes on: a live table, plain lines, or nothing."""
