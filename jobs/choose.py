"""Let a person choose among the nearest pictures of each prompt -> a page and a CSV; then the choices -> `items`.

    remine choose neighbors=R/neighbors prompts=R/prompts images=R/images out=R/choose
    remine choose chosen=R/choose/choose.csv out=R/items

The first command writes OUT/choose.csv, one row per prompt and neighbour with an empty column `chosen`, and
OUT/index.html, which shows the same rows with the pictures (blurred until the reader clicks). The second reads the
completed CSV: each row with an entry in `chosen` becomes an item, with the prompt's values as attributes (CAIRE,
section 4.2: one picture of eight for each prompt).
"""

import sys
from dataclasses import dataclass
from typing import Any

from actors.ids import content_id
from actors.quantities import quantity
from jobs.corpora import cell_texts, delimited
from jobs.errors import InputError
from jobs.html.formats import without_folders
from jobs.page import picture_sheets
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.job_tables import write_rows
from jobs.runtime.outcomes import Manifest
from jobs.runtime.planning import summary
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import Exclusions
from jobs.store.files import locations
from jobs.store.reading import open_table

MAX_ROWS = 20_000  # most rows that one person can review


@dataclass
class ChooseConfig:
    """Keys of `choose`."""

    out: str = MISSING  # a folder for the page and its CSV; with chosen=, the table items
    neighbors: str | None = None  # a table of neighbors (remine retrieve)
    prompts: str | None = None  # the table of texts that were searched for
    images: str | None = None  # a table of images; null: a page without pictures, a CSV without URLs
    chosen: str | None = None  # the completed CSV, from which items are written
    encoding: str | None = None  # encoding of the CSV; null: from its byte-order mark, else UTF-8
    exclusions: str | None = None  # pictures that must not be used (jobs.runtime.selection.exclusions)


def execute(cfg: ChooseConfig) -> Manifest:
    """Run the job and return the manifest of `items`, an empty one for the page; see the module's docstring."""
    excluded = exclusions.read_exclusions(cfg.exclusions)
    if cfg.chosen is None:
        return write_sheet(cfg, excluded)
    if cfg.neighbors or cfg.prompts or cfg.images:
        raise InputError("chosen= reads the completed CSV; neighbors=, prompts= and images= write a new one; omit them")
    return write_items(cfg, cfg.chosen, excluded)


def write_sheet(cfg: ChooseConfig, excluded: Exclusions) -> Manifest:
    """Write the CSV and the page.

    Raises:
        InputError: a key is missing, there are too many rows, or `out` has a CSV that a person has edited.
    """
    if cfg.neighbors is None or cfg.prompts is None:
        raise InputError("neighbors= and prompts= are required, unless chosen= is set")
    neighbors, prompts = (
        open_table(cfg.neighbors, "neighbors", key="neighbors"),
        open_table(cfg.prompts, "texts", key="prompts"),
    )
    if neighbors.rows > MAX_ROWS:
        raise InputError(f"{neighbors.rows:,} rows; at most {MAX_ROWS:,} can be reviewed by hand", key="neighbors")
    out = locations.absolute(cfg.out)
    picture_sheets.check_not_completed(out)
    exclusion_filter = exclusions.ExclusionFilter(excluded.marks)
    rows = picture_sheets.sheet_rows(neighbors, prompts, exclusion_filter)
    ids = {row["item_id"] for row in rows}
    pictures = picture_sheets.read_pictures(open_table(cfg.images, "images", key="images"), ids) if cfg.images else {}
    for row in rows:
        row["url"] = without_folders(pictures.get(row["item_id"], {}).get("source_url") or "")
    sheet, page = locations.join(out, picture_sheets.SHEET), locations.join(out, picture_sheets.PAGE)
    with locations.named_errors(out):
        locations.replace(sheet, picture_sheets.choices_csv(rows))
        locations.replace(page, picture_sheets.choices_page(rows, pictures))
    queries = {row["query_id"] for row in rows}
    lines = [
        f"choose: {quantity(len(rows), 'row')} for {quantity(len(queries), 'prompt')}",
        f"  {sheet}: put an x into the column `chosen`, then run remine choose chosen=…",
        f"  {page}: the same rows with {quantity(len(pictures), 'picture')}",
    ]
    return Manifest({}, [*lines, *summary.exclusion_lines(excluded, exclusion_filter.matched)])


def write_items(cfg: ChooseConfig, chosen: str, excluded: Exclusions) -> Manifest:
    """Write an item for each distinct row of the CSV `chosen` that has an entry; return the manifest.

    Raises:
        InputError: the CSV cannot be read, lacks an id, or has no entry.
    """
    exclusion_filter = exclusions.ExclusionFilter(excluded.marks)
    (file,) = locations.find(chosen)[:1]
    dialect = delimited.read_dialect(file.uri, encoding=cfg.encoding)
    hint = "; name the choose.csv that this job wrote"
    delimited.require_columns(file.uri, dialect.header, picture_sheets.COLUMNS, hint=hint)
    by_prompt: dict[str, dict[str, dict[str, Any]]] = {}  # prompt -> item_id -> item: duplicate rows are one item
    for line, cells in delimited.records(file.uri, dialect, picture_sheets.COLUMNS):
        row = {name: cell_texts.unescape_cell(cell) for name, cell in cells.items()}
        if empty := [name for name in ("query_id", "item_id") if not row[name]]:
            raise InputError(f"line {line}: column {empty[0]} is empty{hint}", place=file.uri)
        items = by_prompt.setdefault(row["query_id"], {})
        if not exclusion_filter.hit(row["item_id"], row["url"]) and row["chosen"].strip():
            item = picture_sheets.item_of(row)
            items[item["item_id"]] = item
    rows = [item for items in by_prompt.values() for item in items.values()]
    if not rows:
        raise InputError("the column `chosen` is empty", key="chosen", value=chosen, remedy="put an x into it")
    identity = {"chosen": content_id(*(item["item_id"] for item in rows))}
    manifest = write_rows(cfg, "items", rows, identity, excluded=excluded, inputs=(file,))
    lines = [f"choose: {manifest['out']}\n  {quantity(len(rows), 'item')} of {quantity(len(by_prompt), 'prompt')}"]
    sizes = [len(items) for items in by_prompt.values()]
    multiple, none = sum(n > 1 for n in sizes), sizes.count(0)
    if multiple or none:
        lines.append(f"  {quantity(multiple, 'prompt')} with more than one, {none:,} with none")
    return Manifest(manifest, [*lines, *summary.exclusion_lines(excluded, exclusion_filter.matched)])


JOB = cli.Job("choose", ChooseConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("choose"))
