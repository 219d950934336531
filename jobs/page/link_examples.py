"""The page and the CSV of `show_links`: neighbours and rankings of a few pictures."""

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.corpora import spreadsheet_cells
from jobs.errors import InputError
from jobs.retrieval.shown_links import Links, Neighbors, ShownLink, ShownNeighbor
from jobs.store.files import locations

SHEET, PAGE = "rankings.csv", "index.html"
COLUMNS = ("picture", "kind", "name", "rank", "id", "lemma", "score")
TEMPLATES = Path(__file__).parent
Nodes = Mapping[str, Sequence[tuple[str, str]]]  # image_id -> its nodes, each with a lemma


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


def examples(pictures: Sequence[str], neighbors: Neighbors, links: Links, nodes: Nodes) -> list[LinkExample]:
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


def check_place(out: str) -> None:
    """Check that the page does not overwrite another program's.

    Raises:
        InputError: `out` contains an index.html without the CSV that this job writes next to it.
    """
    if locations.exists(locations.join(out, PAGE)) and not locations.exists(locations.join(out, SHEET)):
        raise InputError(f"out={out}: this job did not write its {PAGE}; choose another folder")


def as_csv(shown: Sequence[LinkExample]) -> bytes:
    """Return one row per neighbour, candidate and ranked node, in UTF-8 with a byte-order mark.

    A candidate is a node of the neighbours; its score is their number.
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for example in shown:
        rows: list[tuple[Any, ...]] = []
        for name, hits in example.neighbors.items():
            lemmas = {hit.item_id: ", ".join(lemma for _, lemma in example.nodes.get(hit.item_id, ())) for hit in hits}
            rows += [("neighbor", name, hit.rank, hit.item_id, lemmas[hit.item_id], hit.score) for hit in hits]
            rows += [("candidate", name, "", node, lemma, count) for node, lemma, count in example.candidates(name)]
        for method, links in example.links.items():
            rows += [("link", method, link.rank, link.node_id, link.lemma, link.score) for link in links]
        for row in rows:
            writer.writerow([example.picture, *(spreadsheet_cells.escaped(cell) for cell in row)])
    return text.getvalue().encode("utf-8-sig")


def as_page(shown: Sequence[LinkExample], pictures: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Return the page as HTML, with the pictures that `choice_sheet.read_pictures` returned."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined)
    data = {name: picture["data"] for name, picture in pictures.items()}
    return environment.get_template("link_examples.html.j2").render(examples=shown, data=data).encode()
