"""Rows that a selection leaves out, and the fingerprint by which only changed pieces are written again."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.curation.apply_rules import CurationTables, Selection, select
from jobs.curation.config import CurationRules, PageRule
from jobs.curation.rules import NUMBER, Decision
from jobs.curation.starter import StarterConfig
from jobs.errors import InputError
from jobs.runtime.selection.draws import CompleteDrawConfig
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.reading import open_table
from tests.factories import TableInMemory, century_rating, image_row, record, write_table


def selection(rows: list[dict[str, Any]], excluded: str = "", **keys: Any) -> Selection:
    tables: Any = CurationTables(TableInMemory("records", rows))  # type: ignore[arg-type]
    return select(CurationRules(**keys), tables, ExclusionFilter(frozenset({excluded} - {""})))


def test_only_rules_that_were_applied_are_named() -> None:
    rules = {form: selection([record("a")], thumbnails=form).decision.applied for form in ("any", "wikimedia")}
    assert rules["any"] == ("is_main_image", "one_image_a_page", "https", "one_row_an_image")
    assert rules["wikimedia"] == ("is_main_image", "one_image_a_page", "https", "thumbnail_form", "one_row_an_image")


def test_methods_of_a_rule_without_records_are_named() -> None:
    rows = [record("a") | {"methods": ["manual"]}]
    rule = PageRule(methods=["manual", "other", "mined"])
    assert selection(rows, page_rule=rule).notes == [
        "page_rule.methods: no records of mined, other; there are manual"
    ]  # fmt: skip
    assert selection(rows, page_rule=PageRule(methods=["manual"])).notes == []


def test_the_method_decides_between_near_pictures_before_their_titles(tmp_path: Path) -> None:
    methods = {"a": "with_foundation_model", "b": "manually_curated", "c": "with_foundation_model"}
    rows = [record(title) | {"methods": [method]} for title, method in methods.items()]
    images = [
        image_row(row["image_url"], image_id=row["image_id"], phash=f"{7 >> number:016x}")
        for number, row in enumerate(rows)
    ]
    source = open_table(write_table(tmp_path / "images", "images", images))
    kept = {}
    for first in ("manually_curated", "with_foundation_model"):
        settings = CurationRules(near_duplicates="drop", precedence=[first])
        tables: Any = CurationTables(TableInMemory("records", rows), source)  # type: ignore[arg-type]
        kept[first] = select(settings, tables, ExclusionFilter(frozenset())).decision.remaining().tolist()
    assert kept == {"manually_curated": [1], "with_foundation_model": [0]}


def test_a_picture_leaves_the_starter_set_by_the_first_rule_that_it_fails() -> None:
    rows = [record(title) for title in "abcd"]
    ids = [row["image_id"] for row in rows]
    ratings = [century_rating(name, "sensitive", score) for name, score in zip(ids[1:], (2, 4, 4), strict=True)]
    ratings += [century_rating(ids[number], "sub_region", "Western Europe") for number in (0, 3)]
    tables: Any = CurationTables(TableInMemory("records", rows), None, [TableInMemory("ratings", ratings)])  # type: ignore[arg-type, list-item]
    decision = select(CurationRules(select="starter"), tables, ExclusionFilter(frozenset())).decision
    expected = ["starter_rated", "starter_mean", "starter_region"]
    assert decision.rule.tolist() == [*(NUMBER[rule] for rule in expected), 0]


def test_pages_of_several_images_are_left_out_of_the_methods_of_the_rule() -> None:
    rows = [
        record(title, page="https://p/same") | {"methods": [method]}
        for title, method in zip("abcd", "mmnn", strict=True)
    ]
    kept = {
        methods: selection(rows, page_rule=PageRule(methods=list(methods))).decision.remaining().tolist()
        for methods in ("mn", "m", "n")
    }
    assert kept == {"mn": [], "m": [2, 3], "n": [0, 1]}


def test_the_seed_decides_which_pictures_of_a_region_stay() -> None:
    rows = [record(title) for title in "abcdefgh"]
    ids = [row["image_id"] for row in rows]
    ratings = [century_rating(name, "sensitive", 4) for name in ids]
    ratings += [century_rating(name, "sub_region", "Western Europe") for name in ids]
    tables: Any = CurationTables(TableInMemory("records", rows), None, [TableInMemory("ratings", ratings)])  # type: ignore[arg-type, list-item]
    stays = set()
    for seed in range(6):
        settings = CurationRules(
            select="starter", starter=StarterConfig(per_region=1), draw=CompleteDrawConfig(seed=seed)
        )
        stays.add(tuple(select(settings, tables, ExclusionFilter(frozenset())).decision.remaining().tolist()))
    assert {len(positions) for positions in stays} == {1}
    assert len(stays) > 1


def test_hashes_are_read_for_near_pictures_only(tmp_path: Path) -> None:
    rows = [record("a")]
    images = [image_row(rows[0]["image_url"], image_id=rows[0]["image_id"])]  # has no hash
    source = open_table(write_table(tmp_path / "images", "images", images))
    tables: Any = CurationTables(TableInMemory("records", rows), source)  # type: ignore[arg-type]
    assert len(select(CurationRules(), tables, ExclusionFilter(frozenset())).decision.remaining()) == 1
    near = CurationRules(near_duplicates="report")
    with pytest.raises(InputError, match="no phash in any row"):
        select(near, tables, ExclusionFilter(frozenset()))
    gone = open_table(write_table(tmp_path / "gone", "images", [images[0] | {"status": "missing"}]))
    assert select(near, replace(tables, images=gone), ExclusionFilter(frozenset())).near == b""


def test_an_excluded_url_leaves_out_all_records_of_its_picture() -> None:
    rows = [record(title) | {"image_id": "same" if title in "ab" else title} for title in "abc"]
    chosen = selection(rows, excluded=rows[0]["image_url"])
    assert chosen.decision.remaining().tolist() == [2]


def test_a_fingerprint_changes_with_every_decision_about_its_rows() -> None:
    rows = [record(title) | {"methods": ["manual", "own"]} for title in "abcd"]
    first = selection(rows)
    decision = first.decision
    arrays = {"rule": decision.rule, "reached": decision.reached, "credit": decision.credit, "region": np.arange(4)}

    def fingerprint(name: str, *index: int) -> str:
        """Return the fingerprint of the first three rows with another number at one place of an array."""
        changed = {key: array.copy() for key, array in arrays.items()}
        changed[name][index] = 7
        region = changed.pop("region")
        return Selection(first.rows, Decision(**changed, applied=()), region=region).fingerprint(0, 3)

    behind = {fingerprint("rule", 3), fingerprint("reached", 1, 3), fingerprint("credit", 3), fingerprint("region", 3)}
    assert len(behind) == 1
    inside = {fingerprint(name, 1) for name in ("rule", "credit", "region")}
    inside |= {fingerprint("reached", method, 1) for method in range(2)}
    assert len(inside | behind) == 6


def test_the_order_of_methods_in_the_table_changes_no_fingerprint() -> None:
    tables = [
        [record("a") | {"methods": methods}, record("b") | {"methods": ["manual"], "is_main_image": "false"}]
        for methods in (["manual", "own"], ["own", "manual"])
    ]
    first, second = (selection(rows) for rows in tables)
    assert first.rows.methods == second.rows.methods[::-1]
    assert first.fingerprint(0, 2) == second.fingerprint(0, 2)


def test_groups_of_near_pictures_are_in_order_of_their_ids(tmp_path: Path) -> None:
    rows = [record(title) for title in "abcdefgh"]
    images = [
        image_row(row["image_url"], image_id=row["image_id"], phash=f"{0xFFFF << 16 * (n % 3) | n // 3 << 60:016x}")
        for n, row in enumerate(rows)
    ]
    tables: Any = CurationTables(
        TableInMemory("records", rows),  # type: ignore[arg-type]
        open_table(write_table(tmp_path / "images", "images", images)),
    )
    settings = CurationRules(near_duplicates="report", near_distance=2)
    listed = select(settings, tables, ExclusionFilter(frozenset())).near
    groups = [json.loads(line) for line in (listed or b"").splitlines()]
    ids = [row["image_id"] for row in rows]
    of_group = {ids[n]: sorted(ids[n + 3 :: 3]) for n in range(3)}
    assert [(group["stays"], list(group["near"])) for group in groups] == sorted(of_group.items())
