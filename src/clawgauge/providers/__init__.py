"""One file per way to reach a model. `base` is the contract, and finds providers by name."""
