"""A CSV next to a page of pictures, for one person: neighbours of prompts to choose among, and examples of links.

`jobs.choose` writes the first, `jobs.steps.link_show` the second.
"""

import base64
import csv
import io
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from actors.ids import content_id
from actors.untrusted import parse_json
from jobs.corpora import cell_texts, delimited
from jobs.errors import InputError
from jobs.html.thumbnails import thumbnail
from jobs.retrieval.shown_links import Links, Neighbors, ShownLink, ShownNeighbor
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.files import locations
from jobs.store.object_rows import RowLookup
from jobs.store.reading import TableSource

PAGE = "index.html"
SHEET = "choose.csv"
COLUMNS = ("query_id", "prompt", "values", "rank", "item_id", "score", "url", "chosen")
RANKINGS = "rankings.csv"
RANKING_COLUMNS = ("picture", "kind", "name", "rank", "id", "lemma", "score")
THUMBNAIL_SIDE = 200  # pixels
TEMPLATES = Path(__file__).parent
Nodes = Mapping[str, Sequence[tuple[str, str]]]  # image_id -> its nodes, each with a lemma


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
                why = f"query {row['query_id']} is not in prompts={prompts.uri}"
                raise InputError(why, key="neighbors", value=neighbors.uri)
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


def choices_csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the rows as CSV in UTF-8; without its byte-order mark Excel would show accents wrongly."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS)
    writer.writeheader()
    writer.writerows({name: cell_texts.escape_cell(cell) for name, cell in row.items()} for row in rows)
    return text.getvalue().encode("utf-8-sig")


def choices_page(rows: Sequence[Mapping[str, Any]], pictures: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Return the rows as HTML, with the pictures that `read_pictures` returned.

    Each prompt has its own heading, with its id if another prompt has the same text.
    """
    by_query: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_query[row["query_id"]].append({**row, "data": pictures.get(row["item_id"], {}).get("data")})
    texts = {query: of_query[0]["prompt"] for query, of_query in by_query.items()}
    times = Counter(texts.values())
    prompts = [
        {"text": text, "id": query if times[text] > 1 else "", "rows": by_query[query]} for query, text in texts.items()
    ]
    return _rendered("choose.html.j2", prompts=prompts)


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


@dataclass(frozen=True)
class LinkExample:
    """A picture, its neighbours by search and its links by method; `nodes` are the neighbours' nodes."""

    picture: str
    neighbors: Mapping[str, Sequence[ShownNeighbor]]
    links: Mapping[str, Sequence[ShownLink]]
    nodes: Nodes

    def candidates(self, search: str) -> list[tuple[str, str, int]]:
        """Return the distinct nodes of the neighbours by id, with a lemma and the number of neighbours that have it.

        These are what the vision methods rank (CAIRE, table 5).
        """
        entries = [entry for hit in self.neighbors[search] for entry in self.nodes.get(hit.item_id, ())]
        return [(node, lemma, count) for (node, lemma), count in sorted(Counter(entries).items())]


def link_examples(pictures: Sequence[str], neighbors: Neighbors, links: Links, nodes: Nodes) -> list[LinkExample]:
    """Return an example for each picture, in this order."""
    return [
        LinkExample(
            picture,
            {name: hits for (image_id, name), hits in neighbors.items() if image_id == picture},
            {method: ranked for (image_id, method), ranked in sorted(links.items()) if image_id == picture},
            nodes,
        )
        for picture in pictures
    ]


def check_links_place(out: str) -> None:
    """Check that the page does not overwrite another program's.

    Raises:
        InputError: `out` contains an index.html without the CSV that this job writes next to it.
    """
    if locations.exists(locations.join(out, PAGE)) and not locations.exists(locations.join(out, RANKINGS)):
        raise InputError(f"this job did not write its {PAGE}", key="out", value=out, remedy="choose another folder")


def rankings_csv(shown: Sequence[LinkExample]) -> bytes:
    """Return one row per neighbour, candidate and ranked node, in UTF-8 with a byte-order mark.

    A candidate is a node of the neighbours; its score is their number.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(RANKING_COLUMNS)
    for example in shown:
        rows: list[tuple[Any, ...]] = []
        for name, hits in example.neighbors.items():
            lemmas = {hit.item_id: ", ".join(lemma for _, lemma in example.nodes.get(hit.item_id, ())) for hit in hits}
            rows += [("neighbor", name, hit.rank, hit.item_id, lemmas[hit.item_id], hit.score) for hit in hits]
            rows += [("candidate", name, "", node, lemma, count) for node, lemma, count in example.candidates(name)]
        for method, links in example.links.items():
            rows += [("link", method, link.rank, link.node_id, link.lemma, link.score) for link in links]
        for row in rows:
            writer.writerow([example.picture, *(cell_texts.escape_cell(cell) for cell in row)])
    return text.getvalue().encode("utf-8-sig")


def links_page(shown: Sequence[LinkExample], pictures: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Return the examples as HTML, with the pictures that `read_pictures` returned."""
    data = {name: picture["data"] for name, picture in pictures.items()}
    return _rendered("link_examples.html.j2", examples=shown, data=data)


def _rendered(template: str, **values: Any) -> bytes:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined)
    return environment.get_template(template).render(values).encode()
