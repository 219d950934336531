"""Copy tables and the files next to them to another place, local or on S3; an interrupted copy continues.

    remine copy R s3://bucket/R
    remine copy s3://bucket/R/ratings ratings plan=true

Files that the destination already has with the same content are not copied again. A destination with different files of
the same names is refused. The lists of inputs in `_run/` still name the inputs where they were when the tables were
written.
"""

import sys
from dataclasses import dataclass

from omegaconf import MISSING

from actors.quantities import quantity
from jobs.inventory.copying import copy_files, plan_copy
from jobs.inventory.shown import size
from jobs.runtime.command_line import cli
from jobs.runtime.process.console import say


@dataclass
class CopyConfig:
    """Keys of `copy`."""

    input: str = MISSING  # a table, or a folder with tables; local or s3://bucket/prefix
    out: str = MISSING  # destination; local or s3://bucket/prefix
    plan: bool = False  # print what would be copied, and stop


def execute(cfg: CopyConfig) -> int:
    """Run the job and return the number of copied files; see the module's docstring.

    Raises:
        InputError: there is nothing to copy, `out` is inside `input` or vice versa, or files of `out` differ.
    """
    plan = plan_copy(cfg.input, cfg.out)
    amount = f"{quantity(len(plan.files), 'file')}, {size(sum(source.size for source, _ in plan.files))}"
    present = f" ({plan.present:,} are there already)" if plan.present else ""
    if cfg.plan:
        say(f"copy: would copy {amount}{present}")
        return 0
    copy_files(plan)
    say(f"copy: copied {amount} to {plan.out}{present}")
    return len(plan.files)


JOB = cli.Job("copy", CopyConfig, execute, positional=("input", "out"))

if __name__ == "__main__":
    sys.exit(cli.main("copy"))
