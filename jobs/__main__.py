"""`python -m jobs` lists the jobs; `python -m jobs NAME …` is the same as `python -m jobs.NAME …`."""

import sys

from jobs.runtime import cli

if __name__ == "__main__":
    sys.exit(cli.jobs(sys.argv[1:]))
