"""Options of the filters: the values of each column in order, with labels and counts."""

from collections.abc import Callable
from pathlib import Path

import duckdb

from jobs.judging.kept_rubric import Rubrics, of_levels
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.viewer import loading
from jobs.viewer.facets import Facets, read_facets
from tests.factories import image_row, rating, write_table

LEVELS = of_levels("r", "fit", "How well?", [("a", "poor", 1.0), ("b", "fair", 2.0), ("c", "good", 3.0)], {})


def facets(folder: Path, *, second: bool) -> Facets:
    answers = [("m", "c"), ("m", "c"), ("p", "a"), ("m", "x"), ("p", "c"), ("p", None), ("m", "c")]
    rows = [rating(f"i{n}", rater, "fit", value) for n, (rater, value) in enumerate(answers)]
    rows += [rating("i0", "q", "warm_hue", "d") | {"rubric": "s"}] * second
    items = [
        {"item_id": f"i{n}", "kind": "image", "image_ids": [f"i{n}"], "attributes": [("region", region)]}
        for n, region in enumerate(("South", "South", "North"))
    ]
    write_table(folder / "ratings", "ratings", rows)
    write_table(folder / "items", "items", items)
    write_table(folder / "images", "images", [image_row("", image_id=f"i{n}") for n in range(4)])
    with duckdb.connect() as connection:
        loading.load(connection, loading.open_places([str(folder)]), ExclusionFilter(frozenset()))
        return read_facets(connection, Rubrics({"r": LEVELS}))


def test_values_have_their_labels_and_counts(tmp_path: Path) -> None:
    shown = facets(tmp_path, second=False)
    assert shown.questions == [("r/fit", "fit", 7)]
    # in the order of the rubric, and after them what it does not list
    assert shown.values == {"r/fit": [("a", "a — poor", 1), ("c", "c — good", 4), ("x", "x", 1)]}
    assert [(one.value, one.rows) for one in shown.raters] == [("m", 4), ("p", 3)]
    assert [(one.value, one.rows) for one in shown.rated] == [("ok", 6), ("unparsed", 1)]
    assert [(one.value, one.rows) for one in shown.regions] == [("North", 1), ("South", 2)]  # by name


def test_attributes_of_few_values_filter(tmp_path: Path) -> None:
    values: dict[str, Callable[[int], str]] = {
        "target": lambda n: "ab"[n % 2],  # tells the region, which has another filter
        "year": lambda n: str(8 + n % 50),
        "many": lambda n: str(n % 51),
        "id": str,
        "same": lambda n: "x",
        "some": lambda n: "ab"[n] if n < 2 else "",  # as many values as items
        "half": lambda n: "ab"[n % 2] if n < 4 else "",  # half as many
        **{f"more{k}": lambda n: "ab"[n % 2] for k in range(8)},
    }
    images = [image_row("", image_id=f"i{n}") for n in range(102)]
    items = [{"item_id": f"i{n}", "kind": "image", "image_ids": [f"i{n}"],
              "attributes": [(name, value(n)) for name, value in values.items()]} for n in range(102)]  # fmt: skip
    write_table(tmp_path / "images", "images", images)
    write_table(tmp_path / "items", "items", items)
    with duckdb.connect() as connection:
        loading.load(connection, loading.open_places([str(tmp_path)]), ExclusionFilter(frozenset()))
        shown = read_facets(connection, Rubrics({}))
    assert list(shown.attributes) == ["year", *(f"more{k}" for k in range(7))]
    assert [one.value for one in shown.attributes["year"]][:3] == ["8", "9", "10"]
    assert [one.rows for one in shown.attributes["year"]][:3] == [3, 3, 2]
    assert shown.attributes["more0"] == [("a", "a", 51), ("b", "b", 51)]
    assert (shown.region_label, [one.value for one in shown.regions]) == ("target", ["a", "b"])


def test_questions_of_several_rubrics_name_theirs(tmp_path: Path) -> None:
    shown = facets(tmp_path, second=True)
    assert shown.questions == [("r/fit", "r: fit", 7), ("s/warm_hue", "s: warm_hue", 1)]
    assert shown.values["s/warm_hue"] == [("d", "d", 1)]
