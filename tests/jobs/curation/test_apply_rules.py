"""Rows that a selection leaves out, and the fingerprint by which only changed pieces are written again."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.curation import near_hashes
from jobs.curation.apply_rules import (
    NO_REGION,
    CurationFacts,
    CurationTables,
    Selection,
    read_facts,
    select,
    smallest_by_group,
)
from jobs.curation.curation_rules import NUMBER, RULES, CurationRules, Decision, PageRule
from jobs.curation.record_arrays import HashIndex, read_rows
from jobs.curation.starter import StarterConfig
from jobs.errors import InputError
from jobs.runtime.selection.draws import CompleteDrawConfig, draw_keys
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.reading import open_table
from tests.factories import TableInMemory, century_rating, image_row, record, write_table


def selection(rows: list[dict[str, Any]], excluded: str = "", **keys: Any) -> Selection:
    tables: Any = CurationTables(TableInMemory("records", rows))  # type: ignore[arg-type]
    return select(CurationRules(**keys), tables, ExclusionFilter(frozenset({excluded} - {""})))


def test_only_rules_that_were_applied_are_named() -> None:
    rules = {form: selection([record("a")], thumbnails=form).decision.applied for form in ("any", "wikimedia")}
    combined = ("one_row_an_image", "excluded")
    assert rules["any"] == ("is_main_image", "one_image_a_page", "https", *combined)
    assert rules["wikimedia"] == ("is_main_image", "one_image_a_page", "https", "thumbnail_form", *combined)


def test_rules_of_the_whole_set_are_applied_if_they_are_set(tmp_path: Path) -> None:
    rows = [record("a")]
    images = open_table(write_table(tmp_path / "i", "images", [image_row(rows[0]["image_url"], phash="0" * 16)]))
    tables: Any = CurationTables(TableInMemory("records", rows), images)  # type: ignore[arg-type]

    def added(excluded: str = "", **keys: Any) -> list[str]:
        decision = select(CurationRules(**keys), tables, ExclusionFilter(frozenset({excluded} - {""}))).decision
        assert decision.applied == tuple(rule for rule in RULES if rule in decision.applied)  # in their order
        return [rule for rule in decision.applied if rule not in usual]

    usual: set[str] = set()
    usual |= {*added()}
    assert usual == {"is_main_image", "one_image_a_page", "picture_exists", "https", "thumbnail_form",
                     "one_row_an_image", "excluded"}  # fmt: skip
    assert added(near_duplicates="report") == []
    assert added(near_duplicates="drop") == ["near_duplicate"]
    assert added("other") == []
    assert added(draw=CompleteDrawConfig(n=1)) == ["draw"]


def test_methods_of_a_rule_without_records_are_named() -> None:
    rows = [record("a") | {"methods": ["manual"]}]
    rule = PageRule(methods=["manual", "other", "mined"])
    assert selection(rows, page_rule=rule).notes == [
        "page_rule.methods: no records of mined, other; there are manual"
    ]  # fmt: skip
    whole = selection(rows, page_rule=PageRule(methods=["manual"]))
    assert whole.notes == []
    applied = [selection(rows, page_rule=PageRule(methods=names)).decision.applied for names in ([], ["mined"])]
    several = [*rows, record("b") | {"methods": ["own"]}]
    applied += [whole.decision.applied, selection(several, page_rule=PageRule(methods=["own"])).decision.applied]
    assert ["one_image_a_page" in rules for rules in applied] == [False, False, True, True]


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
    chosen = select(CurationRules(select="starter"), tables, ExclusionFilter(frozenset()))
    decision, region = chosen.decision, chosen.region
    expected = ["starter_rated", "starter_mean", "starter_region"]
    assert decision.rule.tolist() == [*(NUMBER[rule] for rule in expected), 0]
    assert decision.applied[-4:] == (*expected, "starter_per_region")
    assert region is not None
    assert (region.tolist(), chosen.regions) == ([NO_REGION] * 3 + [0], ("Western Europe", "no label"))
    assert chosen.notes == ["ratings of sensitive: 3 ok", "ratings of sub_region: 2 ok"]


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
    kept = select(CurationRules(), tables, ExclusionFilter(frozenset()))
    assert (kept.decision.remaining().tolist(), kept.near) == ([0], None)
    assert kept.notes == ["pictures by the table of images: 1 existing, 0 gone, 0 unknown, 0 of others"]
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


def hashed(folder: Path, *hashes: int) -> Any:
    """Return records with pictures of these perceptual hashes, and the table of these pictures."""
    rows = [record(f"{number:02}") for number in range(len(hashes))]
    images = [
        image_row(row["image_url"], phash=f"{digits:016x}") for row, digits in zip(rows, hashes, strict=True)
    ]  # fmt: skip
    return CurationTables(TableInMemory("records", rows), open_table(write_table(folder, "images", images)))  # type: ignore[arg-type]


def test_what_is_near_is_counted_by_distance(tmp_path: Path) -> None:
    # Two hashes 4 and 5 bits from the first, three within 2 bits of the third, and one far from all.
    tables = hashed(tmp_path / "i", 0, 0xF, 0x1F00, 0x1FC0, 0x1F03, 0x1F00, 0xFF << 40)
    chosen = select(CurationRules(near_duplicates="report"), tables, ExclusionFilter(frozenset()))
    assert chosen.decision.remaining().tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert chosen.notes[-1] == (
        "near-duplicates within 4 bits: 4 pictures near one of 2 that are kept (bits apart: 1 at 0, 2 at 2, 1 at 4; "
        "kept; near_duplicates=drop drops them); 7 of 7 pictures have a perceptual hash"
    )
    exact = CurationRules(near_duplicates="drop", near_distance=0)
    chosen = select(exact, hashed(tmp_path / "j", 0, 1), ExclusionFilter(frozenset()))
    assert chosen.notes[-1] == "near-duplicates within 0 bits: none; 2 of 2 pictures have a perceptual hash"


def test_too_many_near_pictures_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(near_hashes, "MAX_PAIRS", 2)
    settings = CurationRules(near_duplicates="drop", near_distance=3)
    with pytest.raises(InputError, match=r"^near_distance=3: more than 2 pairs .*; choose a smaller one$"):
        select(settings, hashed(tmp_path, 0, 1, 2), ExclusionFilter(frozenset()))


def test_a_draw_removes_records_of_one_method() -> None:
    methods = ["own", "manual", "own", "given", "manual", "own"]
    rows = [record(f"{number}") | {"methods": [method]} for number, method in enumerate(methods)]

    def drawn(n: int, method: str | None = "own") -> Selection:
        return selection(rows, draw=CompleteDrawConfig(n=n), downsample_from=method)

    assert drawn(3).decision.remaining().tolist() == [1, 3, 4]
    four = drawn(4)
    assert {1, 3, 4} < {*four.decision.remaining().tolist()}
    assert len(four.decision.remaining()) == 4
    assert four.notes == ["drew 4 of 6 pictures, with all 3 of other methods than own"]
    assert drawn(4, None).notes == ["drew 4 of 6 pictures"]
    for method, others in (("own", "3 groups"), ("absent", "6 groups")):
        with pytest.raises(
            InputError,
            match=f"^draw.n=2: only records of downsample_from={method} are removed, and the others form {others} "
            r"\(1 of given, 2 of manual, 3 of own\); choose",
        ):
            drawn(2, method)


def test_each_group_has_its_own_draw() -> None:
    keys = draw_keys([f"{n:032x}" for n in range(200)], purpose="starter", seed=0)
    group = np.array([n % 3 if n < 150 else 3 + n % 40 for n in range(200)])
    chosen = smallest_by_group(keys, group, 6)
    for number in np.unique(group):
        members = group == number
        assert chosen[members].sum() == min(6, members.sum())
        assert set(keys[chosen & members]) == set(np.sort(keys[members])[:6])
    assert smallest_by_group(keys[:0], group[:0], 6).tolist() == []


TITLES = "abcdef"


def looks(tmp_path: Any, images: list[dict[str, Any]], *, hashes: bool = True) -> CurationFacts:
    """By picture of the records `a` to `f`, in that order."""
    held: Any = TableInMemory("records", [record(title) for title in TITLES])
    rows = read_rows(held, thumbnails="any")
    actual = read_facts(open_table(write_table(str(tmp_path / "i"), "images", images)), rows.pictures, hashes=hashes)
    return CurationFacts(actual.gone[rows.image], actual.hashed[rows.image], actual.phash[rows.image], actual.counts)


def of(title: str, **more: Any) -> dict[str, Any]:
    return image_row(f"https://i/{title}.jpg", **more)


def test_only_missing_is_gone(tmp_path: Any) -> None:
    images = [
        of("a", phash="00000000000000ff"),
        of("b", status="missing"),
        of("c", status="error"),
        of("d", status="missing"),
        of("d", rendition="w300", phash="0f00000000000000"),
        of("e", status="blocked"),
        of("f", phash="ff"),  # of another kind: a perceptual hash has 16 digits
        of("somebody else's", status="missing"),
    ]
    actual = looks(tmp_path, images)
    assert actual.gone.tolist() == [False, True, False, False, False, False]
    assert actual.hashed.tolist() == [True, False, False, True, False, False]
    assert [hex(h) for h in actual.phash] == ["0xff", "0x0", "0x0", "0xf00000000000000", "0x0", "0x0"]
    assert actual.counts == {"existing": 3, "gone": 1, "unknown": 2, "of_others": 1}


@pytest.mark.parametrize("reverse", [False, True])
def test_the_hash_is_that_of_the_first_rendition_by_name(tmp_path: Any, reverse: bool) -> None:
    images = [
        of("a", rendition="w300", phash="0000000000000003"),
        of("a", rendition="original", phash="0000000000000001"),
        of("a", rendition="w500", phash="0000000000000005"),
        of("b", rendition="w500", phash="0000000000000005"),
        of("b", rendition="w300", phash="0000000000000003"),
        of("b", rendition="original", status="error", phash=None),
    ]
    actual = looks(tmp_path, images[::-1] if reverse else images)
    assert actual.phash[:2].tolist() == [1, 3]


def test_useless_tables_are_refused(tmp_path: Any) -> None:
    with pytest.raises(InputError, match="none of its 1 pictures belongs to the records"):
        looks(tmp_path / "1", [of("x")])
    with pytest.raises(InputError, match="no phash"):
        looks(tmp_path / "2", [of("a")])
    assert not looks(tmp_path / "3", [of("a")], hashes=False).hashed.any()
    held = open_table(write_table(tmp_path / "6", "records", [record("a")]))
    with pytest.raises(InputError, match=r"^images=.*6: no column rendition; use a table that remine fetch wrote$"):
        read_facts(held, HashIndex(np.empty((0, 2), np.uint64)), hashes=True)
    nothing = HashIndex(np.empty((0, 2), np.uint64))
    others = open_table(write_table(tmp_path / "5", "images", [of("a")]))
    assert read_facts(others, nothing, hashes=False).counts["of_others"] == 1
    assert np.array_equal(looks(tmp_path / "4", [], hashes=False).gone, np.zeros(6, bool))
