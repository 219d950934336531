"""The steps from the corpus to vectors, from the counts of the tables, and the texts of a page about its inputs."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from jobs.analysis.attributes import Items, Raters
from jobs.analysis.report_metrics import ReportResults
from jobs.analysis.report_tables import RatingSummary, ReportTables
from jobs.html.thumbnails import Thumbnail, thumbnail
from jobs.judging.kept_rubric import KeptRubric, Rubrics
from jobs.metrics.distributions import Distributions
from jobs.metrics.observations import Observations
from jobs.metrics.rated_question import MetricSettings
from jobs.page.build import MAP_SIDE, _shown_tops, embedding_map, funnel, principal_axes, prompts, report_page
from jobs.page.gallery import Gallery
from jobs.page.page_contents import GalleryPicture, ModelFacts, Page
from jobs.page.render import render
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.counts import Counts
from jobs.store.reading import open_table
from jobs.tables import TABLES
from tests.factories import FIVE, TableInMemory, embedding_rows, picture, rating, record_of, write_table
from tests.jobs.page.sample import drawn


def table(**counts: Any) -> Any:
    whole = Counts()
    for name, value in counts.items():
        setattr(whole, name, Counter(value) if isinstance(value, dict) and name != "tallies" else value)
    return SimpleNamespace(counts=lambda: whole)


def steps(**corpus: Any) -> list[tuple[str, int]]:
    return [(step.label, step.n) for step in funnel(corpus)]


LEFT = {"matched": 30, "is_main_image": 26, "one_image_a_page": 20, "one_row_an_image": 20}


def tally(**left: int) -> dict[str, int]:
    """Return the tally of a selection: the first of the records is of method k, the others of l."""
    parts = ((f"/train/{step}", f"k/train/{step}", f"l/train/{step}") for step in left)
    counts = ((n, min(n, 1), n - min(n, 1)) for n in left.values())
    return {key: n for keys, of_step in zip(parts, counts, strict=True) for key, n in zip(keys, of_step, strict=True)}


def test_each_step_has_what_is_left() -> None:
    matches = table(rows_in=1000, rows_out=30, filtered={"language": 600, "title": 370})
    records = table(rows_in=30, rows_out=20, tallies={"steps": tally(**LEFT)})
    assert steps(matches=matches, records=records) == [
        ("read from the corpus", 1000),
        ("in the requested language", 400),
        ("title contains a search term", 30),
        ("main image of its page", 26),
        ("page with one image", 20),
        ("one record per picture", 20),
    ]
    notes = {step.label: step.note for step in funnel({"matches": matches, "records": records}) if step.note}
    assert notes == {
        "main image of its page": "k 1, l 25",
        "page with one image": "after the rules for each method alone: k 1 of 1, l 19 of 29",
        "one record per picture": "k 1, l 19",
    }


def test_a_selection_from_a_selection_continues_its_steps() -> None:
    """The rules that it applies again drop no record: they are the first selection's steps, with its counts."""
    again = {"matched": 20, "is_main_image": 20, "one_image_a_page": 20, "picture_exists": 14, "one_row_an_image": 14}
    first = [("read by the selection", 30), ("main image of its page", 26), ("page with one image", 20)]
    first.append(("one record per picture", 20))

    def continued(*left: dict[str, int]) -> list[tuple[str, int]]:
        tallies = {f"steps {n}" if n > 1 else "steps": tally(**of_run) for n, of_run in enumerate((LEFT, *left), 1)}
        return steps(records=table(tallies={"term": {"war": 1}, **tallies}))

    cases: dict[str, tuple[list[dict[str, int]], list[tuple[str, int]]]] = {
        "pictures exist": ([again], [("picture still at its source", 14)]),
        "nothing new": ([LEFT | dict.fromkeys(LEFT, 20)], []),
        "a rule drops more": ([again | {"one_image_a_page": 17}], [
            ("page with one image", 17), ("picture still at its source", 14)
        ]),
        "other records": ([dict.fromkeys(again, 5)], [
            ("read by the next selection", 5), ("picture still at its source", 5)
        ]),
        "three": ([again, dict.fromkeys(LEFT, 14) | {"draw": 9}], [
            ("picture still at its source", 14), ("drawn at random", 9)
        ]),
    }  # fmt: skip
    assert {name: continued(*left) for name, (left, _) in cases.items()} == {
        name: [*first, *more] for name, (_, more) in cases.items()
    }


def test_steps_that_were_not_taken_are_left_out() -> None:
    assert steps(matches=table(rows_in=9, rows_out=2, filtered={"title": 7})) == [
        ("read from the corpus", 9), ("title contains a search term", 2)
    ]  # fmt: skip
    assert steps(records=table(rows_in=5, filtered={"is_main_image": 1})) == []  # no rule was applied
    assert steps(images=TableInMemory("images", [])) == [("picture found and readable", 0)]
    assert steps() == []


def test_pictures_count_once_and_if_they_belong_to_the_records(tmp_path: Path) -> None:
    """Pictures may be those of an earlier selection, and vectors also those of texts."""
    images = [(n, "ok") for n in range(6)] + [(6, "missing"), (7, "missing")]
    rows = [picture(number, status=status) for number, status in images]
    again = [row | {"rendition": "w300"} for row in rows[:4]]
    records = open_table(
        write_table(tmp_path / "r", "records", [record_of(row, f"t{n}") for n, row in enumerate(rows)][2:7])
    )
    vectors = [{"item_id": row["image_id"], "kind": "image", "status": "ok"} for row in rows[:4]]
    vectors += [{"item_id": "text", "kind": "text", "status": "ok"}, vectors[0] | {"kind": "text"}]
    corpus = {"images": TableInMemory("images", [*rows, *again]), "embeddings": TableInMemory("embeddings", vectors)}
    assert steps(**corpus, records=records) == [("picture found and readable", 4), ("embedded", 2)]
    assert steps(**corpus) == [("picture found and readable", 6), ("embedded", 4)]


def test_rows_that_a_purge_removed_are_a_separate_step() -> None:
    matches = table(rows_in=40, rows_out=29, filtered={"title": 10, "purged": 1})
    records = table(rows_in=30, rows_out=18, filtered={"purged": 2}, tallies={"steps": tally(**LEFT)})
    before = [("read from the corpus", 40), ("title contains a search term", 30)]
    assert steps(matches=matches) == [*before, ("left after a purge", 29)]
    assert steps(matches=matches, records=records)[2:] == [
        ("main image of its page", 26), ("page with one image", 20), ("one record per picture", 20),
        ("left after a purge", 18),
    ]  # fmt: skip


def page(tables: ReportTables, rows: list[dict[str, Any]], **changes: Any) -> Page:
    distributions = Distributions()
    distributions.add(pa.Table.from_pylist(rows, schema=TABLES["ratings"].schema()))
    summary = RatingSummary(distributions, Distributions(), Raters({}, {}, {}, {}))
    results = ReportResults(
        [], [], [], Observations(), ["a mismatch"], methods={}, spans=None, items=Items(), settings=MetricSettings()
    )
    settings: dict[str, Any] = {
        "rubrics": Rubrics({}),
        "models": [],
        "gallery": Gallery(),
        "rows_of": {},
        "exclusion_filter": ExclusionFilter(frozenset()),
        "versions": {"code": "1"},
    }
    return report_page("t", tables, summary, results, **(settings | changes))


def test_a_page_names_its_inputs_with_their_counts_and_times(tmp_path: Path) -> None:
    images = open_table(
        write_table(tmp_path / "images", "images", [picture(0), picture(1), picture(2, status="missing")])
    )
    rows = [
        rating(item, rater, "q", value) for item, rater, value in (("a", "m", "1"), ("b", "m", "2"), ("a", "n", None))
    ]
    ratings = [
        replace(open_table(write_table(tmp_path / name, "ratings", rows)), metadata={"remine.rater": rater})
        for name, rater in (("first", "local:qwen2.5-vl-tiny@1"), ("second", "m"))
    ]
    manifest = tmp_path / "images" / "_run" / "manifest.json"
    kept = json.loads(manifest.read_text())
    actual = {"seconds": 7200.0, "gpu_hours": 2.0, "currency": "USD"}
    estimate = {"seconds": {"value": 60.0, "low": 30.0, "high": 90.0}, "source": "a trial"}
    manifest.write_text(json.dumps(kept | {"actual": actual, "estimate": estimate}))
    (tmp_path / "first" / "_run" / "manifest.json").write_text('{"actual": 3}')  # damaged
    versions = {"torch": "2", "code": "1", "numpy": "3"}
    shown = page(ReportTables(ratings, {"images": images}), rows, versions=versions)
    time, *provenance = shown.provenance
    folder = tmp_path.name  # the folders around all tables are the reader's own
    assert time[0] == "time"
    assert provenance == [
        ("images", f"{folder}/images (identity {images.identity}, objects {images.whole().etag})"),
        *(
            ("ratings", f"{folder}/{name} (identity {s.identity}, objects {s.whole().etag})")
            for name, s in zip(("first", "second"), ratings, strict=True)
        ),
        ("last run of images", "7,200.0 s, estimated 60.0 (30.0 to 90.0); 2.00 GPU-hours; estimate: a trial"),
        ("code", "1"),
        ("numpy", "3"),
        ("torch", "2"),
    ]
    assert shown.lede == "2 pictures (of 3 requested), 2 raters, 1 question, 3 ratings requested: 2 ok, 1 unparsed."
    mismatch, random_weights = shown.notices
    assert (mismatch, random_weights.split()[0]) == ("a mismatch", "local:qwen2.5-vl-tiny@1")
    assert [(table.name, table.rows, table.units, table.statuses) for table in shown.tables] == [
        ("images", 3, 1, {"ok": 2, "missing": 1}),
        *((f"ratings by {name}", 3, 1, {"ok": 2, "unparsed": 1}) for name in ("local:qwen2.5-vl-tiny@1", "m")),
    ]
    assert shown.pictures_total == 3
    unnamed = page(ReportTables([replace(ratings[1], metadata={})]), rows[:2])
    assert [table.name for table in unnamed.tables] == ["ratings by second"]
    lede = "1 rater, 1 question, 2 ratings requested: 2 ok."
    assert (unnamed.lede, unnamed.notices, unnamed.pictures_total) == (lede, ["a mismatch"], None)
    assert page(ReportTables(), []).lede == ""


def test_tables_without_a_rubric_are_named_up_to_three() -> None:
    for without, expected in (
        ((), []),
        (("a",), ["a keeps no rubric"]),
        (("/home/ada/R/a", "/home/ada/R/b"), ["R/a, R/b keep no rubric"]),
        (("a", "b", "c"), ["a, b, c keep no rubric"]),
        (("a", "b", "c", "d", "e"), ["a, b, c and 2 more keep no rubric"]),
    ):
        notices = page(ReportTables(), [], rubrics=Rubrics({}, without)).notices
        assert [notice.partition(":")[0] for notice in notices] == ["a mismatch", *expected]


def test_the_top_pictures_of_an_order_are_counted_once_if_they_have_a_card() -> None:
    tops = {"score": ("a", "b", "c"), "region": ("b",), "disagreement": ("a",)}
    small = Thumbnail(b"RIFF", "image/webp", 3, 2)
    cards = [GalleryPicture("t", image_id=name, thumbnails=[small]) for name in "aacd"]
    cards.append(GalleryPicture("t", image_id="b"))  # whose picture cannot be shown
    assert _shown_tops(Gallery(tops=tops), cards) == {"score": 2, "disagreement": 1}


def test_facts_about_a_model_that_are_unknown_are_empty() -> None:
    row = {"rater": "m@1", "kind": "model", "model": "/home/ada/models/m", "revision": None, "dtype": "bfloat16",
           "engine": None, "licence": "mit", "other": 3}  # fmt: skip
    assert page(ReportTables(), [], models=[row]).models == [
        ModelFacts("m@1", kind="model", model="m", dtype="bfloat16", licence="mit")
    ]


def test_prompts_are_the_parts_of_the_rubrics_that_have_some() -> None:
    def kept(name: str, parts: Any) -> KeptRubric:
        return KeptRubric("rubric", name, (), {"parts": parts})

    rubrics = [kept("b", {"task": " Look.\n", "end": "Answer."}), kept("a", {}), kept("c", ["Look."]), FIVE]
    assert prompts(Rubrics({rubric.name: rubric for rubric in rubrics})) == {"b": "Look.\n\nAnswer."}


NONE = ExclusionFilter(frozenset())


def test_axes_are_those_of_the_widest_differences() -> None:
    draw = np.random.default_rng(1)
    points = (draw.normal(size=(400, 2)) * (5, 2)) @ np.array([[0.6, 0.8, 0], [-0.8, 0.6, 0]]) + 0.1
    mean, axes, shares = principal_axes(points.astype(np.float32))
    assert mean == pytest.approx(points.mean(axis=0), abs=1e-4)
    assert np.abs(axes @ np.array([[0.6, 0.8, 0], [-0.8, 0.6, 0]]).T) == pytest.approx(np.eye(2), abs=0.05)
    assert (axes.max(axis=1) == np.abs(axes).max(axis=1)).all()
    assert shares == pytest.approx((25 / 29, 4 / 29), abs=0.05)
    assert principal_axes(points.astype(np.float32) / 100)[2] == pytest.approx(shares, abs=1e-4)
    assert principal_axes(np.ones((3, 2), np.float32))[2] == (0, 0)


def test_the_map_has_the_cards_that_have_vectors_and_links_to_them(tmp_path) -> None:
    vectors = np.array([[1, 0, 0, 0.1], [0, 1, 0, 0.1], [0.9, 0.1, 0, 0.1], [0, 0, 1, 0.1]], np.float32)
    source = open_table(write_table(tmp_path / "e", "embeddings", embedding_rows(list("abcd"), "image", vectors)))
    small, _ = thumbnail(drawn(1))
    assert small is not None
    cards = [GalleryPicture(name.upper(), image_id=name, thumbnails=[small]) for name in ("c", "x", "a", "b", "a")]
    shown = embedding_map(source, cards, NONE)
    assert shown is not None
    assert ([point.image_id for point in shown.points], shown.fitted) == (["a", "b", "c"], 4)
    assert {max(point.small.width, point.small.height) for point in shown.points} == {MAP_SIDE}
    assert max(small.width, small.height) > MAP_SIDE
    assert {round(value, 6) for point in shown.points for value in (point.x, point.y)} >= {0, 1}
    a, b, c = ((point.x, point.y) for point in shown.points)
    assert np.hypot(a[0] - c[0], a[1] - c[1]) < np.hypot(a[0] - b[0], a[1] - b[1])
    assert shown == embedding_map(source, cards, NONE)
    html = render(Page("t", pictures=cards, map=shown))
    section = html[html.index('<ul class="map">') :]
    assert [f'<a href="#picture-{number}"' in section for number in (1, 2, 3, 4, 5)] == [True, False, True, True, False]
    assert embedding_map(source, cards[:3], NONE) is None
    assert embedding_map(source, [*cards, GalleryPicture("D", image_id="d")], NONE) == shown  # without a picture
    without = embedding_map(source, [*cards, GalleryPicture("D", image_id="d", thumbnails=[small])],
                            ExclusionFilter(frozenset("b")))  # fmt: skip
    assert without is not None
    assert ([point.image_id for point in without.points], without.fitted) == (["a", "c", "d"], 3)
