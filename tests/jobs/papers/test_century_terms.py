"""Entities by concept and type, by hand."""

from jobs.papers.century_pictures import MOST_CONCEPTS, terms
from jobs.papers.study import PrintedTable
from tests.jobs.papers.studies import metric, rows_of, study, units_of


def test_concepts_by_number_then_name_and_the_papers_that_are_missing() -> None:
    counts = {f"c{number:02}": 1.0 for number in range(MOST_CONCEPTS)} | {"war": 9.0, "riot": 9.0}
    metrics = [metric("entities", value, concept=name) for name, value in counts.items()]
    metrics += [metric("entities", value, entity_type=name) for name, value in (("person", 2), ("event", 5))]
    metrics += [metric("distinct_terms", 30, source="knowledge_graph"), metric("distinct_terms", 9, source="manual")]
    printed = {
        "table_6": PrintedTable("t", ["entities"], {"riot": [8], "c19": [3], "flood": [4]}, percent=False),
        "table_7": PrintedTable("t", ["entities"], {"event": [6], "place": [2], "distinct terms": [31]}, percent=False),
    }
    concepts, types = terms(study(metrics, printed=printed))
    rows = rows_of(concepts)
    assert list(rows)[:3] == [("Riot",), ("War",), ("C00",)]
    assert list(rows)[-3:] == [("C17",), ("C19",), ("Flood",)]  # c18 is the 21st
    assert (rows["Riot",], rows["C19",], rows["Flood",]) == ([(9, 8)], [(1, 3)], [(0, 4)])
    assert units_of(concepts) == units_of(types) == ["count"]
    assert (concepts.reasons, types.reasons) == ((), ())
    assert [table.citation for table in (concepts, types)] == ["Century, table 6", "Century, table 7"]
    assert rows_of(types) == {
        ("Person",): [(2, None)], ("Event",): [(5, 6)], ("Place",): [(0, 2)], ("Distinct terms",): [(30, 31)]
    }  # fmt: skip


def test_a_concept_without_a_number_comes_last() -> None:
    metrics = [metric("entities", value, concept=name) for name, value in (("a", None), ("b", 2.0), ("c", 3.0))]
    concepts, _ = terms(study(metrics))
    assert list(rows_of(concepts)) == [("C",), ("B",), ("A",)]


def test_without_terms_there_are_no_tables() -> None:
    assert list(terms(study())) == []
