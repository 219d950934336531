"""Removing pictures from everything that a run has written."""
