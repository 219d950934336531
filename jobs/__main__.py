"""`python -m jobs`: the jobs, one line each."""

from jobs.cli import JOBS, say, summary

say("python -m jobs.<name> key=value …   (--help: its keys; --cfg: the composed configuration)\n")
for name in JOBS:
    say(f"  {name:8} {summary(name)}")
