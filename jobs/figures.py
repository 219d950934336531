"""Figures of ratings in a CSV, TSV or Parquet file, by naming its columns -> `metrics`, `figures.csv`, `index.html`.

    python -m jobs.figures input=ratings.csv columns.item=image columns.rater=who columns.value=score out=F
    python -m jobs.figures task=crowdtruth input=judgments.csv columns.value=answer out=F
    python -m jobs.figures task=dsg input=answers.csv people=likert.csv out=F

agreement: percent agreement, Krippendorff's alpha, ICC, correlations, majority; numbers are a scale, words categories.
crowdtruth: the qualities of units, workers and annotations of a closed task (CrowdTruth 2.0). dsg: scores of scene
graphs with and without dependencies, and their correlation with people. Columns that are not named are looked for under
the names of the released data sets.
"""

import csv
import io
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
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
from jobs.known import Items, Raters
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
# What columns are called in the released files: CrowdTruth's relation task, DSG's answers and ratings.
USUAL: dict[str, dict[str, tuple[str, ...]]] = {
    "agreement": {},
    "crowdtruth": {"item": ("_unit_id",), "rater": ("_worker_id",)},
    "dsg": {
        "item": ("t2i_model", "item_id"),
        "question": ("question_id",),
        "parents": ("dependency_id",),
        "value": ("answer",),
    },
}
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
    valid: str | None = None  # dsg: no, false or 0 leaves the question out


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
    where: dict[str, str] = field(default_factory=dict)  # column: text; other rows are left out
    separator: str | None = None  # crowdtruth: what parts several annotations in a cell
    annotations: list[str] = field(default_factory=list)  # crowdtruth: the closed set; empty: those that occur
    people: str | None = None  # dsg: a file of people's ratings
    people_columns: PeopleColumns = field(default_factory=PeopleColumns)
    figures: FigureSettings = field(default_factory=FigureSettings)
    title: str = "Figures"  # of the page


def execute(cfg: FiguresConfig) -> dict[str, Any]:
    """Run the job; see the module's docstring. Returns the manifest of the table of metrics."""
    if cfg.task not in TASKS:
        raise InputError(f"task={cfg.task}: there are {', '.join(TASKS)}")
    if cfg.people and cfg.task != "dsg":
        raise InputError("people= goes with task=dsg")
    figuring.check(cfg.figures)
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
    _tell(figures)
    say(f"figures: {locations.join(out, 'index.html')}, figures.csv, {len(figures):,} figures in {manifest['out']}")
    return manifest


def _columns(cfg: FiguresConfig, uri: str) -> dict[str, list[str]]:
    """Field -> columns of the file: as configured, else under their usual names."""
    there = next(batches(uri), pa.table({})).column_names
    found = {}
    for each in fields(Columns):
        names = _names(getattr(cfg.columns, each.name), there)
        usual = USUAL[cfg.task].get(each.name, ())
        if not names and usual and all(name in there for name in usual):
            names = list(usual)
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
    for batch in batches(uri):
        yield chosen(uri, batch, columns, cfg.where)


def _agreement(cfg: FiguresConfig, uri: str, columns: dict[str, list[str]]) -> Iterator[Figure]:
    """Through the same codes as the table `ratings`: memory does not grow with the file."""
    numeric = all(_is_number(batch["value"]) for batch in _rows(cfg, uri, columns))
    place = 0
    with Reduction(keep_ids=cfg.figures.crowdtruth) as reduction:
        for batch in _rows(cfg, uri, columns):
            _check_named(uri, batch, ("item", "rater"))
            reduction.add(_as_ratings(batch, numeric=numeric, first=place))
            place += batch.num_rows
        if not place:
            raise InputError(f"{uri}: no row to rate" + (" (where= leaves none)" if cfg.where else ""))
        raters = Raters(dict.fromkeys(reduction.raters, "human"), {}, {}, {})
        yield from figuring.question_figures(reduction, raters, Items(), cfg.figures, orders={}, scales={})


def _is_number(column: pa.ChunkedArray) -> bool:
    try:
        column.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _check_named(uri: str, batch: pa.Table, names: Sequence[str]) -> None:
    for name in names:
        if batch[name].null_count:
            raise InputError(f"{uri}: {batch[name].null_count} rows without {name}")


def _as_ratings(batch: pa.Table, *, numeric: bool, first: int) -> pa.Table:
    """The columns of `ratings` that the reduction reads; a row without an answer is unparsed."""
    n = batch.num_rows
    value = batch["value"]
    status = pc.if_else(pc.is_valid(value), Status.OK.value, Status.UNPARSED.value)
    return pa.table({
        "item_id": batch["item"],
        "target": pa.array([""] * n),
        "rubric": pa.array([RUBRIC] * n),
        "question": batch["question"].fill_null("") if "question" in batch.column_names else pa.array([QUESTION] * n),
        "rater": batch["rater"],
        "method": pa.array(["human"] * n),
        "sample": pa.array(range(first, first + n), pa.int32()),
        "value": value,
        "score": value.cast(pa.float64()) if numeric else pa.nulls(n, pa.float64()),
        "status": status,
    })  # fmt: skip


def _crowdtruth(cfg: FiguresConfig, uri: str, columns: dict[str, list[str]]) -> Iterator[Figure]:
    """One vector a judgement; of several by one worker of one unit the last counts, as in the reference."""
    given: dict[tuple[str, str], frozenset[str]] = {}
    asked = 0
    for batch in _rows(cfg, uri, columns):
        _check_named(uri, batch, ("item", "rater"))
        cells = zip(batch["item"].to_pylist(), batch["rater"].to_pylist(), batch["value"].to_pylist(), strict=True)
        for unit, worker, cell in cells:
            asked += 1
            parts = cell.split(cfg.separator) if cell and cfg.separator else [cell or ""]
            if picked := frozenset(part.strip() for part in parts if part.strip()):
                given[unit, worker] = picked
    occur = sorted({annotation for picked in given.values() for annotation in picked})
    closed = cfg.annotations or occur
    if strange := [annotation for annotation in occur if annotation not in closed]:
        raise InputError(f"{uri}: annotation {strange[0]!r} is not in annotations={list(closed)}")
    if len(occur) > MAX_LINES:
        raise InputError(f"{uri}: {len(occur)} different annotations in columns.value: not a closed task")
    if left := asked - len(given):
        say(f"{left} of {asked} judgements are empty or given again by the same worker; they do not count")
    units, workers = sorted({u for u, _ in given}), sorted({w for _, w in given})
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
        asked=asked,
    )
    yield from task.figures(stop=cfg.figures.stop)


def _dsg(cfg: FiguresConfig, uri: str, columns: dict[str, list[str]]) -> Iterator[Figure]:
    pictures: dict[str, list[dsg.Question]] = defaultdict(list)
    for batch in _rows(cfg, uri, columns):
        _check_named(uri, batch, ("item", "question"))
        for line in batch.to_pylist():
            pictures[line["item"]].append(
                dsg.Question(
                    question=line["question"],
                    parents=dsg.parents_of(line.get("parents")),
                    valid=(line.get("valid") or "").strip().lower() not in ("no", "false", "0"),
                    answer=line["value"],
                )
            )
    if not pictures:
        raise InputError(f"{uri}: no question" + (" (where= leaves none)" if cfg.where else ""))
    people = _people(cfg) if cfg.people else {}
    if people:
        if not people.keys() & pictures.keys():
            example = next(iter(people)), next(iter(pictures))
            raise InputError(f"people= and input= share no picture, as in {example[0]!r} and {example[1]!r}")
        pictures = {name: own for name, own in pictures.items() if name in people}
    yield from dsg.dsg_figures(pictures, people)


def _people(cfg: FiguresConfig) -> dict[str, float]:
    """picture -> mean rating."""
    uri = locations.find(cfg.people or "")[0].uri
    given: dict[str, list[float]] = defaultdict(list)
    for batch in batches(uri):
        names = {key: _names(getattr(cfg.people_columns, key), batch.column_names) for key in ("item", "value")}
        rows = chosen(uri, batch, names, {})
        try:
            scores = rows["value"].cast(pa.float64()).to_pylist()
        except pa.ArrowInvalid as error:
            raise InputError(f"{uri}: people_columns.value is no number ({str(error).splitlines()[0]})") from error
        for item, score in zip(rows["item"].to_pylist(), scores, strict=True):
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
