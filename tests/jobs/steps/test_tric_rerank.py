"""Items of the best captions of TRIC pictures, and their re-ranking by hand-written ratings."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from actors.ids import content_id
from jobs.corpora.tric import DATES
from jobs.runtime.command_line import cli
from jobs.store.reading import open_table
from tests.factories import rating, rows_of, write_table, write_units

PICTURES = [("a.png", "1894-07-13"), ("b.png", "1899-08-01"), ("c.png", "1921-01-05"), ("d.png", "1922-01-05")]
CAPTIONS = {"1": "A DOG", "2": "A cat\\nsleeps", "3": "Bread", "4": "Bread", "9": "Shoes"}
EXPECTED = ["2", "9", "1", "3"]
RANKED = {"a.png": "1 2 3 4 9", "b.png": "1 3 2 9 4", "c.png": "1 3 2 9 4"}  # d.png could not be read
IDS = {name: content_id(name) for name, _ in PICTURES}
K = 3


@pytest.fixture
def ranked(tmp_path: Path) -> list[str]:
    """A split, its captions and the encoder's ranking of three of its pictures; returns the keys that name them."""
    split = tmp_path / "split"
    split.mkdir()
    (split / "in.tsv").write_text("".join(f"{name}\t{day}\n" for name, day in PICTURES))
    (split / "captions.tsv").write_text("".join(f"{index}\t{text}\n" for index, text in CAPTIONS.items()))
    (split / "expected.tsv").write_text("\n".join(EXPECTED) + "\n")
    texts = [
        {"text_id": f"t{n}", "role": "caption", "revision": "none", "source": n, "text": CAPTIONS[n]} for n in CAPTIONS
    ]
    near = [
        {"query_id": IDS[name], "rank": rank, "item_id": f"t{index}", "score": -float(rank)}
        for name, indices in RANKED.items()
        for rank, index in enumerate(indices.split(), 1)
    ]
    write_table(tmp_path / "captions", "texts", texts)
    write_units(tmp_path / "neighbors", "neighbors", [near[:7], near[7:]])
    return [f"split={split}", f"neighbors={tmp_path}/neighbors", f"captions={tmp_path}/captions"]


def verdicts(condition: str, scores: dict[str, dict[str, float | None]]) -> list[dict[str, Any]]:
    """Ratings of captions by the judge `m`; None: the rating failed."""
    return [
        rating(
            IDS[name], "m", "belongs", "yes" if score is not None else None, target=caption, expected=score,
            condition=condition, rubric="caption_match",
        )
        for name, of_caption in scores.items()
        for caption, score in of_caption.items()
    ]  # fmt: skip


def metrics(out: Path) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["metric"], row["dims"]): row for row in rows_of(f"{out}/metrics")}


def dims(**values: str) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def test_items_have_the_best_captions_as_targets(tmp_path: Path, ranked: list[str]) -> None:
    for dates in DATES:
        assert cli.main("tric items", [*ranked, f"k={K}", f"dates={dates}", f"out={tmp_path}/{dates}"]) == 0
    worded = {dates: dict(rows_of(f"{tmp_path}/{dates}")[0]["attributes"]).get("date") for dates in DATES}
    assert worded == {"none": None, "year": "1894", "decade": "the 1890s", "day": "13 July 1894"}
    items = {row["item_id"]: row for row in rows_of(f"{tmp_path}/day")}
    assert items.keys() == {IDS[name] for name in RANKED}
    assert items[IDS["a.png"]]["targets"] == ["A DOG", "A cat\nsleeps", "Bread"]
    assert items[IDS["a.png"]]["gold"] == ["A cat\nsleeps"]
    assert items[IDS["b.png"]]["gold"] is None  # not among the best
    assert open_table(f"{tmp_path}/day", "items").metadata["remine.condition"] == "day"


def test_excluded_pictures_are_neither_items_nor_ranked(tmp_path: Path, ranked: list[str]) -> None:
    (tmp_path / "list.txt").write_text(f"{IDS['b.png'].upper()}\n")
    listed = f"exclusions={tmp_path}/list.txt"
    assert cli.main("tric items", [*ranked, listed, f"out={tmp_path}/items"]) == 0
    assert {row["item_id"] for row in rows_of(f"{tmp_path}/items")} == {IDS[name] for name in RANKED} - {IDS["b.png"]}
    captions = {name: dict.fromkeys(CAPTIONS.values(), 0.5) for name in RANKED}
    write_table(tmp_path / "ratings", "ratings", verdicts("day", cast(Any, captions)))
    for out, keys in (("with", [listed]), ("without", [])):
        assert cli.main("tric rerank", [*ranked, *keys, f"ratings=[{tmp_path}/ratings]", f"out={tmp_path}/{out}"]) == 0
    counts = [max(row["n"] for row in metrics(tmp_path / out).values()) for out in ("with", "without")]
    assert counts[0] == counts[1] - 1


def test_captions_of_one_text_are_one_target(tmp_path: Path, ranked: list[str]) -> None:
    assert cli.main("tric items", [*ranked, "k=5", "unit_rows=2", f"out={tmp_path}/items"]) == 0
    assert rows_of(f"{tmp_path}/items")[0]["targets"] == ["A DOG", "A cat\nsleeps", "Bread", "Shoes"]
    assert [unit.rows for unit in open_table(f"{tmp_path}/items", "items").units()] == [2, 1]


def test_rankings_and_metrics_by_hand(tmp_path: Path, ranked: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    cat = "A cat\nsleeps"
    asked: dict[str, dict[str, dict[str, float | None]]] = {
        "none": {
            "a.png": {"A DOG": 0.1, cat: 0.9, "Bread": 0.1},  # 2 1 3 4 9: right at 1; equal scores keep their order
            "b.png": {
                "A DOG": 0.2,
                "Bread": 0.3,
                cat: 0.1,
            },  # 3 4 1 2 9: both captions Bread have its score; right at 5
            "c.png": {"A DOG": 0.5, "Bread": 0.6, cat: 0.1},  # 3 4 1 2 9: right at 3
        },
        "day": {
            "a.png": {"A DOG": 0.9, cat: None, "Bread": 0.1},  # not all rated: keeps 1 2 3 4 9, right at 2
            "b.png": {"A DOG": 0.2, "Bread": 0.1, cat: 0.3},  # 2 1 3 4 9: right at 5
            "c.png": {"A DOG": 0.5, "Bread": 0.1, cat: 0.4},  # 1 2 3 4 9: right at 1
        },
    }
    for condition, scores in asked.items():
        write_table(tmp_path / "ratings" / condition, "ratings", verdicts(condition, scores))
    assert cli.main("tric rerank", [*ranked, f"ratings=[{tmp_path}/ratings/*]", f"out={tmp_path}/out"]) == 0
    table = metrics(tmp_path / "out")

    def judge(condition: str) -> str:
        return dims(ranking="judge", rater="m", condition=condition)

    before, none, day = (1 / 2 + 1 / 4 + 1) / 3, (1 + 1 / 5 + 1 / 3) / 3, (1 / 2 + 1 / 5 + 1) / 3
    assert table["mrr@100", dims(ranking="encoder")]["value"] == pytest.approx(before)
    assert table["mrr@100", judge("none")]["value"] == pytest.approx(none)
    assert table["mrr@100", judge("day")]["value"] == pytest.approx(day)
    assert [table["mrr@100", judge(name)]["coverage"] for name in ("none", "day")] == [3 / 4, 2 / 4]
    assert table["mrr@100", dims(ranking="encoder")]["coverage"] == 3 / 4
    changes = {
        ("encoder", "none"): none - before,
        ("encoder", "day"): day - before,
        ("none", "day"): day - none,
    }
    for (first, second), change in changes.items():
        assert table["mrr_change@100", dims(rater="m", first=first, second=second)]["value"] == pytest.approx(change)
    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[:6] for line in printed if line[0] == "m"] == [
        ["m", condition, f"{done}", "of", "3", "pictures"] for condition, done in (("none:", 3), ("day:", 2))
    ]
    shown = [(line[0], line[1], line[-1]) for line in printed if line[0].startswith("mrr")]
    assert ("mrr@100", f"{before:+.4f}", "encoder") in shown
    assert sorted(line[0] for line in shown) == ["mrr@100"] * 3 + ["mrr_change@100"] * 3  # none of a decade
    nineties = dims(ranking="judge", rater="m", condition="none", decade="1890s")
    assert (table["mrr@100", nineties]["value"], table["mrr@100", nineties]["n"]) == (pytest.approx(0.6), 2)
    lines = (tmp_path / "out" / "m" / "none" / "out.tsv").read_text().splitlines()
    assert [line.split("\t") for line in lines] == [
        list("21349"), list("34129"), list("34129"), list(CAPTIONS),
    ]  # fmt: skip


def test_a_judge_without_all_ratings_of_any_picture_keeps_the_encoders_order(tmp_path: Path, ranked: list[str]) -> None:
    whole: dict[str, float | None] = {"A DOG": 0.1, "A cat\nsleeps": 0.9, "Bread": 0.2}
    failed: dict[str, dict[str, float | None]] = {name: dict.fromkeys(whole) for name in RANKED}
    for condition, scores in (("none", {"a.png": whole}), ("day", failed)):
        write_table(tmp_path / "ratings" / condition, "ratings", verdicts(condition, scores))
    assert cli.main("tric rerank", [*ranked, f"ratings=[{tmp_path}/ratings/*]", f"out={tmp_path}/out"]) == 0
    table = metrics(tmp_path / "out")
    values = {
        name: table["mrr@100", dims(ranking="judge", rater="m", condition=name)]["value"] for name in ("none", "day")
    }
    assert values == {
        "none": pytest.approx((1 + 1 / 4 + 1) / 3),
        "day": table["mrr@100", dims(ranking="encoder")]["value"],
    }


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("tric items dates=month", "dates=month: must be one of none, year, decade, day"),
        ("tric items k=101", "k=101"),
        ("tric items unit_rows=0", "unit_rows=0"),
        ("tric rerank", "ratings=[]"),
        ("tric rerank ratings=[{folder}/failed]", "no picture of"),
        ("tric rerank ratings=[{folder}/words]", "without expected score"),
    ],
)
def test_wrong_keys_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ranked: list[str], command: str, message: str
) -> None:
    failed = verdicts("day", {name: {"A DOG": None} for name in RANKED})
    write_table(tmp_path / "failed", "ratings", failed)
    write_table(tmp_path / "words", "ratings", [{**row, "status": "ok", "value": "yes"} for row in failed])
    keys = command.format(folder=tmp_path).split()
    assert cli.main(keys[0], [keys[1], *ranked, *keys[2:], f"out={tmp_path}/out"]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_ranking_of_another_split_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ranked: list[str]
) -> None:
    (tmp_path / "split" / "in.tsv").write_text("".join(f"z{name}\t{day}\n" for name, day in PICTURES))
    assert cli.main("tric items", [*ranked, f"out={tmp_path}/out"]) == 2
    assert "is not a picture of this split" in capsys.readouterr().err
