"""Many runs as one: what was run when, how each model fared over time, what is missing and how to
fill it.

`overview.read_history` does it all: `entries` reads the runs, `trends` and `drift` line up a
model's runs, `jobs` says what each is fit for, `coverage` what has no answer, `filling` who could
be asked it. `findings` has what comes of it."""
