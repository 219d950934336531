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
from collections.abc import Sequence
from typing import Any

from jobs import cli, config, figuring
from jobs.cli import say
from jobs.corpora.ratings_file import one_file
from jobs.errors import InputError
from jobs.file_figures.agreement import agreement
from jobs.file_figures.columns import find_columns
from jobs.file_figures.config import TASKS, FiguresConfig, check_settings
from jobs.file_figures.crowdtruth import crowdtruth
from jobs.file_figures.scene_graphs import scene_graphs
from jobs.metrics.figure import Figure, row
from jobs.page.model import Page
from jobs.page.render import render
from jobs.report import refuse_foreign, write_metrics
from jobs.store import locations


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
    check_settings(cfg)
    refuse_foreign(cfg.out, "index.html", "figures.csv")
    files = [one_file("input", cfg.input)] + ([one_file("people", cfg.people)] if cfg.people else [])
    columns = find_columns(cfg, files[0].uri)
    made = {"agreement": agreement, "crowdtruth": crowdtruth, "dsg": scene_graphs}[cfg.task]
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
