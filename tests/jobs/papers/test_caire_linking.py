"""Accuracies of linking by method, data set and k, by hand."""

from jobs.papers.caire_tables import of_linking
from jobs.papers.study import PrintedTable
from tests.jobs.papers.studies import metric, rows_of, study, units_of

NONE = (None, None)


def test_methods_and_data_sets_of_the_report_come_before_those_of_the_paper() -> None:
    computed = [
        metric("accuracy@10", 0.8, table="ours"),
        metric("accuracy@1", 0.5, table="lemma", dataset="food"),
        metric("accuracy@10", 0.7, table="lemma", dataset="food"),
        metric("accuracy@5", 0.6, table="named", dataset="art"),
        metric("right_answers", 20, table="lemma", dataset="food"),
        metric("accuracy@1x", 0.9, table="lemma", dataset="food"),  # another metric
    ]
    printed = {
        "table_3": PrintedTable("t", ["food @1", "art @1"], {"lemma": [40, 30], "gloss": [20, None]}),
        "table_4": PrintedTable("t", ["categories"], {"art": [7], "food": [21]}, percent=False),
    }
    accuracy, sizes = of_linking(study(computed=computed, printed=printed))
    assert accuracy.columns == (
        ("All queries", "@10"), ("art", "@5"), ("food", "@1"), ("food", "@10"), ("art", "@1")
    )  # fmt: skip
    assert list(rows_of(accuracy).items()) == [
        (("A model names the entity",), [NONE, (0.6, None), NONE, NONE, NONE]),
        (("All lemmas",), [NONE, NONE, (0.5, 0.4), (0.7, None), (None, 0.3)]),
        (("ours",), [(0.8, None), NONE, NONE, NONE, NONE]),
        (("All glosses",), [NONE, NONE, (None, 0.2), NONE, NONE]),
    ]
    assert (units_of(accuracy), units_of(sizes)) == (["percent"] * 5, ["count"])
    assert list(rows_of(sizes).items()) == [(("food",), [(20, 21)]), (("art",), [(None, 7)])]


def test_data_sets_and_sizes_of_the_report_are_sorted() -> None:
    names = [f"d{number}" for number in range(9, 0, -1)]
    computed = [metric(name, 1, table="lemma", dataset=d) for d in names for name in ("accuracy@1", "right_answers")]
    accuracy, sizes = of_linking(study(computed=computed))
    sizes_of_one = [metric(f"accuracy@{k}", 1, table="lemma") for k in (100, 5, 33)]
    assert [k for _, k in next(of_linking(study(computed=sizes_of_one))).columns] == ["@5", "@33", "@100"]
    assert [name for name, _ in accuracy.columns] == [name for (name,) in rows_of(sizes)] == sorted(names)


def test_without_metrics_of_linking_there_are_no_tables() -> None:
    assert list(of_linking(study(computed=[metric("mrr", 0.5, table="clip")]))) == []
