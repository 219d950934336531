"""Agreement of the raters of a file: numbers are a scale, words categories, question by question."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from actors.status import Status
from jobs import figuring
from jobs.cli import say
from jobs.errors import InputError
from jobs.file_figures.columns import DECIMAL_COMMA, as_numbers, check_named, read_rows
from jobs.file_figures.config import FiguresConfig
from jobs.known import items_of, raters_of
from jobs.metrics.figure import Figure
from jobs.reduction import Reduction

RUBRIC, QUESTION = "file", "value"


def agreement(cfg: FiguresConfig, uri: str, columns: dict[str, list[str]]) -> Iterator[Figure]:
    """Through the same codes as the table `ratings`: memory does not grow with the file."""
    scales = _scales(cfg, uri, columns)
    parts = sorted({part for name in figuring.told_apart(cfg.figures) for part in name.split("+")})
    of_items, of_raters = Attributes("item", parts), Attributes("rater", cfg.figures.groups)
    more = {each.column(name): [name] for each in (of_items, of_raters) for name in each.names}
    place = 0
    with Reduction(keep_ids=cfg.figures.crowdtruth) as reduction:
        for batch in read_rows(cfg, uri, columns | more):
            check_named(uri, batch, [name for name in ("item", "rater", "question") if name in columns])
            reduction.add(_as_ratings(batch, scales, first=place))
            of_items.add(uri, batch)
            of_raters.add(uri, batch)
            place += batch.num_rows
        if not place:
            raise InputError(f"{uri}: no row to rate" + (" (where= leaves none)" if cfg.where else ""))
        raters = raters_of(reduction.methods, of_raters.found, gold=cfg.figures.gold)
        items = items_of(of_items.found)
        yield from figuring.question_figures(reduction, raters, items, cfg.figures, orders={}, scales={})


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


def _scales(cfg: FiguresConfig, uri: str, columns: dict[str, list[str]]) -> set[str]:
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
