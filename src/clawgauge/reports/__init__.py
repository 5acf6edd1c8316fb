"""Summaries as documents a person reads.

Owns: one module per format, and what the formats share: cleaning of foreign text, tables, the wording of figures.
Refuses: computing figures and reading run folders; a report says what a summary holds.
"""
