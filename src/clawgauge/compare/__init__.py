"""Two runs, or two models of one run, prompt by prompt: what changed, and is it more than luck?

`comparison.compare_runs` does it all. `tallies`, `sides` and `pairing` read the runs and put side
by side what belongs together, `comparability` says whether they may be compared, `rates`, `times`
and `correction` measure, `flips` lists the prompts behind it. `findings` has what comes of it,
`gate` the rules that a change must not break."""
