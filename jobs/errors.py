"""The two errors with which a job ends, and their exit codes."""


class InputError(ValueError):
    """The input or configuration is wrong, and nothing was written. The message is one line. Exit code 2."""

    exit_code = 2


class RunError(RuntimeError):
    """The run failed or does not balance; completed units are kept. Exit code 1."""

    exit_code = 1
