"""Metrics: pure functions on arrays and Arrow batches, without input, output or Ray.

An undefined metric has the value None and a reason; it is never 0.
"""
