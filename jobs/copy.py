"""Copy tables and the files next to them to another place, local or on S3; an interrupted copy continues.

    remine copy R s3://bucket/R
    remine copy s3://bucket/R/ratings ratings plan=true

Each copy is compared with its source. Files that the destination already has with the same content are not copied
again, and damaged copies are replaced. A destination with different files of the same names is refused. Tables that are
being written are named: copy them again once their command has ended. The lists of inputs in `_run/` still name the
inputs where they were when the tables were written.
"""

import sys
from dataclasses import dataclass

from actors.quantities import quantity
from jobs.inventory.copying import copy_files, plan_copy
from jobs.inventory.found import size
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.key_types import MISSING
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
    for sentence in plan.incomplete:
        say(f"copy: {sentence}", err=True, level="warning")
    present = f" ({plan.present:,} are there already)" if plan.present else ""
    if plan.damaged:
        present += f"; {quantity(len(plan.damaged), 'damaged copy')} replaced"
    if cfg.plan:
        say(f"copy: would copy {_amount(len(plan.files), sum(source.size for source, _ in plan.files))}{present}")
        return 0
    copied = copy_files(plan)
    if copied.gone:
        say(f"copy: {quantity(copied.gone, 'file')} were removed by another process before they were copied", err=True)
    say(f"copy: copied {_amount(copied.files, copied.bytes)} to {plan.out}{present}")
    return copied.files


def _amount(files: int, size_in_bytes: int) -> str:
    return f"{quantity(files, 'file')}, {size(size_in_bytes)}"


JOB = cli.Job("copy", CopyConfig, execute, positional=("input", "out"))

if __name__ == "__main__":
    sys.exit(cli.main("copy"))
