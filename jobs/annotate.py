"""Make tasks for people: an assignment plan -> table `assignments`, and files for Label Studio or Prodigy.

    python -m jobs.annotate input=R/images records=R/records rubric=century_labels tool=label_studio \\
        raters=raters.csv per_item=3 out=R/tasks
    python -m jobs.annotate input=R/images rubric=cultural_relevance raters=raters.csv group=country \\
        per_group=20 out=R/tasks
    python -m jobs.annotate input=R/items responses=R/responses texts=R/texts images=R/images \\
        span_labels=mistakes_omissions raters=raters.csv per_item=2 audit=0.1 auditor=checker out=R/tasks

Writes OUT/assignments (who sees what, in which order) and OUT/label_studio or OUT/prodigy: the form, and a file of
tasks per rater, in that rater's own random order. What people answered is read by
`python -m jobs.import_ratings`. Pictures are blurred until asked for, may be reported and skipped
(`welfare=`). The same seed gives the same plan.
"""

import json
import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from omegaconf import MISSING

from actors.ids import content_id
from actors.vlm.rubric import Rubric
from jobs.annotation import assignment, label_studio_form, prodigy_form, shown_items
from jobs.annotation import form as forms
from jobs.annotation.assignment import PlanError, Rater
from jobs.annotation.form import Form, ShownItem, WelfareConfig
from jobs.annotation.participants import read_raters
from jobs.annotation.spans import SpanLabels
from jobs.errors import InputError
from jobs.runtime import cli, exclusions, summary
from jobs.runtime.config import Writing, plain
from jobs.runtime.console import say
from jobs.store import locations
from jobs.store.reading import TableSource, open_table
from jobs.store.run import TablePlan, open_run
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter
from jobs.tables import TABLES

TOOLS, FILES, PICTURES = ("label_studio", "prodigy"), ("rater", "group"), ("url", "files")
QUOTA, SHARED, AUDITOR = "quota", "shared", "auditor"  # words of column `role`
_SEPARATOR = "\x1f"


@dataclass
class AnnotateConfig(Writing):
    """Keys of `annotate`."""

    input: str = MISSING  # a table of images or of items
    images: str | None = None  # the pictures of items
    records: str | None = None  # what is told about the pictures, and the fields of links
    texts: str | None = None  # the texts of items
    responses: str | None = None  # the responses of items
    rubric: dict[str, Any] = field(default_factory=dict)  # whose questions people are asked
    questions: list[str] = field(default_factory=list)  # of the rubric; empty: all that people are asked
    span_labels: dict[str, Any] = field(default_factory=dict)  # spans to be marked (conf/span_labels)
    welfare: WelfareConfig = field(default_factory=WelfareConfig)  # notice, blur, skipping and reporting
    show_columns: list[str] = field(default_factory=lambda: ["page_title"])  # columns of records that the form shows
    tool: str = "label_studio"  # or prodigy
    raters: str = MISSING  # CSV or Parquet with a column rater, or a table of raters
    raters_encoding: str | None = None  # of the CSV; null: by its byte-order mark, else UTF-8
    group: str | None = None  # column of raters: country, pool, …
    per_item: int | None = None  # different raters an item, from all groups together
    per_group: int | None = None  # different raters an item of each group …
    quotas: Any = None  # … or of these groups: {China: 20, India: 10}
    target: str = "rubric"  # a rubric with targets: each item against all of them, or against the rater's own group
    shared: int = 0  # items that every rater of a group sees
    limit: int | None = None  # most tasks a rater takes; column limit of raters goes before it
    audit: float = 0.0  # share of each rater's tasks that the auditor looks at again
    auditor: str | None = None  # who looks at them; a name that is no rater's
    size: int | None = None  # items; null: all
    seed: int = 0  # the same seed, items and raters give the same plan
    files: str = "rater"  # a file of tasks a rater; or group: a project that a group shares
    pictures: str = "url"  # where they came from; or files: their bytes are written to OUT/pictures
    picture_base: str = "pictures/"  # of pictures=files: put before a file's name, where the tool finds it


def execute(cfg: AnnotateConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the manifest of `assignments`, None with plan=true."""
    _check(cfg)
    rubric, span_labels = _asked(cfg)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    sources = _sources(cfg)
    barred = exclusions.Barred(excluded.marks)
    chosen = shown_items.choose(sources, size=cfg.size, barred=barred)
    raters = read_raters(cfg.raters, group=cfg.group, limit=cfg.limit, encoding=cfg.raters_encoding)
    tasks = _tasks(cfg, [row["item_id"] for row in chosen], raters, rubric)
    base = cfg.picture_base if cfg.pictures == "files" else None
    shown = shown_items.things(chosen, sources, shown_items.Showing(cfg.show_columns, cfg.welfare.links, base))
    study = _form(cfg, rubric, span_labels, shown[0])
    rows = _rows(cfg, tasks, raters)
    out = locations.absolute(cfg.out)
    seen = {"rubric": study.rubric, "exclusions": exclusions.identity(excluded)}
    plan = _plan(cfg, sources, rows, seen)
    if cfg.plan:
        summary.show_plan("annotate", plan, note=_told(cfg, tasks))
        return None
    run = open_run(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
    folder = locations.join(out, cfg.tool)
    if cfg.overwrite:  # a file of an earlier plan must not be annotated by mistake
        locations.remove([o.uri for o in locations.listing(folder)])
    if cfg.pictures == "files":
        wanted = {image for row in chosen for image in row["image_ids"]}
        images = sources.images
        written = (
            shown_items.write_pictures(images, wanted, locations.join(out, shown_items.PICTURE_FOLDER)) if images else 0
        )
        say(f"  {written:,} pictures in {locations.join(out, shown_items.PICTURE_FOLDER)}")
    count = _write_files(cfg, folder, study, {thing.item_id: thing for thing in shown}, rows)
    for task in run.todo:
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = len(rows)
            writer.write(pa.Table.from_pylist(rows, schema=TABLES["assignments"].schema()))
    manifest = run.finish()
    summary.show_result("annotate", manifest, run)
    summary.show_exclusions(excluded, barred.matched)
    say(f"  {_told(cfg, tasks)}")
    say(f"  {count:,} files in {folder}")
    return manifest


def _check(cfg: AnnotateConfig) -> None:
    choices = {
        "tool": (cfg.tool, TOOLS),
        "files": (cfg.files, FILES),
        "pictures": (cfg.pictures, PICTURES),
        "target": (cfg.target, ("rubric", "group")),
    }
    for key, (value, allowed) in choices.items():
        if value not in allowed:
            raise InputError(f"{key}={value}: there are {', '.join(allowed)}")
    if not cfg.rubric and not cfg.span_labels:
        raise InputError("annotate: what are people asked? give rubric=NAME, span_labels=NAME or both")
    ways = {"per_item": cfg.per_item is not None, "per_group": cfg.per_group is not None, "quotas": bool(cfg.quotas)}
    if sum(ways.values()) != 1:
        given = ", ".join(key for key, is_given in ways.items() if is_given) or "none"
        raise InputError(f"annotate: give one of per_item=, per_group= and quotas= ({given} is given)")
    if cfg.quotas and not (isinstance(cfg.quotas, dict) and all(type(n) is int for n in cfg.quotas.values())):
        raise InputError(f"quotas={cfg.quotas}: needed is {{group: raters an item, …}}")
    if cfg.per_item is None and cfg.group is None:
        raise InputError("annotate: quotas by group need group=, the column of raters that names it")
    if cfg.size is not None and cfg.size < 1:
        raise InputError(f"size={cfg.size}: at least 1")
    if bool(cfg.audit) != bool(cfg.auditor):
        raise InputError("annotate: audit= and auditor= go together: the share to be drawn, and who looks at it")


def _asked(cfg: AnnotateConfig) -> tuple[Rubric | None, SpanLabels | None]:
    try:
        rubric = Rubric.from_dict(cfg.rubric) if cfg.rubric else None
        span_labels = SpanLabels.from_dict(cfg.span_labels) if cfg.span_labels else None
    except ValueError as error:
        raise InputError(f"annotate: {error}") from error
    if cfg.target == "group" and not (rubric and rubric.asks_targets and cfg.group):
        raise InputError("target=group: needs group= and a rubric that asks about a target")
    if rubric and rubric.asks_targets and not rubric.targets and cfg.target == "rubric":
        raise InputError(f"rubric {rubric.name} asks about targets and names none; give it targets, or target=group")
    return rubric, span_labels


def _sources(cfg: AnnotateConfig) -> shown_items.ShownTables:
    main = open_table(cfg.input, "images", "items")
    named = {"images": cfg.images, "records": cfg.records, "texts": cfg.texts, "responses": cfg.responses}
    read: dict[str, TableSource | None] = {key: open_table(uri, key) if uri else None for key, uri in named.items()}
    if main.name == "images":
        read["images"] = main
    return shown_items.ShownTables(main, **read)


def _tasks(
    cfg: AnnotateConfig, items: Sequence[str], raters: Sequence[Rater], rubric: Rubric | None
) -> list[assignment.Assignment]:
    """The plan. Where an item is asked about several targets, each of them is a thing of its own."""
    targets = rubric.targets if rubric and rubric.asks_targets and cfg.target == "rubric" else ("",)
    quotas = dict(cfg.quotas or {})
    if cfg.per_group is not None:
        quotas = {rater.group: cfg.per_group for rater in raters}
    if unknown := next((name for name in quotas if name not in {rater.group for rater in raters}), None):
        there = ", ".join(sorted({rater.group for rater in raters}))
        raise InputError(f"quotas: no rater's {cfg.group} is {unknown!r}; there are {there}")
    if cfg.auditor in {rater.name for rater in raters}:
        raise InputError(f"auditor={cfg.auditor}: is one of the raters, and would look at their own work")
    try:
        return assignment.assign(
            [_SEPARATOR.join([item, target]) for item in items for target in targets],
            raters,
            seed=cfg.seed,
            per_item=cfg.per_item,
            quotas=quotas or None,
            shared=cfg.shared,
            audit=cfg.audit,
        )
    except PlanError as error:
        raise InputError(f"annotate: {error}") from error


def _form(cfg: AnnotateConfig, rubric: Rubric | None, span_labels: SpanLabels | None, thing: ShownItem) -> Form:
    for span_kind in span_labels.kinds if span_labels else ():
        if span_kind.text not in thing.texts:
            there = ", ".join(thing.texts) or "none"
            raise InputError(
                f"span_labels: {span_kind.name} are marked in a text of role {span_kind.text!r}; the items have {there}"
            )
    try:
        return forms.form(
            rubric,
            questions=cfg.questions,
            span_labels=span_labels,
            welfare=cfg.welfare,
            pictures=len(thing.pictures),
            texts=tuple(thing.texts),
        )
    except ValueError as error:
        raise InputError(f"annotate: {error}") from error


def _rows(cfg: AnnotateConfig, tasks: Sequence[assignment.Assignment], raters: Sequence[Rater]) -> list[dict[str, Any]]:
    """Rows of `assignments`: the raters' tasks, then what the auditor looks at again, each once, in an own order."""
    rows = [_row(cfg, task, role=SHARED if task.shared else QUOTA) for task in tasks]
    again = sorted({(task.thing, task.group if cfg.target == "group" else "") for task in tasks if task.audit})
    if cfg.auditor and again:
        order = assignment.shuffled(again, seed=cfg.seed, name=cfg.auditor)
        rows += [
            _row(cfg, assignment.Assignment(cfg.auditor, group, place, thing, shared=False, audit=False), role=AUDITOR)
            for place, (thing, group) in enumerate(order, start=1)
        ]
    return rows


def _row(cfg: AnnotateConfig, task: assignment.Assignment, *, role: str) -> dict[str, Any]:
    item, _, target = task.thing.partition(_SEPARATOR)
    by_group = cfg.files == "group" and role != AUDITOR
    return {
        "rater": task.rater,
        "place": task.place,
        "item_id": item,
        "target": task.group if cfg.target == "group" else target,
        "group": task.group,
        "role": role,
        "audited": task.audit,
        "file": stem((task.group or "all") if by_group else task.rater),
    }


def stem(name: str) -> str:
    """A file's name for `name`, which may hold anything: safe as it is, or made so and told apart by a hash."""
    safe = re.sub(r"[^A-Za-z0-9._@-]+", "_", name).lstrip(".")[:80]
    return safe if safe == name else f"{safe or 'rater'}-{content_id(name)[:8]}"


def _plan(
    cfg: AnnotateConfig, sources: shown_items.ShownTables, rows: Sequence[Mapping[str, Any]], seen: Mapping[str, Any]
) -> TablePlan:
    """The run of `assignments`; its identity is the plan and everything that people see."""
    config = plain(cfg)
    shown = {
        key: config[key]
        for key in ("tool", "files", "pictures", "picture_base", "show_columns", "welfare", "questions")
    }
    tables = [t for t in (sources.main, sources.images, sources.records, sources.texts, sources.responses) if t]
    inputs = tuple(dict.fromkeys(footer.object for table in tables for footer in table.footers))
    return TablePlan(
        out=locations.join(locations.absolute(cfg.out), "assignments"),
        table="assignments",
        identity={
            "input": sources.main.identity,
            "plan": content_id(json.dumps(list(rows), sort_keys=True)),
            "seed": cfg.seed,
            "rubric": content_id(json.dumps(cfg.rubric, sort_keys=True)) if cfg.rubric else None,
            "span_labels": content_id(json.dumps(cfg.span_labels, sort_keys=True)) if cfg.span_labels else None,
            "shown": shown,
            **seen["exclusions"],
        },
        units=[Unit(content_id("assignments", sources.main.uri), inputs, rows=len(rows))],
        config=config,
        metadata={"rubric": seen["rubric"]} if seen["rubric"] else {},
        derived=True,
    )


def _write_files(
    cfg: AnnotateConfig, folder: str, study: Form, shown: Mapping[str, ShownItem], rows: Sequence[Mapping[str, Any]]
) -> int:
    """Write the form and the files of tasks; how many files of tasks."""
    by_file: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_file[row["file"]].append(row)
    written = 0
    each = (cfg.per_item or cfg.per_group or max((cfg.quotas or {}).values())) if cfg.files == "group" else None
    settings = {kind: prodigy_form.settings(study, kind, per_task=each) for kind in prodigy_form.KINDS}
    for name, own in sorted(by_file.items()):
        if cfg.files == "group" and own[0]["role"] != AUDITOR:  # each thing once, in an order of the file's own
            distinct = {(row["item_id"], row["target"]): row for row in own}
            order = assignment.shuffled(sorted(distinct), seed=cfg.seed, name=name)
            made = [(distinct[key], None, place) for place, key in enumerate(order, start=1)]
        else:
            made = [(row, row["rater"], row["place"]) for row in own]
        if cfg.tool == "label_studio":
            tasks = [
                label_studio_form.task(study, shown[row["item_id"]], target=row["target"], assigned_to=to, place=place)
                for row, to, place in made
            ]
            _put(folder, f"{name}.json", json.dumps(tasks, ensure_ascii=False, indent=1))
            written += 1
            continue
        lines = [
            task
            for row, to, place in made
            for task in prodigy_form.tasks(
                study, shown[row["item_id"]], target=row["target"], assigned_to=to, place=place
            )
        ]
        for kind in prodigy_form.KINDS:
            mine = [line for line in lines if prodigy_form.kind_of(line) == kind]
            if mine:
                _put(folder, f"{name}.{kind}.jsonl", "".join(json.dumps(m, ensure_ascii=False) + "\n" for m in mine))
                _put(folder, f"prodigy.{kind}.json", json.dumps(settings[kind], indent=1))
                written += 1
    if cfg.tool == "label_studio":
        _put(folder, "config.xml", label_studio_form.config_xml(study))
    return written


def _put(folder: str, name: str, text: str) -> None:
    locations.replace(locations.join(folder, name), text.encode())


def _told(cfg: AnnotateConfig, tasks: Sequence[assignment.Assignment]) -> str:
    found = assignment.summary(tasks, by_group=cfg.per_item is None)
    shared = ""
    if found.overlap_least is not None:
        shared = (
            f"; any two raters{' of a group' if cfg.per_item is None else ''} share {found.overlap_least:,} to "
            f"{found.overlap_most:,} (median {found.overlap_median:g})"
        )
    audits = f"; {found.audits:,} drawn for the audit" if found.audits else ""
    return (
        f"{found.tasks:,} tasks of {found.things:,} things for {found.raters:,} raters, "
        f"{found.least:,} to {found.most:,} each{shared}{audits}"
    )


JOB = cli.Job("annotate", AnnotateConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("annotate"))
