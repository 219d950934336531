"""Estimates of a run's time, GPU-hours, requests and money, and the summary of a finished run."""
