"""The two ways a job ends badly, and their exit codes."""


class InputError(ValueError):
    """The user's input or configuration is wrong; nothing was written. One sentence. Exit code 2."""

    exit_code = 2


class RunError(RuntimeError):
    """The run itself failed or does not balance; what is done stays done. Exit code 1."""

    exit_code = 1
