"""`concepts`: a model's proposals for sets of labels, matched to articles."""

import csv
from pathlib import Path
from typing import Any

import pytest

from jobs import (
    concepts,
)
from jobs.errors import InputError
from jobs.items_from.concepts import proposals
from jobs.runtime.command_line import cli
from tests.cases import check_cases
from tests.factories import TableInMemory, rows_of, write_table

NODES = [
    {"node_id": "n1", "lemmas": [("en", ["Bihu dance"])], "titles": [("en", "Bihu dance")]},
    {"node_id": "n2", "lemmas": [("en", ["dhol"])], "article_text_ids": [("en", "t")]},
    {"node_id": "n3", "lemmas": [("en", ["thing without article"])]},
    {"node_id": "n0", "lemmas": [("en", ["Dhol"])]},  # the same name, no article
]
ANSWER = """```json
{"concept": "Bihu Dance", "labels": ["assam", "Atlantis"]}
{"concept": "dhol", "labels": ["Punjab", "Assam"]},
{"concept": "dhol", "labels": []}
{"concept": "thing without article", "labels": ["Assam"]}
Here you are.
```"""


def response(item: str, text: str, sample: int) -> dict[str, Any]:
    key = {"response_id": f"{item}{sample}", "item_id": item, "model": "m", "prompt": "rare_concepts"}
    return {**key, "condition": "", "sample": sample, "text": text, "status": "ok"}


@pytest.fixture
def proxies(tmp_path: Path) -> Path:
    (tmp_path / "my_states.txt").write_text("# mine\nAssam\nBihar\nPunjab\n")
    cli.execute("concepts", [f"lists=[{tmp_path}/my_states.txt,world_religions]", f"out={tmp_path}/proxies"])
    write_table(tmp_path / "kb" / "nodes", "nodes", NODES)
    return tmp_path


def sheet(proxies: Path, *answers: str) -> list[dict[str, str]]:
    (item, _) = rows_of(f"{proxies}/proxies/items")
    rows = [response(item["item_id"], text, sample) for sample, text in enumerate(answers)]
    write_table(proxies / "proposed", "responses", rows)
    tables = [f"responses={proxies}/proposed", f"input_items={proxies}/proxies/items", f"kb.path={proxies}/kb"]
    cli.execute("concepts", [*tables, f"out={proxies}/out"])
    with (proxies / "out" / "concepts.csv").open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def test_a_set_of_labels_is_an_item_with_two_texts(proxies: Path) -> None:
    items, texts = rows_of(f"{proxies}/proxies/items"), rows_of(f"{proxies}/proxies/texts")
    assert items[0]["targets"] == ["Assam", "Bihar", "Punjab"]
    assert [dict(item["attributes"]) for item in items] == [{"proxy": "my states"}, {"proxy": "world religions"}]
    by_id = {text["text_id"]: (text["role"], text["text"]) for text in texts}
    assert [by_id[text_id] for text_id in items[0]["text_ids"]] == [
        ("proxy", "my states"),
        ("labels", "Assam, Bihar, Punjab"),
    ]


def test_concepts_with_an_article_and_a_label(proxies: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = sheet(proxies, ANSWER, '[{"concept": "Dhol", "labels": ["Bihar"]}]')
    assert [(row["concept"], row["gold"], row["gold_node"], row["title"], row["proposals"]) for row in rows] == [
        ("Bihu Dance", "Assam", "n1", "Bihu dance", "1"),
        ("dhol", "Assam; Punjab", "n2", "dhol", "2"),
    ]
    assert {(row["proxy"], row["labels"], row["picture"]) for row in rows} == {
        ("my states", "Assam; Bihar; Punjab", "")
    }
    output = capsys.readouterr().out
    assert "1 no article, 1 no label of the set, 1 not a JSON object" in output


def test_the_sheet_becomes_items_with_gold(proxies: Path) -> None:
    rows = sheet(proxies, ANSWER)
    (proxies / "photos").mkdir()
    (proxies / "photos" / "bihu.jpg").write_bytes(b"x")
    rows[0]["picture"] = "bihu.jpg"
    file = proxies / "out" / "concepts.csv"
    with file.open("w", encoding="utf-8-sig", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    columns = ["columns.pictures=picture", "columns.targets=labels", "columns.gold=gold"]
    cli.execute(
        "items", [f"input={file}", *columns, "on_error=reject", f"pictures.path={proxies}/photos", f"out={proxies}/set"]
    )
    (item,) = rows_of(f"{proxies}/set/items")
    assert (item["targets"], item["gold"]) == (["Assam", "Bihar", "Punjab"], ["Assam"])
    assert dict(item["attributes"])["gold_node"] == "n1"
    with pytest.raises(InputError, match="has been edited"):
        sheet(proxies, ANSWER)


def test_proposals_of_several_forms() -> None:
    assert list(proposals('[{"concept": " a ", "labels": ["x"]}, 3]')) == [("a", ("x",)), None]
    assert list(proposals('{"concept": "a", "labels": ["x", 1]}\n\n{"concept": "", "labels": []}')) == [
        ("a", ("x", "1")),
        None,
    ]
    assert list(proposals('{"concept": "a"}')) == [None]
    assert list(proposals("")) == []


def test_wrong_values_are_refused(tmp_path: Path) -> None:
    cases = [
        ([], "lists=: required; or responses="),
        (["input_items=i", "kb.path=k"], "lists=: required; or responses="),
        (["responses=r", "kb.path=k"], "lists=: required; or responses="),
        (["responses=r", "input_items=i"], "lists=: required; or responses="),
        (["lists=[no_such]"], "targets=no_such: no such file"),
        (["lists=[world_religions,world_religions]"], "two lists have the same name"),
        (["lists=[world_religions]", "responses=x"], "leave out responses="),
        (["lists=[world_religions]", "input_items=x"], "leave out responses="),
    ]

    def check(keys: list[str], message: str) -> None:
        with pytest.raises(InputError, match=message):
            cli.execute("concepts", [*keys, f"out={tmp_path}/out"])
        assert not (tmp_path / "out").exists()

    check_cases(check, cases)


def test_items_of_other_tools_have_no_name_of_their_set(proxies: Path) -> None:
    write_table(proxies / "items", "items", [{"item_id": "i", "targets": ["Assam"]}, {"item_id": "j"}])
    write_table(proxies / "of_items", "responses", [response("i", ANSWER, 0), response("j", ANSWER, 0)])
    tables = [f"responses={proxies}/of_items", f"input_items={proxies}/items", f"kb.path={proxies}/kb"]
    cli.execute("concepts", [*tables, f"out={proxies}/own"])
    with (proxies / "own" / "concepts.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["concept"], row["proxy"], row["labels"]) for row in rows] == [
        ("Bihu Dance", "", "Assam"), ("dhol", "", "Assam")
    ]  # fmt: skip


def test_no_usable_concept_is_refused(proxies: Path) -> None:
    with pytest.raises(InputError, match=r"no concept can be used \(1 not a JSON object"):
        sheet(proxies, "nothing")
    assert not (proxies / "out").exists()


def test_texts_of_a_models_proposals_are_in_order_and_usable() -> None:
    rows = [
        {"response_id": f"r{n}", "item_id": item, "model": "m", "prompt": "p", "condition": "", "sample": sample,
         "text": text, "status": status}
        for n, (item, sample, text, status) in enumerate([
            ("b", 1, "b1", "ok"), ("a", 1, "a1", "truncated"), ("a", 0, "a0", "ok"), ("a", 2, "a2", "error"),
            ("a", 3, "", "ok"), ("a", 4, None, "ok"),
        ])
    ]  # fmt: skip
    responses: Any = TableInMemory("responses", rows, batch=10)
    assert dict(concepts._texts_by_item(responses)) == {"a": ["a0", "a1"], "b": ["b1"]}


def test_titles_are_of_articles_in_the_preferred_language() -> None:
    rows: list[dict[str, Any]] = [
        {"node_id": "a", "titles": [("de", "Tee"), ("en", "Tea")]}, {"node_id": "b", "titles": [("de", "Kunst")]},
        {"node_id": "c", "article_text_ids": [("en", "t")], "lemmas": [("en", ["first", "second"])]},
        {"node_id": "d", "article_text_ids": [("en", "t")]}, {"node_id": "e", "lemmas": [("en", ["bare"])]},
        {"node_id": "f", "titles": [("en", "Unwanted")]},
    ]  # fmt: skip
    nodes: Any = TableInMemory("nodes", rows)
    assert concepts._titles(nodes, set("abcde"), "en") == {"a": "Tea", "b": "Kunst", "c": "first", "d": "d"}
    assert concepts._titles(nodes, {"a"}, "de") == {"a": "Tee"}
