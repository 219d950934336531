"""Make the best captions of each TRIC picture the targets of an item, to be judged -> table `items`.

    remine tric items split=tric/dev-0 neighbors=R/tric/neighbors captions=R/captions dates=day out=R/items/day
    remine judge input=R/items/day images=R/images rubric=caption_match model=qwen2.5-vl-7b out=R/ratings/day
    remine tric rerank split=tric/dev-0 neighbors=R/tric/neighbors captions=R/captions \\
        'ratings=[R/ratings/*]' out=R/reranked

Each ranked picture is an item with its `k` best captions as targets. The attribute `date` gives the date of its
newspaper as the prompt words it (`dates`: none, year, decade or day), which is also the condition of the items.
"""

from dataclasses import dataclass
from typing import Any

from actors.ids import content_id
from actors.quantities import quantity
from jobs.analysis.tric_metrics import best_captions, without_excluded
from jobs.corpora.tric import ANSWERS, DATES, Split, read_split, worded_date
from jobs.errors import InputError, check_choice, check_least
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.job_tables import write_rows
from jobs.runtime.outcomes import Manifest
from jobs.runtime.planning import summary
from jobs.runtime.selection import exclusions
from jobs.store.reading import open_table


@dataclass
class TricItemsConfig:
    """Keys of `tric items`."""

    split: str = MISSING  # the folder with in.tsv and captions.tsv
    neighbors: str = MISSING  # the ranking (remine tric rank)
    captions: str = MISSING  # texts (remine tric captions)
    out: str = MISSING  # the table of items to write
    k: int = 50  # captions per picture, from the best
    dates: str = "day"  # how the prompt words the newspaper's date: none, year, decade or day
    exclusions: str | None = None  # pictures that must not be used (jobs.runtime.selection.exclusions)
    unit_rows: int = 64  # rarely: items per unit, the granularity of distributing and resuming in the jobs that follow


def execute(cfg: TricItemsConfig) -> Manifest:
    """Run the job and return the manifest; see the module's docstring."""
    check_choice("dates", cfg.dates, DATES)
    if not 1 <= cfg.k <= ANSWERS:
        raise InputError(f"must be 1 to {ANSWERS}, the captions that remine tric rank keeps", key="k", value=cfg.k)
    check_least("unit_rows", cfg.unit_rows, 1)
    split = read_split(cfg.split)
    neighbors, captions = (
        open_table(cfg.neighbors, "neighbors", key="neighbors"),
        open_table(cfg.captions, "texts", key="captions"),
    )
    excluded = exclusions.read_exclusions(cfg.exclusions)
    exclusion_filter = exclusions.ExclusionFilter(excluded.marks)
    ranked = without_excluded(split, best_captions(split, neighbors, captions), exclusion_filter)
    rows = items(split, ranked, k=cfg.k, dates=cfg.dates)
    manifest = write_rows(
        cfg,
        "items",
        rows,
        {"neighbors": neighbors.identity, "k": cfg.k, "dates": cfg.dates},
        excluded=excluded,
        inputs=(neighbors.whole(),),
        unit_rows=cfg.unit_rows,
        metadata={"condition": cfg.dates},  # jobs.judging.model_config
    )
    targets = sum(len(row["targets"]) for row in rows)
    amounts = f"{quantity(len(rows), 'picture')}, {quantity(targets, 'caption')} to judge"
    line = f"tric items: {manifest['out']}\n  {amounts}, dates: {cfg.dates}"
    return Manifest(manifest, [line, *summary.exclusion_lines(excluded, exclusion_filter.matched)])


def items(split: Split, ranked: dict[int, list[str]], *, k: int, dates: str) -> list[dict[str, Any]]:
    """Return the rows of table `items`, in the order of in.tsv.

    Args:
        ranked: position of a picture in the split -> the indices of its captions, best first.
        k: captions per item; captions with the same text are one target.
        dates: how the attribute `date` words the date; `none`: no attribute.
    """
    rows = []
    for position, indices in sorted(ranked.items()):
        image = content_id(split.pictures[position])
        day = split.dates[position]
        targets = list(dict.fromkeys(split.captions[index] for index in indices[:k]))
        right = split.captions[split.expected[position]] if split.expected else None
        attributes = {"decade": f"{day.year // 10 * 10}s", "date": worded_date(day, dates)}
        rows.append({
            "item_id": image,
            "kind": "image",
            "image_ids": [image],
            "targets": targets,
            "gold": [right] if right in targets else None,
            "attributes": [(name, value) for name, value in attributes.items() if value],
        })  # fmt: skip
    return rows


JOB = cli.Job("tric items", TricItemsConfig, execute)
