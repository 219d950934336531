"""The report of ratings in a file (`report input=`): metrics, their CSV, and a page with distributions and plots."""

from collections.abc import Callable
from dataclasses import asdict, fields

from actors.quantities import quantity
from jobs.analysis import metric_settings
from jobs.analysis.file_analysis import (
    RatedFile,
    check_settings,
    file_agreement,
    file_crowdtruth,
    file_scene_graphs,
    find_columns,
)
from jobs.analysis.metrics_output import metric_lines, refuse_foreign, write_metrics
from jobs.corpora.user_tables import count_rows, find_file
from jobs.errors import InputError
from jobs.html.formats import without_shared_folders
from jobs.page.estimate_section import estimate_sections, estimate_sentences, estimated_questions
from jobs.page.page_contents import Page, letters_of
from jobs.page.page_figures import page_figures, plot_files
from jobs.page.render import render
from jobs.page.summary import summarize
from jobs.plots.files import replace_files
from jobs.runtime.outcomes import Manifest
from jobs.runtime.planning import summary
from jobs.runtime.selection import exclusions
from jobs.runtime.tasks import Tasks
from jobs.store.files import locations

SHARED = {"metrics", "exclusions", "title", "out", "ray", "resources"}  # keys for tables and for a file


def refuse_idle(cfg: RatedFile) -> None:
    """Check that a report of tables has no key of a file, and a report of a file no key of tables.

    Args:
        cfg: the configuration of the report, of a class that adds the keys of tables.

    Raises:
        InputError: a key is set that would not be used.
    """
    of_file = {key.name for key in fields(RatedFile)} - SHARED
    idle = of_file if cfg.input is None else {key.name for key in fields(cfg)} - of_file - SHARED
    default = type(cfg)()
    key = next((key for key in sorted(idle) if getattr(cfg, key) != getattr(default, key)), None)
    if key is not None and cfg.input is None:
        raise InputError("is for a file of ratings; set input=, or remove the key", key=key)
    if key is not None:
        raise InputError("is for tables, and input= names a file; remove one of the two", key=key)


def report_of_file(cfg: RatedFile, tasks_for: Callable[[int], Tasks]) -> Manifest:
    """Write the page, plots, `metrics.csv` and the table `metrics` of the file `cfg.input`; return its manifest.

    Args:
        tasks_for: returns where a file of so many rows is reduced.

    Raises:
        InputError: a key is not allowed, or the file cannot be used; nothing was written.
    """
    metric_settings.check(cfg.metrics)
    check_settings(cfg)
    refuse_foreign(cfg.out, "index.html", "metrics.csv")
    files = [find_file("input", cfg.input or "")] + ([find_file("people", cfg.people)] if cfg.people else [])
    columns = find_columns(cfg, files[0].uri)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    exclusion_filter = exclusions.ExclusionFilter(excluded.marks)
    if cfg.task == "agreement":
        tasks = tasks_for(count_rows(files[0].uri))
        analysis = file_agreement(cfg, files[0].uri, columns, exclusion_filter, tasks=tasks)
    else:
        analyze = {"crowdtruth": file_crowdtruth, "dsg": file_scene_graphs}[cfg.task]
        analysis = analyze(cfg, files[0].uri, columns, exclusion_filter)
    metrics = analysis.metrics
    settings = asdict(cfg)
    identity = {"task": cfg.task, "inputs": [[o.uri, o.etag] for o in files], **exclusions.identity(excluded)}
    manifest = write_metrics(cfg.out, metrics, inputs=files, identity=identity, settings=settings)
    out = locations.absolute(cfg.out)
    figures, left_out = page_figures(metrics, analysis.observations, {}, letters=letters_of(analysis.distributions, ()))
    estimated = estimated_questions(metrics, {})
    places = without_shared_folders([o.uri for o in files])
    page = Page(
        title=cfg.title or "Metrics",
        lede=f"{cfg.task} of {files[0].uri.rsplit('/', 1)[-1]}",
        summary=summarize(analysis.distributions, metrics, {}, estimates=list(estimate_sentences(estimated))),
        provenance=[*(("input", place) for place in places), *sorted(manifest["versions"].items())],
        distributions=analysis.distributions,
        metrics=metrics,
        figures=figures,
        figures_left_out=left_out,
        sections=list(estimate_sections(estimated, metrics, {})),
    )
    replace_files(locations.join(out, "plots"), plot_files(page.all_figures))
    locations.replace(locations.join(out, "index.html"), render(page).encode())
    place = locations.join(out, "index.html")
    lines = [
        *metric_lines(metrics),
        *summary.exclusion_lines(excluded, exclusion_filter.matched),
        f"report: {place}, metrics.csv, {quantity(len(metrics), 'metric')} in {manifest['out']}",
    ]
    return Manifest(manifest, lines)
