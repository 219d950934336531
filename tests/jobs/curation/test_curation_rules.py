"""The rules on arrays give what a plain loop over the rows of each method gives, whatever the order of the rows."""

import random
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.ids import content_id
from jobs.curation import curation_rules, curation_steps
from jobs.curation.curation_rules import RULES, CurationRules, Decision, PageRule
from jobs.curation.near_hashes import MAX_DISTANCE
from jobs.curation.record_arrays import ranks, read_rows
from jobs.curation.starter import StarterConfig
from jobs.errors import InputError
from jobs.runtime.selection.draws import DrawConfig
from tests.cases import check_cases
from tests.factories import TableInMemory, record

PRECEDENCE = ["knowledge_graph", "language_model", "manual"]
WIKIMEDIA = "https://upload.wikimedia.org/wikipedia/commons"


def matched(title: str, *methods: str, **more: Any) -> dict[str, Any]:
    split = more.pop("split", "train")
    return {**record(title, **more), "methods": list(methods), "split": split}


def decide(
    rows: list[dict[str, Any]],
    *,
    gone: frozenset[str] = frozenset(),
    thumbnails: str = "wikimedia",
    page: str = "page_url",
    page_methods: list[str] | None = None,
) -> tuple[Decision, dict[str, str]]:
    """Return the decision, and record_id -> the rule it fell to."""
    held: Any = TableInMemory("records", rows)
    read = read_rows(held, thumbnails=thumbnails, page=page)
    missing = np.zeros(len(read.pictures), bool)
    for row, image in zip(rows, read.image, strict=True):
        missing[image] |= row["image_url"] in gone
    decision = curation_rules.filter_each_method(
        read, gone=missing, thumbnails=thumbnails != "any", one_image_methods=page_methods
    )
    curation_rules.resolve_duplicates(read, decision, precedence=PRECEDENCE, ranks=partial(ranks, held))
    fell = {row["record_id"]: RULES[rule - 1] for row, rule in zip(rows, decision.rule, strict=True) if rule}
    return decision, fell


def passing(test: str, mine: list[dict[str, Any]], gone: frozenset[str], page: str) -> Callable[[dict[str, Any]], bool]:
    """Return a rule's condition on a row, given the remaining rows of the same method."""
    pages = defaultdict(set)
    for row in mine:
        pages[row[page]].add(row["image_url"])
    asked: dict[str, Callable[[dict[str, Any]], bool]] = {
        "is_main_image": lambda r: (r["is_main_image"] or "").lower() == "true",
        "one_image_a_page": lambda r: len(pages[r[page]]) == 1,
        "picture_exists": lambda r: r["image_url"] not in gone,
        "https": lambda r: r["image_url"].startswith("https://"),
        "thumbnail_form": lambda r: "wikimedia" not in r["image_url"] or r["image_url"].endswith("jpg"),
    }
    return asked[test]


def plain_loop(
    rows: list[dict[str, Any]], gone: frozenset[str], page: str, page_methods: list[str] | None
) -> dict[str, str]:
    """Return the same result computed literally, without arrays: each method's rows filtered alone, then duplicates."""
    order = [*PRECEDENCE, *sorted({m for r in rows for m in r["methods"]} - {*PRECEDENCE}), ""]
    lost: dict[str, int] = {}
    kept_by: dict[str, list[str]] = defaultdict(list)
    tests = ["is_main_image", "one_image_a_page", "picture_exists", "https", "thumbnail_form"]
    for method in order:
        mine = [r for r in rows if method in (r["methods"] or [""])]
        for number, test in enumerate(tests):
            if test == "one_image_a_page" and page_methods is not None and method not in page_methods:
                continue
            passes = passing(test, mine, gone, page)
            for row in mine:
                if not passes(row):
                    lost[row["record_id"]] = max(number, lost.get(row["record_id"], 0))
            mine = [r for r in mine if passes(r)]
        for row in mine:
            kept_by[row["record_id"]].append(method)
    fell = {r: tests[number] for r, number in lost.items() if r not in kept_by}
    best: dict[str, tuple[Any, ...]] = {}
    for row in rows:
        if by := kept_by[row["record_id"]]:
            rank = (min(map(order.index, by)), row["page_title"], row["page_url"], row["record_id"])
            best[row["image_url"]] = min(rank, best.get(row["image_url"], rank))
    for row in rows:
        if kept_by[row["record_id"]] and best[row["image_url"]][-1] != row["record_id"]:
            fell[row["record_id"]] = "one_row_an_image"
    return fell


IMAGES = ["https://a", "https://b", "http://c", f"{WIKIMEDIA}/a/ab/x.jpg", f"{WIKIMEDIA}/a/ab/x.ogg"]
ROW = st.fixed_dictionaries({
    "title": st.sampled_from("tuv"),
    "page": st.sampled_from("pqr"),
    "image": st.sampled_from(IMAGES),
    "main": st.sampled_from(["true", "TRUE", "false", None]),
    "methods": st.lists(st.sampled_from([*PRECEDENCE, "own", "another"]), max_size=3, unique=True),
    "split": st.sampled_from(["train", "val", "", None]),
})  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.lists(ROW, max_size=14),
    st.frozensets(st.sampled_from(["https://a", "https://b"])),
    st.integers(0, 9),
    st.sampled_from(["page_url", "page_title"]),
    st.sampled_from([None, [], ["knowledge_graph"], ["own", "language_model"]]),
)
def test_the_result_equals_a_plain_loop_in_any_order(
    drawn: list[Any], gone: frozenset[str], seed: int, page: str, page_methods: list[str] | None
) -> None:
    rows = [
        matched(d["title"], *d["methods"], page=d["page"], image=d["image"], main=d["main"], split=d["split"])
        | {"record_id": str(number)}
        for number, d in enumerate(drawn)
    ]
    keys: Any = {"gone": gone, "page": page, "page_methods": page_methods}
    decision, fell = decide(rows, **keys)
    assert fell == plain_loop(rows, gone, page, page_methods)
    shuffled = random.Random(seed).sample(rows, len(rows))
    assert decide(shuffled, **keys)[1] == fell
    left = [row for row in rows if row["record_id"] not in fell]
    assert len({row["image_url"] for row in left}) == len(left)
    assert decide(left, **keys)[1] == {}, "a second time changes nothing"
    assert (decision.credit[decision.remaining()] != curation_rules.NO_METHOD).all()


def test_pages_are_looked_at_in_each_method_alone() -> None:
    """One page under two titles: the knowledge graph's terms match one of them, the language model's both."""
    rows = [
        matched("1932 revolt", "knowledge_graph", "language_model", page="P", image="https://a", record_id="1"),
        matched("revolt", "language_model", page="P", image="https://b", record_id="2"),
    ]
    decision, fell = decide(rows)
    assert fell == {"2": "one_image_a_page"}
    assert decision.reached[:, 0].tolist() == [curation_rules.KEPT, curation_rules.NUMBER["one_image_a_page"]]


def test_pages_by_title_are_those_of_one_language() -> None:
    rows = [
        matched("revolt", "knowledge_graph", page="P", image="https://a", record_id="1"),
        matched("revolt", "knowledge_graph", page="Q", image="https://b", record_id="2"),
        matched("revolt", "knowledge_graph", page="R", image="https://c", record_id="3") | {"language": "fr"},
        matched("revolt", "language_model", page="P", image="https://d", record_id="4"),
        matched("revolt", "language_model", page="P", image="https://e", record_id="5"),
    ]
    assert decide(rows)[1] == {"4": "one_image_a_page", "5": "one_image_a_page"}
    actual = decide(rows, page="page_title", page_methods=["knowledge_graph"])[1]
    assert actual == {"1": "one_image_a_page", "2": "one_image_a_page"}


def test_a_record_is_counted_under_the_rule_that_took_its_last_method() -> None:
    rows = [
        matched("a", "knowledge_graph", "manual", page="P", image="http://a", record_id="1"),
        matched("b", "manual", page="P", image="https://b", record_id="2"),
    ]
    assert decide(rows)[1] == {"1": "https", "2": "one_image_a_page"}


def test_the_page_rule_comes_before_the_others_and_main_before_it() -> None:
    rows = [
        matched("t", page="p", image="https://a", record_id="1"),
        matched("t", page="p", image="http://b", record_id="2"),
    ]
    assert decide(rows)[1] == {"1": "one_image_a_page", "2": "one_image_a_page"}
    assert decide(rows, gone=frozenset({"https://a"}))[1] == {"1": "one_image_a_page", "2": "one_image_a_page"}
    rows[1]["is_main_image"] = "false"
    assert decide(rows)[1] == {"2": "is_main_image"}
    rows = [
        matched("a", page="p", image="https://a", record_id="1"),
        matched("a", page="p", image="https://b", record_id="2"),
        matched("z", page="q", image="https://a", record_id="3"),
    ]
    assert decide(rows)[1].keys() == {"1", "2"}, "3 stays though 1 would stay instead of it"
    gone_and_plain = [matched("a", image="http://a", record_id="1")]
    assert decide(gone_and_plain, gone=frozenset({"http://a"}))[1] == {"1": "picture_exists"}


def test_only_https_stays() -> None:
    def check(url: str) -> None:
        assert decide([matched("t", image=url, record_id="1")])[1] == {"1": "https"}

    check_cases(check, ["http://a", "HTTPS://a", "", "httpsx://a", "//https://a"])


def test_which_urls_need_a_resized_form_is_chosen() -> None:
    rows = [
        matched("elsewhere", image="https://example.org/x.jpg", record_id="1"),
        matched("sound", image=f"{WIKIMEDIA}/a/ab/x.ogg", record_id="2"),
        matched("picture", image=f"{WIKIMEDIA}/a/ab/x.jpg", record_id="3"),
    ]
    assert decide(rows)[1] == {"2": "thumbnail_form"}
    assert decide(rows, thumbnails="all")[1] == {"1": "thumbnail_form", "2": "thumbnail_form"}
    decision, fell = decide(rows, thumbnails="any")
    assert fell == {}
    assert "thumbnail_form" not in decision.applied


def test_an_image_found_by_several_methods_goes_to_the_first_in_precedence() -> None:
    same = "https://same"
    rows = [
        matched("a", "manual", image=same, page="1", record_id="1"),
        matched("b", "language_model", "own", image=same, page="2", record_id="2"),
        matched("d", "knowledge_graph", image=same, page="4", record_id="4"),
        matched("c", "knowledge_graph", "manual", image=same, page="3", record_id="3"),
    ]
    decision, fell = decide(rows)
    assert fell == dict.fromkeys("124", "one_row_an_image")
    methods = read_rows(TableInMemory("records", rows), thumbnails="any").methods  # type: ignore[arg-type]
    assert [methods[m] for m in decision.credit[decision.remaining()]] == ["knowledge_graph"]
    assert curation_rules.order_by_precedence(["z", "manual", "a", "knowledge_graph"], PRECEDENCE) == [3, 1, 2, 0]


def test_the_smallest_title_then_page_then_id_stays() -> None:
    keys = [
        ("1", "q", "b"),
        ("2", "z", "a"),
        ("4", "p", "a"),
        ("3", "p", "a"),
        ("5", "p", "\uffff"),
        ("6", "p", "\U0001f600"),
    ]
    rows = [matched(title, page=page, image="https://a", record_id=number) for number, page, title in keys]
    assert decide(rows)[1] == dict.fromkeys("12456", "one_row_an_image")


def test_steps_are_counted_by_method_and_split() -> None:
    rows = [
        matched("a", "knowledge_graph", "manual", record_id="1"),
        matched("b", "knowledge_graph", split="val", main="false", record_id="2"),
        matched("c", "manual", split="", image="http://c", record_id="3"),
        matched("d", "manual/own", image="https://i/a.jpg", record_id="4"),
    ]
    read = read_rows(TableInMemory("records", rows), thumbnails="wikimedia")  # type: ignore[arg-type]
    decision, _ = decide(rows)
    tally = curation_steps.steps(read, decision, 0, 4)
    by_step = {step.name: step.by_method for step in curation_steps.steps_of({curation_steps.TALLY: tally})}
    assert list(by_step) == ["matched", *decision.applied]
    assert [step.n for step in curation_steps.steps_of({curation_steps.TALLY: tally})] == [4, 3, 3, 3, 2, 2, 1]
    assert by_step["matched"] == {
        "knowledge_graph": {"train": 1, "val": 1},
        "manual": {"train": 1, "unknown": 1},
        "manual/own": {"train": 1},
    }
    assert by_step["https"] == {
        "knowledge_graph": {"train": 1, "val": 0},
        "manual": {"train": 1, "unknown": 0},
        "manual/own": {"train": 1},
    }
    assert {m: sum(s.values()) for m, s in by_step["one_row_an_image"].items()} == {
        "knowledge_graph": 1,
        "manual": 0,
        "manual/own": 0,
    }
    parts: dict[str, int] = {}
    for first in range(4):
        for key, n in curation_steps.steps(read, decision, first, first + 1).items():
            parts[key] = parts.get(key, 0) + n
    assert parts == tally, "the sum over units is the tally of the table"


def test_counts_are_printed_by_method_and_for_all_only_if_there_are_several() -> None:
    tally = {"kg/val/matched": 2, "kg/train/matched": 6, "kg/train/https": 3, "kg/val/https": 1}

    def printed(tally: dict[str, int], left: list[int]) -> list[str]:
        of_all = dict(zip(("/train/matched", "/train/https"), left, strict=True))
        return list(curation_steps.lines({curation_steps.TALLY: tally | of_all}))

    lines = printed(tally, [8, 4])
    assert [line.split() for line in lines[:3]] == [["kg"], ["matched", "8"], ["https", "4"]]
    assert lines[-2:] == [
        "  kg: 8 records matched (6 train, 2 val)", "  kg: 4 after its own filters (50.0 %; 3 train, 1 val)"
    ]  # fmt: skip
    assert [line.split() for line in printed({"lm/train/matched": 1, "lm/train/https": 1} | tally, [9, 5])][:3] == [
        ["all", "kg", "lm"],
        ["matched", "9", "8", "1"],
        ["https", "5", "4", "1"],
    ]
    assert list(curation_steps.lines({})) == list(curation_steps.lines({curation_steps.TALLY: {}})) == []
    starter = {curation_steps.ELIGIBLE: {"Asia": 5, "Africa": 2}, curation_steps.STARTER: {"Asia": 1}}
    first, *regions = curation_steps.region_lines(starter)
    assert first == "  starter set: 1 of 7 pictures that are sensitive enough"
    assert [line.split() for line in regions] == [
        ["Africa", "0", "of", "2"],
        ["Asia", "1", "of", "5"],
    ]
    assert list(curation_steps.region_lines({})) == []


def test_too_many_methods_are_refused() -> None:
    rows = [matched("t", *(f"m{n:02}" for n in range(65)))]
    with pytest.raises(InputError, match="more than 64 values of method"):
        read_rows(TableInMemory("records", rows), thumbnails="any")  # type: ignore[arg-type]


def test_a_picture_is_found_by_its_id() -> None:
    rows = [matched(title) for title in "abcabd"]
    read = read_rows(TableInMemory("records", rows), thumbnails="any")  # type: ignore[arg-type]
    import pyarrow as pa

    ids = [content_id(f"https://i/{title}.jpg") for title in "abcabdx"]
    assert read.pictures.find(pa.chunked_array([ids]))[:6].tolist() == read.image.tolist()
    assert read.pictures.find(pa.chunked_array([ids]))[6] == -1


def test_values_at_their_bounds_are_allowed() -> None:
    for near in (0, MAX_DISTANCE):
        CurationRules(near_distance=near).check()
    CurationRules(downsample_from="manual", draw=DrawConfig(n=1), precedence=["a", "b"], select="starter").check()
    CurationRules(precedence=[], near_duplicates="drop", thumbnails="all", page_rule=PageRule("page_title")).check()


def test_other_values_are_refused_by_their_key() -> None:
    def check(keys: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            CurationRules(**keys).check()

    check_cases(check, [
        ({"near_distance": -1}, f"^near_distance=-1: must be from 0 to {MAX_DISTANCE}"),
        ({"near_distance": MAX_DISTANCE + 1}, "^near_distance="),
        ({"downsample_from": "manual"}, r"^downsample_from=manual: only read with draw\.n="),
        ({"draw": DrawConfig(n=0)}, r"^draw\.n=0"),
        ({"thumbnails": "some"}, "^thumbnails=some: must be one of any, wikimedia, all$"),
        ({"page_rule": PageRule("url")}, r"^page_rule\.by=url: must be one of page_url, page_title$"),
        ({"near_duplicates": "x"}, "^near_duplicates=x: must be one of keep, report, drop$"),
        ({"starter": StarterConfig(per_region=0)}, r"^starter\.per_region=0"),
        ({"select": "some"}, "^select=some: must be one of all, starter$"),
        ({"precedence": ["a", "b", "a"]}, r"^precedence=\[a,b,a\]: duplicate a$"),
    ])  # fmt: skip
