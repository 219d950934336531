"""Fetch pictures -> table `images`.

    remine fetch source=urls source.contact=ADDRESS input=R/records width=300 out=R/images
    remine fetch source=folder source.path=DIR out=R/images
    remine fetch source=folder source.path=s3://b/pictures input=R/records out=R/images
    remine fetch source=webdataset source.path='s3://b/shards/*.tar' out=R/images
    remine fetch source=parquet source.path='DIR/*.parquet' out=R/images
    remine fetch source=wit_base source.path='s3://b/wit_base/*.parquet' input=R/records out=R/images

Writes one row per picture, whether or not it could be fetched; records of the same picture share a row. With `width`,
pictures are resized to at most that width, upright, 8 bits, on white; without it their bytes are kept.
`verify_only=true` (source=urls) checks whether the pictures still exist and stores no bytes. `source=wit_base` reads
the records' pictures, 300 pixels wide, from that data set's Parquet files; it sends no requests.
"""

import sys
from collections.abc import Callable

from jobs.errors import InputError, check_least
from jobs.runtime import lifecycle
from jobs.runtime.command_line import cli
from jobs.runtime.job_tables import plan_table
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.selection import exclusions
from jobs.sources import picture_sources
from jobs.sources.source_config import FetchConfig, SourcePlan
from jobs.store.files import read_ahead
from jobs.store.identity import identity_of

SOURCES: dict[str, Callable[[FetchConfig], SourcePlan]] = {
    "urls": picture_sources.url_plan,
    "folder": picture_sources.folder_plan,
    "webdataset": picture_sources.shard_plan,
    "parquet": picture_sources.shard_plan,
    "wit_base": picture_sources.wit_base_plan,
}

OF_SOME_SOURCES = ("path", "form", "credits", "bytes_column", "key_column")  # keys that not every source has


def execute(cfg: FetchConfig) -> Plan | Manifest:
    """Run the job and return the manifest, or the plan with plan=true; see the module's docstring."""
    check(cfg)
    source = SOURCES[cfg.source.name](cfg)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    plan = plan_table(
        cfg,
        "images",
        source.units,
        {
            "source": identity_of(cfg.source, source.identity, instead_of=OF_SOME_SOURCES),
            "input": source.records.identity if source.records else None,
        },
        instead_of=["unit_rows", "verify_only"],  # of the source
        excluded=excluded,
        derived=source.records is not None,
    )
    size = read_ahead.BLOCK if cfg.source.name == "webdataset" else None
    run = lifecycle.begin(
        "fetch", cfg, plan, excluded, pools=["fetch"], note=source.note, streamed=source.streamed, get_bytes=size
    )
    if isinstance(run, Plan):
        return run
    source.fetch(run.table, run.excluded)
    return run.end()


def check(cfg: FetchConfig) -> None:
    """Check the keys that all sources share; `plan` of each source checks the others.

    Raises:
        InputError: a value is not allowed; the message names the key.
    """
    if cfg.verify_only and (cfg.source.name != "urls" or cfg.width is not None):
        raise InputError("requires source=urls and no width=", key="verify_only", value="true")
    for name, value in (("width", cfg.width), ("unit_rows", cfg.unit_rows), ("source.max_bytes", cfg.source.max_bytes)):
        check_least(name, 1 if value is None else value, 1)


JOB = cli.Job("fetch", FetchConfig, execute, check=check, pools=("fetch",))

if __name__ == "__main__":
    sys.exit(cli.main("fetch"))
