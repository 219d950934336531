"""Look at pictures, ratings, responses and spans in a browser: filter, sort, search, compare raters, correct labels.

    remine view R
    remine view R rater=ada out=R/corrections
    remine view R at='ratings?question=mood/shown&value=5'
    remine view s3://bucket/R exclusions=reported.txt port=8400

Prints an address of this machine and serves it until Ctrl-C. The address has a random token, and only this machine can
reach it; from another machine, forward the port through ssh. With rater= and out= that person's answers are written as
ratings, in a table below out= for each rubric, which `report` reads with those of the models. Search by text uses the
encoder that wrote the table of embeddings.
"""

import sys
from contextlib import ExitStack
from dataclasses import dataclass, field

from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.runtime.planning import summary
from jobs.runtime.process.console import say
from jobs.runtime.selection import exclusions
from jobs.store.files.spool import Spool


@dataclass
class ViewConfig:
    """Keys of `view`."""

    inputs: list[str] = field(default_factory=list)  # tables or folders of tables; local or s3://…
    rater: str | None = None  # the person who corrects labels: a name or pseudonym for the column rater; needs out=
    out: str | None = None  # where corrections are written: a folder, which gets a table for each rubric
    # where named views and tags are kept; null: the folder `saved` in the first of inputs or, for a table, next to it
    saved: str | None = None
    # pictures are blurred until the reader shows them; null: unless no rubric of the ratings is sensitive
    blur: bool | None = None
    at: str = ""  # the list to begin with, as a report names it: ratings?question=mood/shown&value=5
    exclusions: str | None = None  # file of pictures that must not be shown (jobs.runtime.selection.exclusions)
    port: int = 0  # rarely: port of 127.0.0.1; 0: any free port


def execute(cfg: ViewConfig) -> None:
    """Run the job; see the module's docstring. Ctrl-C ends it.

    Raises:
        InputError: no table to view, a value that its key does not allow, or ratings of others at `out`.
    """
    if bool(cfg.rater) != bool(cfg.out):
        raise InputError(
            "view: set both rater= (who corrects labels) and out= (where the ratings are written), or neither"
        )
    from jobs.viewer.opening import ADDRESS, listening, open_viewer, server
    from jobs.viewer.saved import list_address

    at = list_address(cfg.at) if cfg.at else ""
    excluded = exclusions.read_exclusions(cfg.exclusions)
    exclusion_filter = exclusions.ExclusionFilter(excluded.marks)
    with ExitStack() as stack:
        listener = stack.enter_context(listening(cfg.port))
        folder = stack.enter_context(Spool("view")).path  # which the next command removes if this one is killed
        viewer = open_viewer(
            cfg.inputs,
            folder,
            rater=cfg.rater,
            out=cfg.out,
            exclusion_filter=exclusion_filter,
            blur=cfg.blur,
            saved=cfg.saved,
        )
        stack.callback(viewer.close)
        for line in summary.exclusion_lines(excluded, exclusion_filter.matched):
            say(line)
        serving = server(viewer.application)  # imports the server, before the address is printed
        say(f"view: http://{ADDRESS}:{listener.getsockname()[1]}/{viewer.token}/{at}")
        say("  Ctrl-C ends it")
        serving.run(sockets=[listener])


JOB = cli.Job("view", ViewConfig, execute, positional=("inputs",), resumes=False)

if __name__ == "__main__":
    sys.exit(cli.main("view"))
