"""Trains and measures the two models of the demo, `demo-encoder` and `demo-judge`, on pictures of the little world."""
