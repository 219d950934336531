"""Concepts that a language model proposes for sets of labels, matched to articles of a knowledge base.

A person completes their CSV with pictures.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from actors.ids import content_id
from actors.untrusted import parse_json, text_lines
from jobs.corpora import delimited
from jobs.corpora.cell_texts import TEXT_MARK, escape_cell
from jobs.errors import InputError
from jobs.retrieval.lemma_index import NamedNode, words_of
from jobs.store.files import locations

COLUMNS = ("concept", "proxy", "labels", "gold", "gold_node", "title", "proposals", "picture")
SEPARATOR = "; "  # between the labels in a cell
PROXY, LABELS = "proxy", "labels"  # roles of texts
NOT_JSON, NO_LABEL, NO_ARTICLE = "not a JSON object with concept and labels", "no label of the set", "no article"
_FENCE = re.compile(r"^\s*```\w*\s*$")


class Proposal(NamedTuple):
    """A concept with its labels, as in a response."""

    concept: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class MatchedConcept:
    """A concept with an article.

    Attributes:
        name: the name as first proposed.
        gold: its labels, in the order of the set.
        node: the entity.
        title: title of the entity's article.
        proposals: how often the responses propose it.
    """

    name: str
    gold: tuple[str, ...]
    node: str
    title: str
    proposals: int = 1


def proxy_item(name: str, labels: Sequence[str]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the rows of `items` and `texts` for a set of labels, named after its list."""
    words = name.replace("_", " ")
    texts = [
        {"text_id": content_id(role, name, text), "role": role, "language": "en", "source": name, "text": text}
        for role, text in ((PROXY, words), (LABELS, ", ".join(labels)))
    ]
    item = {"item_id": content_id("proxy", name, *labels), "kind": "description", "targets": list(labels)}
    return {**item, "text_ids": [text["text_id"] for text in texts], "attributes": [(PROXY, words)]}, texts


def proposals(text: str) -> Iterator[Proposal | None]:
    """Yield the concepts in a response, JSON objects one per line or in a list; None for any other line."""
    kept = [line for line in text_lines(text) if line.strip() and not _FENCE.match(line)]
    try:
        whole = parse_json("\n".join(kept))
    except ValueError:
        for line in kept:
            try:
                yield _proposal(parse_json(line.strip().rstrip(",")))
            except ValueError:
                yield None
        return
    yield from map(_proposal, whole if isinstance(whole, list) else [whole])


def concepts_of(
    responses: Iterable[str], labels: Sequence[str], nodes: Mapping[str, Sequence[NamedNode]], titles: Mapping[str, str]
) -> tuple[list[MatchedConcept], Counter[str]]:
    """Return the concepts that have a label of the set and an article, each once, and counts of all others.

    Args:
        responses: texts about one set.
        labels: the labels of the set.
        nodes: the entities with each name, by the name's words joined by spaces.
        titles: the title of each entity's article; entities without an article are absent.
    """
    names = {" ".join(words_of(label)): label for label in labels}
    best: dict[str, MatchedConcept] = {}
    left_out: Counter[str] = Counter()
    for text in responses:
        for proposal in proposals(text):
            if proposal is None:
                left_out[NOT_JSON] += 1
                continue
            proposed = {names.get(" ".join(words_of(label))) for label in proposal.labels}
            gold = tuple(label for label in labels if label in proposed)
            entities = nodes.get(" ".join(words_of(proposal.concept)), ())
            entity = next((entry.node_id for entry in entities if entry.node_id in titles), None)
            if not gold or entity is None:
                left_out[NO_ARTICLE if gold else NO_LABEL] += 1
                continue
            first = best.get(entity)
            if first is None:
                best[entity] = MatchedConcept(proposal.concept, gold, entity, titles[entity])
            else:
                best[entity] = MatchedConcept(first.name, first.gold, entity, first.title, first.proposals + 1)
    return list(best.values()), left_out


def sheet_row(concept: MatchedConcept, proxy: str, labels: Sequence[str]) -> dict[str, str]:
    """Return the row of the CSV (`COLUMNS`) for a concept; `picture` is empty."""
    return {
        "concept": concept.name,
        "proxy": proxy,
        "labels": SEPARATOR.join(labels),
        "gold": SEPARATOR.join(concept.gold),
        "gold_node": concept.node,
        "title": concept.title,
        "proposals": str(concept.proposals),
        "picture": "",
    }


def _proposal(value: Any) -> Proposal | None:
    if not isinstance(value, dict):
        return None
    concept, labels = value.get("concept"), value.get("labels")
    if not isinstance(concept, str) or not concept.strip() or not isinstance(labels, list):
        return None
    return Proposal(concept.strip(), tuple(str(label) for label in labels))


def check_not_completed(sheet: str) -> None:
    """Check that writing the CSV does not lose a person's entries.

    Raises:
        InputError: it contains pictures, or has another form.
    """
    if not locations.exists(sheet):
        return
    try:
        dialect = delimited.read_dialect(sheet)
        unchanged = dialect.header == COLUMNS and not any(
            row["picture"].strip() for _, row in delimited.records(sheet, dialect, COLUMNS)
        )
    except InputError:  # another program has saved it in an unreadable form
        unchanged = False
    if not unchanged:
        raise InputError("has been edited, and a new sheet would overwrite it; use another out=", place=sheet)


def as_csv(rows: Sequence[Mapping[str, str]]) -> bytes:
    """Return the rows as CSV in UTF-8 with a byte-order mark, without which Excel garbles accents."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS)
    writer.writeheader()
    # A name that begins with the mark is not a formula, and remine items reads cells literally.
    writer.writerows(
        {key: cell if cell.startswith(TEXT_MARK) else escape_cell(cell) for key, cell in row.items()} for row in rows
    )
    return text.getvalue().encode("utf-8-sig")
