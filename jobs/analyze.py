"""Metrics of ratings in a CSV, TSV or Parquet file, by naming its columns -> `metrics`, `metrics.csv`, `index.html`.

    python -m jobs.analyze input=ratings.csv columns.item=image columns.rater=who columns.value=score out=F
    python -m jobs.analyze task=crowdtruth input=judgments.csv columns.value=answer out=F
    python -m jobs.analyze task=dsg input=answers.csv people=likert.csv out=F

agreement: percent agreement, Krippendorff's alpha, ICC, correlations, majority; numbers are a scale, words categories.
Items' attributes are columns too (metrics.disaggregate=[COLUMN]), and so are people's (metrics.groups=[COLUMN]).
crowdtruth: the qualities of units, workers and annotations of a closed task (CrowdTruth 2.0). dsg: scores of scene
graphs with and without dependencies, and their correlation with people. Columns that are not named are looked for under
the names of the released data sets.
"""

import csv
import io
import sys
from collections.abc import Sequence
from typing import Any

from jobs.analysis import compute
from jobs.analysis.from_file.agreement import agreement
from jobs.analysis.from_file.columns import find_columns
from jobs.analysis.from_file.config import TASKS, AnalyzeConfig, check_settings
from jobs.analysis.from_file.crowdtruth import crowdtruth
from jobs.analysis.from_file.scene_graphs import scene_graphs
from jobs.analysis.output import refuse_foreign, write_metrics
from jobs.corpora.ratings_file import one_file
from jobs.errors import InputError
from jobs.metrics.metric import Metric, wide
from jobs.page.model import Page
from jobs.page.render import render
from jobs.runtime import cli, config
from jobs.runtime.console import say
from jobs.store import locations


def execute(cfg: AnalyzeConfig) -> dict[str, Any]:
    """Run the job; see the module's docstring. Returns the manifest of the table of metrics."""
    if cfg.task not in TASKS:
        raise InputError(f"task={cfg.task}: there are {', '.join(TASKS)}")
    for key, task in (
        ("people", "dsg"),
        ("missing", "agreement"),
        ("scale", "agreement"),
        ("separator", "crowdtruth"),
        ("annotations", "crowdtruth"),
        ("empty", "crowdtruth"),
    ):
        if getattr(cfg, key) and cfg.task != task:
            raise InputError(f"{key}= goes with task={task}")
    compute.check(cfg.metrics)
    check_settings(cfg)
    refuse_foreign(cfg.out, "index.html", "metrics.csv")
    files = [one_file("input", cfg.input)] + ([one_file("people", cfg.people)] if cfg.people else [])
    columns = find_columns(cfg, files[0].uri)
    made = {"agreement": agreement, "crowdtruth": crowdtruth, "dsg": scene_graphs}[cfg.task]
    metrics = list(made(cfg, files[0].uri, columns))
    settings = config.plain(cfg)
    identity = {"task": cfg.task, "inputs": [[o.uri, o.etag] for o in files]}
    manifest = write_metrics(cfg.out, metrics, inputs=files, identity=identity, settings=settings)
    out = locations.absolute(cfg.out)
    locations.replace(locations.join(out, "metrics.csv"), _as_csv(metrics).encode())
    page = Page(
        title=cfg.title,
        lede=f"{cfg.task} of {files[0].uri.rsplit('/', 1)[-1]}",
        provenance=[("input", o.uri) for o in files] + sorted(manifest["versions"].items()),
        metrics=metrics,
    )
    locations.replace(locations.join(out, "index.html"), render(page).encode())
    _tell_repeats(metrics)
    _tell(metrics)
    say(f"analyze: {locations.join(out, 'index.html')}, metrics.csv, {len(metrics):,} metrics in {manifest['out']}")
    return manifest


def _as_csv(metrics: Sequence[Metric]) -> str:
    """One line per metric, see `jobs.metrics.metric.wide`."""
    columns, rows = wide(metrics)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(columns)
    writer.writerows(rows)
    return out.getvalue()


SHOWN = 40  # lines on the terminal; the rest is in the files


def _tell_repeats(metrics: Sequence[Metric]) -> None:
    for metric in metrics:
        if metric.name == "ratings_repeated" and metric.value:
            say(
                f"{metric.dims['question']}: {metric.value:,.0f} rows are of a rater and item that stand there before; "
                "several are one rating: the mean of the scores, the first word"
            )


def _tell(metrics: Sequence[Metric]) -> None:
    wide = sorted((f for f in metrics if "unit" not in f.dims), key=lambda f: "rater" in f.dims)  # sums first
    for metric in wide[:SHOWN]:
        own = {k: v for k, v in metric.dims.items() if k not in ("rubric",)}
        value = "undefined" if metric.value is None else f"{metric.value:.4f}"
        between = "" if metric.low is None else f" [{metric.low:.4f}, {metric.high:.4f}]"
        about = f" ({metric.reason})" if metric.value is None else ""
        say(f"{metric.name:28} {value}{between} n={metric.n:,} {', '.join(f'{k} {v}' for k, v in own.items())}{about}")
    if len(wide) > SHOWN:
        say(f"… and {len(wide) - SHOWN:,} more")


JOB = cli.Job("analyze", AnalyzeConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("analyze"))
