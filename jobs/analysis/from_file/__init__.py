"""The parts of `jobs.analyze`: its keys, the columns of its file, and one module per task."""
