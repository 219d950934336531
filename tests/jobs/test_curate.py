"""The paper's rules in the paper's order, on rows in any order; every row is in one piece."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import cli
from jobs.corpora.terms import TermsConfig, read_terms
from jobs.corpora.wit import scan_file
from jobs.curate import Row, decide, main_images, pieces
from jobs.errors import InputError
from jobs.store.reading import open_table, read_unit
from jobs.store.writer import Counts
from tests.jobs.records import record, write_records


def rows_of(*rows: tuple[str, str, str, str]) -> list[Row]:
    return [Row(*row) for row in rows]


def test_rows_that_are_no_main_image_go_first() -> None:
    decision = decide(rows_of(("1", "p", "https://i", "t")), ["2", "3"])
    assert decision.dropped == {"2": "is_main_image", "3": "is_main_image"}
    assert decision.steps == {
        "matched": 3,
        "is_main_image": 1,
        "one_image_a_page": 1,
        "https": 1,
        "one_row_an_image": 1,
    }


def test_pages_with_several_distinct_images_go() -> None:
    rows = rows_of(("1", "p", "https://a", "t"), ("2", "p", "https://b", "t"), ("3", "q", "https://c", "t"))
    assert decide(rows, []).dropped == {"1": "one_image_a_page", "2": "one_image_a_page"}
    same = rows_of(("1", "p", "https://a", "t"), ("2", "p", "https://a", "u"))  # one image, two rows: one stays
    assert decide(same, []).dropped == {"2": "one_row_an_image"}


def test_the_page_rule_comes_before_https_and_before_one_row_an_image() -> None:
    rows = rows_of(("1", "p", "https://a", "t"), ("2", "p", "http://b", "t"))
    assert decide(rows, []).dropped == {"1": "one_image_a_page", "2": "one_image_a_page"}
    rows = rows_of(("1", "p", "https://a", "a"), ("2", "p", "https://b", "a"), ("3", "q", "https://a", "z"))
    assert decide(rows, []).dropped.keys() == {"1", "2"}  # 3 stays though 1 would rank before it


@pytest.mark.parametrize("url", ["http://a", "HTTPS://a", "", "httpsx://a", "//https://a"])
def test_only_https_stays(url: str) -> None:
    assert decide(rows_of(("1", "p", url, "t")), []).dropped == {"1": "https"}


def test_the_smallest_title_then_page_then_id_stays() -> None:
    image = "https://a"
    rows = rows_of(("1", "q", image, "b"), ("2", "z", image, "a"), ("4", "p", image, "a"), ("3", "p", image, "a"))
    assert decide(rows, []).dropped == dict.fromkeys("124", "one_row_an_image")


ROW = st.tuples(st.sampled_from("pqr"), st.sampled_from(["https://a", "https://b", "http://c"]), st.sampled_from("tu"))


@given(st.lists(ROW, max_size=12), st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(drawn: list[tuple[str, str, str]], rng: random.Random) -> None:
    rows = [Row(str(number), *row) for number, row in enumerate(drawn)]
    shuffled = rng.sample(rows, len(rows))
    first, second = decide(rows, ["x"]), decide(shuffled, ["x"])
    assert first == second
    left = [r for r in rows if r.record_id not in first.dropped]
    assert len(left) == first.steps["one_row_an_image"]
    assert len({r.image_url for r in left}) == len(left)
    assert decide(left, []).dropped == {}  # a second time changes nothing


def test_pieces_cover_every_row_once_and_in_order(tmp_path: Path) -> None:
    units = [
        [record(f"{u}{i}", main="true" if i % 3 else "false") for i in range(n)]
        for u, n in (("a", 20), ("b", 0), ("c", 4))
    ]
    write_records(str(tmp_path / "m"), units)
    source = open_table(str(tmp_path / "m"))
    decision = decide(*main_images(source))
    for unit_rows in (1, 3, 4, 100):
        cut = list(pieces(source, decision, unit_rows))
        assert len({u.name for u in cut}) == len(cut)
        seen: list[str] = []
        for unit in cut:
            ids = read_unit(unit.inputs[0].uri)["record_id"].to_pylist()[unit.extra["from"] : unit.extra["to"]]
            assert len(ids) == unit.rows
            assert sum(i not in decision.dropped for i in ids) <= unit_rows
            seen += ids
        assert seen == [row["record_id"] for rows in units for row in rows]


def curate(tmp_path: Path, *more: str) -> dict[str, Any]:
    made = cli.execute("curate", [f"input={tmp_path}/m", f"out={tmp_path}/r", *more])
    assert isinstance(made, dict)
    return made


def titles(out: Path) -> list[str]:
    return [
        t for batch in open_table(str(out), "records").batches(["page_title"]) for t in batch["page_title"].to_pylist()
    ]


def test_a_table_is_curated_unit_by_unit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    units = [
        [record("keep"), record("aside", main="false"), record("unsaid", main=None), record("Main", main="TRUE")],
        [record("two", page="P", image="https://1"), record("two", page="P", image="https://2")],
        [record("plain", image="http://x"), record("b", image="https://same"), record("a", image="https://same")],
    ]
    write_records(str(tmp_path / "m"), units)
    manifest = curate(tmp_path, "unit_rows=1")
    assert sorted(titles(tmp_path / "r")) == ["Main", "a", "keep"]
    counts = manifest["counts"]
    assert (counts["rows_in"], counts["rows_out"]) == (9, 3)
    assert counts["filtered"] == {"is_main_image": 2, "one_image_a_page": 2, "https": 1, "one_row_an_image": 1}
    assert "9 in = 3 out" in capsys.readouterr().out
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "r").glob("*.parquet")}
    assert curate(tmp_path, "unit_rows=1")["counts"] == counts
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "r").glob("*.parquet")} == before


def test_a_table_without_rows_is_curated_to_one(tmp_path: Path) -> None:
    write_records(str(tmp_path / "m"), [[], []])
    assert curate(tmp_path)["counts"]["rows_out"] == 0
    assert len(open_table(str(tmp_path / "r")).footers) == 2


def test_plan_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_records(str(tmp_path / "m"), [[record("a")]])
    assert cli.execute("curate", [f"input={tmp_path}/m", f"out={tmp_path}/r", "plan=true"]) is None
    assert not (tmp_path / "r").exists()
    assert f"would write table records to {tmp_path}/r" in capsys.readouterr().out


def test_what_cannot_be_curated_is_refused(tmp_path: Path) -> None:
    write_records(str(tmp_path / "m"), [[record("a", record_id="x")], [record("b", record_id="x")]])
    with pytest.raises(InputError, match="1 record_ids occur twice"):
        curate(tmp_path)
    with pytest.raises(InputError, match="unit_rows=0"):
        curate(tmp_path, "unit_rows=0")
    assert not (tmp_path / "r").exists()


def test_the_real_files_give_the_expected_list(data: Path, tmp_path: Path) -> None:
    from actors.titles import TitleMatcher

    expected = json.loads((data / "wit" / "expected.json").read_text())
    matcher = TitleMatcher(read_terms(TermsConfig(path=str(data / "century" / "knowledge_graph_search_terms.csv"))))
    units: list[list[dict[str, Any]]] = []
    for name in expected["files"]:
        uri = str(data / "wit" / name)
        hits = scan_file(uri, language="en", matcher=matcher, counts=Counts(), reject=lambda reject: None)
        fields = [hit.fields for hit in hits]
        units.append([
            {**f, "record_id": f"{name}{i}", "image_id": "", "terms": []} for i, f in enumerate(fields)
        ])  # fmt: skip
    write_records(str(tmp_path / "m"), units)
    manifest = curate(tmp_path, "unit_rows=100")
    counts = manifest["counts"]
    lost = [counts["filtered"][rule] for rule in ("is_main_image", "one_image_a_page", "https", "one_row_an_image")]
    steps = list(expected["steps"].values())[2:]
    assert [counts["rows_in"], *(counts["rows_in"] - sum(lost[: i + 1]) for i in range(4))] == steps
    final = open_table(str(tmp_path / "r"))
    found = [
        [row["page_title"], row["image_url"]]
        for batch in final.batches(["page_title", "image_url"])
        for row in batch.to_pylist()
    ]
    assert sorted(found) == sorted(expected["final"])
