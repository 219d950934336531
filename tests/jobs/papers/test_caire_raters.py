"""The rows of CAIRE's tables: which condition has which role, and their order."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from jobs.papers.caire_tables import ShownRater, _of_paper, arrange, asked
from jobs.papers.study import PrintedTable
from tests.jobs.papers.studies import metric, study

CLOSED, LIKELIHOOD = {"closed"}, {"loglik"}
OPTIONS = {"none": "", "article": "wiki", "titles": "names", "gold": "right", "rater": "x", "average": "x"}


def rows(answered: dict[tuple[str, str, str], dict[str, set[str]]], **kinds: str) -> list[tuple[str, str, str]]:
    reduction: Any = SimpleNamespace(by=("condition",), keys=list(answered), methods_of=lambda key: answered[key])
    judges = asked(replace(study(kinds=kinds, options=OPTIONS), reduction=reduction))
    return [(judge.rater, judge.condition, judge.role) for judge in judges]


def test_raters_are_in_the_order_of_table_1_with_the_papers_names_of_their_conditions() -> None:
    answered = {
        ("relevance", "relevance", "wiki"): {"n": CLOSED, "m": CLOSED, "p": CLOSED, "l": LIKELIHOOD},
        ("relevance", "relevance", "wiki; log-likelihood"): {"m": CLOSED},
        ("relevance", "relevance", "right; log-likelihood"): {"m": CLOSED},
        ("relevance", "relevance", "right"): {"m": CLOSED, "l": LIKELIHOOD},
        ("relevance", "relevance", ""): {"m": CLOSED, "clip": {"encoder"}},
        ("relevance", "relevance", "names"): {"m": CLOSED},
        ("relevance", "relevance", "x"): {"m": CLOSED},
        ("relevance", "relevance", "a; b"): {"m": CLOSED},
        ("relevance", "other", "names"): {"k": CLOSED},
        ("other", "relevance", "names"): {"k": CLOSED},
    }
    assert rows(answered, p="human", clip="encoder") == [
        ("clip", "", "encoder"),
        ("m", "", "none"),
        ("m", "wiki", "article"),
        ("n", "wiki", "article"),
        ("m", "names", "titles"),
        ("m", "right", "gold"),
        ("l", "wiki", "likelihood"),
        ("m", "wiki; log-likelihood", "likelihood"),
        ("l", "right", "gold likelihood"),
        ("m", "right; log-likelihood", "gold likelihood"),
        ("m", "a; b", "a; b"),
        ("m", "x", "x"),
    ]


def test_labels_and_printed_rows_of_raters() -> None:
    one = study(names=["m=M"], printed={"t": PrintedTable("t", ["f1"], {"M / none": [1], "K / x": [2], "L": [3]})})
    judges = [ShownRater("m", "", "none"), ShownRater("n", "y", "y"), ShownRater("n", "", "")]
    assert [judge.headers for judge in judges] == [("m", "no context"), ("n", "y"), ("n", "no condition")]
    assert [judge.in_paper(one) for judge in judges] == ["M / none", "n / y", "n / "]
    others = one.printed("t").rows_alone(["f1"], headers=_of_paper, without=["M / none"])
    assert [row.headers for row in others] == [("K", "x"), ("L",)]


def test_tables_are_in_the_order_of_their_numbers() -> None:
    dims = {"rubric": "relevance", "question": "relevance"}
    reduction: Any = SimpleNamespace(by=("condition",), keys=[("relevance", "relevance", "")],
                                     methods_of=lambda _: {"m": CLOSED})  # fmt: skip
    metrics = [metric("f1", 0.5, **dims, group="m"), metric("pearson_by_image", 0.5, **dims, rater="m")]
    computed = [metric("accuracy@1", 0.5, table="lemma")]
    one = replace(study(metrics, computed=computed), reduction=reduction)
    names = [part.name for part in arrange(one)]
    assert names == [f"table_{n}" for n in (1, 2, 3, 4, 8, 10, 11, 15, 16, 17)]
