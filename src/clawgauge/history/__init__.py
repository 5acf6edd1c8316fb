"""Many runs as one: what was run when, how each model fared over time, what is missing and how to fill it."""
