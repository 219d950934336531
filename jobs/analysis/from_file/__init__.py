"""Metrics of a file whose columns somebody names (`jobs.analyze`): its keys, its columns, and a module a task."""
