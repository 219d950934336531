"""Ratings in a file for `report input=`: the keys, the columns of the file, and one function per task.

`agreement` compares the raters of a file, by question: numeric answers form a scale, other answers are categories.
`crowdtruth` is CrowdTruth 2.0 of judgements. `dsg` is of scene graphs: a model's answers in one file, people's ratings
of the pictures in another.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.quantities import quantity
from actors.status import Status
from jobs.analysis import compute, metric_settings
from jobs.analysis.attributes import items_of, raters_of, units_of
from jobs.analysis.rating_codes import PART, CodedPart, Reduction
from jobs.analysis.report_tables import MAX_PEOPLE_SHOWN, add_units, code_part
from jobs.corpora.user_tables import FilePart, batches, column_names, file_parts, select_columns
from jobs.errors import InputError, check_choice
from jobs.metrics import dsg
from jobs.metrics.crowdtruth import CrowdTruthTask
from jobs.metrics.distributions import Distribution, Distributions
from jobs.metrics.metric import Metric
from jobs.metrics.observations import Observations
from jobs.metrics.rated_question import MAX_LINES, MetricSettings
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.process.console import say
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.runtime.tasks import Tasks
from jobs.store.files import locations

TASKS = ("agreement", "crowdtruth", "dsg")
TASK_OF_KEY = {  # key -> the only task that uses it
    "people": "dsg",
    "missing": "agreement",
    "scale": "agreement",
    "separator": "crowdtruth",
    "annotations": "crowdtruth",
    "empty": "crowdtruth",
}
# Keys of `metrics` that need tables: models, responses, concepts, spans, conditions.
TABLES_ONLY = frozenset({"group_by", "baseline_condition", "leave_out", "concept", "overlap", "text_overlap"})
# Names of columns in released files: for CrowdTruth those of its two platforms (Figure Eight, Mechanical Turk) and of
# the tasks of Snow et al. (2008) in its tutorials, for DSG those of its answers and ratings. The first name in the file
# is used.
_CROWDTRUTH: dict[str, tuple[tuple[str, ...], ...]] = {
    "item": (("_unit_id",), ("HITId",), ("orig_id",)),
    "rater": (("_worker_id",), ("WorkerId",), ("!amt_worker_ids",)),
    "value": (("response",),),
}
_LIKERT: dict[str, tuple[tuple[str, ...], ...]] = {  # for people's ratings of DSG
    "item": (("t2i_model", "item_id"),),
    "rater": (("worker_id",),),
    "value": (("answer",),),
}
KNOWN_NAMES: dict[str, dict[str, tuple[tuple[str, ...], ...]]] = {
    "agreement": {field: _CROWDTRUTH[field] + _LIKERT[field] for field in _CROWDTRUTH},
    "crowdtruth": _CROWDTRUTH,
    "dsg": {
        "item": (("t2i_model", "item_id"),),
        "question": (("question_id",),),
        "parents": (("dependency_id",),),
        "value": (("answer",),),
    },
}
NEEDED = {
    "agreement": ("item", "rater", "value"),
    "crowdtruth": ("item", "rater", "value"),
    "dsg": ("item", "question", "value"),
}
DECIMAL_COMMA = r"^\s*-?\d+,\d+\s*$"
LARGEST = 1e100  # of a score; the squares of larger scores are infinite
NULLS = {  # columns that ratings by people in a file do not have
    "answers": pa.list_(pa.string()),
    "outside_mass": pa.float64(),
    "truncated": pa.list_(pa.string()),
    "empty_context": pa.string(),
}
RUBRIC, QUESTION = "file", "value"


class ColumnAttributes:
    """Attributes of items or raters, from columns with one value per item or rater.

    Attributes:
        values: column -> item or rater -> value, without nulls.
    """

    def __init__(self, owner: str, names: Sequence[str]) -> None:
        self.owner, self.names = owner, names
        self.values: dict[str, dict[str, str]] = {name: {} for name in names}

    def column(self, name: str) -> str:
        """Return the name of the attribute's column in the batches of answers."""
        return f"{name} of {self.owner}"

    def add(self, uri: str, batch: pa.Table) -> None:
        """Add the values of a batch.

        Raises:
            InputError: an item or rater has two values.
        """
        for name in self.names:
            columns = [self.owner, self.column(name)]
            pairs = batch.select(columns).group_by(columns).aggregate([])
            for key, value in zip(*(column.to_pylist() for column in pairs.columns), strict=True):
                if value is not None:
                    self._set(uri, name, key, value)

    def join(self, uri: str, part: "ColumnAttributes") -> None:
        """Add the values of the next part of the file. Raises InputError as `add`."""
        for name, value_of in part.values.items():
            for key, value in value_of.items():
                self._set(uri, name, key, value)

    def _set(self, uri: str, name: str, key: str, value: str) -> None:
        first = self.values[name].setdefault(key, value)
        if first != value:
            raise InputError(
                f"column {name!r} has two values for {self.owner} {key!r}, {first!r} and {value!r}; it must be the "
                f"same in all rows of one {self.owner}",
                place=uri,
            )


@dataclass
class Columns:
    """Names of columns; the texts of several columns, separated by commas, are joined."""

    item: str | None = None  # the rated item; for dsg the picture
    rater: str | None = None  # who rated it
    value: str | None = None  # the answer: a number, a category, yes or no
    question: str | None = None  # agreement: compute metrics for each; dsg: the question's id
    parents: str | None = None  # dsg: ids of questions that must be answered yes
    valid: str | None = None  # dsg: no, false, 0 or invalid leaves the question out


@dataclass
class PeopleColumns:
    """Columns of the file `people=`, in which people rate pictures (task=dsg)."""

    item: str = "t2i_model,item_id"  # the picture
    value: str = "answer"  # the person's score of the picture


@dataclass
class RatedFile:
    """Keys for ratings in a file, in place of tables."""

    input: str | None = None  # in place of tables: a CSV, TSV or Parquet file with one rating per row
    task: str = "agreement"  # rarely: of input=: agreement, crowdtruth or dsg
    columns: Columns = field(default_factory=Columns)  # of input=
    encoding: str | None = None  # rarely: of input= as CSV; null: by its byte-order mark, else UTF-8
    # rarely: of input=: texts in columns.value that mean no answer, such as [n/a, unsure] (agreement)
    missing: list[str] = field(default_factory=list)
    # of input=: lowest and highest answer, [1,5]; without it, metrics that depend on it are undefined (agreement)
    scale: list[float] = field(default_factory=list)
    keep_rows: dict[str, str] = field(default_factory=dict)  # rarely: of input=: column: text; read only these rows
    separator: str | None = None  # rarely: of input=: separates several annotations in a cell (crowdtruth)
    # rarely: of input=: the closed set; empty: those in the file (crowdtruth)
    annotations: list[str] = field(default_factory=list)
    empty: str | None = None  # rarely: of input=: annotation of an empty cell; null: it does not count (crowdtruth)
    people: str | None = None  # rarely: next to input=: a file of people's ratings (dsg)
    people_columns: PeopleColumns = field(default_factory=PeopleColumns)  # rarely: of people=
    # all metrics of the data are computed; these keys change how
    metrics: MetricSettings = field(default_factory=MetricSettings)
    exclusions: str | None = None  # file of pictures that must not be used, one per line
    title: str = ""  # title of the page; empty: the names of the rubrics, or Metrics of input=
    out: str = MISSING  # a folder: index.html, metrics.csv and the table metrics


def check_settings(cfg: RatedFile) -> None:
    """Check the task and the scale, and that the task uses all keys that are set.

    Raises:
        InputError: the task or the scale is invalid, or a key is set without effect.
    """
    check_choice("task", cfg.task, TASKS)
    for key, task in TASK_OF_KEY.items():
        if getattr(cfg, key) and cfg.task != task:
            raise InputError(f"only task={task} uses it", key=key, remedy="remove the key")
    if cfg.scale and (len(cfg.scale) != 2 or not cfg.scale[0] < cfg.scale[1]):
        raise InputError("must be the lowest and the highest answer, such as [1,5]", key="scale", value=cfg.scale)
    if wrong := [name for name, raters in cfg.metrics.ensembles.items() if isinstance(raters, dict)]:
        raise InputError("a file has no rubrics; must be a list of raters (globs)", key=f"metrics.ensembles.{wrong[0]}")
    default = MetricSettings()
    without = {f.name for f in fields(MetricSettings)} - {"stop"} if cfg.task != "agreement" else TABLES_ONLY
    without = without | {"stop"} if cfg.task == "dsg" else without
    if idle := sorted(name for name in without if getattr(cfg.metrics, name) != getattr(default, name)):
        raise InputError(f"task={cfg.task} does not use it", key=f"metrics.{idle[0]}", remedy="remove the key")


def find_columns(cfg: RatedFile, uri: str) -> dict[str, list[str]]:
    """Return the file's columns for each field: the configured ones, else those named as in released data sets.

    A required field without either is the column of the same name.

    Raises:
        InputError: configured columns are not in the file, or required ones are not configured.
    """
    available = column_names(uri, encoding=cfg.encoding)
    columns_of, missing = {}, []
    for column_field in fields(Columns):
        configured = getattr(cfg.columns, column_field.name)
        names = named_columns(configured, available)
        known_names = KNOWN_NAMES[cfg.task].get(column_field.name, ())
        if not names:
            names = next((list(columns) for columns in known_names if all(name in available for name in columns)), [])
        if not names and column_field.name in NEEDED[cfg.task] and column_field.name in available:
            names = [column_field.name]
        if not names and column_field.name in NEEDED[cfg.task]:
            missing.append(f"columns.{column_field.name}= is required")
        missing += [
            f"no column {name!r} (columns.{column_field.name}={configured})" for name in names if name not in available
        ]
        if names:
            columns_of[column_field.name] = names
    missing += [f"no column {name!r} (keep_rows.{name}=)" for name in cfg.keep_rows if name not in available]
    if cfg.task == "agreement":
        attributes = {
            "disaggregate": sorted(metric_settings.compared_attributes(cfg.metrics)),
            "groups": cfg.metrics.groups or [],
            "unit": [cfg.metrics.unit] if cfg.metrics.unit else [],
        }
        for key, parts in attributes.items():
            names = list(dict.fromkeys(name for part in parts for name in part.split("+")))
            missing += [f"no column {name!r} (metrics.{key}=)" for name in names if name not in available]
    if missing:
        raise InputError(f"{', '.join(missing)}; the file has the columns {', '.join(available)}", place=uri)
    if next(batches(uri, columns_of["item"], encoding=cfg.encoding), None) is None:
        raise InputError("has no rows", place=uri)
    return columns_of


def named_columns(configured: str | None, available: Sequence[str]) -> list[str]:
    """Return the column `configured` if the file has it, else the names between its commas."""
    if configured is not None and configured in available:
        return [configured]
    return [name.strip() for name in (configured or "").split(",") if name.strip()]


def read_rows(
    cfg: RatedFile, uri: str, columns: dict[str, list[str]], exclusion_filter: ExclusionFilter
) -> Iterator[pa.Table]:
    """Yield batches of the rows that keep_rows= keeps, without excluded items: one string column per field.

    Values of missing= are null.
    """
    reading = _FileReading(cfg, columns, exclusion_filter)
    for batch in batches(uri, reading.names, encoding=cfg.encoding):
        yield reading.kept(uri, batch)


@dataclass(frozen=True)
class _FileReading:
    """How the rows of a file are read: the columns of each field, and which rows count."""

    cfg: RatedFile
    columns: dict[str, list[str]]
    exclusion_filter: ExclusionFilter

    @property
    def names(self) -> list[str]:
        """The columns of the file to read."""
        return [*(name for names in self.columns.values() for name in names), *self.cfg.keep_rows]

    def parts(self, uri: str) -> Iterator[tuple[FilePart]]:
        """Yield the parts of the file, as arguments of tasks."""
        return ((part,) for part in file_parts(uri, self.names, PART, encoding=self.cfg.encoding))

    def kept(self, uri: str, batch: pa.Table) -> pa.Table:
        """Return the rows of a batch that count; see `read_rows`."""
        present = without_excluded(batch, self.columns.get("item", ()), self.exclusion_filter)
        rows = select_columns(uri, present, self.columns, self.cfg.keep_rows)
        if self.cfg.missing:
            is_missing = pc.is_in(rows["value"], pa.array(self.cfg.missing, pa.string()))
            position = rows.column_names.index("value")
            rows = rows.set_column(position, "value", pc.if_else(is_missing, None, rows["value"]))
        return rows


def without_excluded(rows: pa.Table, names: Sequence[str], exclusion_filter: ExclusionFilter) -> pa.Table:
    """Return the rows whose item, identified by the columns `names`, is not on the list of exclusions."""
    out = np.zeros(rows.num_rows, bool)
    for name in names:
        if exclusion_filter and name in rows.column_names:
            out |= exclusion_filter.mask(rows[name])
    return rows.filter(pa.array(~out)) if out.any() else rows


def as_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the column as numbers, null where it has none; 3,5 is read as 3.5, as many countries' spreadsheets write
    it."""
    comma = pc.match_substring_regex(column, DECIMAL_COMMA)
    text = pc.utf8_trim_whitespace(pc.if_else(comma, pc.replace_substring(column, ",", "."), column))
    number = pc.match_substring_regex(text, r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")
    values = pc.if_else(number, text, None).cast(pa.float64())
    return pc.if_else(pc.less(pc.abs(values), LARGEST), values, None)


def check_named(uri: str, batch: pa.Table, names: Sequence[str]) -> None:
    """Check that all rows have a value in each of the columns `names`.

    Raises:
        InputError: a row has no value.
    """
    for name in names:
        if batch[name].null_count:
            raise InputError(
                f"columns.{name} is empty in {quantity(batch[name].null_count, 'row')}; every row must have it",
                place=uri,
            )


@dataclass(frozen=True)
class FileAnalysis:
    """The metrics of a file, and the other contents of its page: distributions by rater, and data for plots."""

    metrics: Sequence[Metric]
    distributions: Sequence[Distribution] = ()
    observations: Observations = field(default_factory=Observations)


def shown_distributions(of_each: Distributions, pooled: Distributions) -> list[Distribution]:
    """Return the distributions of each rater, or of all together if there are more than `MAX_PEOPLE_SHOWN`.

    Each answer that occurs is allowed.
    """
    per_rater, of_all = of_each.result(), pooled.result()
    shown = per_rater if len({d.rater for d in per_rater}) <= MAX_PEOPLE_SHOWN else of_all
    answers = {(d.rubric, d.question): sorted((a.answer for a in d.answers), key=_order) for d in of_all}
    return [_in_order(d, answers[d.rubric, d.question]) for d in shown]


def _order(answer: str) -> tuple[float, str]:
    try:
        return float(answer), answer
    except ValueError:
        return float("inf"), answer


def _in_order(distribution: Distribution, answers: Sequence[str]) -> Distribution:
    place = {answer: number for number, answer in enumerate(answers)}
    shares = sorted(distribution.answers, key=lambda share: place[share.answer])
    return replace(distribution, answers=tuple(replace(share, listed=True) for share in shares))


@dataclass(frozen=True)
class _RatedPart:
    """The results of reading a part of a file of ratings.

    Attributes:
        codes, distributions, pooled: see `code_part`.
        items, raters: their attributes.
        rows: the number of ratings that count.
        matched: entry of the exclusions -> ratings that it excludes.
    """

    codes: CodedPart
    distributions: Distributions
    pooled: Distributions
    items: ColumnAttributes
    raters: ColumnAttributes
    rows: int
    matched: Mapping[str, int]


def file_agreement(
    cfg: RatedFile, uri: str, columns: dict[str, list[str]], exclusion_filter: ExclusionFilter, *, tasks: Tasks
) -> FileAnalysis:
    """Return the metrics and distributions of a file of ratings.

    The ratings are kept as codes on disk, or in Ray's object store by the tasks that read them: memory grows only with
    the largest question, and with the items that have attributes.
    """
    unit = cfg.metrics.unit
    attributes_named = {*metric_settings.compared_attributes(cfg.metrics), *filter(None, [unit])}
    names = sorted({part for name in attributes_named for part in name.split("+")})
    items_read, raters_read = ColumnAttributes("item", names), ColumnAttributes("rater", cfg.metrics.groups or [])
    attribute_columns = {
        attributes.column(name): [name] for attributes in (items_read, raters_read) for name in attributes.names
    }

    reading = _FileReading(cfg, columns, exclusion_filter.copy())
    scales = _scales(tasks.map(_count_answers, reading.parts(uri), shared=(reading,)))
    reading = _FileReading(cfg, columns | attribute_columns, exclusion_filter.copy())
    rows_read, of_each, pooled = 0, Distributions(), Distributions()
    with Reduction(keep_ids=cfg.metrics.crowdtruth, tasks=tasks) as reduction:
        to_all = reading, scales, items_read.names, raters_read.names
        for part, bundles in tasks.spread(_read_part, reading.parts(uri), shared=to_all):
            reduction.join(part.codes, bundles)
            of_each.join(part.distributions)
            pooled.join(part.pooled)
            items_read.join(uri, part.items)
            raters_read.join(uri, part.raters)
            rows_read += part.rows
            exclusion_filter.matched.update(part.matched)
        if not rows_read:
            raise InputError("the file has no ratings" + (" that keep_rows= keeps" if cfg.keep_rows else ""), place=uri)
        if unit:
            unit_of = {item: f"={value}" for item, value in items_read.values[unit].items()}
            reduction.units = units_of(unit_of, name=f"values of {unit}")
        add_units(reduction, of_each, pooled)
        raters = raters_of(reduction.methods, raters_read.values, gold=cfg.metrics.gold)
        items = items_of(items_read.values)
        observations = Observations()
        metrics = compute.question_metrics(
            reduction,
            raters,
            items,
            cfg.metrics,
            orders={},
            scale=partial(_same_scale, (cfg.scale[0], cfg.scale[1]) if cfg.scale else None),
            observer=observations,
        )
        return FileAnalysis(list(metrics), shown_distributions(of_each, pooled), observations)


def _same_scale(
    scale: tuple[float, float] | None, rubric: str, question: str
) -> tuple[tuple[float, float] | None, str]:
    """Return the scale of every question, or None and why it is unknown."""
    return scale, "the scale is unknown; set scale=[lowest,highest]"


def _read_part(
    reading: _FileReading, scales: Collection[str], of_items: Sequence[str], of_raters: Sequence[str], source: FilePart
) -> Iterator[Any]:
    """Yield the `_RatedPart` of a part of a file, then its bundles of codes.

    Args:
        of_items, of_raters: names of the columns with their attributes.
    """
    items, raters = ColumnAttributes("item", of_items), ColumnAttributes("rater", of_raters)
    cfg, columns, counted = reading.cfg, reading.columns, list[int]()

    def ratings() -> Iterator[pa.Table]:
        first = source.first
        for rows in source.batches():
            batch = reading.kept(source.uri, rows)
            check_named(source.uri, batch, [name for name in ("item", "rater", "question") if name in columns])
            answers = _as_ratings(batch, scales, first=first)
            _check_scale(source.uri, answers, cfg.scale)
            items.add(source.uri, batch)
            raters.add(source.uri, batch)
            counted.append(batch.num_rows)
            first += rows.num_rows
            yield answers

    codes, bundles, distributions, pooled = code_part(ratings(), keep_ids=cfg.metrics.crowdtruth)
    matched = reading.exclusion_filter.take_matched()
    yield _RatedPart(codes, distributions, pooled, items, raters, sum(counted), matched)
    yield from bundles


def _check_scale(uri: str, ratings: pa.Table, scale: Sequence[float]) -> None:
    """Check that no answer is outside the configured scale."""
    if not scale:
        return
    low, high = scale
    outside = pc.or_(pc.less(ratings["score"], low), pc.greater(ratings["score"], high))
    if (refused := ratings.filter(outside)).num_rows:
        question, score = refused["question"][0].as_py(), refused["score"][0].as_py()
        why = (
            f"the answer {score:g} to {question!r} in {uri} is outside the scale; select the questions on "
            "this scale with keep_rows.COLUMN=TEXT"
        )
        raise InputError(why, key="scale", value=f"[{low:g},{high:g}]")


@dataclass
class _AnswerCounts:
    """How many answers of each question are numbers, how often each other one occurs, and those with a comma."""

    numbers: Counter[str] = field(default_factory=Counter)
    words: dict[str, Counter[str]] = field(default_factory=dict)
    commas: dict[str, list[str]] = field(default_factory=dict)


def _count_answers(reading: _FileReading, source: FilePart) -> _AnswerCounts:
    """Return the answers in a part of a file."""
    counts = _AnswerCounts()
    for rows in source.batches():
        batch = reading.kept(source.uri, rows)
        table = pa.table({"question": _questions(batch), "value": batch["value"]}).group_by(["question", "value"])
        counted = table.aggregate([([], "count_all")]).drop_null()
        is_number = pc.is_valid(as_numbers(counted["value"])).to_pylist()
        is_comma = pc.match_substring_regex(counted["value"], DECIMAL_COMMA).to_pylist()
        for row, number, comma in zip(counted.to_pylist(), is_number, is_comma, strict=True):
            question, value, n = row["question"], row["value"], row["count_all"]
            if number:
                counts.numbers[question] += n
            else:
                counts.words.setdefault(question, Counter())[value] += n
            if comma:
                counts.commas.setdefault(question, []).append(value)
    return counts


def _scales(parts: Iterable[_AnswerCounts]) -> set[str]:
    """Return the questions whose answers are all numbers.

    Print a warning if only some answers of a question are numbers, because one other answer makes it categorical, and
    if answers have a decimal comma, which may be a thousands separator.
    """
    numbers, words, commas = Counter[str](), defaultdict[str, Counter[str]](Counter), defaultdict[str, list[str]](list)
    for part in parts:
        numbers.update(part.numbers)
        for question, counted in part.words.items():
            words[question].update(counted)
        for question, values in part.commas.items():
            commas[question] += values
    for question in sorted(commas.keys() - words.keys()):
        example = min(commas[question])
        read = float(example.replace(",", "."))
        say(f"{question}: answers have a decimal comma; {example} is read as {read:g}")
    for question in sorted(words.keys() & numbers.keys()):
        some, example = words[question].total(), words[question].most_common(1)[0][0]
        say(
            f"{question}: {some:,} of {numbers[question] + some:,} answers are not numbers, such as {example!r}, so "
            f"the question is categorical; if such texts mean no answer, set missing=[{example}]"
        )
    return numbers.keys() - words.keys()


def _questions(batch: pa.Table) -> pa.ChunkedArray:
    if "question" in batch.column_names:
        return batch["question"].fill_null("")
    return pa.chunked_array([pa.array([QUESTION] * batch.num_rows, pa.string())])


def _as_ratings(batch: pa.Table, scales: Collection[str], *, first: int) -> pa.Table:
    """Return the columns of `ratings` that metrics need; a row without an answer has status unparsed."""
    n, value, question = batch.num_rows, batch["value"], _questions(batch)
    on_scale = pc.is_in(question, pa.array(sorted(scales), pa.string()))
    score = pc.if_else(on_scale, as_numbers(value), pa.scalar(None, pa.float64()))
    return pa.table({
        "item_id": batch["item"],
        "target": pa.array([""] * n),
        "rubric": pa.array([RUBRIC] * n),
        "question": question,
        "rater": batch["rater"],
        "method": pa.array(["human"] * n),
        "order": pa.array([""] * n),
        "sample": pa.array(range(first, first + n), pa.int32()),
        "value": pc.coalesce(score.cast(pa.string()), value),  # 3, 3.0 and 3,0 are the same answer
        "score": score,
        "status": pc.if_else(pc.is_valid(value), Status.OK.value, Status.UNPARSED.value),
        **{name: pa.nulls(n, kind) for name, kind in NULLS.items()},
    })  # fmt: skip


def file_crowdtruth(
    cfg: RatedFile, uri: str, columns: dict[str, list[str]], exclusion_filter: ExclusionFilter
) -> FileAnalysis:
    """Return CrowdTruth metrics, by the last judgement if a worker judged a unit several times (as in the
    reference)."""
    judgements: dict[tuple[str, str], frozenset[str]] = {}
    asked_of_unit, asked_of_worker = Counter[str](), Counter[str]()
    for batch in read_rows(cfg, uri, columns, exclusion_filter):
        check_named(uri, batch, ("item", "rater"))
        cells = zip(batch["item"].to_pylist(), batch["rater"].to_pylist(), batch["value"].to_pylist(), strict=True)
        for unit, worker, cell in cells:
            asked_of_unit[unit] += 1
            asked_of_worker[worker] += 1
            parts = cell.split(cfg.separator) if cell and cfg.separator else [cell or ""]
            picked = frozenset(part.strip() for part in parts if part.strip())
            if picked or cfg.empty:
                judgements[unit, worker] = picked or frozenset([cfg.empty or ""])
    occur = sorted({annotation for picked in judgements.values() for annotation in picked})
    closed = cfg.annotations or occur
    if unexpected := [annotation for annotation in occur if annotation not in closed]:
        raise InputError(f"annotation {unexpected[0]!r} is not in annotations={list(closed)}; add it there", place=uri)
    if len(occur) > MAX_LINES:
        raise InputError(f"{len(occur)} different annotations, more than {MAX_LINES}: not a closed task", place=uri)
    asked = asked_of_worker.total()
    if left := asked - len(judgements):
        say(f"{left} of {asked} judgements do not count: they are empty or repeated by the same worker")
    units, workers = sorted(asked_of_unit), sorted(asked_of_worker)
    of_unit, of_worker, position_of = (
        {name: code for code, name in enumerate(names)} for names in (units, workers, closed)
    )
    vectors = np.zeros((len(judgements), len(closed)))
    for line, picked in enumerate(judgements.values()):
        vectors[line, [position_of[annotation] for annotation in picked]] = 1
    task = CrowdTruthTask(
        unit=np.array([of_unit[u] for u, _ in judgements], np.int64),
        worker=np.array([of_worker[w] for _, w in judgements], np.int64),
        vectors=vectors,
        units=units,
        workers=workers,
        annotations=closed,
        asked_of_unit=np.array([asked_of_unit[u] for u in units], np.int64),
        asked_of_worker=np.array([asked_of_worker[w] for w in workers], np.int64),
    )
    return FileAnalysis(list(task.metrics(stop=cfg.metrics.stop)))


def file_scene_graphs(
    cfg: RatedFile, uri: str, columns: dict[str, list[str]], exclusion_filter: ExclusionFilter
) -> FileAnalysis:
    """Return DSG metrics of the answers in the file, and their correlation with people's ratings if there are any."""
    pictures: dict[str, dict[str, dsg.DsgQuestion]] = defaultdict(dict)
    for batch in read_rows(cfg, uri, columns, exclusion_filter):
        check_named(uri, batch, ("item", "question"))
        for line in batch.to_pylist():
            name = dsg.id_of(line["question"])
            if name in pictures[line["item"]]:
                raise InputError(
                    f"duplicate question {name!r} of picture {line['item']!r}; "
                    "select one model's rows with keep_rows.COLUMN=, or name more columns with columns.item=",
                    place=uri,
                )
            pictures[line["item"]][name] = dsg.DsgQuestion(
                question=name,
                parents=dsg.parents_of(line.get("parents")),
                valid=_is_valid(uri, line.get("valid")),
                answer=line["value"],
            )
    if not pictures:
        raise InputError("the file has no questions" + (" that keep_rows= keeps" if cfg.keep_rows else ""), place=uri)
    graphs = pictures.values()
    unknown = sorted({p for graph in graphs for q in graph.values() for p in q.parents if p not in graph})
    if unknown:
        say(f"{len(unknown)} parents are ignored: they are not questions of their picture, such as {unknown[0]!r}")
    people = _people(cfg, exclusion_filter) if cfg.people else {}
    if people:
        if not people.keys() & pictures.keys():
            example = next(iter(people)), next(iter(pictures))
            raise InputError(
                f"people= and input= have no picture in common: people= has {example[0]!r}, input= has {example[1]!r}"
            )
        pictures = {name: graph for name, graph in pictures.items() if name in people}
    graphs_of = {name: list(graph.values()) for name, graph in pictures.items()}
    return FileAnalysis(list(dsg.dsg_metrics(graphs_of, people)))


def _is_valid(uri: str, word: str | None) -> bool:
    plain = dsg.id_of((word or "yes").casefold())
    if plain in dsg.YES | {"valid", "t"}:
        return True
    if plain in dsg.NO | {"invalid", "f"}:
        return False
    raise InputError(f"columns.valid has the text {word!r}; must be yes or no", place=uri)


def _people(cfg: RatedFile, exclusion_filter: ExclusionFilter) -> dict[str, float]:
    """Return people's mean rating of each picture."""
    uri = locations.find(cfg.people or "")[0].uri
    scores_of: dict[str, list[float]] = defaultdict(list)
    available = column_names(uri, encoding=cfg.encoding)
    names = {key: named_columns(getattr(cfg.people_columns, key), available) for key in ("item", "value")}
    for batch in batches(uri, [*names["item"], *names["value"]], encoding=cfg.encoding):
        rows = select_columns(uri, without_excluded(batch, names["item"], exclusion_filter), names, {})
        scores = as_numbers(rows["value"])
        words = rows["value"].filter(pc.and_(pc.is_valid(rows["value"]), pc.is_null(scores)))
        if len(words):
            raise InputError(f"people_columns.value has the text {words[0].as_py()!r}; must be numbers", place=uri)
        for item, score in zip(rows["item"].to_pylist(), scores.to_pylist(), strict=True):
            if item is not None and score is not None:
                scores_of[item].append(score)
    return {item: float(np.mean(scores)) for item, scores in scores_of.items()}
