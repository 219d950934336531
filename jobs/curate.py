"""Choose among matched records: what needs the whole set -> table `records`.

    python -m jobs.curate input=R/matches out=R/records

In the paper's order (Century, appendix E.1): main images only; pages, by page URL, with more than one
distinct image URL dropped; https only; one row an image URL, the smallest (page_title, page_url) kept.
Decisions rest on a few narrow columns of the main-image rows; the rows themselves are then copied a unit at a
time, in their parent's order.
"""

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from omegaconf import MISSING

from actors.ids import content_id
from jobs import cli, exclusions, screen
from jobs.config import Common, plain
from jobs.errors import InputError
from jobs.store.reading import TableSource, open_table, read_unit
from jobs.store.run import Plan, open_run
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter

RULES = ("is_main_image", "one_image_a_page", "https", "one_row_an_image")
NARROW = ["record_id", "page_url", "image_url", "page_title", "is_main_image"]


@dataclass
class CurateConfig(Common):
    """Keys of `curate`."""

    input: str = MISSING
    unit_rows: int = 256  # rows of a unit: what is fetched, embedded or judged as one piece after a crash


class Row(NamedTuple):
    """What the rules look at."""

    record_id: str
    page_url: str
    image_url: str
    page_title: str


@dataclass(frozen=True)
class Decision:
    """`dropped` names the rule for each record_id that goes; `steps` the rows left after each rule."""

    dropped: dict[str, str]
    steps: dict[str, int]


def decide(rows: Iterable[Row], not_main: Iterable[str], excluded: Collection[str] = ()) -> Decision:
    """Apply the rules that follow `is_main_image` to its survivors `rows`; `not_main` are the others' ids.

    Last, pictures on the list of exclusions (`excluded`, image_ids) are dropped. Does not depend on the order of
    the rows.
    """
    dropped = dict.fromkeys(not_main, "is_main_image")
    left = list(rows)
    steps = {"matched": len(left) + len(dropped), "is_main_image": len(left)}

    images: dict[str, set[str]] = {}
    for row in left:
        images.setdefault(row.page_url, set()).add(row.image_url)
    left = _keep(left, lambda row: len(images[row.page_url]) == 1, "one_image_a_page", dropped, steps)
    left = _keep(left, lambda row: row.image_url.startswith("https://"), "https", dropped, steps)

    best: dict[str, Row] = {}
    for row in left:
        here = best.get(row.image_url)
        if here is None or _rank(row) < _rank(here):
            best[row.image_url] = row
    left = _keep(left, lambda row: best[row.image_url] is row, "one_row_an_image", dropped, steps)
    if excluded:
        _keep(left, lambda row: content_id(row.image_url) not in excluded, "excluded", dropped, steps)
    return Decision(dropped, steps)


def _rank(row: Row) -> tuple[str, str, str]:
    return row.page_title, row.page_url, row.record_id  # record_id settles equal rows


def _keep(rows: list[Row], test: Any, rule: str, dropped: dict[str, str], steps: dict[str, int]) -> list[Row]:
    kept = [row for row in rows if test(row)]
    dropped.update({row.record_id: rule for row in rows if not test(row)})
    steps[rule] = len(kept)
    return kept


def execute(cfg: CurateConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the manifest, None with plan=true."""
    if cfg.unit_rows < 1:
        raise InputError(f"unit_rows={cfg.unit_rows}: at least 1")
    source = open_table(cfg.input, "records")
    rows, not_main = main_images(source)
    ids = [*(row.record_id for row in rows), *not_main]
    if twice := len(ids) - len(set(ids)):
        raise InputError(f"{source.uri}: {twice:,} record_ids occur twice, so that a rule could not tell them apart")
    excluded = exclusions.read_exclusions(cfg.exclusions)
    decision = decide(rows, not_main, excluded)
    plan = Plan(
        out=cfg.out,
        table="records",
        identity={
            "input": source.identity,
            "rules": list(RULES),
            "unit_rows": cfg.unit_rows,
            **exclusions.identity(excluded),
        },
        units=list(pieces(source, decision, cfg.unit_rows)),
        config=plain(cfg),
        metadata={},
        derived=True,
    )
    if cfg.plan:
        screen.show_plan("curate", plan, cfg.resources, [])
        return None
    run = open_run(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
    for task in run.todo:
        first, last = task.unit.extra["from"], task.unit.extra["to"]
        rows = read_unit(task.unit.inputs[0].uri).slice(first, last - first)
        rules = [decision.dropped.get(record, "") for record in rows["record_id"].to_pylist()]
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = rows.num_rows
            writer.counts.filtered = Counter(rule for rule in rules if rule)
            writer.write(rows.filter(pa.array([not rule for rule in rules], pa.bool_())))
    manifest = run.finish()
    screen.show_steps(decision.steps)
    screen.show_result("curate", manifest, run)
    return manifest


def main_images(source: TableSource) -> tuple[list[Row], list[str]]:
    """The rows that are a page's main image, and the record_ids of the others."""
    rows: list[Row] = []
    others: list[str] = []
    for batch in source.batches(NARROW):
        main = pc.fill_null(pc.equal(pc.utf8_lower(batch["is_main_image"]), "true"), False)
        others += batch.filter(pc.invert(main))["record_id"].to_pylist()
        for row in batch.filter(main).to_pylist():
            rows.append(Row(row["record_id"], row["page_url"] or "", row["image_url"] or "", row["page_title"] or ""))
    return rows, others


def pieces(source: TableSource, decision: Decision, unit_rows: int) -> Iterator[Unit]:
    """Each parent unit cut, in its order, where `unit_rows` of its rows survive; at least one piece each."""
    for parent in source.units():
        ids = read_unit(parent.inputs[0].uri, columns=["record_id"])["record_id"].to_pylist()
        first = kept = 0
        cuts: list[tuple[int, int]] = []
        for place, record in enumerate(ids):
            kept += record not in decision.dropped
            if kept == unit_rows:
                cuts.append((first, place + 1))
                first, kept = place + 1, 0
        if first < len(ids) or not cuts:
            cuts.append((first, len(ids)))
        for begin, end in cuts:
            piece = f"rows {begin}-{end}"
            name = content_id(parent.name, piece)
            yield replace(parent, name=name, piece=piece, rows=end - begin, extra={"from": begin, "to": end})


JOB = cli.Job("curate", CurateConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("curate"))
