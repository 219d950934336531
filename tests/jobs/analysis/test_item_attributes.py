"""Items and responses of several tables: equal rows count once, contradictions are refused with both tables."""

from typing import Any

import numpy as np
import pytest

from jobs.analysis.item_attributes import SHORT, read_items
from jobs.analysis.rater_attributes import read_raters
from jobs.analysis.responses import refusal_rates
from jobs.analysis.span_marks import read_texts
from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.store.hashing import hash_texts
from jobs.store.reading import open_table
from tests.cases import check_cases
from tests.factories import TableInMemory, rating, rows_of, write_file

pytestmark = pytest.mark.usefixtures("without_plots")


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
