"""Checks and measurements on a GPU, in one command: `python -m tests.gpu` (docs/benchmarks.md)."""
