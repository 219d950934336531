"""Labels that only some raters, gold or items have: both spellings are listed."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from jobs.analysis.attributes import Items
from jobs.analysis.mismatches import (
    GOLD,
    MOST_TARGETS,
    RatedItems,
    RatedTargets,
    Side,
    apart,
    left_out,
    mismatches,
    one_sided,
)
from jobs.metrics.answers import RatingTable
from jobs.metrics.gold import without_gold
from jobs.metrics.intervals import proportion
from jobs.metrics.metric import MetricKind, estimated
from jobs.metrics.participation import without_value
from jobs.metrics.rated_question import MODELS, PEOPLE, MetricSettings, QuestionContext, RatedQuestion
from jobs.store.hashing import hash_texts
from tests.cases import check_cases
from tests.factories import TableInMemory, rating

DIMS = {"rubric": "r", "question": "q"}


def question(targets_of: Mapping[str, set[str]], *, judged: set[str] = frozenset()) -> RatedQuestion:  # type: ignore[assignment]
    """Return a question about one picture, which each rater rated against some targets; p and q are people."""
    targets = sorted(judged.union(*targets_of.values()))
    matrix = [[1.0 if target in of_rater else np.nan for of_rater in targets_of.values()] for target in targets]
    kinds = {name: "human" if name in "pq" else "model" for name in targets_of}
    gold: Any = {"judged": np.array([target in judged for target in targets])} if judged else {}
    context = QuestionContext(
        kinds, picture=np.zeros(len(targets), np.int64), target=np.arange(len(targets)), targets=targets, **gold
    )
    return RatedQuestion(RatingTable.from_matrix(matrix, raters=list(targets_of)), context, MetricSettings())


def sentences(*questions: RatedQuestion, items: Items | None = None, rated: tuple[str, ...] = ()) -> list[str]:
    collected = RatedTargets()
    for of_condition in questions:
        collected(DIMS, of_condition)
    return list(collected.sentences(items or Items(), hash_texts(list(rated))))


def test_one_label_in_two_spellings_is_listed_with_both() -> None:
    def check(first: str, second: str, shown: tuple[str, str], is_spelling: bool) -> None:
        same = {"Mali", "Peru"}
        (sentence,) = sentences(question({"m": same | {second}, "p": same | {first}}))
        assert sentence.startswith(
            f"r/q: people rated 1 target that no model rated: {shown[0]}; "
            f"models rated 1 that no person rated: {shown[1]}."
        )
        assert (f"two spellings of one target: {shown[0]} = {shown[1]}." in sentence) is is_spelling

    cases = [
        ("M\u00e9xico", "Mexico", ("M\u00e9xico", "Mexico"), True),
        ("M\u00e9xico", "Me\u0301xico", ("M\u00e9xico", "'Me\\u0301xico'"), True),
        ("mexico", "Mexico", ("mexico", "Mexico"), True),
        ("Mexico ", "Mexico", ("'Mexico '", "Mexico"), True),
        ("U.S.A.", "USA", ("U.S.A.", "USA"), True),
        ("USA", "United States", ("USA", "United States"), False),
        ("\uff2d\uff41\uff4c\uff49 II", "Mali II", ("\uff2d\uff41\uff4c\uff49 II", "Mali II"), True),
    ]  # fmt: skip
    check_cases(check, cases)


def test_a_second_spelling_next_to_that_of_the_others_is_found() -> None:
    (sentence,) = sentences(question({"m": {"Mexico", "Mali"}, "p": {"Mexico", "mexico"}}))
    assert "Perhaps two spellings of one target: mexico = Mexico." in sentence


def test_targets_of_all_conditions_and_of_one_side_count() -> None:
    assert sentences(question({"m": {"a", "b"}, "p": {"a"}, "q": {"b"}})) == []
    assert sentences(question({"m": {"a"}, "p": {"a", "b"}}), question({"m": {"b"}, "p": {"a", "b"}})) == []
    (models,) = sentences(question({"m": {*"abcdefg"}, "p": {"a"}}))
    assert models == "r/q: models rated 6 targets that no person rated: b, c, d, e, f and 1 more."
    assert sentences(question({"p": {"a"}, "q": {"b"}})) == []  # people have targets of their own


def test_targets_that_not_every_model_rated_are_listed_with_the_models() -> None:
    (sentence,) = sentences(question({"m": {"a", "USA"}, "n": {"a", "United States"}, "o": {"a", "USA"}}))
    assert sentence == "r/q: not every model rated 2 targets: United States (by n), USA (by m, o)."


def test_gold_that_nobody_rated_is_listed() -> None:
    (sentence,) = sentences(question({"m": {"a", "Mexico"}}, judged={"a", "m\u00e9xico"}))
    assert sentence == "r/q: gold judges 1 target that nobody rated: m\u00e9xico"
    a, b = (int(number) for number in hash_texts(["a", "b"]))
    everywhere = frozenset[str]()
    items = Items(gold={a: (everywhere, frozenset(["M\u00e9xico", "Mali"])), b: (everywhere, frozenset(["Fiji"]))})
    rated = question({"m": {"Mexico", "Mali"}})
    (sentence,) = sentences(rated, items=items, rated=("a",))  # b was not rated
    assert sentence == (
        "items: 1 label in the items' gold that nobody rated and no answer has: M\u00e9xico. Perhaps two spellings of "
        "one label: M\u00e9xico = Mexico."
    )
    answers = Items(gold={a: (everywhere, frozenset(["1"]))})
    assert sentences(rated, items=answers, rated=("a",)) == []  # the answer to a question without targets


def test_targets_that_no_item_has_are_listed_if_every_item_has_its_own() -> None:
    rated = question({"p": {"M\u00e9xico", "Mali"}})
    (sentence,) = sentences(rated, items=Items(targets=frozenset(["Mexico", "Mali", "Peru"])))
    assert sentence.startswith("items: 1 label rated, but not among the items' own targets: M\u00e9xico.")
    assert sentences(rated, items=Items()) == []


def test_a_side_without_any_label_is_not_compared() -> None:
    assert list(apart("r", "target", "rated", Side(PEOPLE, set()), Side(MODELS, {"a"}))) == []
    some = one_sided("r", "item", "rated", Side(GOLD, {"a"}, 1200), Side(MODELS, ()))
    assert some == "r: gold rated 1,200 items that no model rated: a and 1,199 more."


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
        return estimated(MetricKind("empty_context_share"), k / n, n, interval=proportion(k, n), dims=dims)

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
    assert sentence.startswith("2 of 31 rated items have no region (r/a, r/b): they are in no subgroup.")
    metrics = [without_value(0, 7, attribute="region").at(question=q, rubric="r") for q in "abcdef"]
    (sentence,) = left_out(metrics)
    assert sentence.startswith("7 of 7 rated items have no region (r/a, r/b, r/c, r/d, r/e and 1 more): ")
    assert "items=" in sentence
