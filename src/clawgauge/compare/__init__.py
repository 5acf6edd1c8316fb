"""Two runs, or two models of one run, prompt by prompt: what changed, and is it more than luck?

`comparison.compare_runs` does it all, `findings` has what it found, `gate` the rules that a change must not break."""
