"""TRIC on a split made by hand: ranks as a loop gives them, the challenge's lines, the real split's metrics."""

import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actors.ids import content_id
from jobs.analysis.tric_metrics import WordedCaptions, rank
from jobs.corpora.tric import answer_lines, bucket, decade, read_split, worded_date
from jobs.errors import InputError
from jobs.runtime.command_line import cli
from tests.cases import check_cases
from tests.factories import DIM, embedding_rows, rows_of, write_units

CAPTIONS = {"1": "A DOG", "2": "A cat\nsleeps", "7": "{date} Bread"}
PICTURES = [("a.png", "1894-07-13"), ("b.png", "1921-08-19"), ("c.png", "1899-01-01")]


def make_split(folder: Path, *, expected: str | None = "2\n1\n7\n") -> Path:
    folder.mkdir()
    (folder / "in.tsv").write_text("".join(f"{name}\t{day}\n" for name, day in PICTURES))
    (folder / "captions.tsv").write_text(
        "".join(f"{i}\t{text}\n" for i, text in CAPTIONS.items()).replace("t\ns", "t\\ns")
    )
    if expected is not None:
        (folder / "expected.tsv").write_text(expected)
    return folder


def prepared(folder: Path, split: Path) -> dict[str, Any]:
    """Captions worded by the job, and random vectors; the second picture has none."""
    assert cli.main("tric captions", [f"split={split}", f"out={folder}/captions", "unit_rows=7"]) == 0
    texts = rows_of(f"{folder}/captions")
    draw = np.random.default_rng(1)
    vectors, queries = draw.normal(size=(len(texts), DIM)), draw.normal(size=(3, DIM))
    facts = {"encoder": "e", "preprocessing": "p"}
    pictures = embedding_rows([content_id(name) for name, _ in PICTURES], "image", queries)
    pictures[1] = {**pictures[1], "embedding": None, "status": "error"}
    write_units(
        folder / "vectors", "embeddings", [embedding_rows([t["text_id"] for t in texts], "text", vectors)], **facts
    )
    write_units(folder / "pictures", "embeddings", [pictures], **facts)
    return {"texts": texts, "vectors": vectors, "queries": queries}


def run(folder: Path, split: Path, *keys: str) -> int:
    tables = [f"{name}={folder}/{name}" for name in ("pictures", "captions", "vectors")]
    return cli.main("tric rank", [f"split={split}", *tables, f"out={folder}/tric", *keys])


def test_captions_are_worded_for_every_date(tmp_path: Path) -> None:
    prepared_texts = prepared(tmp_path, make_split(tmp_path / "split"))["texts"]
    count = {
        template: sum(t["revision"] == template for t in prepared_texts) for template in ("none", "year", "decade")
    }
    assert count == {"none": 3, "year": 9, "decade": 6}
    texts = {(t["revision"], t["date"], t["source"]): t["text"] for t in prepared_texts}
    assert texts["none", None, "2"] == "A cat\nsleeps"
    assert "1921" in texts["year", "1921", "1"]
    assert "1890s" in texts["decade", "1890", "1"]
    assert "{date}" in texts["year", "1894", "7"]  # a caption's own braces are text


def test_ranks_are_those_of_a_loop_and_every_picture_has_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    split = make_split(tmp_path / "split")
    prepared_texts = prepared(tmp_path, split)
    assert run(tmp_path, split, "answer=year") == 0
    assert "leave out the 1 picture without a vector" in capsys.readouterr().out
    unit = prepared_texts["vectors"] / np.linalg.norm(prepared_texts["vectors"], axis=1, keepdims=True)
    lines, reciprocal = [], []
    for number, (_, day) in enumerate(PICTURES):
        positions = [
            i for i, t in enumerate(prepared_texts["texts"]) if t["revision"] == "year" and t["date"] == day[:4]
        ]
        query = prepared_texts["queries"][number] / np.linalg.norm(prepared_texts["queries"][number])
        order = sorted(positions, key=lambda i: -float(unit[i] @ query))
        indices = [prepared_texts["texts"][i]["source"] for i in order] if number != 1 else list(CAPTIONS)
        lines.append("\t".join(indices))
        if number != 1:
            reciprocal.append(1 / (1 + indices.index({0: "2", 2: "7"}[number])))
    assert (tmp_path / "tric" / "out.tsv").read_text().splitlines() == lines
    metrics = {(row["metric"], row["dims"]): row for row in rows_of(f"{tmp_path}/tric/metrics")}
    year = metrics["mrr", '{"template":"year"}']
    assert year["value"] == pytest.approx(np.mean(reciprocal))
    assert (year["n"], year["coverage"]) == (2, pytest.approx(2 / 3))
    assert metrics["mrr", '{"decade":"1890s","template":"year"}']["n"] == 2
    none = metrics["mrr", '{"template":"none"}']["value"]
    change = metrics["mrr_change", '{"first":"none","second":"year"}']
    assert (change["value"], change["n"]) == (pytest.approx(year["value"] - none), 2)
    assert metrics["random_mrr", "{}"]["value"] == pytest.approx((1 + 1 / 2 + 1 / 3) / 3)
    near = rows_of(f"{tmp_path}/tric/neighbors")
    assert len(near) == 6
    assert near[0]["rank"] == 1


def test_equal_captions_are_ranked_in_the_order_of_the_file() -> None:
    draw = np.random.default_rng(0)
    for count in (33, 101, 646):
        vectors = draw.normal(size=(2, 768))
        one, other = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)
        ranking = rank(one, WordedCaptions([], [], np.stack([other, *[one] * count])))
        assert ranking.positions.tolist() == [*range(1, count + 1), 0]
        assert len(set(ranking.scores.tolist())) == 2


def test_scores_that_differ_beyond_float32_are_ranked_exactly() -> None:
    query = np.zeros(768, np.float16)
    query[0], query[5] = 1, 2.0**-13
    lower, higher = query.copy(), query.copy()
    lower[5] = 0  # the product is 1, that of `higher` 1 + 2**-26: equal in float32
    ranking = rank(query, WordedCaptions([], [], np.stack([lower, higher])))
    assert ranking.positions.tolist() == [1, 0]
    assert ranking.scores.tolist() == [1 + 2.0**-26, 1]


def test_ranks_are_those_of_exact_arithmetic_among_crowded_vectors() -> None:
    """Vectors as an encoder with random weights gives: all of nearly the same direction."""
    draw = np.random.default_rng(3)
    vectors = 1 + 1e-3 * draw.normal(size=(400, 768))
    stored = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float16)
    query, captions = stored[0], stored[1:]
    exact = [sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(query, row, strict=True)) for row in captions]
    ranking = rank(query, WordedCaptions([], [], captions))
    assert ranking.positions.tolist() == sorted(range(len(exact)), key=lambda place: -exact[place])
    assert [Fraction(score) for score in ranking.scores.tolist()] == sorted(exact, reverse=True)


def test_without_public_answers_there_are_lines_and_no_metric_of_ours(tmp_path: Path) -> None:
    split = make_split(tmp_path / "split", expected=None)
    prepared(tmp_path, split)
    assert run(tmp_path, split) == 0
    assert {row["metric"] for row in rows_of(f"{tmp_path}/tric/metrics")} == {"random_mrr", "random_mrr@100"}
    assert len((tmp_path / "tric" / "out.tsv").read_text().splitlines()) == 3


def test_what_is_wrong_with_a_split_is_named(tmp_path: Path) -> None:
    cases = [
        ("in.tsv", "a.png\t1894-13-13\n", "line 1: '1894-13-13'"),
        ("in.tsv", "a.png\n", "line 1: 1 columns"),
        ("in.tsv", "a.png\t1894-01-01\na.png\t1894-01-01\n", "duplicate picture"),
        ("captions.tsv", "1\ta\n1\tb\n", "line 2: duplicate index 1"),
        ("expected.tsv", "1\n", "1 lines for 3 pictures"),
        ("expected.tsv", "1\n2\n3\n", "index 3 is not in captions.tsv"),
        ("captions.tsv", "", "no picture or no caption"),
        ("captions.tsv", "1\ta\n\n2\t \n", "captions.tsv line 3: column 2 is empty"),
        ("captions.tsv", "1\tcaf\udce9\n", r"captions.tsv: not UTF-8 \(byte 5\)"),
        ("in.tsv", "a.png\t1894-01-01\n\nb.png\t1894\n", "line 3: '1894'"),
    ]

    def check(file: str, text: str, message: str) -> None:
        split = make_split(Path(tempfile.mkdtemp(dir=tmp_path)) / "split")
        (split / file).write_text(text, errors="surrogateescape")
        with pytest.raises(InputError, match=message):
            read_split(str(split))

    check_cases(check, cases)


def test_a_table_of_another_split_or_encoder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    split = make_split(tmp_path / "split")
    prepared(tmp_path, split)
    assert run(tmp_path, split, "answer=century") == 2
    assert "must be one of the templates of" in capsys.readouterr().err
    pictures = (split / "in.tsv").read_text()
    (split / "in.tsv").write_text("".join(f"other-{line}\n" for line in pictures.splitlines()))
    assert run(tmp_path, split) == 2
    assert f"pictures={tmp_path}/pictures: has no vector of a picture in" in capsys.readouterr().err
    (split / "in.tsv").write_text(pictures)
    (split / "captions.tsv").write_text("1\tA\n2\tB\n7\tC\n8\tD\n")
    assert run(tmp_path, split) == 2
    assert "not the captions of this split" in capsys.readouterr().err


def test_it_continues_after_a_purge(tmp_path: Path) -> None:
    split = make_split(tmp_path / "dev-0")
    prepared(tmp_path, split)
    listed = tmp_path / "withdrawn.txt"
    listed.write_text(f"{content_id('a picture of another table')}\n")
    assert run(tmp_path, split) == 0
    assert cli.main("purge", [f"input={tmp_path}", f"exclusions={listed}"]) == 0
    assert run(tmp_path, split) == 2  # without the list
    assert run(tmp_path, split, f"exclusions={listed}") == 0


def test_dates() -> None:
    from datetime import date

    day = date(1899, 12, 31)
    assert [bucket(day, name) for name in ("none", "year", "decade")] == ["", "1899", "1890"]
    assert decade(day) == "1890s"
    worded = [worded_date(day, name) for name in ("none", "year", "decade", "day")]
    assert worded == ["", "1899", "the 1890s", "31 December 1899"]


def test_a_line_has_a_hundred_answers_at_the_most() -> None:
    assert answer_lines([[str(n) for n in range(150)]]).rstrip("\n").split("\t") == [str(n) for n in range(100)]


def test_the_real_split(data: Path) -> None:
    split = read_split(str(data / "tric" / "dev-0"))
    assert (len(split.pictures), len(split.captions), len(set(split.expected or ()))) == (646, 646, 646)
    assert any("\n" in text for text in split.captions.values())
