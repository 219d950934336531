"""Concepts of one set of labels: which entity, which labels, and what is left out."""

import json
from collections import Counter
from pathlib import Path

import pytest

from jobs.errors import InputError
from jobs.items_from.concepts import (
    COLUMNS,
    NO_ARTICLE,
    NO_LABEL,
    NOT_JSON,
    Proposal,
    as_csv,
    check_not_completed,
    concepts_of,
    proposals,
    proxy_item,
    sheet_row,
)
from jobs.retrieval.lemma_index import NamedNode
from tests.cases import check_cases

LABELS = ["Zebra", "Ant", "wild boar"]
NODES = {"safari": [NamedNode(0, "n1", "Safari"), NamedNode(1, "n2", "Safari")], "hunt": [NamedNode(0, "n3", "hunt")]}
TITLES = {"n2": "Safari park", "n4": "Other"}


def response(*concepts: tuple[str, list[str]]) -> str:
    return "\n".join(json.dumps({"concept": name, "labels": labels}) for name, labels in concepts)


def test_a_concept_has_the_labels_of_the_set_in_its_order() -> None:
    """The first entity with an article counts, under the name and labels of the first response."""
    responses = [
        response(("safari", ["ant", "ZEBRA", "lion"]), ("Safari!", ["wild  boar"])),
        response(("SAFARI", ["Wild boar"]), ("hunt", ["Ant"]), ("safari", ["lion"]), ("absent", ["Ant"])) + "\nNo.",
    ]
    (concept,), left_out = concepts_of(responses, LABELS, NODES, TITLES)
    assert (concept.name, concept.gold, concept.node, concept.title) == (
        "safari", ("Zebra", "Ant"), "n2", "Safari park"
    )  # fmt: skip
    assert concept.proposals == 3
    assert left_out == Counter({NO_ARTICLE: 2, NO_LABEL: 1, NOT_JSON: 1})
    row = sheet_row(concept, "animals", LABELS)
    assert (row["labels"], row["gold"], row["gold_node"], row["proposals"]) == (
        "Zebra; Ant; wild boar", "Zebra; Ant", "n2", "3"
    )  # fmt: skip


def test_a_response_is_read_as_a_list_or_line_by_line() -> None:
    one, other = '{"concept": " tea ", "labels": ["a", 2]}', '{"concept": "art", "labels": []}'
    tea, art = Proposal("tea", ("a", "2")), Proposal("art", ())
    cases = [
        (f"[{one}, {other}]", [tea, art]), (one, [tea]), (f"{one},\n{other},\n", [tea, art]),
        (f"```json\n{one}\n\n{other}\n```", [tea, art]), (f"Sure:\n{one}", [None, tea]), ("", []),
        ('{"concept": " ", "labels": []}', [None]), ('{"concept": 3, "labels": []}', [None]),
        ('{"concept": "tea", "labels": "a"}', [None]), ("[3]", [None]), ("3", [None]),
        ("[" * 100_000, [None]), ('{"concept": "tea \\ud83c", "labels": []}', [Proposal("tea \ufffd", ())]),
    ]  # fmt: skip

    def check(text: str, expected: list[Proposal | None]) -> None:
        assert list(proposals(text)) == expected

    check_cases(check, cases)


def test_a_set_of_labels_has_the_words_of_its_name() -> None:
    item, texts = proxy_item("wild_animals", ["Zebra", "Ant"])
    assert [(text["role"], text["text"], text["source"]) for text in texts] == [
        ("proxy", "wild animals", "wild_animals"), ("labels", "Zebra, Ant", "wild_animals")
    ]  # fmt: skip
    assert item["text_ids"] == [text["text_id"] for text in texts]
    assert (len(set(item["text_ids"])), {text["language"] for text in texts}) == (2, {"en"})
    assert (item["targets"], item["attributes"]) == (["Zebra", "Ant"], [("proxy", "wild animals")])
    others = [proxy_item("wild_animals", ["Ant", "Zebra"])[0], proxy_item("tame", ["Zebra", "Ant"])[0]]
    assert len({item["item_id"], *(other["item_id"] for other in others)}) == 3


ROW = {**dict.fromkeys(COLUMNS, "x"), "concept": "=dhol", "title": "'Ud", "labels": "Assam; Bihār", "picture": ""}


def test_only_a_sheet_as_it_was_written_is_replaced(tmp_path: Path) -> None:
    sheet = tmp_path / "concepts.csv"
    check_not_completed(str(sheet))
    written = as_csv([ROW, ROW])
    assert written.startswith(b"\xef\xbb\xbf" + ",".join(COLUMNS).encode())
    assert "Bihār".encode() in written
    assert b"'=dhol" in written
    assert b",'Ud," in written
    sheet.write_bytes(written)
    check_not_completed(str(sheet))
    completed = as_csv([ROW, {**ROW, "picture": "https://x/1.jpg"}])
    other_columns = written.replace(b"concept,", b"concept,note,", 1)
    for changed in (completed, other_columns, b"\xff\xfe\x00"):
        sheet.write_bytes(changed)
        with pytest.raises(InputError, match=r"concepts\.csv: has been edited, .* use another out="):
            check_not_completed(str(sheet))
