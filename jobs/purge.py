"""Remove withdrawn pictures from everything that a run has written, and nothing else.

    remine purge input=R exclusions=withdrawn.txt plan=true
    remine purge input=R exclusions=withdrawn.txt
    remine verify input=R exclusions=withdrawn.txt

INPUT is one table or a folder of tables. The list has one image_id or URL per line. All rows about these pictures are
removed: records, images, vectors, neighbors, links, items that show one, their texts, responses, ratings, spans,
remarks and assignments; also tasks, sheets and copies of pictures, and pages, which `report` writes again. Only units
that have such rows are rewritten. The tables record how many rows were `purged`, but not which.

Tables of jobs with exclusions= keep the list. From then on their commands need the same list, and continue without
redoing other rows. A list may therefore grow between runs: purge with the longer list, then run the commands with it.
"""

import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from actors.quantities import quantity
from jobs.errors import RunError
from jobs.purging import matching, purged_files, rewriting, run_tables
from jobs.purging.needles import Needles
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.planning import summary
from jobs.runtime.process.console import say
from jobs.runtime.selection import exclusions
from jobs.store.files import locations
from jobs.store.files.spool import YOUNG_S
from jobs.store.identity import EXCLUSIONS
from jobs.store.reading import TableSource
from jobs.store.runs import place

# What to do about a file that mentions a picture and is kept.
REMEDY = (
    "names a picture and was not changed; if a job wrote it (release, export, concepts, tric rank, report), run that "
    "job again; otherwise remove it yourself"
)


@dataclass
class PurgeConfig:
    """Keys of `purge`."""

    input: str = MISSING  # a table, or a folder of tables; local or s3://bucket/prefix
    exclusions: str = MISSING  # file with one image_id or URL per line: the pictures to remove
    plan: bool = False  # print what would be removed, and stop


def execute(cfg: PurgeConfig) -> dict[str, Any]:
    """Run the job and return the rows removed by table, and the files changed; see the module's docstring.

    Raises:
        InputError: there is no table, or the list lacks pictures that a table excludes; nothing was changed.
        RunError: a file that a job of remine wrote cannot be read; everything else was purged.
    """
    excluded = exclusions.read_exclusions(cfg.exclusions)
    root = locations.absolute(cfg.input)
    if cfg.plan:
        return _plan(cfg, root, excluded)
    with run_tables.locked(root):
        if not locations.is_s3(root):
            place.remove_temporary(root, before=time.time() - YOUNG_S)  # nobody writes these tables now
        return _purge(cfg, root, excluded)


def _plan(cfg: PurgeConfig, root: str, excluded: exclusions.Exclusions) -> dict[str, Any]:
    """Print what would be removed and return the rows by table."""
    earlier = matching.read(root, exclusions.identity(excluded)[EXCLUSIONS])
    sources, others, needles = _gather(cfg, root, excluded, earlier)
    in_columns, mentions = run_tables.counts_by_table(sources, needles)
    rejects = {table.uri: rewriting.rejects_to_remove(table, needles) for table in sources}
    rows = dict(Counter(in_columns) + Counter(rejects))
    changed = purged_files.purge_files(others.to_purge(), others, needles, act=False)
    if rows or mentions or earlier:
        changed.removed += [uri for uri in purged_files.pages_with_pictures(others) if uri not in changed.removed]
    _show("would remove", rows, mentions, changed)
    for line in summary.exclusion_lines(excluded, needles.gone.matched | needles.matched):
        say(line)
    return {"rows": rows}


def _purge(cfg: PurgeConfig, root: str, excluded: exclusions.Exclusions) -> dict[str, Any]:
    """Remove the pictures and return the rows removed by table, and the files changed."""
    listed = exclusions.identity(excluded)[EXCLUSIONS]
    earlier = matching.read(root, listed)
    sources, others, needles = _gather(cfg, root, excluded, earlier)
    begun = matching.begin(root, listed, needles.gone, earlier)
    with matching.mentioned_if_interrupted(root):
        needles = Needles(begun.gone)
        pages = purged_files.pages_with_pictures(others)  # before pages that also mention a picture are removed
        changed = purged_files.purge_files(others.to_purge(), others, needles, act=True)
        changed.removed += (aside := others.set_aside())
        locations.remove(aside)
        kept = (listed, "\n".join(sorted(excluded.marks)).encode())
        result = rewriting.rewrite_tables(sources, needles, kept, purge=begun.purge)
        for uri in set(run_tables.uris_below(root)) - {source.uri for source in sources}:
            rewriting.purge_begun(uri, needles, kept)
        derived = purged_files.purge_files(others.derived(), others, needles, act=False)
        changed.left += derived.found
        changed.unchecked += derived.unchecked
        changed.unread += derived.unread
        if result.rows or result.mentions or earlier:
            pages = [uri for uri in pages if uri not in changed.removed]
            locations.remove(pages)
            changed.removed += pages
        _show("removed", result.rows, result.mentions, changed)
        if changed.unread:
            why = f"not read, although a job wrote them: {purged_files.first_names(changed.unread)}"
            raise RunError(why, key="input", remedy="remove them or write them again, and run the same command again")
        locations.remove([matching.uri_of(root)])
    for table, units in sorted(result.units.items()):
        say(f"  {table}: {quantity(units, 'unit')} rewritten")
    for table, units in sorted(result.again.items()):
        parts = f"{quantity(units, 'unit')} with parts of rewritten units"
        say(f"  {table}: {parts}, which the next run of its command writes again")
    for line in summary.exclusion_lines(excluded, begun.gone.matched | needles.matched):
        say(line)
    return {"rows": result.rows, "files": changed.found}


def _gather(
    cfg: PurgeConfig, root: str, excluded: exclusions.Exclusions, earlier: matching.Journal | None
) -> tuple[list[TableSource], purged_files.OtherFiles, Needles]:
    """Return the tables, the other files, and what must be removed."""
    sources = run_tables.open_tables_below(root, interrupted=earlier is not None)
    run_tables.check_list(sources, excluded)
    purge_files = (locations.absolute(cfg.exclusions), matching.uri_of(root))
    return (
        sources,
        purged_files.other_files(root, sources, without=purge_files),
        Needles(matching.gather(sources, excluded.marks)),
    )


def _show(verb: str, rows: Mapping[str, int], mentions: Mapping[str, int], changed: purged_files.ChangedFiles) -> None:
    say(f"purge: {verb} {quantity(sum(rows.values()), 'row')} of {quantity(len(rows), 'table')}")
    for table, n in sorted(rows.items()):
        say(f"  {table}: {quantity(n, 'row')}")
    for table, n in sorted(mentions.items()):
        say(f"  {table}: {verb} the picture's id or URL from texts or attributes of {n:,} other rows")
    for title, names in (("removed", changed.removed), ("without their rows", changed.rewritten)):
        if names:
            say(f"  files {title}: {purged_files.first_names(names)}")
    for uri in changed.left[: purged_files.SHOWN]:
        say(f"  {uri}: {REMEDY}")
    if len(changed.left) > purged_files.SHOWN:
        say(f"  {len(changed.left) - purged_files.SHOWN:,} more files name a picture")
    if changed.unchecked:
        say(f"  files {purged_files.not_checked(changed.unchecked)}")


JOB = cli.Job("purge", PurgeConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("purge"))
