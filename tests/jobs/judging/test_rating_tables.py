"""Tables of ratings are refused if they share a rating; they keep their raters."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.analysis.attributes import read_raters
from jobs.checkpoints.vlm import ModelConfig
from jobs.errors import InputError
from jobs.judging import rating_tables
from jobs.judging.rating_tables import GROUPS, open_ratings
from jobs.runtime.command_line import cli
from jobs.store import keys
from jobs.store.reading import open_table
from jobs.tables import table
from tests.factories import FIVE, rating, write_file

pytestmark = pytest.mark.usefixtures("without_plots")

KEY = table("ratings").key


def put(folder: Path, name: str, items: range, rater: str = "m@1", **more: Any) -> str:
    return write_file(folder / name, "ratings", [rating(f"i{n}", rater, "q", "3", **more) for n in items])


def test_a_report_refuses_one_rater_in_two_tables(tmp_path: Path) -> None:
    """Two runs of one judge, with and without context, have equal keys; averaging them would count the rater twice."""
    first, second = put(tmp_path, "with", range(300)), put(tmp_path, "without", range(299, 400))
    with pytest.raises(InputError) as refused:
        cli.execute("report", [f"ratings=[{first},{second}]", f"out={tmp_path}/out"])
    for word in (first, second, "item_id=i299", "rater=m@1"):
        assert word in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_groups_are_distinguished_by_all_their_columns(tmp_path: Path) -> None:
    pairs = [("m1", "q1"), ("m1", "q2"), ("m2", "q1")]
    rows = {"first": [rating("i", rater, question, "1") for rater, question in pairs],
            "second": [rating("i", "m2", "q1", "2")], "third": [rating("j", "m2", "q1", "2")]}  # fmt: skip
    first, second, third = (open_table(write_file(tmp_path / name, "ratings", part)) for name, part in rows.items())
    shared = keys.shared_key([first, second], KEY, groups=["rater", "question"])
    assert shared is not None
    assert (shared.key["rater"], shared.key["question"], shared.second) == ("m2", "q1", second)
    assert keys.shared_key([first, third], KEY, groups=["rater", "question"]) is None


def test_tables_whose_keys_differ_in_one_column_are_opened_together(tmp_path: Path) -> None:
    first = put(tmp_path, "first", range(70))
    values: dict[str, Any] = {"rater": "m@2", "condition": "c", "target": "Japan", "sample": 1, "order": "fast"}
    for column, value in (values | {"method": "loglik"}).items():
        paths = [first, put(tmp_path, column, range(70), **{column: value})]
        assert [source.uri for source in open_ratings(paths)] == paths, column


def test_a_persons_imports_may_not_overlap(tmp_path: Path) -> None:
    paths = [put(tmp_path, "a", range(70), "p1"), put(tmp_path, "b", range(70, 140), "p1")]
    assert len(open_ratings(paths)) == 2
    with pytest.raises(InputError, match="item_id=i139"):
        open_ratings([*paths, put(tmp_path, "c", range(139, 141), "p1")])


def test_a_table_named_twice_is_opened_once(tmp_path: Path) -> None:
    path = put(tmp_path, "a", range(3))
    assert [source.uri for source in open_ratings([path, f"{tmp_path}/*", f"{path}/"])] == [path]


def test_keys_are_compared_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "HASHES_PER_PART", 16)
    paths = [put(tmp_path, "a", range(200)), put(tmp_path, "b", range(500, 700)), put(tmp_path, "c", range(199, 205))]
    sources = [open_table(path) for path in paths]
    shared = keys.shared_key(sources, KEY, groups=GROUPS)
    assert shared is not None
    assert (shared.key["item_id"], shared.first.uri, shared.second.uri) == ("i199", paths[0], paths[2])
    assert keys.shared_key(sources[:2], KEY, groups=GROUPS) is None


def test_different_keys_with_equal_hashes_are_not_duplicates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one hash for all keys, only comparing the keys themselves distinguishes them."""
    monkeypatch.setattr(keys, "key_hashes", lambda batch, key: np.zeros(batch.num_rows, "u8"))
    sources = [open_table(put(tmp_path, name, items)) for name, items in (("a", range(80)), ("b", range(80, 90)))]
    assert keys.shared_key(sources, KEY, groups=GROUPS) is None


@pytest.mark.parametrize("at_a_time", [1, 2, 100])
def test_a_shared_key_is_found_among_many_equal_hashes(
    at_a_time: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "SUSPECTS_PER_PASS", at_a_time)
    monkeypatch.setattr(
        keys, "key_hashes", lambda batch, _: np.array([int(item[-1]) for item in batch["item_id"].to_pylist()], "u8")
    )
    sources = [open_table(put(tmp_path, name, items)) for name, items in (("a", range(8)), ("b", range(7, 17)))]
    shared = keys.shared_key(sources, KEY, groups=GROUPS)
    assert shared is not None
    assert (shared.key["item_id"], shared.first, shared.second) == ("i7", *sources)
    apart = [sources[0], open_table(put(tmp_path, "c", range(10, 20)))]
    assert keys.shared_key(apart, KEY, groups=GROUPS) is None


def test_raters_of_one_table_each_need_no_hashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no(*_: Any) -> Any:
        raise AssertionError("hashed")

    monkeypatch.setattr(keys, "key_hashes", no)
    assert len(open_ratings([put(tmp_path, name, range(70), f"{name}@1") for name in "abc"])) == 3


JUDGE = ModelConfig(name="seven", checkpoint="me/seven", revision="main", licence="Gemma Terms of Use")
FACTS = "qwen2|abc|bfloat16|cascade, torch 2, cuda"


def put_raters(folder: Path, name: str, rows: list[dict[str, Any]]) -> str:
    """Write ratings by me/seven with `rows` as the kept raters, and return the table's path."""
    path = write_file(
        folder / name, "ratings", [rating(f"{name}{n}", "me/seven@main", "q", "3") for n in range(4)], rubric=FIVE
    )
    raters = pa.Table.from_pylist(rows, schema=table("raters").schema())
    pq.write_table(raters, folder / name / "_run" / "raters.parquet")
    return path


def test_a_row_for_each_kind_of_machine() -> None:
    other = FACTS.replace("cuda", "cpu")
    first, second = rating_tables.raters_of_model(JUDGE, {"rater": {other: 2, FACTS: 5}})
    shared = {
        "kind": "model",
        "model": "me/seven",
        "licence": "Gemma Terms of Use",
        "family": "qwen2",
        "revision": "abc",
    }
    assert shared.items() <= first.items()
    assert (first["rater"], first["engine"]) == ("me/seven@main", "cascade, torch 2, cuda")
    assert (second["rater"], second["engine"]) == ("me/seven@main (2)", "cascade, torch 2, cpu")
    barred = [f"{FACTS} | {build}" for build in "ab"]
    as_many = rating_tables.raters_of_model(JUDGE, {"rater": {barred[1]: 2, barred[0]: 2}})
    assert [row["engine"] for row in as_many] == [f"cascade, torch 2, cuda | {build}" for build in "ab"]
    (configured,) = rating_tables.raters_of_model(JUDGE, {})
    assert (configured["rater"], configured["revision"], configured["dtype"]) == ("me/seven@main", "main", "auto")


def test_the_page_shows_models_and_licences(tmp_path: Path) -> None:
    rows = rating_tables.raters_of_model(JUDGE, {"rater": {FACTS: 5}})
    paths = [put_raters(tmp_path, name, rows) for name in ("a", "b")]
    assert len(rating_tables.read_raters([open_table(path) for path in paths])) == 1
    cli.execute("report", [f"ratings=[{','.join(paths)}]", f"out={tmp_path}/out"])
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    for words in ("Gemma Terms of Use", "bfloat16", "me/seven", "cascade, torch 2, cuda"):
        assert words in page


def test_sources_of_a_raters_kind(tmp_path: Path) -> None:
    """The user's table `raters` takes precedence, then the kept raters, then the method."""
    kept = [{"rater": "x", "kind": "encoder"}, {"rater": "y", "kind": "encoder"}]
    table_of_user = open_table(write_file(tmp_path / "raters", "raters", [{"rater": "y", "kind": "gold"}]))
    methods = {"x": {"closed"}, "y": {"closed"}, "z": {"closed"}}
    raters = read_raters([table_of_user], methods, gold=[], groups=[], kept=kept)
    assert raters.kinds == {"x": "encoder", "y": "gold", "z": "model"}


def test_tables_without_raters_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "old" / "_run").mkdir(parents=True)
    places = [write_file(tmp_path / "old", "ratings", [rating("i", "m", "q", "3")], rubric=FIVE)]
    places += [
        put_raters(tmp_path, name, [{"rater": "b", "kind": "model"}, {"rater": "a", "kind": "model"}]) for name in "xy"
    ]
    rows = rating_tables.read_raters([open_table(place) for place in places])
    assert [row["rater"] for row in rows] == ["a", "b"]


def test_a_rater_on_two_kinds_of_machines_has_a_row_of_each(tmp_path: Path) -> None:
    row = {"rater": "m", "kind": "model", "dtype": "float32", "engine": "b"}
    rows = [[row], [{**row, "engine": "a"}], [{**row, "dtype": "bfloat16"}], [row]]
    places = [put_raters(tmp_path, name, kept) for name, kept in zip("wxyz", rows, strict=True)]
    kept = rating_tables.read_raters([open_table(place) for place in places])
    assert [(kept_row["dtype"], kept_row["engine"]) for kept_row in kept] == [
        ("bfloat16", "b"), ("float32", "a"), ("float32", "b"),
    ]  # fmt: skip


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = put_raters(tmp_path, "a", [])
    file = tmp_path / "a" / "_run" / "raters.parquet"
    for damage in (b"PAR1", None):
        if damage is None:
            pq.write_table(pa.table({"rater": ["x"]}), file)
        else:
            file.write_bytes(damage)
        with pytest.raises(InputError, match=str(file)):
            cli.execute("report", [f"ratings=[{path}]", f"out={tmp_path}/out"])
    assert not (tmp_path / "out").exists()
