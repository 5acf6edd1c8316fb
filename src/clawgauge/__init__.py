"""clawgauge: the OpenClaw LLM benchmark. Measures models; judges answers; keeps the evidence."""

__version__ = "0.1.0"
