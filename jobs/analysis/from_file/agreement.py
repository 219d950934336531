"""Agreement of the raters of a file, by question: numeric answers form a scale, other answers are categories."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from actors.status import Status
from jobs.analysis import compute, metric_settings
from jobs.analysis.attributes import items_of, raters_of, units_of
from jobs.analysis.from_file.columns import DECIMAL_COMMA, as_numbers, check_named, read_rows
from jobs.analysis.from_file.config import AnalyzeConfig
from jobs.analysis.from_file.file_analysis import FileAnalysis
from jobs.analysis.from_file.peoples_distributions import PeoplesDistributions
from jobs.analysis.rating_codes import Reduction
from jobs.errors import InputError
from jobs.metrics.observations import Observations
from jobs.runtime.process.console import say
from jobs.runtime.selection.exclusions import ExclusionFilter

RUBRIC, QUESTION = "file", "value"


def agreement(
    cfg: AnalyzeConfig, uri: str, columns: dict[str, list[str]], exclusion_filter: ExclusionFilter
) -> FileAnalysis:
    """Return the metrics and distributions of a file of ratings.

    The ratings are kept as codes on disk, so memory grows only with the largest question.
    """
    scales = _scales(cfg, uri, columns, exclusion_filter)
    unit = cfg.metrics.unit
    attributes_named = {*metric_settings.compared_attributes(cfg.metrics), *filter(None, [unit])}
    names = sorted({part for name in attributes_named for part in name.split("+")})
    item_attributes, rater_attributes = Attributes("item", names), Attributes("rater", cfg.metrics.groups)
    attribute_columns = {
        attributes.column(name): [name]
        for attributes in (item_attributes, rater_attributes)
        for name in attributes.names
    }
    rows_read, distributions = 0, PeoplesDistributions()
    with Reduction(keep_ids=cfg.metrics.crowdtruth) as reduction:
        for batch in read_rows(cfg, uri, columns | attribute_columns, exclusion_filter):
            check_named(uri, batch, [name for name in ("item", "rater", "question") if name in columns])
            ratings = _as_ratings(batch, scales, first=rows_read)
            _check_scale(uri, ratings, cfg.scale)
            reduction.add(ratings)
            distributions.add(ratings)
            item_attributes.add(uri, batch)
            rater_attributes.add(uri, batch)
            rows_read += batch.num_rows
        if not rows_read:
            raise InputError(f"{uri}: the file has no ratings" + (" that keep_rows= keeps" if cfg.keep_rows else ""))
        if unit:
            unit_of = {item: f"={value}" for item, value in item_attributes.values[unit].items()}
            reduction.units = units_of(unit_of, name=f"values of {unit}")
        distributions.add_units(reduction)
        raters = raters_of(reduction.methods, rater_attributes.values, gold=cfg.metrics.gold)
        items = items_of(item_attributes.values)
        scale = (cfg.scale[0], cfg.scale[1]) if cfg.scale else None
        reason, observations = "the scale is unknown; set scale=[lowest,highest]", Observations()
        metrics = compute.question_metrics(
            reduction,
            raters,
            items,
            cfg.metrics,
            orders={},
            scale=lambda rubric, question: (scale, reason),
            observe=observations,
        )
        return FileAnalysis(list(metrics), distributions.shown(), observations)


def _check_scale(uri: str, ratings: pa.Table, scale: Sequence[float]) -> None:
    """Check that no answer is outside the configured scale."""
    if not scale:
        return
    low, high = scale
    outside = pc.or_(pc.less(ratings["score"], low), pc.greater(ratings["score"], high))
    if (refused := ratings.filter(outside)).num_rows:
        question, score = refused["question"][0].as_py(), refused["score"][0].as_py()
        raise InputError(
            f"scale=[{low:g},{high:g}]: the answer {score:g} to {question!r} in {uri} is outside the scale; select "
            "the questions on this scale with keep_rows.COLUMN=TEXT"
        )


class Attributes:
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
        for name, value_of in self.values.items():
            columns = [self.owner, self.column(name)]
            pairs = batch.select(columns).group_by(columns).aggregate([])
            for key, value in zip(*(column.to_pylist() for column in pairs.columns), strict=True):
                if value is not None and value_of.setdefault(key, value) != value:
                    raise InputError(
                        f"column {name!r} has two values for {self.owner} {key!r}, {value_of[key]!r} and "
                        f"{value!r}; it must be the same in all rows of one {self.owner}",
                        place=uri,
                    )


def _scales(cfg: AnalyzeConfig, uri: str, columns: dict[str, list[str]], exclusion_filter: ExclusionFilter) -> set[str]:
    """Return the questions whose answers are all numbers.

    Print a warning if only some answers of a question are numbers, because one other answer makes it categorical, and
    if answers have a decimal comma, which may be a thousands separator.
    """
    numbers, words, commas = Counter[str](), defaultdict[str, Counter[str]](Counter), defaultdict[str, list[str]](list)
    for batch in read_rows(cfg, uri, columns, exclusion_filter):
        table = pa.table({"question": _questions(batch), "value": batch["value"]}).group_by(["question", "value"])
        counted = table.aggregate([([], "count_all")]).drop_null()
        is_number = pc.is_valid(as_numbers(counted["value"])).to_pylist()
        is_comma = pc.match_substring_regex(counted["value"], DECIMAL_COMMA).to_pylist()
        for row, number, comma in zip(counted.to_pylist(), is_number, is_comma, strict=True):
            question, value, n = row["question"], row["value"], row["count_all"]
            if number:
                numbers[question] += n
            else:
                words[question][value] += n
            if comma:
                commas[question].append(value)
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
    """Return the columns of `ratings` that `Reduction` needs; a row without an answer has status unparsed."""
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
    })  # fmt: skip
