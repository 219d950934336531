"""Rows of released annotations as their reader gives them: whose they are, how many, and which are rejected."""

from pathlib import Path
from typing import Any

import pytest

from actors.rubrics.rubric import Rubric
from jobs.annotation import century_annotations, tabular
from jobs.annotation.questionnaire import rubric_questionnaire
from jobs.annotation.reading import RatingColumns, Reading
from jobs.store.writer import Reject

HEADER = "image_url;rating.method;rating.src;rating.rater_id;rating.sensitive;rating.concept"
RUBRIC = rubric_questionnaire(Rubric.from_dict({"name": "r", "questions": [
    {"name": name, "text": f"{name}?", "answers": ["1", "2"], "scale": "nominal"}
    for name in ("sensitive", "controversial")
]}))  # fmt: skip


def read(path: Path, **reading: Any) -> tuple[list[dict[str, Any]], list[Reject]]:
    rejects: list[Reject] = []
    keys = {"columns": RatingColumns(), "questionnaire": RUBRIC, **reading}
    batches = century_annotations.read(str(path), Reading("ratings", **keys), rejects.append)
    return [row for batch in batches for row in batch.to_pylist()], rejects


def write(path: Path, *lines: str, header: str = HEADER) -> Path:
    path.write_text("".join(f"{line}\n" for line in (header, *lines)), encoding="latin-1")
    return path


def test_a_file_is_read_with_its_encoding_and_delimiter_up_to_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.csv", *(f"u{n};human;crowd;Zo\u00eb,{n};{n};war" for n in range(5)))
    monkeypatch.setattr(tabular, "ROWS_AT_A_TIME", 2)
    for limit in (None, 1, 2, 3, 9):
        rows, rejects = read(path, encoding="latin-1", delimiter=";", limit=limit)
        assert [(row["item_id"], row["rater"], row["answer"], row["position"]) for row in rows] == [
            (f"u{n}", f"Zo\u00eb,{n}", str(n), n + 2) for n in range(5)
        ][:limit]
        assert ({row["question"] for row in rows}, rejects) == ({"sensitive"}, [])


@pytest.mark.parametrize("private", [False, True])
def test_private_cells_stay_out_of_rejects(tmp_path: Path, private: bool) -> None:
    path = write(tmp_path / "a.csv", "u;human;crowd;anna", "u;human;crowd;;1;war", "u;human;crowd;anna;1;war")
    rows, rejects = read(path, private=private)
    assert [row["rater"] for row in rows] == ["anna"]
    assert [(reject.position, reject.reason) for reject in rejects] == [(2, "wrong_width"), (3, "no_rater")]
    assert [reject.raw != "" for reject in rejects] == [not private] * 2


def test_a_row_is_a_persons_or_a_models_of_a_known_method(tmp_path: Path) -> None:
    labellers = ["Human;crowd;w", "auto;a human;w", "closed;m@1;w", "loglik;m@1;", "other;m@1;"]
    path = write(tmp_path / "a.csv", *(f"u;{labeller};1;war" for labeller in labellers))
    rows, _ = read(path)
    assert [(row["rater"], row["method"]) for row in rows] == [
        ("w", "human"), ("w", "human"), ("m@1", "closed"), ("m@1", "loglik"), ("m@1", "json")
    ]  # fmt: skip
    assert read(path, rater="everyone")[0] == rows


def test_columns_of_releases_are_read_if_the_file_has_them(tmp_path: Path) -> None:
    header = f"{HEADER};rating.condition;rating.order;rating.sample;rating.status"
    cells = ["fast;o1;3;ok", "fast;;1;skipped", ";;0;reported", ";;x;"]
    path = write(tmp_path / "a.csv", *(f"u;human;crowd;w;1;war;{cell}" for cell in cells), header=header)
    rows, rejects = read(path)
    names = ("condition", "order", "sample", "status")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("fast", "o1", 3, None), ("fast", None, 1, "skipped"), (None, None, 0, "reported")
    ]  # fmt: skip
    assert [(reject.position, reject.reason) for reject in rejects] == [(5, "bad_sample")]
