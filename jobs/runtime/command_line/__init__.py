"""The command line of all jobs: arguments, `--help`, completion, exit codes."""
