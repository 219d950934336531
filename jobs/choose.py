"""Let a person choose one of the nearest pictures of each prompt -> a page and a CSV; then the chosen ones -> `items`.

    python -m jobs.choose neighbors=R/neighbors prompts=R/prompts images=R/images out=R/choose
    python -m jobs.choose chosen=R/choose/choose.csv out=R/items

The first writes OUT/choose.csv, a row a prompt and neighbour with an empty column `chosen`, and OUT/index.html, the
same with the pictures (blurred until the reader asks). The second reads the CSV back: what has something in `chosen`
becomes an item, with the prompt's values as attributes (CAIRE, section 4.2: one picture of eight for each prompt).
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
MOST = 20_000  # rows: more is not for one person's eyes
SIDE = 200  # pixels of a picture on the page


@dataclass
class ChooseConfig:
    """Keys of `choose`."""

    out: str = MISSING  # a folder for the page and its CSV; with chosen=, the table items
    neighbors: str | None = None  # a table of neighbors (jobs.retrieve)
    prompts: str | None = None  # the texts that were searched for
    images: str | None = None  # for the pictures and their addresses; null: a page without pictures
    chosen: str | None = None  # the CSV, filled in: writes items
    encoding: str | None = None  # of the CSV; null: by its byte-order mark, else UTF-8
    exclusions: str | None = None  # pictures that must not be used (jobs.runtime.exclusions)


def execute(cfg: ChooseConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the manifest of `items`, None for the page."""
    excluded = exclusions.read_exclusions(cfg.exclusions)
    if cfg.chosen is not None:
        if cfg.neighbors or cfg.prompts or cfg.images:
            raise InputError(
                "choose: chosen= reads the filled table, neighbors=, prompts= and images= make it; not both"
            )
        return _items(cfg, excluded)
    if cfg.neighbors is None or cfg.prompts is None:
        raise InputError("choose: neighbors= and prompts= are required, or chosen=")
    near, prompts = open_table(cfg.neighbors, "neighbors"), open_table(cfg.prompts, "texts")
    if near.rows > MOST:
        raise InputError(f"{cfg.neighbors}: {near.rows:,} rows; at most {MOST:,} can be chosen from by hand")
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
    say(f"  {locations.join(out, 'choose.csv')}: put an x into `chosen`, then jobs.choose chosen=…")
    say(f"  {locations.join(out, 'index.html')}: the same with {len(pictures):,} pictures")
    summary.show_exclusions(excluded, barred.matched)
    return None


def _refuse_filled(out: str) -> None:
    """Refuse to write over a person's work, or over a page that is not of this job."""
    filled, page = locations.join(out, "choose.csv"), locations.join(out, "index.html")
    if not locations.exists(filled):
        if locations.exists(page):
            raise InputError(f"{page}: is there, and not of this job; nothing is written over it")
        return
    try:
        dialect = delimited.read_dialect(filled)
        untouched = dialect.header == COLUMNS and not any(
            row["chosen"].strip() for _, row in delimited.records(filled, dialect, COLUMNS)
        )
    except InputError:  # saved by another program, in a form that cannot be read
        untouched = False
    if not untouched:
        raise InputError(f"{filled}: somebody has filled it in; nothing is written over it, use another out=")


def _rows(near: TableSource, prompts: TableSource, barred: Barred) -> list[dict[str, Any]]:
    """The CSV's rows, prompts in their table's order.

    Raises:
        InputError: a query is none of the prompts.
    """
    told = {
        row["text_id"]: row for batch in prompts.batches(["text_id", "text", "source"]) for row in batch.to_pylist()
    }
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for batch in near.batches(["query_id", "rank", "item_id", "score"]):
        for row in batch.to_pylist():
            if row["query_id"] not in told:
                raise InputError(f"{near.uri}: its query {row['query_id']} is no text of {prompts.uri}")
            if not barred.hit(row["item_id"]):
                prompt = told[row["query_id"]]
                found[row["query_id"]].append(
                    {**row, "prompt": prompt["text"], "values": prompt["source"] or "", "url": "", "chosen": ""}
                )
    return [row for query in told for row in sorted(found.get(query, []), key=lambda row: row["rank"])]


def _pictures(images: TableSource, wanted: set[str]) -> dict[str, dict[str, Any]]:
    """image_id -> source_url and the picture as a data address, of those that are ok."""
    ids = pa.array(sorted(wanted), pa.string())
    found = {}
    for batch in images.batches(["image_id", "bytes", "source_url"]):
        for row in batch.filter(pc.is_in(batch["image_id"], ids)).to_pylist():
            small = thumbnail(row["bytes"], side=SIDE)[0] if row["bytes"] is not None else None
            data = f"data:{small.mime};base64,{base64.b64encode(small.data).decode()}" if small else None
            found[row["image_id"]] = {"source_url": row["source_url"], "data": data}
    return found


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
    made: dict[str, dict[str, dict[str, Any]]] = {}  # prompt -> item_id -> item: duplicate rows are one item
    for line, row in delimited.records(file.uri, dialect, COLUMNS):
        if empty := [name for name in ("query_id", "item_id") if not row[name]]:
            raise InputError(f"{file.uri}: line {line}: column {empty[0]} is empty")
        of = made.setdefault(row["query_id"], {})
        if not barred.hit(row["item_id"], row["url"]) and row["chosen"].strip():
            item = _item(row)
            of[item["item_id"]] = item
    items = [item for of in made.values() for item in of.values()]
    if not items:
        raise InputError(f"{cfg.chosen}: nothing is chosen; put an x into the column `chosen`")
    table = pa.Table.from_pylist(items, schema=TABLES["items"].schema())
    identity = {"chosen": content_id(*(item["item_id"] for item in items)), **exclusions.identity(excluded)}
    manifest = write_small(cfg.out, table, table="items", identity=identity, config=plain(cfg), inputs=(file,))
    say(f"choose: {manifest['out']}\n  {len(items):,} items of {len(made):,} prompts")
    several, none = (sum(test(len(of)) for of in made.values()) for test in (lambda n: n > 1, lambda n: n == 0))
    if several or none:
        say(f"  {several:,} prompts with more than one, {none:,} with none")
    summary.show_exclusions(excluded, barred.matched)
    return manifest


def _item(row: Mapping[str, str]) -> dict[str, Any]:
    try:
        values = {name: str(value) for name, value in json.loads(row["values"] or "{}").items()}
    except (ValueError, AttributeError):  # of texts that jobs.prompts did not make
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
