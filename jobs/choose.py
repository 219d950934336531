"""Let a person pick among the nearest pictures of each prompt -> a page and a CSV; then the picked ones -> `items`.

    python -m jobs.choose neighbors=R/neighbors prompts=R/prompts images=R/images out=R/choose
    python -m jobs.choose chosen=R/choose/choose.csv out=R/items

The first command writes OUT/choose.csv, a row per prompt and neighbour with an empty column `chosen`, and
OUT/index.html, the same with the pictures (blurred until the reader clicks). The second reads the CSV back: each row
with an entry in `chosen` becomes an item, with the prompt's values as attributes (CAIRE, section 4.2: one picture of
eight for each prompt).
"""

import base64
import csv
import io
import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from omegaconf import MISSING

from actors.ids import content_id
from jobs.corpora import delimited
from jobs.errors import InputError
from jobs.page.thumbnails import thumbnail
from jobs.runtime import cli, exclusions, summary
from jobs.runtime.config import plain
from jobs.runtime.console import say
from jobs.runtime.exclusions import Barred, Exclusions
from jobs.store import locations
from jobs.store.reading import TableSource, open_table
from jobs.store.single_unit import write_small
from jobs.tables import TABLES

COLUMNS = ("query_id", "prompt", "values", "rank", "item_id", "score", "url", "chosen")
MOST = 20_000  # rows that one person can review
SIDE = 200  # pixels of a picture on the page


@dataclass
class ChooseConfig:
    """Keys of `choose`."""

    out: str = MISSING  # a folder for the page and its CSV; with chosen=, the table items
    neighbors: str | None = None  # a table of neighbors (jobs.retrieve)
    prompts: str | None = None  # the table of texts that were searched for
    images: str | None = None  # a table of images; null: a page without pictures and addresses
    chosen: str | None = None  # the completed CSV; writes items
    encoding: str | None = None  # of the CSV; null: by its byte-order mark, else UTF-8
    exclusions: str | None = None  # pictures that must not be used (jobs.runtime.exclusions)


def execute(cfg: ChooseConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the manifest of `items`, None for the page."""
    excluded = exclusions.read_exclusions(cfg.exclusions)
    if cfg.chosen is not None:
        if cfg.neighbors or cfg.prompts or cfg.images:
            raise InputError(
                "chosen= reads the completed CSV; neighbors=, prompts= and images= write a new one; leave them out"
            )
        return _items(cfg, excluded)
    if cfg.neighbors is None or cfg.prompts is None:
        raise InputError("neighbors= and prompts= are required, unless chosen= is set")
    near, prompts = open_table(cfg.neighbors, "neighbors"), open_table(cfg.prompts, "texts")
    if near.rows > MOST:
        raise InputError(f"neighbors={cfg.neighbors}: {near.rows:,} rows; at most {MOST:,} can be reviewed by hand")
    out = locations.absolute(cfg.out)
    _refuse_filled(out)
    barred = exclusions.Barred(excluded.marks)
    rows = _rows(near, prompts, barred)
    pictures = _pictures(open_table(cfg.images, "images"), {row["item_id"] for row in rows}) if cfg.images else {}
    for row in rows:
        row["url"] = pictures.get(row["item_id"], {}).get("source_url") or ""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS)
    writer.writeheader()
    writer.writerows(rows)
    with locations.named_errors(out):
        locations.replace(locations.join(out, "choose.csv"), text.getvalue().encode())
        locations.replace(locations.join(out, "index.html"), _page(rows, pictures).encode())
    say(f"choose: {len(rows):,} rows for {len({row['query_id'] for row in rows}):,} prompts")
    say(f"  {locations.join(out, 'choose.csv')}: put an x into the column `chosen`, then run jobs.choose chosen=…")
    say(f"  {locations.join(out, 'index.html')}: the same with {len(pictures):,} pictures")
    summary.show_exclusions(excluded, barred.matched)
    return None


def _refuse_filled(out: str) -> None:
    """Raise InputError if a person has completed the CSV, or the page is not of this job."""
    filled, page = locations.join(out, "choose.csv"), locations.join(out, "index.html")
    if not locations.exists(filled):
        if locations.exists(page):
            raise InputError(f"{page}: this job did not write it; use another out=")
        return
    try:
        dialect = delimited.read_dialect(filled)
        untouched = dialect.header == COLUMNS and not any(
            row["chosen"].strip() for _, row in delimited.records(filled, dialect, COLUMNS)
        )
    except InputError:  # saved by another program, in a form that cannot be read
        untouched = False
    if not untouched:
        raise InputError(f"{filled}: has entries of a person, which would be lost; use another out=")


def _rows(near: TableSource, prompts: TableSource, barred: Barred) -> list[dict[str, Any]]:
    """Return the CSV's rows, prompts in the order of their table.

    Raises:
        InputError: a query is not among the prompts.
    """
    texts = {
        row["text_id"]: row for batch in prompts.batches(["text_id", "text", "source"]) for row in batch.to_pylist()
    }
    by_query: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for batch in near.batches(["query_id", "rank", "item_id", "score"]):
        for row in batch.to_pylist():
            if row["query_id"] not in texts:
                raise InputError(f"neighbors={near.uri}: its query {row['query_id']} is not in prompts={prompts.uri}")
            if not barred.hit(row["item_id"]):
                prompt = texts[row["query_id"]]
                by_query[row["query_id"]].append(
                    {**row, "prompt": prompt["text"], "values": prompt["source"] or "", "url": "", "chosen": ""}
                )
    return [row for query in texts for row in sorted(by_query.get(query, []), key=lambda row: row["rank"])]


def _pictures(images: TableSource, wanted: set[str]) -> dict[str, dict[str, Any]]:
    """Return image_id -> source_url and thumbnail as a data URL (None if there is no picture)."""
    ids = pa.array(sorted(wanted), pa.string())
    pictures = {}
    for batch in images.batches(["image_id", "bytes", "source_url"]):
        for row in batch.filter(pc.is_in(batch["image_id"], ids)).to_pylist():
            small = thumbnail(row["bytes"], side=SIDE)[0] if row["bytes"] is not None else None
            data = f"data:{small.mime};base64,{base64.b64encode(small.data).decode()}" if small else None
            pictures[row["image_id"]] = {"source_url": row["source_url"], "data": data}
    return pictures


def _page(rows: Sequence[Mapping[str, Any]], pictures: Mapping[str, Mapping[str, Any]]) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "page"), autoescape=True, undefined=StrictUndefined
    )
    prompts: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        prompts[row["prompt"]].append({**row, "data": pictures.get(row["item_id"], {}).get("data")})
    return environment.get_template("choose.html.j2").render(prompts=prompts)


def _items(cfg: ChooseConfig, excluded: Exclusions) -> dict[str, Any]:
    assert cfg.chosen is not None
    barred = exclusions.Barred(excluded.marks)
    (file,) = locations.find(cfg.chosen)[:1]
    dialect = delimited.read_dialect(file.uri, encoding=cfg.encoding)
    delimited.require_columns(file.uri, dialect.header, COLUMNS, hint="; name the choose.csv that this job wrote")
    by_prompt: dict[str, dict[str, dict[str, Any]]] = {}  # prompt -> item_id -> item: duplicate rows are one item
    for line, row in delimited.records(file.uri, dialect, COLUMNS):
        if empty := [name for name in ("query_id", "item_id") if not row[name]]:
            raise InputError(f"{file.uri}: line {line}: column {empty[0]} is empty")
        chosen = by_prompt.setdefault(row["query_id"], {})
        if not barred.hit(row["item_id"], row["url"]) and row["chosen"].strip():
            item = _item(row)
            chosen[item["item_id"]] = item
    items = [item for chosen in by_prompt.values() for item in chosen.values()]
    if not items:
        raise InputError(f"{cfg.chosen}: the column `chosen` is empty; put an x into it")
    table = pa.Table.from_pylist(items, schema=TABLES["items"].schema())
    identity = {"chosen": content_id(*(item["item_id"] for item in items)), **exclusions.identity(excluded)}
    manifest = write_small(cfg.out, table, table="items", identity=identity, config=plain(cfg), inputs=(file,))
    say(f"choose: {manifest['out']}\n  {len(items):,} items of {len(by_prompt):,} prompts")
    sizes = [len(chosen) for chosen in by_prompt.values()]
    multiple, none = sum(n > 1 for n in sizes), sizes.count(0)
    if multiple or none:
        say(f"  {multiple:,} prompts with more than one, {none:,} with none")
    summary.show_exclusions(excluded, barred.matched)
    return manifest


def _item(row: Mapping[str, str]) -> dict[str, Any]:
    try:
        values = {name: str(value) for name, value in json.loads(row["values"] or "{}").items()}
    except (ValueError, AttributeError):  # of texts that jobs.prompts did not write
        values = {"source": row["values"]}
    return {
        "item_id": content_id(row["item_id"], row["query_id"]),
        "kind": "image",
        "image_ids": [row["item_id"]],
        "text_ids": [],
        "response_id": None,
        "targets": None,
        "gold": None,
        "attributes": list({**values, "prompt": row["prompt"]}.items()),
    }


JOB = cli.Job("choose", ChooseConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("choose"))
