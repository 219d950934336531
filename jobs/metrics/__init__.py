"""Metrics: pure functions on arrays and Arrow batches. Nothing here reads, writes or imports Ray.

A metric that is not defined is None and carries a reason; it is never 0.
"""
