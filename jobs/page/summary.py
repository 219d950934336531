"""The answer at the top of a report and in the terminal: each rater's scores, its agreement with people, and problems.

Agreement with people is the mean of Cohen's kappas of the rater and each other person; where there are none, another
metric takes their place, and its name is next to the number.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from actors.quantities import quantity
from actors.status import STATUSES, Status
from jobs.analysis.report_tables import ALL_PEOPLE
from jobs.html.formats import in_words, number, percent
from jobs.metrics.distributions import Distribution
from jobs.metrics.metric import Metric
from jobs.metrics.rated_question import PEOPLE
from jobs.page.page_contents import Wording, label_of, question_of
from jobs.page.page_names import short_names, shortened

MAX_QUESTIONS = 4  # columns of questions
MAX_NAMED = 6  # raters in a sentence
KAPPA = "κ"
OUTSIDE = 0.1  # mean probability outside the allowed answers from which it is a problem
MIN_COVERAGE = 0.9  # share of answered ratings below which it is a problem
FEW = "fewer than "  # beginning of the reason of a metric of few items
WITH_PEOPLE = {"pearson_with_people": "r", "preference_agreement": "same answer", "accuracy": "right"}
OF_RESPONSES = {"model", "prompt", "sample"}  # attributes of a rated text rather than of its picture
Words = Mapping[tuple[str, str], Wording]


class Agreement(NamedTuple):
    """A rater's agreement with people, or with what `name` says; `questions` is the number of questions it averages."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None
    questions: int = 1

    @property
    def text(self) -> str:
        """Name and value, such as κ 0.61."""
        share = self.name in ("same answer", "right")
        return f"{self.name} {percent(self.value) if share else number(self.value, 2)}"

    @property
    def basis(self) -> str:
        """The interval, or the number of questions."""
        if self.questions > 1:
            return f"mean of {self.questions} questions"
        return "" if self.low is None or self.high is None else f"{number(self.low, 2)} to {number(self.high, 2)}"


class SummaryCell(NamedTuple):
    """A rater's answers to a question: the mean score, or the most frequent answer and its share, with the interval."""

    value: str
    interval: str
    error: float | None  # half of the interval's length
    n: int
    agreement: Agreement | None


@dataclass(frozen=True)
class SummaryRow:
    """A rater: its label on the page, numbers of answers, a cell per question, and its overall agreement.

    Attributes:
        furthest: the subgroup of items in which its mean differs most from people's, or from its mean over all items.
    """

    label: str
    asked: int
    ok: int
    cells: Sequence[SummaryCell | None]
    agreement: Agreement | None
    furthest: str
    is_person: bool


@dataclass(frozen=True)
class FirstScreen:
    """The first screen.

    Attributes:
        questions: (key, title) of the columns; `more`: number of other questions.
        rows: models by agreement, then people.
        with_people: whether subgroups are compared with people, else with the rater itself.
        problems: sentences about what is wrong with the ratings.
        estimates: sentences about people's answers to all items, of which they rated a part; plans: what more ratings
            by people would bring, for the terminal.
    """

    questions: Sequence[tuple[tuple[str, str], str]] = ()
    more: int = 0
    rows: Sequence[SummaryRow] = ()
    with_people: bool = False
    problems: Sequence[str] = ()
    estimates: Sequence[str] = ()
    plans: Sequence[str] = ()

    @property
    def has_agreement(self) -> bool:
        """Whether any rater has an agreement."""
        return any(row.agreement for row in self.rows)

    @property
    def has_subgroups(self) -> bool:
        """Whether any rater has means of subgroups."""
        return any(row.furthest for row in self.rows)


def summarize(
    distributions: Sequence[Distribution],
    metrics: Sequence[Metric],
    words: Words,
    *,
    people: Container[str] = (),
    gold: Container[str] = (),
    estimates: Sequence[str] = (),
    plans: Sequence[str] = (),
) -> FirstScreen:
    """Return the summary of a report.

    Args:
        distributions: of each rater's answers, or of all people's together.
        metrics: those of the page.
        people, gold: names of the raters of these kinds.
        estimates, plans: sentences about people's answers to all items.
    """
    place = {key: number for number, key in enumerate(words)}
    keys = sorted({(d.rubric, d.question) for d in distributions}, key=lambda key: (place.get(key, len(place)), key))
    scored = {(d.rubric, d.question) for d in distributions if d.ordinal}
    first = sorted(sorted(keys, key=lambda key: key not in scored)[:MAX_QUESTIONS], key=keys.index)
    titles = {key: words[key].title if key in words else in_words(key[1]) for key in keys}
    index = _Index(metrics, people, words, titles)
    of_rater: dict[str, list[Distribution]] = defaultdict(list)
    for d in distributions:
        if d.rater not in gold:
            of_rater[label_of(d)].append(d)
    rows = [_row(label, listed, first, index) for label, listed in of_rater.items()]
    rows.sort(key=_rank)
    return FirstScreen(
        questions=[(key, titles[key]) for key in first],
        more=len(keys) - len(first),
        rows=rows,
        with_people=index.has_people,
        problems=list(_problems(distributions, titles, words)),
        estimates=estimates,
        plans=plans,
    )


def _rank(row: SummaryRow) -> tuple[bool, bool, float, str]:
    """Return the key of a row's place: models before people, by agreement; those with another one than κ come last."""
    agreement = row.agreement
    return row.is_person, not (agreement and agreement.name == KAPPA), -agreement.value if agreement else 2.0, row.label


class _Index:
    """The metrics that the summary rests on, by question, and the names of people and questions."""

    def __init__(
        self, metrics: Sequence[Metric], people: Container[str], words: Words, titles: Mapping[tuple[str, str], str]
    ) -> None:
        self._by_name: dict[tuple[str, tuple[str, str]], list[Metric]] = defaultdict(list)
        self.people, self.words, self.titles = people, words, titles
        for metric in metrics:
            if metric.value is not None and "versions" not in metric.dims:
                self._by_name[metric.name, question_of(metric.dims)].append(metric)
        self.has_people = any(m.dims.get("group") == PEOPLE for listed in self._by_name.values() for m in listed)

    def _find(self, name: str, d: Distribution) -> Iterator[Metric]:
        """Yield the metrics of this name of the distribution's question, under its condition."""
        for metric in self._by_name.get((name, (d.rubric, d.question)), ()):
            if all(metric.dims.get(column, value) == value for column, value in d.extra if value):
                yield metric

    def agreement(self, d: Distribution) -> Agreement | None:
        """Return the agreement of a rater with people, else with gold, else with the other raters."""
        kappas = [m for m in self._find("kappa", d) if "attribute" not in m.dims]
        pairs = [(m, {m.dims["rater_a"], m.dims["rater_b"]}) for m in kappas]
        with_people = [
            m
            for m, pair in pairs
            if d.rater in {*pair, ALL_PEOPLE} and all(other in self.people for other in pair - {d.rater})
        ]
        if with_people:
            return _mean_kappa(KAPPA, with_people)
        for name, label in WITH_PEOPLE.items():
            for metric in self._find(name, d):
                rater = metric.dims.get("rater", metric.dims.get("group"))
                if rater == d.rater and "attribute" not in metric.dims and metric.value is not None:
                    return Agreement(label, metric.value, metric.low, metric.high)
        others = [m for m, pair in pairs if d.rater in pair]
        return _mean_kappa("κ with other raters", others) if others else None

    def furthest(self, d: Distribution) -> tuple[bool, float, str, int] | None:
        """Return whether it is of few items, the difference, the subgroup and n where a rater's mean differs most."""
        means = {
            (m.dims.get("attribute", ""), m.dims.get("part", ""), m.dims["group"]): m
            for m in self._find("group_mean_score", d)
        }
        compared = []
        for (attribute, part, group), metric in means.items():
            reference = means.get((attribute, part, PEOPLE)) or (
                None if self.has_people else means.get(("", "", group))
            )
            of_picture = attribute and OF_RESPONSES.isdisjoint(attribute.split("+"))
            if group == d.rater and of_picture and reference and reference.value is not None:
                few = str(metric.reason or "").startswith(FEW)
                compared.append((few, (metric.value or 0.0) - reference.value, part, metric.n))
        return min(compared, key=lambda entry: (entry[0], -abs(entry[1]))) if compared else None


def _mean_kappa(name: str, kappas: Sequence[Metric]) -> Agreement:
    values = [metric.value for metric in kappas if metric.value is not None]
    low, high = (kappas[0].low, kappas[0].high) if len(kappas) == 1 else (None, None)
    return Agreement(name, sum(values) / len(values), low, high)


def _row(label: str, listed: Sequence[Distribution], keys: Sequence[tuple[str, str]], index: _Index) -> SummaryRow:
    of_question = {(d.rubric, d.question): d for d in listed}
    agreements = {key: index.agreement(d) for key, d in of_question.items()}
    cells = [_cell(of_question[key], index.words.get(key), agreements[key]) if key in of_question else None
             for key in keys]  # fmt: skip
    names = Counter(agreement.name for agreement in agreements.values() if agreement)
    name = names.most_common(1)[0][0] if names else ""
    same = [agreement for agreement in agreements.values() if agreement and agreement.name == name]
    mean = Agreement(name, sum(a.value for a in same) / len(same), questions=len(same)) if len(same) > 1 else None
    subgroups = [(worst, index.titles[d.rubric, d.question]) for d in listed if (worst := index.furthest(d))]
    furthest = ""
    if subgroups:
        (few, difference, part, n), title = min(subgroups, key=lambda entry: (entry[0][0], -abs(entry[0][1])))
        about = f", {title}" if len(index.titles) > 1 else ""
        sign = "+" if difference > 0 else ""
        furthest = f"{part}{about}: {sign}{number(difference, 2)} (n {n:,}{', few' if few else ''})"
    return SummaryRow(
        label=label,
        asked=sum(d.asked for d in listed),
        ok=sum(d.ok for d in listed),
        cells=cells,
        agreement=mean or (same[0] if same else None),
        furthest=furthest,
        is_person=listed[0].rater in index.people or listed[0].rater == ALL_PEOPLE,
    )


def _cell(d: Distribution, words: Wording | None, agreement: Agreement | None) -> SummaryCell:
    if d.ordinal and d.mean_score.value is not None:
        mean = d.mean_score
        interval, error = "", None
        if mean.low is not None and mean.high is not None:
            interval, error = f"{number(mean.low, 2)} to {number(mean.high, 2)}", (mean.high - mean.low) / 2
        return SummaryCell(number(mean.value, 2), interval, error, d.ok, agreement)
    if not d.ok or not d.answers:
        return SummaryCell("no answer" if not d.ok else "—", "", None, d.ok, agreement)
    most = max(d.answers, key=lambda share: share.count)
    low, high = most.interval.low, most.interval.high
    interval, error = "", None
    if low is not None and high is not None:
        interval, error = f"{percent(low)} to {percent(high)}", (high - low) / 2
    answer = (words.labels.get(most.answer) if words else "") or most.answer
    return SummaryCell(f"{shortened(answer)} {percent(most.share)}", interval, error, d.ok, agreement)


def _problems(
    distributions: Sequence[Distribution], titles: Mapping[tuple[str, str], str], words: Words
) -> Iterator[str]:
    """Yield what is wrong with the ratings: missing answers, constant and empty raters, and probability elsewhere."""
    names = short_names(sorted(map(label_of, distributions)))
    asked, answered = Counter[str](), Counter[str]()
    not_ok: dict[str, Counter[str]] = defaultdict(Counter)
    constant: dict[tuple[str, str], list[str]] = defaultdict(list)
    outside: dict[str, list[float]] = defaultdict(list)
    for d in distributions:
        name = names[label_of(d)]
        asked[name] += d.with_input
        answered[name] += d.ok
        for status, count in d.not_ok.items():
            not_ok[status][name] += count
        for share in d.answers:
            if share.count == d.ok > 1:
                title = titles[d.rubric, d.question]
                worded = words.get((d.rubric, d.question), Wording("")).labels.get(share.answer)
                constant[name, worded or share.answer].append(f"“{title}” (n {d.ok:,})")
        if d.outside_mass.value is not None:
            outside[name].append(d.outside_mass.value)
    for status in STATUSES:
        if status in not_ok and status != Status.OK:
            counts = not_ok[status]
            yield f"{quantity(counts.total(), 'rating')} {in_words(status)}: {_named(counts.most_common())}."
    low = [name for name in asked if asked[name] and answered[name] < MIN_COVERAGE * asked[name]]
    for name in low[:MAX_NAMED]:
        yield f"{name} answered only {percent(answered[name] / asked[name])} of {asked[name]:,} requests."
    if len(low) > MAX_NAMED:
        yield f"{len(low) - MAX_NAMED} more raters answered less than {percent(MIN_COVERAGE)}."
    for (name, answer), questions in list(constant.items())[:MAX_NAMED]:
        yield f"{name} always gave the same answer, {answer}, to {_listed(questions)}."
    for name, masses in outside.items():
        if (mass := sum(masses) / len(masses)) >= OUTSIDE:
            yield f"{name} gave {percent(mass)} of the probability to texts that are not allowed answers."


def _named(counts: Sequence[tuple[str, int]]) -> str:
    return _listed([f"{name} {count:,}" for name, count in counts])


def _listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - MAX_NAMED:,} more" if len(texts) > MAX_NAMED else ""
    return ", ".join(texts[:MAX_NAMED]) + more


def terminal_lines(summary: FirstScreen, *, limit: int = 40) -> Iterator[str]:
    """Yield the summary as lines of text: per rater and question n, the value, half its interval, and the agreement."""
    names = short_names(row.label for row in summary.rows)
    rows = [
        (
            names[row.label],
            title,
            f"{cell.n:,}",
            cell.value,
            _error(cell),
            cell.agreement.text if cell.agreement else "-",
        )
        for row in summary.rows
        for (_, title), cell in zip(summary.questions, row.cells, strict=True)
        if cell
    ]
    if not rows:
        return
    agreement = "agreement" if summary.has_agreement else ""
    table = [("rater", "question", "n", "value", "±", agreement), *rows[:limit]]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    for line in table:
        cells = [text.rjust(width) if column in (2, 3, 4) else text.ljust(width)
                 for column, (text, width) in enumerate(zip(line, widths, strict=True))]  # fmt: skip
        yield "  " + "  ".join(cells).rstrip()
    if len(rows) > limit:
        yield f"  … and {len(rows) - limit:,} more lines in metrics.csv"
    yield "  value: mean score, or most frequent answer; ±: half of its 95% interval" + (
        "; agreement: with people (mean κ with each), or as named" if agreement else ""
    )
    yield from (f"  {sentence}" for sentence in (*summary.estimates, *summary.plans, *summary.problems))


def _error(cell: SummaryCell) -> str:
    if cell.error is None:
        return ""
    return percent(cell.error) if "%" in cell.value else number(cell.error, 2)
