"""Calls in the formats that models are trained to write, one reader for each."""
