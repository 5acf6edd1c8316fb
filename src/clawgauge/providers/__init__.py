"""One file per way to reach a model. `base` is the contract; `registry` finds providers by name."""
