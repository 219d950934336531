"""Agreement of the raters of a file, question by question: numeric answers form a scale, others categories."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from actors.status import Status
from jobs.analysis import compute
from jobs.analysis.attributes import items_of, raters_of
from jobs.analysis.from_file.columns import DECIMAL_COMMA, as_numbers, check_named, read_rows
from jobs.analysis.from_file.config import AnalyzeConfig
from jobs.analysis.rating_codes import Reduction
from jobs.errors import InputError
from jobs.metrics.metric import Metric
from jobs.runtime.console import say

RUBRIC, QUESTION = "file", "value"


def agreement(cfg: AnalyzeConfig, uri: str, columns: dict[str, list[str]]) -> Iterator[Metric]:
    """Metrics of a file of ratings. Ratings are kept as codes on disk: memory does not grow with the file."""
    scales = _scales(cfg, uri, columns)
    names = sorted({part for name in compute.compared_attributes(cfg.metrics) for part in name.split("+")})
    of_items, of_raters = Attributes("item", names), Attributes("rater", cfg.metrics.groups)
    attribute_columns = {both.column(name): [name] for both in (of_items, of_raters) for name in both.names}
    rows_read = 0
    with Reduction(keep_ids=cfg.metrics.crowdtruth) as reduction:
        for batch in read_rows(cfg, uri, columns | attribute_columns):
            check_named(uri, batch, [name for name in ("item", "rater", "question") if name in columns])
            ratings = _as_ratings(batch, scales, first=rows_read)
            _check_scale(uri, ratings, cfg.scale)
            reduction.add(ratings)
            of_items.add(uri, batch)
            of_raters.add(uri, batch)
            rows_read += batch.num_rows
        if not rows_read:
            raise InputError(f"{uri}: no ratings" + (" (keep_rows= keeps no row)" if cfg.keep_rows else ""))
        raters = raters_of(reduction.methods, of_raters.values, gold=cfg.metrics.gold)
        items = items_of(of_items.values)
        scale = (cfg.scale[0], cfg.scale[1]) if cfg.scale else None
        reason = "the scale is unknown: give scale=[lowest,highest]"
        yield from compute.question_metrics(
            reduction, raters, items, cfg.metrics, orders={}, scale=lambda rubric, question: (scale, reason)
        )


def _check_scale(uri: str, ratings: pa.Table, scale: Sequence[float]) -> None:
    """Refuse answers outside the configured scale."""
    if not scale:
        return
    low, high = scale
    outside = pc.or_(pc.less(ratings["score"], low), pc.greater(ratings["score"], high))
    if (strange := ratings.filter(outside)).num_rows:
        question, score = strange["question"][0].as_py(), strange["score"][0].as_py()
        raise InputError(
            f"scale=[{low:g},{high:g}]: {uri} has the answer {score:g} to {question!r}; select questions of one scale "
            "with keep_rows.COLUMN=TEXT"
        )


class Attributes:
    """Attributes of items or raters from columns that are constant for each item or rater.

    Attributes:
        values: column -> item or rater -> value, without nulls.
    """

    def __init__(self, owner: str, names: Sequence[str]) -> None:
        self.owner, self.names = owner, names
        self.values: dict[str, dict[str, str]] = {name: {} for name in names}

    def column(self, name: str) -> str:
        """The column's name among those of the answers."""
        return f"{name} of {self.owner}"

    def add(self, uri: str, batch: pa.Table) -> None:
        """Add the values of a batch.

        Raises:
            InputError: two values for one item or rater.
        """
        for name, value_of in self.values.items():
            columns = [self.owner, self.column(name)]
            pairs = batch.select(columns).group_by(columns).aggregate([])
            for key, value in zip(*(column.to_pylist() for column in pairs.columns), strict=True):
                if value is not None and value_of.setdefault(key, value) != value:
                    raise InputError(
                        f"{uri}: column {name!r} has two values for {self.owner} {key!r}, {value_of[key]!r} and "
                        f"{value!r}; it must be the same in all rows of one {self.owner}"
                    )


def _scales(cfg: AnalyzeConfig, uri: str, columns: dict[str, list[str]]) -> set[str]:
    """The questions whose answers are all numbers.

    Prints a warning if only some answers are numeric, because one non-numeric answer makes the question categorical,
    and if answers have a decimal comma, which might be meant as a thousands separator.
    """
    numbers, words, commas = Counter[str](), defaultdict[str, Counter[str]](Counter), defaultdict[str, list[str]](list)
    for batch in read_rows(cfg, uri, columns):
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
            f"the question is categorical; if these words mean no answer, give missing=[{example}]"
        )
    return numbers.keys() - words.keys()


def _questions(batch: pa.Table) -> pa.ChunkedArray:
    if "question" in batch.column_names:
        return batch["question"].fill_null("")
    return pa.chunked_array([pa.array([QUESTION] * batch.num_rows, pa.string())])


def _as_ratings(batch: pa.Table, scales: Collection[str], *, first: int) -> pa.Table:
    """The columns of `ratings` that `Reduction` reads; a row without an answer has status unparsed."""
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
        "sample": pa.array(range(first, first + n), pa.int32()),
        "value": pc.coalesce(score.cast(pa.string()), value),  # 3, 3.0 and 3,0 are one answer
        "score": score,
        "status": pc.if_else(pc.is_valid(value), Status.OK.value, Status.UNPARSED.value),
    })  # fmt: skip
