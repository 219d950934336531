"""Figures of a file whose columns somebody names (`jobs.figures`): its keys, its columns, and a module a task."""
