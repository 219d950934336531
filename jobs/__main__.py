"""`python -m jobs` lists the jobs; `python -m jobs NAME …` is the same as `remine NAME …`."""

import sys

from jobs.runtime.command_line import commands

if __name__ == "__main__":
    sys.exit(commands.run())
