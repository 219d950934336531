"""The CSV and the page on which a person chooses among the neighbours of each prompt (`jobs.choose`)."""

import base64
import csv
import io
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from actors.ids import content_id
from actors.untrusted import parse_json
from jobs.corpora import delimited, spreadsheet_cells
from jobs.errors import InputError
from jobs.html.thumbnails import thumbnail
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.files import locations
from jobs.store.lookup import RowLookup
from jobs.store.reading import TableSource

COLUMNS = ("query_id", "prompt", "values", "rank", "item_id", "score", "url", "chosen")
SHEET, PAGE = "choose.csv", "index.html"
THUMBNAIL_SIDE = 200  # pixels
TEMPLATES = Path(__file__).parent


def check_not_completed(out: str) -> None:
    """Check that writing to the folder `out` overwrites no entries of a person.

    Raises:
        InputError: choose.csv has entries or another form, or index.html is another program's.
    """
    sheet, page = locations.join(out, SHEET), locations.join(out, PAGE)
    if not locations.exists(sheet):
        if locations.exists(page):
            raise InputError("this job did not write it; use another out=", place=page)
        return
    try:
        dialect = delimited.read_dialect(sheet)
        unchanged = dialect.header == COLUMNS and not any(
            row["chosen"].strip() for _, row in delimited.records(sheet, dialect, COLUMNS)
        )
    except InputError:  # saved by another program in a form that cannot be read
        unchanged = False
    if not unchanged:
        raise InputError("has been edited, and a new sheet would overwrite it; use another out=", place=sheet)


def sheet_rows(neighbors: TableSource, prompts: TableSource, exclusion_filter: ExclusionFilter) -> list[dict[str, Any]]:
    """Return the rows of the sheet without URLs: prompts in the order of their table, neighbours by rank.

    Raises:
        InputError: a query is not among the prompts.
    """
    texts = {
        row["text_id"]: row for batch in prompts.batches(["text_id", "text", "source"]) for row in batch.to_pylist()
    }
    by_query: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for batch in neighbors.batches(["query_id", "rank", "item_id", "score"]):
        for row in batch.to_pylist():
            if row["query_id"] not in texts:
                raise InputError(f"neighbors={neighbors.uri}: query {row['query_id']} is not in prompts={prompts.uri}")
            if not exclusion_filter.hit(row["item_id"]):
                prompt = texts[row["query_id"]]
                by_query[row["query_id"]].append(
                    {**row, "prompt": prompt["text"], "values": prompt["source"] or "", "url": "", "chosen": ""}
                )
    return [row for query in texts for row in sorted(by_query.get(query, []), key=lambda row: row["rank"])]


def read_pictures(images: TableSource, ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """Return source_url and thumbnail (a data URL, or None without a picture) of the pictures `ids`, by image_id.

    Row groups without any of them are skipped, and only one row group is in memory at a time.
    """
    objects = [footer.object for footer in images.footers]
    columns = ["bytes", "source_url"]
    lookup = RowLookup([o.uri for o in objects], key="image_id", columns=columns)
    pictures = {}
    for rows in lookup.matching(pa.array(sorted(ids), pa.string())):
        for row in rows.to_pylist():
            small = thumbnail(row["bytes"], side=THUMBNAIL_SIDE)[0] if row["bytes"] is not None else None
            data = f"data:{small.mime};base64,{base64.b64encode(small.data).decode()}" if small else None
            pictures[row["image_id"]] = {"source_url": row["source_url"], "data": data}
    return pictures


def as_csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the rows as CSV in UTF-8; without its byte-order mark Excel would show accents wrongly."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS)
    writer.writeheader()
    writer.writerows({name: spreadsheet_cells.escaped(cell) for name, cell in row.items()} for row in rows)
    return text.getvalue().encode("utf-8-sig")


def as_page(rows: Sequence[Mapping[str, Any]], pictures: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Return the rows as HTML, with the pictures that `read_pictures` returned.

    Each prompt has its own heading, with its id if another prompt has the same text.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined)
    by_query: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_query[row["query_id"]].append({**row, "data": pictures.get(row["item_id"], {}).get("data")})
    texts = {query: of_query[0]["prompt"] for query, of_query in by_query.items()}
    times = Counter(texts.values())
    prompts = [
        {"text": text, "id": query if times[text] > 1 else "", "rows": by_query[query]} for query, text in texts.items()
    ]
    return environment.get_template("choose.html.j2").render(prompts=prompts).encode()


def item_of(row: Mapping[str, str]) -> dict[str, Any]:
    """Return the row of table `items` for a chosen row of the sheet; the prompt's values become attributes."""
    try:
        values = {name: str(value) for name, value in parse_json(row["values"] or "{}").items()}
    except (ValueError, AttributeError):  # the texts are not from remine prompts
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
