"""Entities of a dump: the shapes that dumps have, and those that break readers."""

import itertools
import json
from typing import Any

import pyarrow as pa
import pytest

from jobs.tables import TABLES
from jobs.terms_from import entity
from jobs.terms_from.class_tree import SUBCLASS, ClassEdges, ClassLookup, ClassTree
from jobs.terms_from.descriptions import ConceptList, Graph
from jobs.terms_from.entity import EntityParser, EntityReader, NotAnEntityError, entity_text, read_time
from tests.cases import check_cases
from tests.wikidata import item, statement

GRAPH = Graph.from_dict(
    {
        "name": "g",
        "site": "enwiki",
        "languages": ["en", "mul"],
        "properties": {
            "instance of": {"id": "P31", "to": "classes"},
            "part of": {"id": "P361", "to": "classes_and_instances"},
        },
        "subclass_property": "P279",
        "instance_property": "P31",
        "types": {"person": ["Q5"], "event": ["Q10"]},
        "dates": {"point in time": "P585", "start time": "P580", "end time": "P582"},
    }
)
CONCEPTS = ConceptList.from_dict({"name": "c", "source": "s", "themes": {"t": {"war": ["Q198"]}}})
DAY = ("+1944-06-06T00:00:00Z", 11)


def row(one: Any) -> dict[str, Any] | str:
    """Return the row of an entity, parsed from its text."""
    edges = ClassEdges(
        [pa.Table.from_pylist([{"entity_id": "Q198", "relation": SUBCLASS, "value": "Q10"}],
                              schema=TABLES["class_edges"].schema())]
    )  # fmt: skip
    reader = EntityReader(GRAPH, ClassLookup(ClassTree.of(edges, CONCEPTS, GRAPH, depth=None), ["war"]))
    return reader.row(EntityParser().parse(json.dumps(one).encode()))


def test_an_entity_with_all_names_and_dates() -> None:
    one = item(1, "A war", "A war (1944)", P31=["Q198"], P580=[DAY], P582=[("+1945-00-00T00:00:00Z", 9)])
    one["aliases"] = {"en": [{"value": "The war"}, {"value": "The war"}], "de": [{"value": "Krieg"}]}
    one["sitelinks"]["dewiki"] = {"site": "dewiki", "title": "Krieg"}
    assert row(one) == {
        "entity_id": "Q1",
        "label": "A war",
        "aliases": ["The war"],
        "title": "A war (1944)",
        "entity_type": "event",
        "entity_date": "1944-06-06",
        "first_year": 1944,
        "last_year": 1945,
        "links": ["P31=war"],
        "neighbors": [],
        "sites": 2,
    }


def test_labels_of_the_default_language_count_where_there_is_no_english_one() -> None:
    one = item(1, None, None, P31=["Q198"])
    one["labels"] = {"de": {"value": "Krieg"}, "mul": {"value": "War"}}
    for english, label in ((None, "War"), (" ", "War"), ("A war", "A war")):
        one["labels"]["en"] = {"value": english}
        actual = row(one)
        assert isinstance(actual, dict)
        assert actual["label"] == label


def test_deprecated_novalue_and_somevalue_statements_do_not_count() -> None:
    assert row(item(1, "x", P31=[statement("Q198", rank="deprecated")])) == "no_concept"
    assert row(item(1, "x", P31=[statement(None, snaktype="novalue")])) == "no_concept"
    dates = [statement(None, snaktype="somevalue"), statement(("+1800-00-00T00:00:00Z", 9), rank="deprecated")]
    actual = row(item(1, "x", P31=["Q198"], P585=dates))
    assert isinstance(actual, dict)
    assert (actual["entity_date"], actual["first_year"]) == (None, None)


def test_preferred_dates_replace_normal_ones() -> None:
    dates = [statement(DAY), statement(("+1939-00-00T00:00:00Z", 9), rank="preferred")]
    actual = row(item(1, "x", P31=["Q198"], P585=dates))
    assert isinstance(actual, dict)
    assert (actual["entity_date"], actual["last_year"]) == ("1939", 1939)


def test_years_of_a_century_and_before_christ_are_ordered_as_years() -> None:
    century, bc_100, bc_44 = (("+1950-00-00T00:00:00Z", 7), ("-0100-00-00T00:00:00Z", 9), ("-0044-00-00T00:00:00Z", 9))
    spans = {}
    for name, dates in {"century": [century], "before Christ": [bc_44, bc_100]}.items():
        actual = row(item(1, "x", P31=["Q198"], P585=dates))
        assert isinstance(actual, dict)
        spans[name] = actual["entity_date"], actual["first_year"], actual["last_year"]
    assert spans == {"century": ("1901/2000", 1901, 2000), "before Christ": ("-0099", -99, -43)}


def test_ids_of_old_dumps_are_numbers_only() -> None:
    one = item(1, "x", P31=["Q198"])
    del one["claims"]["P31"][0]["mainsnak"]["datavalue"]["value"]["id"]
    assert isinstance(row(one), dict)


def test_why_an_entity_is_left_out() -> None:
    assert row(item(1, "x")) == "no_concept"
    assert row(item(1, "x", P361=["Q198"])) == "no_type"
    assert row(item(1, None, P31=["Q5"], P361=["Q198"])) == "no_name"
    assert row(item(1, "x", P31=[statement("Q198", rank="deprecated")], P361=["Q77"])) == "no_type"
    part = row(item(1, "x", P31=["Q5"], P361=["Q77"]))
    assert isinstance(part, dict)
    assert (part["links"], part["neighbors"]) == ([], ["P361=Q77"])


def test_an_instance_of_a_concept_is_kept_to_pass_it_on() -> None:
    """Small conflicts often have no English name. Without a name or a type it does not become a term."""
    french = {**item(1, None, P31=["Q198"]), "labels": {"fr": {"value": "Guerre"}}}
    cases: list[tuple[Any, str | None]] = [
        (french, None),
        (item(1, None, P31=["Q198"]), None),
        ({**french, "aliases": {"en": [{"value": "War"}]}}, "event"),
        (item(1, None, "War", P31=["Q198"]), "event"),
        ({**french, "sitelinks": {"frwiki": {"site": "frwiki", "title": "Guerre"}}}, None),
    ]

    def check(one: Any, kind: str | None) -> None:
        kept = row(one)
        assert isinstance(kept, dict)
        assert (kept["links"], kept["entity_type"]) == (["P31=war"], kind)

    check_cases(check, cases)


def test_a_redirect_leads_to_its_target() -> None:
    lost: list[Any] = [{"entity": "P1", "redirect": "Q2"}, {"entity": "Q1", "redirect": "Q0"}]
    assert [EntityReader.redirect(one) for one in lost] == ["redirect"] * 2
    assert EntityReader.redirect({"entity": "Q1", "redirect": "Q2"}) == {
        "entity_id": "Q1", "aliases": [], "links": [], "neighbors": ["redirects_to=Q2"]
    }  # fmt: skip


def test_classes_may_be_instances_too_and_the_first_type_wins() -> None:
    warrior = row(item(1, "x", P31=["Q198", "Q5"], P361=["Q198", "Q77", "Q77"]))
    assert isinstance(warrior, dict)
    assert (warrior["links"], warrior["neighbors"]) == (["P31=war", "P361=war"], ["P361=Q198", "P361=Q77"])
    assert warrior["entity_type"] == "person"


def test_claims_of_any_shape_break_nothing() -> None:
    cases = [
        [],
        {},
        "text",
        {"P31": "text"},
        {"P31": [None, 3, []]},
        {"P31": [{"mainsnak": []}]},
        {"P31": [{"mainsnak": {"snaktype": "value", "datavalue": {"value": "text"}}}]},
        {"P31": [{"mainsnak": {"snaktype": "value", "datavalue": {"value": {"id": "L7"}}}}]},
        {"P31": [{"mainsnak": {"snaktype": "value", "datavalue": {"value": {"id": 198}}}}]},
        {"P31": [{"mainsnak": {"snaktype": "value"}}]},
    ]

    def check(claims: Any) -> None:
        assert row({**item(1, "x"), "claims": claims}) == "no_concept"

    check_cases(check, cases)


def test_times_of_any_shape_break_nothing() -> None:
    text = "+1944-06-06T00:00:00Z"
    values: list[Any] = [
        None, "text", [], {}, {"time": text}, {"time": 1944, "precision": 11}, {"time": text, "precision": "11"},
        {"time": "1944", "precision": 11}, {"precision": 11},
    ]  # fmt: skip
    snaks = [{"rank": "normal", "mainsnak": {"snaktype": "value", "datavalue": {"value": value}}} for value in values]
    assert entity.times({"P585": snaks}, "P585") == []
    snaks.append(statement(DAY))
    assert [(time.first, time.text) for time in entity.times({"P585": snaks}, "P585")] == [(1944, "1944-06-06")]


def test_names_of_any_shape_break_nothing() -> None:
    values: list[Any] = [[], {}, "text", None, {"en": []}, {"en": "x"}, {"en": [3]}, {"enwiki": []}]

    def check(key: str, value: Any) -> None:
        actual = row({**item(1, "A war", "A war", P31=["Q198"]), key: value})
        assert isinstance(actual, dict)
        assert "A war" in (actual["label"], actual["title"])

    check_cases(check, itertools.product(["labels", "aliases", "sitelinks"], values))


def test_what_separates_entities_is_removed() -> None:
    expected = {
        b'{"a": [1]},\r': b'{"a": [1]}',
        b"[": b"",
        b" ] ": b"",
        b",": b"",
        b'[{"a": 1},': b'{"a": 1}',
        b'{"a": 1}]': b'{"a": 1}',
        b"\xef\xbb\xbf[": b"",
        b'  ,{"a": {}}': b'{"a": {}}',
    }
    assert {line: entity_text(line) for line in expected} == expected


def test_items_are_named_by_id_or_in_old_dumps_by_number() -> None:
    values: list[Any] = [
        {"id": "Q1"}, {"id": "Q2", "entity-type": "item"}, {"id": "P3", "numeric-id": 3}, {"numeric-id": 4},
        {"numeric-id": 5, "entity-type": "item"}, {"numeric-id": 6, "entity-type": "property"}, {"numeric-id": "7"},
        {"id": "Q8", "numeric-id": 9}, {}, "Q10", None,
    ]  # fmt: skip
    snaks = [{"rank": "normal", "mainsnak": {"snaktype": "value", "datavalue": {"value": value}}} for value in values]
    assert list(entity.targets({"P31": snaks}, "P31")) == [1, 2, 4, 5, 8]
    assert list(entity.targets({"P31": snaks}, "P279")) == []


def test_an_entity_is_parsed_while_values_of_the_last_one_are_held() -> None:
    parser = EntityParser()
    claims = parser.parse(b'{"id": "Q1", "claims": {"P31": [1, 2]}}')["claims"]
    second = parser.parse(b'{"id": "Q2"}')
    assert (second["id"], list(claims["P31"])) == ("Q2", [1, 2])


def test_lines_that_are_not_an_entity() -> None:
    parser = EntityParser()
    for text in (b"[1]", b'"x"', b"3"):
        with pytest.raises(NotAnEntityError):
            parser.parse(text)
    for text in (b'{"id": "Q1', b'{"id": }', b"\xff{}"):
        with pytest.raises(ValueError):  # noqa: PT011 (the words are simdjson's)
            parser.parse(text)
    values: list[dict[str, object]] = [
        {}, {"id": "Q1"}, {"type": "item", "id": "x1"}, {"entities": {"Q1": {}}}, {"type": "item"}, {"entity": "Q1"},
        {"type": "item", "id": 1}, {"type": 1, "id": "Q1"}, {"redirect": "Q2"}, {"entity": "Q1", "redirect": 2},
        {"entity": 1, "redirect": "Q2"},
    ]  # fmt: skip
    for value in values:
        with pytest.raises(NotAnEntityError):
            entity.kind_of(value)
    assert entity.kind_of({"type": "item", "id": "Q1"}) == "item"
    assert entity.kind_of({"type": "property", "id": "P1"}) == "property"
    assert entity.kind_of({"entity": "Q1", "redirect": "Q2"}) == "redirect"


def test_times() -> None:
    cases = [
        ("+1917-12-06T00:00:00Z", 11, "1917-12-06", 1917, 1917),
        ("+00000001917-12-06T00:00:00Z", 11, "1917-12-06", 1917, 1917),  # dumps of 2014
        ("+1917-12-00T00:00:00Z", 10, "1917-12", 1917, 1917),
        ("+1917-12-06T00:00:00Z", 9, "1917", 1917, 1917),
        ("+1917-00-00T00:00:00Z", 11, "1917", 1917, 1917),
        ("+1917-13-40T00:00:00Z", 11, "1917", 1917, 1917),
        ("+1940-00-00T00:00:00Z", 8, "1940/1949", 1940, 1949),
        ("+2000-00-00T00:00:00Z", 7, "1901/2000", 1901, 2000),
        ("+1901-01-01T00:00:00Z", 7, "1901/2000", 1901, 2000),
        ("+1850-00-00T00:00:00Z", 7, "1801/1900", 1801, 1900),
        ("+2000-00-00T00:00:00Z", 6, "1001/2000", 1001, 2000),
        ("-0044-03-15T00:00:00Z", 11, "-0043-03-15", -43, -43),  # 44 BC
        ("-0001-00-00T00:00:00Z", 9, "0000", 0, 0),  # 1 BC
        ("-0100-00-00T00:00:00Z", 7, "-0099/0000", -99, 0),  # the first century BC
        ("-0101-00-00T00:00:00Z", 7, "-0199/-0100", -199, -100),
        ("+0079-08-24T00:00:00Z", 11, "0079-08-24", 79, 79),
        ("+1917-12-06T10:20:30Z", 14, "1917-12-06", 1917, 1917),  # to the second
        ("+1917-01-31T00:00:00Z", 11, "1917-01-31", 1917, 1917),
        ("+1917-01-01T00:00:00Z", 11, "1917-01-01", 1917, 1917),
        ("+1917-00-06T00:00:00Z", 11, "1917", 1917, 1917),
        ("+1917-12-06T00:00:00Z", 10, "1917-12", 1917, 1917),
        ("+0005-00-00T00:00:00Z", 8, "0001/0009", 1, 9),
        ("-0044-00-00T00:00:00Z", 8, "-0048/-0039", -48, -39),  # 49 to 40 BC
        ("+0000-00-00T00:00:00Z", 7, "0001/0100", 1, 100),
        ("+2000-00-00T00:00:00Z", 5, "0001/12000", 1, 12000),
        ("+1-00-00T00:00:00Z", 0, "0001/1000000001", 1, 1_000_000_001),
    ]

    def check(time: str, precision: int, text: str, first: int, last: int) -> None:
        assert read_time(time, precision) == (text, first, last)

    check_cases(check, cases)


def test_a_billion_years_is_a_wide_span() -> None:
    read = read_time("-13798000000-00-00T00:00:00Z", 3)
    assert read is not None
    assert read.first < -13_798_000_000 < read.last < 0


@pytest.mark.parametrize(
    ("time", "precision"),
    [("", 11), ("1917-12-06", 11), *(("+1917-12-06T00:00:00Z", unknown) for unknown in (-1, 15, 99))],
)
def test_values_that_are_not_a_time(time: str, precision: int) -> None:
    assert read_time(time, precision) is None
