"""Released annotations: one row per item and labeller, without names of people."""

from pathlib import Path
from typing import Any

from jobs.annotation.century_annotations import ENDINGS, METHOD, PERSON, RATER, SOURCE, STATUS
from jobs.releasing.annotations import Annotations, read_annotations
from jobs.releasing.files import Column
from jobs.store.reading import open_table
from tests.factories import rating, write_table


def released(folder: Path, rows: list[dict[str, Any]], *, comments: bool = False) -> Annotations:
    source = open_table(write_table(folder / "ratings", "ratings", rows), "ratings")
    return read_annotations(
        [source],
        lambda item: None if item == "withheld" else {"item": item},
        subject={"item": Column("what was rated")},
        pseudonym=lambda name: f"p-{name}",
        comments=comments,
        question_texts={("r", "look"): "How does it look?"},
    )


def test_answers_to_one_item_are_one_row(tmp_path: Path) -> None:
    human = {"method": "human", "comment": "Hm."}
    result = released(tmp_path, [
        rating("i", "ann", "look", "good", **human),
        rating("i", "ann", "fit", "2", **human, status="out_of_range"),
        rating("i", "m@1", "look", "bad"),
        rating("i", "boss", "look", "good", method="gold"),
        rating("withheld", "ann", "look", "good", **human),
        rating("j", "ann", "look", None, **human, status="skipped"),
        rating("j", "ann", "fit", None, **human, status="reported"),
        rating("k", "ann", "look", "good", **human),
        rating("k", "ann", "fit", None, **human, status="reported"),
        rating("l", "m@1", "look", None, status="refused"),
    ])  # fmt: skip
    by_key = {(row["item"], row[SOURCE], row[RATER]): row for row in result.rows}
    assert set(by_key) == {("i", PERSON, "p-ann"), ("i", "m@1", ""), ("i", PERSON, "p-boss"), ("j", PERSON, "p-ann"),
                           ("k", PERSON, "p-ann"), ("l", "m@1", "")}  # fmt: skip
    assert [(row["item"], row[METHOD], row[RATER]) for row in result.rows] == [
        ("i", "closed", ""), ("i", "gold", "p-boss"), ("i", "human", "p-ann"), ("j", "human", "p-ann"),
        ("k", "human", "p-ann"), ("l", "closed", ""),
    ]  # fmt: skip
    assert list(result.columns) == ["item", METHOD, SOURCE, RATER, "rating.fit", "rating.look", STATUS, ENDINGS]
    endings = {key[0]: row[ENDINGS] for key, row in by_key.items() if row[RATER] == "p-ann"}
    assert endings == {  # each answer that is not ok
        "i": "rating.fit=out_of_range", "j": "rating.fit=reported;rating.look=skipped", "k": "rating.fit=reported",
    }  # fmt: skip
    ann = by_key["i", PERSON, "p-ann"]
    assert (ann["rating.look"], ann["rating.fit"], ann[STATUS]) == ("good", None, "ok")  # a value that is not ok
    statuses = {key[0]: row[STATUS] for key, row in by_key.items()}
    assert {name: statuses[name] for name in "jkl"} == {"j": "reported", "k": "reported", "l": "refused"}
    assert (result.people, result.models, result.ratings) == ({"p-ann", "p-boss"}, {"m@1"}, 9)
    assert result.left_out == {"not about a released item": 1}
    assert result.columns["rating.look"].description == "How does it look?"
    assert result.columns["rating.fit"].description == "answer to fit"
    assert not {"rating.rubric", "rating.target", "rating.sample", "rating.comment"} & set(result.columns)


def test_columns_that_distinguish_rows_are_released(tmp_path: Path) -> None:
    rows = [
        rating("i", "m", "look", "good"),
        rating("i", "m", "look", "bad") | {"rubric": "s"},
        rating("i", "m", "look", "bad", target="Mali", sample=1),
        rating("i", "ann", "look", "bad", method="human", comment="Hm."),
        rating("i", "ann", "fit", "bad", method="human", comment="Hm."),
        rating("i", "ann", "hue", "red", method="human", comment="Ah."),
        rating("i", "ann", "size", "5", method="human"),
    ]
    result = released(tmp_path, rows, comments=True)
    assert len(result.rows) == 4
    # In the order of the columns: by method, model, rubric and target.
    assert [(row["rating.target"], row["rating.rubric"], row["rating.look"]) for row in result.rows] == [
        (None, "r", "good"), ("Mali", "r", "bad"), (None, "s", "bad"), (None, "r", "bad")
    ]  # fmt: skip
    assert {row["rating.rubric"] for row in result.rows} == {"r", "s"}
    assert {row["rating.target"] for row in result.rows} == {None, "Mali"}
    assert {row["rating.sample"] for row in result.rows} == {0, 1}
    assert {row.get("rating.comment") for row in result.rows} == {None, "Hm.\nAh."}  # each once
    assert {"rating.rubric", "rating.target", "rating.sample", "rating.comment"} <= set(result.columns)
