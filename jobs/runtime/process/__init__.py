"""The process of a command: its output, signals and times."""
