"""One module a benchmark; each exposes `BENCHMARK`."""
