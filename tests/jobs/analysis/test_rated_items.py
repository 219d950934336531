"""Tables of ratings whose items or targets do not meet those of the others."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from jobs.analysis.rated_items import MOST_TARGETS, RatedItems, left_out, mismatches
from jobs.metrics.gold import without_gold
from jobs.metrics.intervals import proportion
from jobs.metrics.metric import estimated
from jobs.metrics.participation import without_value
from jobs.store.hashing import hash_texts
from tests.factories import TableInMemory, rating


def rated(name, rater, items, *, question="shown", target="", method="closed"):
    rows = pa.Table.from_pylist([
        {**rating(item, rater, question, "1"), "target": target, "method": method} for item in items
    ])  # fmt: skip
    table = RatedItems(name, lambda columns: [rows.select(list(columns))])
    table.add(rows)
    return table


def test_tables_that_share_items_and_targets_need_no_sentence():
    models = [rated("m", "m", ["a", "b"]), rated("n", "n", ["b", "c"])]
    assert mismatches([*models, rated("p", "p", ["c"])]) == []
    assert mismatches([*models, rated("p", "p", ["a"])]) == []  # n, the second table, does not have it
    # p joins two groups, and q meets the first of them alone
    assert mismatches([rated(name, name, [*name]) for name in ("ab", "cd", "bc", "a")]) == []
    assert mismatches([rated("m/1", "m", ["a"]), rated("m/2", "m", ["b"])]) == []  # one rater's items in two tables
    assert mismatches([]) == []


def test_people_who_rated_other_ids_are_named_once_with_an_id_of_each_side():
    (sentence,) = mismatches(
        [rated("R/m", "m", ["0f", "1e"]), rated("R/n", "n", ["0f"]), rated("R/p", "p", ["00.png"])]
    )
    assert all(part in sentence for part in ("R/p", "'00.png'", "'0f'", "items="))


def test_a_table_with_a_new_rater_next_to_a_known_one_is_named():
    mixed = rated("R/p", "p", ["00.png"])
    mixed.add(pa.Table.from_pylist([rating("00.png", "m", "shown", "1")]))
    models = [rated("R/m", "m", ["0f", "1e"]), rated("R/n", "n", ["0f"])]
    (sentence,) = mismatches([*models, mixed])
    assert "R/p" in sentence
    assert mismatches([*models, rated("R/m2", "m", ["00.png"])]) == []


def test_answers_about_other_targets_are_named():
    with_targets = [rated(name, name, ["a"], target="joy") for name in ("m", "n")]
    (sentence,) = mismatches([*with_targets, rated("R/p", "p", ["a"])])
    assert all(part in sentence for part in ("R/p", "no target", "'joy'", "columns.target="))
    (sentence,) = mismatches([with_targets[0], rated("R/p", "p", ["a"])])
    assert sentence.startswith("R/p")


def test_ratings_of_no_item_of_the_table_of_items_are_named():
    items: Any = TableInMemory("items", [{"item_id": "0f"}])
    hashes = hash_texts(["0f"])
    assert mismatches([rated("m", "m", ["0f"])], [items], hashes) == []
    (some,) = mismatches([rated("R/m", "m", ["0f", "x", "x", "y"])], [items], hashes)
    assert some.startswith("R/m has 3 ratings of 2 items that no table of items= has (x, y): ")
    (sentence,) = mismatches([rated("R/p", "p", ["00.png"])], [items], hashes)
    assert all(part in sentence for part in ("R/p", "'00.png'", "memory/items", "'0f'"))


def test_questions_with_many_targets_are_not_compared():
    """Of a table with more targets only some are kept, which need not be those of the others."""

    def with_targets(first, count):
        table = RatedItems("R/m")
        names = [f"target {first + number}" for number in range(count)]
        table.add(pa.Table.from_pylist([{**rating("a", "m", "shown", "1"), "target": name} for name in names]))
        return table

    other = rated("R/p", "p", ["a"], target="joy")
    assert len(mismatches([with_targets(0, MOST_TARGETS), other])) == 1
    assert mismatches([with_targets(0, MOST_TARGETS + 1), other]) == []
    assert mismatches([with_targets(0, MOST_TARGETS + 50), other]) == []


def test_groups_of_tables_are_named_by_their_first_and_the_larger_is_the_one_compared_with():
    apart = [rated(f"R/p{n}", f"p{n}", ["x"]) for n in range(3)]
    large = rated("R/m", "m", list("abcde"))
    large.add(pa.Table.from_pylist([rating("f", "m", "shown", "1")]))
    (sentence,) = mismatches([*apart, large])
    assert sentence.startswith("R/p0 and 2 more and R/m answer rubric r but share no item: ")
    assert "items such as 'x', the second such as 'a'" in sentence
    (sentence,) = mismatches([large, *apart[:1]])
    assert sentence.startswith("R/p0 and R/m answer")


def test_the_first_target_and_the_first_item_are_the_examples():
    tables = [rated("R/m", "m", ["a"], target="joy"), rated("R/p", "p", ["a"], target="sea")]
    tables[1].add(pa.Table.from_pylist([{**rating("a", "p", "shown", "1"), "target": "art"}]))
    (sentence,) = mismatches(tables)
    assert "about the target 'art', the other tables about the target 'joy'" in sentence
    batches = [pa.table({"item_id": pa.array(names, pa.string())}) for names in ([], ["q"])]
    source: Any = SimpleNamespace(uri="R/items", batches=lambda _: iter(batches))
    (sentence,) = mismatches(tables[:1], [source], hash_texts(["q"]))
    assert "is in items=R/items (such as 'q')" in sentence


def test_items_without_gold_are_named_once_for_all_questions_that_leave_them_out():
    counts = {"a": (24, 30), "b": (24, 30), "c": (30, 30), "d": (1, 2)}
    metrics = [without_gold(*n).at(rubric="r", question=question) for question, n in counts.items()]
    first, second = left_out(metrics)
    assert first.startswith("6 of 30 rated items have no gold for r/a, r/b:")
    assert second.startswith("1 of 2 rated items have no gold for r/d:")


def test_ratings_without_the_text_of_their_condition_are_summed_by_condition():
    def share(rater, k, n, condition):
        dims = {"rater": rater, "rubric": "r", "question": "q", "condition": condition}
        return estimated("empty_context_share", "d", k / n, n, interval=proportion(k, n), dims=dims)

    article, gold = left_out([share("m", 9, 24, "article"), share("n", 7, 20, "article"), share("m", 1, 24, "gold")])
    assert article.startswith("16 of 44 ratings of rubric r under 'article' ")
    assert gold.startswith("1 of 24 ratings of rubric r under 'gold' ")
    assert list(left_out([])) == []


def test_items_and_questions_that_people_answered_and_no_model_are_listed():
    models = rated("R/m", "m", ["img_1.jpg", "b", "c", "d"])
    people = rated("R/p", "p", ["IMG_1.jpg ", "b", "x"], method="human")
    (sentence,) = mismatches([models, people])
    assert sentence.startswith("rubric r: people rated 2 items that no model rated: 'IMG_1.jpg ', x; ")
    assert "models rated 3 that no person rated: img_1.jpg, c, d." in sentence
    assert sentence.endswith("Perhaps two spellings of one item: 'IMG_1.jpg ' = img_1.jpg.")
    assert mismatches([models, rated("R/p", "p", ["b", "c"], method="human")]) == []  # people rated a part
    people.add(pa.Table.from_pylist([{**rating("b", "p", "Shown?", "1"), "method": "human"}]))
    questions, _ = mismatches([models, people])
    assert (
        questions == "rubric r: people answered 1 question that no model answered: Shown?. "
        "Perhaps two spellings of one question: Shown? = shown."
    )


def test_items_without_a_value_are_named_once_for_all_questions():
    metrics = [without_value(29, 31, attribute="region").at(question=q, rubric="r") for q in "ab"]
    (sentence,) = left_out(metrics)
    assert sentence == "2 of 31 rated items have no region: they are in no subgroup of it."
