"""Checks and measurements on a GPU, in one command: `python -m tests.gpu` (tests/benchmarks/RECORDS.md)."""
