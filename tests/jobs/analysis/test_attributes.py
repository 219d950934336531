"""Items and responses of several tables: equal rows count once, contradictions are refused with both tables."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.analysis.attributes import SHORT, family_of, raters_of, read_items, read_raters, read_units
from jobs.analysis.reduced_question import IndependentUnits
from jobs.analysis.responses import refusal_rates
from jobs.analysis.span_tables import read_texts
from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.store.hashing import hash_texts
from jobs.store.reading import open_table
from tests.cases import check_cases
from tests.factories import TableInMemory, rating, rows_of, write_file, write_table

pytestmark = pytest.mark.usefixtures("without_plots")
ITEMS: list[dict[str, Any]] = [
    {"item_id": "a", "image_ids": ["p", "q"], "attributes": [("prompt", "x")]},
    {"item_id": "b", "image_ids": ["q", "p"], "attributes": [("prompt", "y")]},
    {"item_id": "c", "image_ids": ["p"], "attributes": [("prompt", "x")]},
    {"item_id": "d", "image_ids": [], "attributes": []},
    {"item_id": "e", "image_ids": None, "attributes": None},
    {"item_id": "r", "image_ids": ["p"], "response_id": "r2", "attributes": None},
]


def item(name, *, targets=(), gold=None, response=None, **attributes):
    return {"item_id": name, "kind": "image", "targets": list(targets), "gold": gold, "response_id": response,
            "attributes": list(attributes.items())}  # fmt: skip


def response(name, text="words", model="m@1"):
    return {"response_id": name, "item_id": "i", "model": model, "prompt": "p", "text": text, "status": "ok"}


def tables(name, *lists):
    several = [TableInMemory(name, rows) for rows in lists]
    for number, table in enumerate(several):
        table.uri = f"memory/{name}{number}"
    return several


def test_tables_of_items_are_merged():
    again = item("a", region="East", entity="y", targets=["Mali"], gold=["Mali"])
    both = tables("items", [item("a", region="East", entity="x"), item("b")], [again, item("c", region="West")])
    items = read_items(both, [], ["region"])
    hashes = hash_texts(["a", "b", "c"])
    codes, values = items.codes("region", hashes)
    assert [values[code] if code >= 0 else None for code in codes] == ["East", None, "West"]
    assert items.gold == {int(hashes[0]): (frozenset(["Mali"]), frozenset(["Mali"]))}
    assert len(items.hashes) == 3


def test_that_no_value_is_right_is_a_fact_which_another_table_may_add():
    both = tables("items", [item("a", gold=[]), item("b"), item("c")], [item("a"), item("b", gold=[])])
    a, b, _ = (int(number) for number in hash_texts(["a", "b", "c"]))
    assert read_items(both, [], []).gold == {a: (frozenset(), frozenset()), b: (frozenset(), frozenset())}


def test_an_item_has_the_facts_of_its_response_or_of_the_one_with_its_id():
    responses = tables("responses", [response("s", "four"), response("t", "a", "n@1"), response("alone", "ab")])
    items = read_items(tables("items", [item("of-s", response="s"), item("t"), item("none")]), responses, ["model"])
    hashes = hash_texts(["of-s", "t", "alone", "none", "s"])
    codes, values = items.codes("model", hashes)
    assert [values[code] if code >= 0 else None for code in codes] == ["m@1", "n@1", "m@1", None, None]
    rows = items.rows(hashes)
    assert items.lengths is not None
    assert [None if row < 0 else items.lengths[row] for row in rows][:3] == [4, 1, 2]
    assert np.isnan(items.lengths[rows[3]])
    assert rows[4] == -1
    assert {"model", "prompt"} <= items.named


def test_contradicting_items_are_refused_with_both_tables():
    cases = [
        (item("a", region="East"), item("a", region="West"), ("attribute region", "'East'", "'West'")),
        (item("a", targets=["Mali"]), item("a", targets=["Peru"]), ("targets", "'Mali'")),
        (item("a", gold=["1"]), item("a", gold=["2"]), ("gold",)),
        (item("a", gold=["1"]), item("a", gold=[]), ("gold", "'1'", "'none'")),
        (item("a", response="s1"), item("a", response="s2"), ("response_id",)),
    ]

    def check(first, second, names):
        with pytest.raises(InputError) as refused:
            read_items(tables("items", [first], [second]), [], ["region"])
        for name in ("items=memory/items0", "memory/items1", "item a", *names):
            assert name in str(refused.value), name

    check_cases(check, cases)


def test_contradicting_responses_raters_and_texts_are_refused_with_both_tables():
    with pytest.raises(InputError, match=r"responses=memory/responses0: response s .* text .*memory/responses1"):
        read_items([], tables("responses", [response("s")], [response("s", text="other")]), [])
    with pytest.raises(InputError, match=r"texts=memory/texts0: text t .*memory/texts1"):
        read_texts(tables("texts", [{"text_id": "t", "text": "a"}], [{"text_id": "t", "text": "b"}]), {"t"})


def test_raters_may_be_in_several_tables_with_equal_rows(tmp_path):
    rows = [{"rater": "p", "kind": "human", "country": country} for country in ("Mali", "Mali", "Peru")]
    first, equal, other = (open_table(write_file(tmp_path / str(n), "raters", [row])) for n, row in enumerate(rows))
    read: dict[str, Any] = {"methods": {"p": {"human"}}, "gold": [], "groups": ["country"]}
    assert read_raters([first, equal], **read).countries == {"p": "Mali"}
    with pytest.raises(InputError, match=r"/0: p has country='Mali', and 'Peru' in .*/2"):
        read_raters([first, other], **read)


def test_families_kinds_and_groups_of_raters(tmp_path):
    people = [{"rater": name, "kind": "human", "country": "Mali"} for name in ("p", "g")]
    rows = [{"rater": "m/Qwen2-7b", "kind": "model", "family": "own"}, *people]
    methods = {name: {"closed"} for name in ("m/Qwen2-7b", "local:LLaVA-1.5", "1b")} | {"p": {"human"}, "g": {"human"}}
    table = open_table(write_file(tmp_path / "raters", "raters", rows))
    raters = read_raters([table], methods=methods, gold=["g*"], groups=["country"])
    assert raters.families == {"m/Qwen2-7b": "own", "local:LLaVA-1.5": "llava", "1b": "1b", "p": "p", "g": "g"}
    assert (raters.kinds["g"], raters.kinds["p"], raters.kinds["1b"]) == ("gold", "human", "model")
    assert raters.groups == {"people, country Mali": ("p",)}


def test_a_response_of_two_tables_counts_once(tmp_path):
    refused = response("s1") | {"refusal_kind": "full"}
    places = [write_file(tmp_path / "a", "responses", [refused, response("s2")]),
              write_file(tmp_path / "b", "responses", [refused, response("s3")])]  # fmt: skip
    rates = {rate.kind: rate for rate in refusal_rates([open_table(place) for place in places])}
    assert (rates["full"].count, rates["full"].n, rates["full"].asked) == (1, 3, 3)


def test_report_takes_globs_and_refuses_a_span_of_two_tables(tmp_path):
    mark = {
        "item_id": "i",
        "rater": "p1",
        "text_id": "t",
        "kind": "mistake",
        "method": "human",
        "condition": "",
        "start": 0,
        "end": 3,
        "status": "ok",
    }
    for number in "12":
        write_file(tmp_path / "spans" / number, "spans", [mark | {"rater": f"p{number}"}])
        write_file(tmp_path / "items" / number, "items", [item(f"i{number}")])
        write_file(tmp_path / "texts" / number, "texts", [{"text_id": "tu"[number == "2"], "text": "words"}])
        write_file(tmp_path / "responses" / number, "responses", [response(f"s{number}")])
        write_file(tmp_path / "ratings" / number, "ratings", [rating(f"s{number}", "m@1", "q", "3")])
    keys = [f"{key}=[{tmp_path}/{key}/*]" for key in ("spans", "items", "texts", "responses", "ratings")]
    assert cli.main("report", [*keys, f"out={tmp_path}/out"]) == 0
    rates = [row for row in rows_of(f"{tmp_path}/out/metrics") if row["metric"] == "refusal_rate"]
    assert {row["n"] for row in rates} == {2}
    with pytest.raises(InputError, match=r"texts=.*: 1 of the 1 texts with spans .* t;"):
        cli.execute("report", [keys[0], f"texts=[{tmp_path}/texts/2]", f"out={tmp_path}/other"])
    write_file(tmp_path / "spans" / "again", "spans", [mark])
    with pytest.raises(InputError, match=r"spans=.*/spans/1: .*/spans/again .*rater=p1"):
        cli.execute("report", [keys[0], f"out={tmp_path}/other"])


def test_items_without_responses_have_neither_lengths_nor_their_attributes():
    items = read_items(tables("items", [item("a", region="East")]), [], ["region"])
    assert (items.named, items.lengths, items.gold) == ({"region"}, None, {})
    nothing = read_items([], [], ["region"])
    assert (nothing.named, nothing.lengths, len(nothing.hashes)) == (frozenset(), None, 0)


def test_an_empty_attribute_of_a_response_leaves_that_of_the_item():
    responses = tables("responses", [response("s") | {"condition": "", "text": None}])
    of_response = item("a", response="s", condition="x", model="old")
    items = read_items(tables("items", [of_response]), responses, ["condition", "model"])
    assert [items.columns[name][1] for name in ("condition", "model")] == [("x",), ("m@1",)]
    assert items.lengths is not None
    assert np.isnan(items.lengths).all()


def test_values_are_sorted_and_crossed_where_both_are_set():
    rows = [item("a", region="West", theme="sea"), item("b", region="West"), item("c", theme="art")]
    rows += [item("d", region="East", theme="art"), item("e", theme="war")]
    items = read_items(tables("items", rows), [], ["region+theme"])
    assert [items.columns[name][1] for name in ("region", "theme")] == [("East", "West"), ("art", "sea", "war")]
    hashes = hash_texts(["a", "b", "c", "d", "unknown"])
    codes, values = items.codes("region+theme", hashes)
    assert values == tuple(f"{region} + {theme}" for region in ("East", "West") for theme in ("art", "sea", "war"))
    assert codes.tolist() == [4, -1, -1, 0, -1]
    groups = items.subgroups("region+theme", hashes)
    assert {value: members.tolist() for value, members in groups.items()} == {
        "East + art": [False, False, False, True, False], "West + sea": [True, False, False, False, False]
    }  # fmt: skip


def test_long_values_and_sets_are_shortened_in_messages():
    cases = [("x" * SHORT, "'" + "x" * SHORT + "'"), ("x" * (SHORT + 1), "'" + "x" * SHORT + "…'")]
    for value, shown in cases:
        with pytest.raises(InputError) as refused:
            read_items(tables("items", [item("a", region=value)], [item("a", region="y")]), [], ["region"])
        assert f"({shown} and 'y')" in str(refused.value)
    names = [f"target {number}" for number in range(9)]
    with pytest.raises(InputError, match=r"another targets .*\('target 0, target 1, target 2"):
        read_items(tables("items", [item("a", targets=names[::-1])], [item("a", targets=["y"])]), [], [])


RESPONSES: list[dict[str, Any]] = [
    {"response_id": name, "item_id": item} for name, item in (("r1", "c"), ("r2", "d"), ("r3", "unknown"))
]


def groups(units: IndependentUnits, names: str) -> set[frozenset[str]]:
    """Return the sets of items that are one unit."""
    items = names.split()
    of_items = units.of(hash_texts(items)).tolist()
    return {frozenset(item for item, unit in zip(items, of_items, strict=True) if unit == one) for one in of_items}


def together(*names: str) -> set[frozenset[str]]:
    return {frozenset(of_unit.split()) for of_unit in names}


def read(attribute: str | None = None) -> IndependentUnits:
    items: Any = TableInMemory("items", ITEMS)
    responses: Any = TableInMemory("responses", RESPONSES)
    return read_units([items], [responses], attribute)


def test_items_about_the_same_pictures_are_one_unit() -> None:
    """A response belongs to the picture that it is about, also one that is not in items."""
    units = read()
    assert groups(units, "a b c d e r r1 r2 r3 unknown other") == together(
        "a b", "c r r1 r2", "d", "e", "r3 unknown", "other"
    )
    assert units.name == "pictures"


def test_an_attribute_replaces_the_picture_where_it_has_a_value() -> None:
    units = read("prompt")
    assert groups(units, "a b c d r r1") == together("a c r1", "b", "d", "r")
    assert units.name == "values of prompt"
    with pytest.raises(InputError, match=r"metrics\.unit=scene"):
        read("scene")


def test_pairs_of_a_prompt_are_one_unit() -> None:
    """They share their pictures, and a pair in the other order is the same pair."""
    rows: list[dict[str, Any]] = [
        {"item_id": name, "image_ids": pictures.split(), "attributes": [("pair_set", prompt), ("era", "old")]}
        for name, pictures, prompt in (("ab", "a b", "x"), ("ba", "b a", "x"), ("bc", "b c", "x"), ("de", "d e", "y"))
    ]
    items: Any = TableInMemory("items", [*rows, {"item_id": "a", "image_ids": ["a"]}])
    units = read_units([items], [], None)
    assert groups(units, "ab ba bc de a") == together("ab ba bc", "de", "a")
    names = [units.name_of(hash_texts(rated.split())) for rated in ("ab de", "a", "ab a", "unknown")]
    assert names == ["prompts", "pictures", "pictures", "pictures"]
    by_era = read_units([items], [], "era")
    assert groups(by_era, "ab de a") == together("ab de", "a")
    assert by_era.name_of(hash_texts(["ab"])) == "values of era"


def test_without_tables_each_item_is_a_unit() -> None:
    units = read_units([], [], None)
    hashes = hash_texts(["a", "b"])
    assert np.array_equal(units.of(hashes), hashes)
    assert units.name == "items"


def test_kinds_follow_from_methods_and_kept_rows_and_gold_from_names() -> None:
    methods = {
        "p": {"human"}, "e": {"encoder"}, "g": {"gold"}, "m": {"closed"}, "both": {"human", "closed"},
        "kept": {"closed"}, "expert-1": {"human"},
    }  # fmt: skip
    raters = read_raters((), methods, gold=["expert-*"], groups=(), kept=[{"rater": "kept", "kind": "encoder"}])
    assert raters.kinds == {
        "p": "human", "e": "encoder", "g": "gold", "m": "model", "both": "model", "kept": "encoder", "expert-1": "gold",
    }  # fmt: skip
    with pytest.raises(InputError, match="robot"):
        read_raters((), {"m": {"closed"}}, gold=(), groups=(), kept=[{"rater": "m", "kind": "robot"}])


def test_tables_of_raters_come_before_kept_rows_and_group_people_alone(tmp_path: Path) -> None:
    rows = [
        {"rater": "p", "kind": "human", "country": "Fiji"},
        {"rater": "r", "kind": "human", "country": "Fiji", "family": "f"},
        {"rater": "m", "kind": "model", "country": "Fiji"},
        {"rater": "expert", "kind": "human", "country": "Fiji"},
        {"rater": "silent", "kind": "human", "country": "Fiji"},
    ]
    table = open_table(write_table(tmp_path / "raters", "raters", rows))
    methods = {name: {"closed"} for name in ("p", "r", "m", "expert")}
    kept = [{"rater": name, "kind": "encoder"} for name in ("p", "m")]
    raters = read_raters([table], methods, gold=["expert"], groups=["country"], kept=kept)
    assert raters.kinds == {"p": "human", "r": "human", "m": "model", "expert": "gold"}
    assert raters.groups == {"people, country Fiji": ("p", "r")}
    assert raters.families["r"] == "f"
    assert raters.countries == dict.fromkeys(methods, "Fiji")


def test_a_family_is_the_name_up_to_a_digit_or_separator() -> None:
    names = ("qwen2.5-vl-7b@rev", "Org/LLaVA-1.5", "local:gemma_3", "7b")
    assert [family_of(name) for name in names] == ["qwen", "llava", "gemma", "7b"]


def test_people_of_a_file_have_groups_and_gold_has_none() -> None:
    methods = {"a": {"human"}, "b": {"human"}, "gold": {"human"}}
    raters = raters_of(methods, {"country": {"a": "Fiji", "b": "Fiji", "gold": "Fiji", "gone": "Fiji"}}, gold=["gold"])
    assert raters.kinds == {"a": "human", "b": "human", "gold": "gold"}
    assert raters.groups == {"people, country Fiji": ("a", "b")}
