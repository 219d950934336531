"""The commands of remine, and their libraries in folders."""

import sys

if sys.argv[:1] == ["-m"]:  # while Python looks up the module of `-m`: a wrong name gets a message
    from jobs.runtime.command_line.commands import refuse_unknown_module

    refuse_unknown_module(sys.orig_argv)
