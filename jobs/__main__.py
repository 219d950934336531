"""`python -m jobs`: the jobs, one line each; `python -m jobs NAME …` is `python -m jobs.NAME …`."""

import sys

from jobs.runtime import cli

if __name__ == "__main__":
    sys.exit(cli.jobs(sys.argv[1:]))
