"""The commands of remine, and their libraries in folders."""

import sys

if sys.argv[:1] == ["-m"]:  # Python looks for the module of `remine NAME`: a wrong name gets a sentence
    from jobs.runtime.commands import refuse_unknown_module

    refuse_unknown_module(sys.orig_argv)
