"""Read what people annotated -> table `ratings`, `spans` or `raters`.

    python -m jobs.import_ratings input=people.csv columns.item_id=picture columns.rater=worker columns.value=answer \\
        question=sensitive rubric=century_labels out=R/people
    python -m jobs.import_ratings input='export/*.json' format=label_studio rubric=century_labels out=R/people
    python -m jobs.import_ratings input='export/*.json' format=label_studio span_labels=mistakes_omissions \\
        table=spans out=R/spans
    python -m jobs.import_ratings input=raters.csv table=raters out=R/raters

CSV and Parquet by a mapping of columns, Label Studio's JSON export, Prodigy's db-out. Words become the rubric's
answers by value, label, people's label or number; what is none of them is out_of_range and kept as it was given.
The same command run again reads what has come in since. Pictures that people reported can go to an exclusions list.
"""

import json
import sys
from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from actors.ids import content_id
from actors.vlm.rubric import Rubric
from jobs.annotation import answers, label_studio, prodigy, rows, tabular
from jobs.annotation.importing import Importer, ImportSettings, Read
from jobs.annotation.pseudonyms import Pseudonyms, read_key
from jobs.annotation.repeats import RULES
from jobs.annotation.reports import add_to_list
from jobs.annotation.spans import SpanLabels
from jobs.annotation.tabular import RatingColumns
from jobs.annotation.tools import ToolReading
from jobs.errors import InputError
from jobs.judging import kept_rubric
from jobs.judging.kept_rubric import KeptRubric
from jobs.runtime import cli, exclusions, summary
from jobs.runtime.config import Writing, plain
from jobs.runtime.console import say
from jobs.runtime.exclusions import Barred, Exclusions
from jobs.store import locations
from jobs.store.run import TablePlan, TableRun, open_run, survey
from jobs.store.spool import Spool
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter

FORMATS = {
    "csv": (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz"),
    "parquet": (".parquet",),
    "label_studio": (".json",),
    "prodigy": (".jsonl", ".jsonl.gz"),
}
READ = ("ratings", "spans", "raters")
ITEMS, RATER_FROM, SCALES = ("id", "url"), ("annotator", "assigned"), ("ordinal", "nominal")
REPORTED = "reported.json"  # in _run/: how many people reported each picture


@dataclass
class ImportRatingsConfig(Writing):
    """Keys of `import_ratings`."""

    input: str = MISSING  # file, folder or glob; local or s3://
    format: str | None = None  # csv, parquet, label_studio or prodigy; null: by the file's name
    table: str = "ratings"  # what is read: ratings, spans or raters
    rubric: dict[str, Any] = field(default_factory=dict)  # whose questions were answered
    span_labels: dict[str, Any] = field(default_factory=dict)  # which kinds of spans were marked (conf/span_labels)
    name: str = "people"  # without a rubric: what column `rubric` says …
    answers: list[str] = field(default_factory=list)  # … the allowed answers in their order …
    scale: str = "ordinal"  # … and whether they are numbers on a scale (ordinal) or categories (nominal)
    columns: RatingColumns = field(default_factory=RatingColumns)
    question: str | None = None  # the one question that all rows answer
    rater: str | None = None  # the one rater of all rows, for a file that names none
    rater_kind: str = "human"  # in table raters: human, gold or model
    rater_from: str = "annotator"  # of a tool's export: who answered, or whom the task was assigned to
    method: str = "human"  # column `method`
    items: str = "id"  # url: item_id holds pictures' URLs and becomes their image_ids
    encoding: str | None = None  # of CSV; null: by its byte-order mark, else UTF-8
    delimiter: str | None = None  # of CSV; null: comma, semicolon, tab or bar, whichever fits
    duplicates: str = "last"  # one person, item and question twice: last, first, sample (keep all, numbered) or refuse
    anonymise: bool = False  # raters become pseudonyms under a key from $REMINE_RATER_KEY or key_file
    key_file: str | None = None  # file with the key of the pseudonyms, at least 16 bytes
    reports: str | None = None  # exclusions list to which reported pictures are added
    reports_min: int = 1  # people who must have reported a picture


def execute(cfg: ImportRatingsConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the manifest, None with plan=true."""
    _check(cfg)
    files = _files(cfg)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    pseudonyms = read_key(cfg.key_file) if cfg.anonymise else None
    importer = _importer(cfg, files, exclusions.Barred(excluded.marks), pseudonyms)
    importer.peek()
    kept = _kept(cfg)
    where = locations.absolute(cfg.input)
    unit = Unit(content_id("annotations", where), tuple(files))
    plan = TablePlan(
        out=cfg.out,
        table=cfg.table,
        identity=_identity(cfg, pseudonyms, excluded),
        units=[unit],
        config=plain(cfg),
        metadata=kept.metadata if kept else {},
        derived=True,  # annotations that came in since are a new generation of the unit, not another corpus
        files=kept.files if kept else {},
    )
    if cfg.plan:
        summary.show_plan("import_ratings", plan)
        return None
    with Spool("import") as spool:
        # Everything is read before anything is claimed: what is wrong in the last line leaves no trace either.
        fresh = cfg.overwrite or survey(plan)["done"] == 0
        if fresh:
            importer.read(spool.path, named=where)
        run = open_run(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
        for task in run.todo:
            if not fresh:
                importer.read(spool.path, named=where)
            with UnitWriter(run.target, task) as writer:
                importer.write(spool.path, writer)
            run.keep(REPORTED, json.dumps(importer.reported(), indent=1).encode())
    manifest = run.finish()
    _show(cfg, importer, manifest, run)
    summary.show_exclusions(excluded, manifest["counts"]["tallies"].get(exclusions.TALLY, {}))
    return manifest


def _check(cfg: ImportRatingsConfig) -> None:
    """Refuse words that no key allows, and keys that do not go together."""
    choices = {
        "format": (cfg.format, (None, *FORMATS)),
        "table": (cfg.table, READ),
        "duplicates": (cfg.duplicates, RULES),
        "items": (cfg.items, ITEMS),
        "rater_from": (cfg.rater_from, RATER_FROM),
        "rater_kind": (cfg.rater_kind, ("human", "gold", "model")),
        "scale": (cfg.scale, SCALES),
    }
    for key, (value, allowed) in choices.items():
        if value not in allowed:
            raise InputError(f"{key}={value}: there are {', '.join(filter(None, allowed))}")
    if cfg.table == "ratings" and not cfg.rubric and not cfg.answers:
        raise InputError("import_ratings: whose answers are these? give rubric=NAME, or answers=[1,2,3,4,5] and scale=")
    if cfg.rubric and cfg.answers:
        raise InputError("import_ratings: give rubric= or answers=, not both")
    if cfg.duplicates == "sample" and (cfg.table != "ratings" or cfg.columns.sample):
        why = "the rows' own sample is mapped" if cfg.columns.sample else f"table {cfg.table} numbers no samples"
        raise InputError(f"duplicates=sample: {why}; use last, first or refuse")
    if cfg.reports and cfg.table != "ratings":
        raise InputError("reports=: pictures are reported in table=ratings")
    told = cfg.columns.questions
    if told is not None and not (isinstance(told, dict) and told and all(isinstance(v, str) for v in told.values())):
        raise InputError(f"columns.questions={told}: needed is {{question: column, …}}")
    if cfg.reports_min < 1:
        raise InputError(f"reports_min={cfg.reports_min}: at least 1")


def _files(cfg: ImportRatingsConfig) -> list[locations.Object]:
    """The files to read; of a folder only those that the format's names fit."""
    base = locations.absolute(cfg.input)
    found = [o for o in locations.find(cfg.input) if o.uri == base or not _hidden(o.uri, base)]
    if cfg.format and len(found) > 1:
        found = [o for o in found if o.uri.lower().endswith(FORMATS[cfg.format])]
    if not found:
        raise InputError(f"{cfg.input}: no file of format {cfg.format} ({', '.join(FORMATS[cfg.format or 'csv'])})")
    return found


def _hidden(uri: str, base: str) -> bool:
    """Whether a file below the folder `base`, or one that a glob found, is of a program's own: `_run/…`, `.part`."""
    below = uri.removeprefix(f"{base}/") if uri.startswith(f"{base}/") else uri.rsplit("/", 1)[-1]
    return any(part[:1] in ("_", ".") for part in below.split("/"))


def format_of(files: list[locations.Object]) -> str:
    """The one format that the files' names tell.

    Raises:
        InputError: none, or several.
    """
    told = {o.uri: next((f for f, ends in FORMATS.items() if o.uri.lower().endswith(ends)), None) for o in files}
    unknown = next((uri for uri, kind in told.items() if kind is None), None)
    if unknown:
        raise InputError(f"{unknown}: its name tells no format; give format={'|'.join(FORMATS)}")
    if len(set(told.values())) > 1:
        raise InputError(
            f"several formats in one place ({', '.join(sorted(set(filter(None, told.values()))))}); give format="
        )
    return str(next(iter(told.values())))


def _importer(
    cfg: ImportRatingsConfig, files: list[locations.Object], barred: Barred, pseudonyms: Pseudonyms | None
) -> Importer:
    kind = cfg.format or format_of(files)
    try:
        asked = answers.of_rubric(Rubric.from_dict(cfg.rubric)) if cfg.rubric else None
        if cfg.answers:
            asked = answers.of_list(cfg.name, cfg.answers, ordinal=cfg.scale == "ordinal")
        span_labels = SpanLabels.from_dict(cfg.span_labels) if cfg.span_labels else None
    except ValueError as error:
        raise InputError(f"import_ratings: {error}") from error
    if cfg.question and asked and asked.names and asked.question(cfg.question) is None:
        raise InputError(f"question={cfg.question}: rubric {asked.name} has {', '.join(asked.sets)}")
    question = (asked.question(cfg.question) if asked else cfg.question) if cfg.question else None
    read: Read
    if kind in ("csv", "parquet"):
        reading = tabular.Reading(
            table=cfg.table,
            columns=cfg.columns,
            asked=asked,
            question=question,
            rater=cfg.rater,
            encoding=cfg.encoding,
            delimiter=cfg.delimiter,
            private=pseudonyms is not None,
        )
        reader = tabular.read_csv if kind == "csv" else tabular.read_parquet
        read = lambda uri, reject: reader(uri, reading, reject)  # noqa: E731
    else:
        if cfg.table == "spans" and span_labels is None:
            raise InputError(
                f"table=spans of format={kind} needs span_labels=NAME, the kinds that were marked (conf/span_labels)"
            )
        if cfg.rater:
            raise InputError(f"rater={cfg.rater}: format={kind} names who answered; see rater_from=")
        columns = {k: v for k, v in plain(cfg.columns).items() if isinstance(v, str)}
        of_tool = ToolReading(
            table=cfg.table,
            asked=asked,
            span_labels=span_labels,
            controls=cfg.columns.questions or {},
            fields=columns,
            question=question,
            rater=cfg.rater_from,
            private=pseudonyms is not None,
        )
        tool = label_studio.read if kind == "label_studio" else prodigy.read
        read = lambda uri, reject: tool(uri, of_tool, reject)  # noqa: E731
    settings = ImportSettings(
        table=cfg.table,
        asked=asked,
        method=cfg.method,
        rater_kind=cfg.rater_kind,
        urls=cfg.items == "url",
        duplicates=cfg.duplicates,
    )
    return Importer(settings, files, read, barred=barred, pseudonym=pseudonyms)


def _kept(cfg: ImportRatingsConfig) -> KeptRubric | None:
    """The rubric that the table of ratings keeps; None for other tables."""
    if cfg.table != "ratings":
        return None
    if cfg.rubric:
        return kept_rubric.of_rubric(Rubric.from_dict(cfg.rubric), cfg.rubric)
    return kept_rubric.of_answers(cfg.name, cfg.answers, ordinal=cfg.scale == "ordinal")


def _identity(cfg: ImportRatingsConfig, pseudonyms: Pseudonyms | None, excluded: Exclusions) -> dict[str, Any]:
    """What the rows depend on; of a key only that it is another one."""
    keys = "format table name answers scale question rater rater_kind rater_from method items encoding delimiter"
    return {
        "read": {key: getattr(cfg, key) for key in [*keys.split(), "duplicates"]},
        "columns": plain(cfg.columns),
        "rubric": content_id(json.dumps(cfg.rubric, sort_keys=True)) if cfg.rubric else None,
        "span_labels": content_id(json.dumps(cfg.span_labels, sort_keys=True)) if cfg.span_labels else None,
        "anonymised": pseudonyms.fingerprint if pseudonyms else None,
        **exclusions.identity(excluded),
    }


def _show(cfg: ImportRatingsConfig, importer: Importer, manifest: dict[str, Any], run: TableRun) -> None:
    summary.show_result("import_ratings", manifest, run)
    for reject in importer.first_rejects:
        say(f"  rejected: {reject.file}, position {reject.position:,}: {reject.message}")
    if importer.first_repeat:
        say(f"  repeated (duplicates={cfg.duplicates}), the first at {importer.first_repeat}")
    tallies = manifest["counts"]["tallies"]
    for word, label in (("reports", "reported"), ("skips", "skipped"), ("issues", "response issues")):
        of = tallies.get(word, {})
        if of.get("tasks"):
            shares = ", ".join(
                f"{of[name]:,} of {of[f'of_{name}']:,} {name} ({of[name] / of[f'of_{name}']:.1%})"
                for name in rows.Welfare.KEYS
            )
            say(f"  {label}: {shares}")
    for name, n in tallies.get("conflicts", {}).items():
        say(f"  {name}: {n:,} people have two of it, neither was kept")
    if cfg.reports:
        reported = json.loads(locations.read_bytes(locations.join(run.target.out, "_run", REPORTED)))
        added, total = add_to_list(cfg.reports, reported, least=cfg.reports_min)
        say(f"  {cfg.reports}: {added:,} reported pictures added, {total:,} there")


JOB = cli.Job("import_ratings", ImportRatingsConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("import_ratings"))
