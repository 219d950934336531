"""Pipelines: jobs that run one after another."""
