"""Benchmarks against peers: `python -m tests.benchmarks` lists them, with NAME [SIZE] it runs one."""
