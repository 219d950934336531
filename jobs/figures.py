"""Figures of ratings in a CSV, TSV or Parquet file, by naming its columns -> `metrics`, `figures.csv`, `index.html`.

    python -m jobs.figures input=ratings.csv columns.item=image columns.rater=who columns.value=score out=F
    python -m jobs.figures task=crowdtruth input=judgments.csv columns.value=answer out=F
    python -m jobs.figures task=dsg input=answers.csv people=likert.csv out=F

agreement: percent agreement, Krippendorff's alpha, ICC, correlations, majority; numbers are a scale, words categories.
Items' attributes are columns too (figures.disaggregate=[COLUMN]), and so are people's (figures.groups=[COLUMN]).
crowdtruth: the qualities of units, workers and annotations of a closed task (CrowdTruth 2.0). dsg: scores of scene
graphs with and without dependencies, and their correlation with people. Columns that are not named are looked for under
the names of the released data sets.
"""

import csv
import io
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from omegaconf import MISSING

from actors.status import Status
from jobs import cli, config, figuring
from jobs.cli import say
from jobs.corpora.ratings_file import batches, chosen, one_file
from jobs.errors import InputError
from jobs.known import items_of, raters_of
from jobs.metrics import dsg
from jobs.metrics.crowdtruth import Task
from jobs.metrics.figure import Figure, row
from jobs.metrics.suite import MAX_LINES, FigureSettings
from jobs.page.model import Page
from jobs.page.render import render
from jobs.reduction import Reduction
from jobs.report import refuse_foreign, write_metrics
from jobs.store import locations

TASKS = ("agreement", "crowdtruth", "dsg")
RUBRIC, QUESTION = "file", "value"
# What columns are called in released files: of CrowdTruth those of its two platforms (Figure Eight, Mechanical Turk),
# of DSG its answers and ratings. The first that is there is taken.
USUAL: dict[str, dict[str, tuple[tuple[str, ...], ...]]] = {
    "agreement": {},
    "crowdtruth": {"item": (("_unit_id",), ("HITId",)), "rater": (("_worker_id",), ("WorkerId",))},
    "dsg": {
        "item": (("t2i_model", "item_id"),),
        "question": (("question_id",),),
        "parents": (("dependency_id",),),
        "value": (("answer",),),
    },
}
# Keys of `figures` that only tables have something for: models, responses, concepts, spans, conditions.
OF_TABLES = frozenset({"by", "leave_out", "concept", "overlap"})
NEEDED = {
    "agreement": ("item", "rater", "value"),
    "crowdtruth": ("item", "rater", "value"),
    "dsg": ("item", "question", "value"),
}


@dataclass
class Columns:
    """Names of columns; with a comma several, whose texts are joined."""

    item: str | None = None  # what was rated; for dsg the picture
    rater: str | None = None  # who answered
    value: str | None = None  # the answer: a number, a category, yes or no
    question: str | None = None  # agreement: figures for each; dsg: the question's id
    parents: str | None = None  # dsg: ids of questions that must be answered yes
    valid: str | None = None  # dsg: no, false, 0 or invalid leaves the question out


@dataclass
class PeopleColumns:
    """Names of columns of people's ratings of pictures (dsg)."""

    item: str = "t2i_model,item_id"  # the picture
    value: str = "answer"  # its score


@dataclass
class FiguresConfig:
    """Keys of `figures`."""

    input: str = MISSING  # a CSV, TSV or Parquet file
    out: str = MISSING  # a folder: index.html, figures.csv and the table metrics
    task: str = "agreement"  # agreement, crowdtruth or dsg
    columns: Columns = field(default_factory=Columns)
    encoding: str | None = None  # of CSV; null: by its byte-order mark, else UTF-8
    missing: list[str] = field(
        default_factory=list
    )  # agreement: words in columns.value that are no answer: [n/a, unsure]
    where: dict[str, str] = field(default_factory=dict)  # column: text; other rows are left out
    separator: str | None = None  # crowdtruth: what parts several annotations in a cell
    annotations: list[str] = field(default_factory=list)  # crowdtruth: the closed set; empty: those that occur
    empty: str | None = None  # crowdtruth: the annotation that an empty cell stands for; null: it does not count
    people: str | None = None  # dsg: a file of people's ratings
    people_columns: PeopleColumns = field(default_factory=PeopleColumns)
    # a file has no table of raters, whose country would be there to tell people apart
    figures: FigureSettings = field(default_factory=lambda: FigureSettings(groups=[]))
    title: str = "Figures"  # of the page


def execute(cfg: FiguresConfig) -> dict[str, Any]:
    """Run the job; see the module's docstring. Returns the manifest of the table of metrics."""
    if cfg.task not in TASKS:
        raise InputError(f"task={cfg.task}: there are {', '.join(TASKS)}")
    for key, task in (
        ("people", "dsg"),
        ("missing", "agreement"),
        ("separator", "crowdtruth"),
        ("annotations", "crowdtruth"),
        ("empty", "crowdtruth"),
    ):
        if getattr(cfg, key) and cfg.task != task:
            raise InputError(f"{key}= goes with task={task}")
    figuring.check(cfg.figures)
    _check_settings(cfg)
    refuse_foreign(cfg.out, "index.html", "figures.csv")
    files = [one_file("input", cfg.input)] + ([one_file("people", cfg.people)] if cfg.people else [])
    columns = _columns(cfg, files[0].uri)
    made = {"agreement": _agreement, "crowdtruth": _crowdtruth, "dsg": _dsg}[cfg.task]
    figures = list(made(cfg, files[0].uri, columns))
    settings = config.plain(cfg)
    identity = {"task": cfg.task, "inputs": [[o.uri, o.etag] for o in files]}
    manifest = write_metrics(cfg.out, figures, inputs=files, identity=identity, settings=settings)
    out = locations.absolute(cfg.out)
    locations.replace(locations.join(out, "figures.csv"), _as_csv(figures).encode())
    page = Page(
        title=cfg.title,
        lede=f"{cfg.task} of {files[0].uri.rsplit('/', 1)[-1]}",
        provenance=[("input", o.uri) for o in files] + sorted(manifest["versions"].items()),
        figures=figures,
    )
    locations.replace(locations.join(out, "index.html"), render(page).encode())
    _tell_repeats(figures)
    _tell(figures)
    say(f"figures: {locations.join(out, 'index.html')}, figures.csv, {len(figures):,} figures in {manifest['out']}")
    return manifest


def _check_settings(cfg: FiguresConfig) -> None:
    """Refuse keys of `figures` that change nothing here."""
    default = FiguresConfig().figures
    without = {f.name for f in fields(FigureSettings)} - {"stop"} if cfg.task != "agreement" else OF_TABLES
    without = without | {"stop"} if cfg.task == "dsg" else without
    if idle := sorted(name for name in without if getattr(cfg.figures, name) != getattr(default, name)):
        raise InputError(f"figures.{idle[0]}: changes nothing in task={cfg.task} of a file")


def _columns(cfg: FiguresConfig, uri: str) -> dict[str, list[str]]:
    """Field -> columns of the file: as configured, else under their usual names."""
    there = next(batches(uri, encoding=cfg.encoding), pa.table({})).column_names
    found = {}
    for each in fields(Columns):
        names = _names(getattr(cfg.columns, each.name), there)
        usual = USUAL[cfg.task].get(each.name, ())
        if not names:
            names = next((list(columns) for columns in usual if all(name in there for name in columns)), [])
        if not names and each.name in NEEDED[cfg.task]:
            raise InputError(f"columns.{each.name}= is needed; {uri} has the columns {', '.join(there) or 'none'}")
        if names:
            found[each.name] = names
    return found


def _names(given: str | None, there: Sequence[str]) -> list[str]:
    """One column of that name if there is one, else the names between commas."""
    if given is not None and given in there:
        return [given]
    return [name.strip() for name in (given or "").split(",") if name.strip()]


def _rows(cfg: FiguresConfig, uri: str, columns: dict[str, list[str]]) -> Iterator[pa.Table]:
    for batch in batches(uri, encoding=cfg.encoding):
        rows = chosen(uri, batch, columns, cfg.where)
        if cfg.missing:
            none = pc.is_in(rows["value"], pa.array(cfg.missing, pa.string()))
            place = rows.column_names.index("value")
            rows = rows.set_column(place, "value", pc.if_else(none, None, rows["value"]))
        yield rows


def _agreement(cfg: FiguresConfig, uri: str, columns: dict[str, list[str]]) -> Iterator[Figure]:
    """Through the same codes as the table `ratings`: memory does not grow with the file."""
    scales = _scales(cfg, uri, columns)
    parts = sorted({part for name in figuring.told_apart(cfg.figures) for part in name.split("+")})
    of_items, of_raters = Attributes("item", parts), Attributes("rater", cfg.figures.groups)
    more = {each.column(name): [name] for each in (of_items, of_raters) for name in each.names}
    place = 0
    with Reduction(keep_ids=cfg.figures.crowdtruth) as reduction:
        for batch in _rows(cfg, uri, columns | more):
            _check_named(uri, batch, [name for name in ("item", "rater", "question") if name in columns])
            reduction.add(_as_ratings(batch, scales, first=place))
            of_items.add(uri, batch)
            of_raters.add(uri, batch)
            place += batch.num_rows
        if not place:
            raise InputError(f"{uri}: no row to rate" + (" (where= leaves none)" if cfg.where else ""))
        raters = raters_of(reduction.methods, of_raters.found, gold=cfg.figures.gold)
        items = items_of(of_items.found)
        yield from figuring.question_figures(reduction, raters, items, cfg.figures, orders={}, scales={})


DECIMAL_COMMA = r"^\s*-?\d+,\d+\s*$"
LARGEST = 1e100  # of a score; squares of larger ones are infinite


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
    for batch in _rows(cfg, uri, columns):
        table = pa.table({"question": _questions(batch), "value": batch["value"]}).group_by(["question", "value"])
        counted = table.aggregate([([], "count_all")]).drop_null()
        is_number = pc.is_valid(_numbers(counted["value"])).to_pylist()
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


def _numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column as numbers, 3,5 being 3.5 as spreadsheets of many countries write it; null for what is none."""
    comma = pc.match_substring_regex(column, DECIMAL_COMMA)
    text = pc.utf8_trim_whitespace(pc.if_else(comma, pc.replace_substring(column, ",", "."), column))
    number = pc.match_substring_regex(text, r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")
    found = pc.if_else(number, text, None).cast(pa.float64())
    return pc.if_else(pc.less(pc.abs(found), LARGEST), found, None)


def _check_named(uri: str, batch: pa.Table, names: Sequence[str]) -> None:
    for name in names:
        if batch[name].null_count:
            raise InputError(f"{uri}: {batch[name].null_count} rows without {name}")


def _as_ratings(batch: pa.Table, scales: Collection[str], *, first: int) -> pa.Table:
    """The columns of `ratings` that the reduction reads; a row without an answer is unparsed."""
    n, value, question = batch.num_rows, batch["value"], _questions(batch)
    on_scale = pc.is_in(question, pa.array(sorted(scales), pa.string()))
    score = pc.if_else(on_scale, _numbers(value), pa.scalar(None, pa.float64()))
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


def _crowdtruth(cfg: FiguresConfig, uri: str, columns: dict[str, list[str]]) -> Iterator[Figure]:
    """One vector a judgement; of several by one worker of one unit the last counts, as in the reference."""
    given: dict[tuple[str, str], frozenset[str]] = {}
    asked_of_unit, asked_of_worker = Counter[str](), Counter[str]()
    for batch in _rows(cfg, uri, columns):
        _check_named(uri, batch, ("item", "rater"))
        cells = zip(batch["item"].to_pylist(), batch["rater"].to_pylist(), batch["value"].to_pylist(), strict=True)
        for unit, worker, cell in cells:
            asked_of_unit[unit] += 1
            asked_of_worker[worker] += 1
            parts = cell.split(cfg.separator) if cell and cfg.separator else [cell or ""]
            picked = frozenset(part.strip() for part in parts if part.strip())
            if picked or cfg.empty:
                given[unit, worker] = picked or frozenset([cfg.empty or ""])
    occur = sorted({annotation for picked in given.values() for annotation in picked})
    closed = cfg.annotations or occur
    if strange := [annotation for annotation in occur if annotation not in closed]:
        raise InputError(f"{uri}: annotation {strange[0]!r} is not in annotations={list(closed)}")
    if len(occur) > MAX_LINES:
        raise InputError(f"{uri}: {len(occur)} different annotations in columns.value: not a closed task")
    asked = asked_of_worker.total()
    if left := asked - len(given):
        say(f"{left} of {asked} judgements are empty or given again by the same worker; they do not count")
    units, workers = sorted(asked_of_unit), sorted(asked_of_worker)
    of_unit, of_worker, place = ({name: code for code, name in enumerate(names)} for names in (units, workers, closed))
    vectors = np.zeros((len(given), len(closed)))
    for line, picked in enumerate(given.values()):
        vectors[line, [place[annotation] for annotation in picked]] = 1
    task = Task(
        unit=np.array([of_unit[u] for u, _ in given], np.int64),
        worker=np.array([of_worker[w] for _, w in given], np.int64),
        vectors=vectors,
        units=units,
        workers=workers,
        annotations=closed,
        asked_of_unit=np.array([asked_of_unit[u] for u in units], np.int64),
        asked_of_worker=np.array([asked_of_worker[w] for w in workers], np.int64),
    )
    yield from task.figures(stop=cfg.figures.stop)


def _dsg(cfg: FiguresConfig, uri: str, columns: dict[str, list[str]]) -> Iterator[Figure]:
    pictures: dict[str, dict[str, dsg.Question]] = defaultdict(dict)
    for batch in _rows(cfg, uri, columns):
        _check_named(uri, batch, ("item", "question"))
        for line in batch.to_pylist():
            name = dsg.id_of(line["question"])
            if name in pictures[line["item"]]:
                raise InputError(
                    f"{uri}: picture {line['item']!r} has question {name!r} twice; "
                    "name one model's rows with where.COLUMN=, or more columns with columns.item="
                )
            pictures[line["item"]][name] = dsg.Question(
                question=name,
                parents=dsg.parents_of(line.get("parents")),
                valid=_is_valid(uri, line.get("valid")),
                answer=line["value"],
            )
    if not pictures:
        raise InputError(f"{uri}: no question" + (" (where= leaves none)" if cfg.where else ""))
    strange = sorted({p for own in pictures.values() for q in own.values() for p in q.parents if p not in own})
    if strange:
        say(f"{len(strange)} parents are no question of their picture and ask for nothing, as {strange[0]!r}")
    people = _people(cfg) if cfg.people else {}
    if people:
        if not people.keys() & pictures.keys():
            example = next(iter(people)), next(iter(pictures))
            raise InputError(f"people= and input= share no picture, as in {example[0]!r} and {example[1]!r}")
        pictures = {name: own for name, own in pictures.items() if name in people}
    yield from dsg.dsg_figures({name: list(own.values()) for name, own in pictures.items()}, people)


def _is_valid(uri: str, word: str | None) -> bool:
    plain = dsg.id_of((word or "yes").casefold())
    if plain in dsg.YES | {"valid", "t"}:
        return True
    if plain in dsg.NO | {"invalid", "f"}:
        return False
    raise InputError(f"{uri}: columns.valid= says {word!r} of a question, which is neither yes nor no")


def _people(cfg: FiguresConfig) -> dict[str, float]:
    """picture -> mean rating."""
    uri = locations.find(cfg.people or "")[0].uri
    given: dict[str, list[float]] = defaultdict(list)
    for batch in batches(uri, encoding=cfg.encoding):
        names = {key: _names(getattr(cfg.people_columns, key), batch.column_names) for key in ("item", "value")}
        rows = chosen(uri, batch, names, {})
        scores = _numbers(rows["value"])
        strange = rows["value"].filter(pc.and_(pc.is_valid(rows["value"]), pc.is_null(scores)))
        if len(strange):
            raise InputError(f"{uri}: people_columns.value is no number, as {strange[0].as_py()!r}")
        for item, score in zip(rows["item"].to_pylist(), scores.to_pylist(), strict=True):
            if item is not None and score is not None:
                given[item].append(score)
    return {item: float(np.mean(scores)) for item, scores in given.items()}


def _as_csv(figures: Sequence[Figure]) -> str:
    """One line a figure, the dims as columns of their own."""
    dims = sorted({name for figure in figures for name in figure.dims})
    rest = ["value", "low", "high", "n", "coverage", "status", "reason", "interval_method", "definition"]
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["metric", *dims, *rest])
    for figure in figures:
        cells = row(figure)
        writer.writerow([figure.metric, *(figure.dims.get(d, "") for d in dims), *(cells[name] for name in rest)])
    return out.getvalue()


SHOWN = 40  # lines on the terminal; the rest is in the files


def _tell_repeats(figures: Sequence[Figure]) -> None:
    for figure in figures:
        if figure.metric == "ratings_repeated" and figure.value:
            say(
                f"{figure.dims['question']}: {figure.value:,.0f} rows are of a rater and item that stand there before; "
                "several are one rating: the mean of the scores, the first word"
            )


def _tell(figures: Sequence[Figure]) -> None:
    wide = sorted((f for f in figures if "unit" not in f.dims), key=lambda f: "rater" in f.dims)  # sums first
    for figure in wide[:SHOWN]:
        own = {k: v for k, v in figure.dims.items() if k not in ("rubric",)}
        value = "undefined" if figure.value is None else f"{figure.value:.4f}"
        between = "" if figure.low is None else f" [{figure.low:.4f}, {figure.high:.4f}]"
        about = f" ({figure.reason})" if figure.value is None else ""
        say(
            f"{figure.metric:28} {value}{between} n={figure.n:,} {', '.join(f'{k} {v}' for k, v in own.items())}{about}"
        )
    if len(wide) > SHOWN:
        say(f"… and {len(wide) - SHOWN:,} more")


JOB = cli.Job("figures", FiguresConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("figures"))
