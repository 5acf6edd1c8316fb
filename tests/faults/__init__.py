"""Each fault that can befall a run, injected for real; the tests name the rows of docs/reliability.md."""
