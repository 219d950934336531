"""Compute metrics of the ratings in a CSV, TSV or Parquet file -> `metrics`, `metrics.csv`, `index.html`.

    remine analyze input=ratings.csv columns.item=image columns.rater=who columns.value=score out=F
    remine analyze task=crowdtruth input=judgments.csv columns.value=answer out=F
    remine analyze task=dsg input=answers.csv people=likert.csv out=F

The task `agreement` computes percent agreement, Krippendorff's alpha, ICC, correlations and majorities; numeric answers
form a scale, other answers categories. Columns can also be attributes of items (metrics.disaggregate=[COLUMN]) and of
people (metrics.groups=[COLUMN]). The task `crowdtruth` computes the quality of units, workers and annotations of a
closed task (CrowdTruth 2.0). The task `dsg` computes scores of scene graphs with and without dependencies, and their
correlation with people's ratings. Columns that are not named are looked up under their names in the released data sets.
"""

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from actors.quantities import quantity
from jobs.analysis import metric_settings
from jobs.analysis.file_analysis import (
    TASKS,
    AnalyzeConfig,
    check_settings,
    file_agreement,
    file_crowdtruth,
    file_scene_graphs,
    find_columns,
)
from jobs.analysis.metrics_output import refuse_foreign, write_metrics
from jobs.corpora import cell_texts
from jobs.corpora.user_tables import find_file
from jobs.errors import InputError, check_choice
from jobs.metrics.metric import Metric, wide
from jobs.page.page_contents import Page, letters_of
from jobs.page.page_figures import page_figures
from jobs.page.render import render
from jobs.runtime.command_line import cli
from jobs.runtime.outcomes import Manifest
from jobs.runtime.planning import summary
from jobs.runtime.selection import exclusions
from jobs.store.files import locations


def execute(cfg: AnalyzeConfig) -> Manifest:
    """Run the job and return the manifest of the table of metrics; see the module's docstring."""
    check_choice("task", cfg.task, TASKS)
    for key, task in (
        ("people", "dsg"),
        ("missing", "agreement"),
        ("scale", "agreement"),
        ("separator", "crowdtruth"),
        ("annotations", "crowdtruth"),
        ("empty", "crowdtruth"),
    ):
        if getattr(cfg, key) and cfg.task != task:
            raise InputError(f"{key}=: only task={task} uses it; remove the key")
    metric_settings.check(cfg.metrics)
    check_settings(cfg)
    refuse_foreign(cfg.out, "index.html", "metrics.csv")
    files = [find_file("input", cfg.input)] + ([find_file("people", cfg.people)] if cfg.people else [])
    columns = find_columns(cfg, files[0].uri)
    compute_metrics = {"agreement": file_agreement, "crowdtruth": file_crowdtruth, "dsg": file_scene_graphs}[cfg.task]
    excluded = exclusions.read_exclusions(cfg.exclusions)
    exclusion_filter = exclusions.ExclusionFilter(excluded.marks)
    analysis = compute_metrics(cfg, files[0].uri, columns, exclusion_filter)
    metrics = analysis.metrics
    settings = asdict(cfg)
    identity = {"task": cfg.task, "inputs": [[o.uri, o.etag] for o in files], **exclusions.identity(excluded)}
    manifest = write_metrics(cfg.out, metrics, inputs=files, identity=identity, settings=settings)
    out = locations.absolute(cfg.out)
    locations.replace(locations.join(out, "metrics.csv"), _as_csv(metrics).encode())
    figures, left_out = page_figures(metrics, analysis.observations, {}, letters=letters_of(analysis.distributions, ()))
    page = Page(
        title=cfg.title,
        lede=f"{cfg.task} of {files[0].uri.rsplit('/', 1)[-1]}",
        provenance=[("input", o.uri) for o in files] + sorted(manifest["versions"].items()),
        distributions=analysis.distributions,
        metrics=metrics,
        figures=figures,
        figures_left_out=left_out,
    )
    locations.replace(locations.join(out, "index.html"), render(page).encode())
    place = locations.join(out, "index.html")
    lines = [
        *_lines(metrics),
        *summary.exclusion_lines(excluded, exclusion_filter.matched),
        f"analyze: {place}, metrics.csv, {quantity(len(metrics), 'metric')} in {manifest['out']}",
    ]
    return Manifest(manifest, lines)


def _as_csv(metrics: Sequence[Metric]) -> str:
    """Return the metrics as CSV, one line per metric; see `jobs.metrics.metric.wide`."""
    columns, rows = wide(metrics)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(columns)
    writer.writerows([cell_texts.escape_cell(cell) for cell in row] for row in rows)
    return out.getvalue()


MAX_SHOWN = 40  # lines on the terminal; all metrics are in the files


def _lines(metrics: Sequence[Metric]) -> Iterator[str]:
    for metric in metrics:
        if metric.name == "ratings_repeated" and metric.value:
            yield (
                f"{metric.dims['question']}: {metric.value:,.0f} duplicate (rater, item) rows; scores are averaged, "
                "and of categories the first counts"
            )
    shown = sorted((m for m in metrics if "unit" not in m.dims), key=lambda m: "rater" in m.dims)  # groups first
    for metric in shown[:MAX_SHOWN]:
        dims = ", ".join(f"{name} {value}" for name, value in metric.dims.items() if name != "rubric")
        value = "undefined" if metric.value is None else f"{metric.value:.4f}"
        interval = "" if metric.low is None else f" [{metric.low:.4f}, {metric.high:.4f}]"
        reason = f" ({metric.reason})" if metric.value is None else ""
        yield f"{metric.name:28} {value}{interval} n={metric.n:,} {dims}{reason}"
    if len(shown) > MAX_SHOWN:
        yield f"… and {len(shown) - MAX_SHOWN:,} more"


JOB = cli.Job("analyze", AnalyzeConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("analyze"))
