import dataclasses
from collections.abc import Sequence

from jobs.metrics.distributions import Distribution
from jobs.metrics.metric import Metric
from jobs.page.page_contents import Page
from jobs.page.render import render
from jobs.page.summary import FEW, summarize, terminal_lines
from tests.jobs.page import sample

FIRST, SECOND = sample.RATERS
QUESTION = {"rubric": "century_labels", "question": "sensitive"}


def of_scale(raters: Sequence[str] = sample.RATERS) -> list[Distribution]:
    return [d for d in sample.distributions(sample.ratings(raters=raters)) if d.question == "sensitive"]


def metric(name: str, value: float | None, n: int = 24, reason: str = "no interval", **dims: str) -> Metric:
    return Metric(name=name, definition="d", value=value, n=n, reason=reason, dims={**QUESTION, **dims})


def kappa(one: str, other: str, value: float) -> Metric:
    return metric("kappa", value, rater_a=one, rater_b=other, group="across")


def test_a_rater_s_agreement_is_the_mean_kappa_with_each_other_person():
    raters = (FIRST, "ada", "bela")
    kappas = [kappa(FIRST, "ada", 0.6), kappa("bela", FIRST, 0.2), kappa("ada", "bela", 0.9), kappa(FIRST, SECOND, 0.1)]
    summary = summarize(of_scale(raters), kappas, sample.wording(), people={"ada", "bela"})
    agreements = {row.label: row.agreement.value for row in summary.rows if row.agreement}
    assert agreements == {FIRST: 0.4, "bela": 0.9, "ada": 0.9}
    assert [row.is_person for row in summary.rows] == [False, True, True]
    assert {row.agreement.name for row in summary.rows if row.agreement} == {"κ"}


def test_without_people_the_name_says_with_whom_a_rater_agrees():
    (row, _) = summarize(of_scale(), [kappa(FIRST, SECOND, 0.1)], sample.wording()).rows
    assert row.agreement
    assert row.agreement.text == "κ with other raters 0.10"
    assert not summarize(of_scale(), [], sample.wording()).has_agreement


def test_models_are_in_the_order_of_their_agreement():
    kappas = [kappa(FIRST, "ada", 0.1), kappa(SECOND, "ada", 0.5)]
    summary = summarize(of_scale((FIRST, SECOND, "ada")), kappas, {}, people={"ada"})
    assert [row.label for row in summary.rows] == [SECOND, FIRST, "ada"]


def test_a_cell_has_the_mean_or_the_most_frequent_answer_with_its_interval():
    distributions = sample.distributions(sample.ratings(raters=[FIRST], pictures=60))
    mean = Metric(name="mean_score", definition="d", value=3.25, low=3.0, high=3.5, interval_method="m", n=60)
    sensitive, *_ = distributions = [
        dataclasses.replace(d, mean_score=mean) if d.question == "sensitive" else d
        for d in sorted(distributions, key=lambda d: d.question != "sensitive")
    ]
    summary = summarize(distributions, [], sample.wording())
    (row,) = summary.rows
    assert (len(summary.questions), summary.more) == (4, 4)
    cell = row.cells[0]
    assert cell
    assert (cell.value, cell.n) == ("3.25", sensitive.ok)
    assert (cell.interval, cell.error) == ("3.00 to 3.50", 0.25)
    nominal = next(d for d in distributions if d.question == "recognisable")
    (of_answers,) = summarize([nominal], [], {}).rows[0].cells
    most = max(nominal.answers, key=lambda share: share.count)
    assert of_answers
    assert of_answers.value == f"{most.answer} {most.share:.1%}"


def test_the_worst_subgroup_is_furthest_from_people_and_few_items_come_last():
    means = [
        metric("group_mean_score", value, n, reason, group=group, attribute="region", part=part)
        for group, part, value, n, reason in (
            (FIRST, "Asia", 3.0, 40, "no interval"), ("people", "Asia", 3.5, 40, "no interval"),
            (FIRST, "Europe", 4.0, 50, "no interval"), ("people", "Europe", 3.9, 50, "no interval"),
            (FIRST, "Africa", 1.0, 2, f"{FEW}30 items"), ("people", "Africa", 5.0, 2, f"{FEW}30 items"),
        )
    ]  # fmt: skip
    for group, value in ((FIRST, 1.0), ("people", 5.0)):
        means += [
            metric("group_mean_score", value, 90, group=group, attribute=attribute, part="writer")
            for attribute in ("model", "region+prompt")
        ]
    one, other = summarize(of_scale(), means, sample.wording()).rows
    assert one.furthest == "Asia: −0.50 (n 40)"
    assert other.furthest == ""


def test_problems_are_missing_and_constant_answers_in_words():
    rows = [row for row in sample.ratings(raters=[FIRST]) if row["question"] == "sensitive"]
    for number, row in enumerate(rows):
        row |= {"status": "missing_input" if number < 5 else "ok", "value": "3", "score": 3.0}
    problems = " ".join(summarize(sample.distributions(rows), [], sample.wording()).problems)
    assert "5 ratings missing input" in problems
    assert "always gave the same answer, Somewhat sensitive, to “Sensitive” (n 19)" in problems


def test_a_summary_of_nothing_has_no_rows_and_no_lines():
    summary = summarize([], [], {})
    assert (list(summary.rows), list(summary.questions), list(summary.problems)) == ([], [], [])
    assert list(terminal_lines(summary)) == []


def test_the_terminal_has_a_line_per_rater_and_question():
    kappas = [kappa(FIRST, "ada", 0.25)]
    summary = summarize(of_scale((FIRST, "ada")), kappas, sample.wording(), people={"ada"})
    head, first, second, note, *_ = terminal_lines(summary)
    assert head.split() == ["rater", "question", "n", "value", "±", "agreement"]
    assert first.split()[1] == "Sensitive"
    assert first.endswith("κ 0.25")
    assert second.split()[0] == "ada"
    assert "half of its 95% interval" in note
    assert any("… and 1 more lines" in line for line in terminal_lines(summary, limit=1))


def test_the_page_begins_with_the_raters_and_what_is_wrong():
    kappas = [kappa(FIRST, "ada", 0.25)]
    distributions = of_scale((FIRST, "ada"))
    summary = summarize(distributions, kappas, sample.wording(), people={"ada"})
    html = render(Page(title="t", summary=summary, distributions=distributions, wording=sample.wording()))
    first = html[html.index('<section id="summary"') : html.index('<section id="ratings"')]
    assert first.count("κ 0.25") == 1
    assert "What is wrong with the data" in first
    fine = render(Page(title="t", summary=dataclasses.replace(summary, problems=()), distributions=distributions))
    assert "No problem of the data was found" in fine
