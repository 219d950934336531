"""Agreement of the raters of a file: numbers are a scale, words categories, question by question."""

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
    """Through the same codes as the table `ratings`: memory does not grow with the file."""
    scales = _scales(cfg, uri, columns)
    parts = sorted({part for name in compute.told_apart(cfg.metrics) for part in name.split("+")})
    of_items, of_raters = Attributes("item", parts), Attributes("rater", cfg.metrics.groups)
    more = {each.column(name): [name] for each in (of_items, of_raters) for name in each.names}
    place = 0
    with Reduction(keep_ids=cfg.metrics.crowdtruth) as reduction:
        for batch in read_rows(cfg, uri, columns | more):
            check_named(uri, batch, [name for name in ("item", "rater", "question") if name in columns])
            ratings = _as_ratings(batch, scales, first=place)
            _check_scale(uri, ratings, cfg.scale)
            reduction.add(ratings)
            of_items.add(uri, batch)
            of_raters.add(uri, batch)
            place += batch.num_rows
        if not place:
            raise InputError(f"{uri}: no row to rate" + (" (keep_rows= leaves none)" if cfg.keep_rows else ""))
        raters = raters_of(reduction.methods, of_raters.found, gold=cfg.metrics.gold)
        items = items_of(of_items.found)
        scale = (cfg.scale[0], cfg.scale[1]) if cfg.scale else None
        reason = "the scale is not known: give scale=[lowest,highest]"
        yield from compute.question_metrics(
            reduction, raters, items, cfg.metrics, orders={}, scale=lambda rubric, question: (scale, reason)
        )


def _check_scale(uri: str, ratings: pa.Table, scale: Sequence[float]) -> None:
    """Refuse answers outside of the scale that was given."""
    if not scale:
        return
    low, high = scale
    outside = pc.or_(pc.less(ratings["score"], low), pc.greater(ratings["score"], high))
    if (strange := ratings.filter(outside)).num_rows:
        question, score = strange["question"][0].as_py(), strange["score"][0].as_py()
        raise InputError(
            f"scale=[{low:g},{high:g}]: {uri} has the answer {score:g} to {question!r}; a question with another scale "
            "is left out by keep_rows.COLUMN=TEXT"
        )


class Attributes:
    """What columns say of items, or of raters: of each the same in all its rows.

    Attributes:
        found: column -> item or rater -> value; those without a value are left out.
    """

    def __init__(self, of: str, names: Sequence[str]) -> None:
        self.of, self.names = of, names
        self.found: dict[str, dict[str, str]] = {name: {} for name in names}

    def column(self, name: str) -> str:
        """What the column is called beside those of the answers."""
        return f"{name} of {self.of}"

    def add(self, uri: str, batch: pa.Table) -> None:
        """Take up a batch.

        Raises:
            InputError: two values for one item or rater.
        """
        for name, known in self.found.items():
            pairs = batch.select([self.of, self.column(name)]).group_by([self.of, self.column(name)]).aggregate([])
            for key, value in zip(*(column.to_pylist() for column in pairs.columns), strict=True):
                if value is not None and known.setdefault(key, value) != value:
                    raise InputError(
                        f"{uri}: column {name!r} says {known[key]!r} and {value!r} of {self.of} {key!r}; it tells no "
                        f"{self.of}s apart"
                    )


def _scales(cfg: AnalyzeConfig, uri: str, columns: dict[str, list[str]]) -> set[str]:
    """The questions all of whose answers are numbers.

    Where only some are, it is told, since one word makes categories; and so are commas, which might be of thousands.
    """
    numbers, words, commas = Counter[str](), defaultdict[str, Counter[str]](Counter), defaultdict[str, list[str]](list)
    for batch in read_rows(cfg, uri, columns):
        table = pa.table({"question": _questions(batch), "value": batch["value"]}).group_by(["question", "value"])
        counted = table.aggregate([([], "count_all")]).drop_null()
        is_number = pc.is_valid(as_numbers(counted["value"])).to_pylist()
        is_comma = pc.match_substring_regex(counted["value"], DECIMAL_COMMA).to_pylist()
        for found, number, comma in zip(counted.to_pylist(), is_number, is_comma, strict=True):
            question, value, n = found["question"], found["value"], found["count_all"]
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
            f"{question}: {some:,} of {numbers[question] + some:,} answers are no numbers, as {example!r}, so that all "
            f"are categories; if such words are no answers: missing=[{example}]"
        )
    return numbers.keys() - words.keys()


def _questions(batch: pa.Table) -> pa.ChunkedArray:
    if "question" in batch.column_names:
        return batch["question"].fill_null("")
    return pa.chunked_array([pa.array([QUESTION] * batch.num_rows, pa.string())])


def _as_ratings(batch: pa.Table, scales: Collection[str], *, first: int) -> pa.Table:
    """The columns of `ratings` that the reduction reads; a row without an answer is unparsed."""
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
