"""Mode `source=language_model` of `terms`: conversion of the titles that models listed to the table `terms`."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from actors import schemas
from actors.ids import content_id
from actors.quantities import quantity
from actors.status import Status
from jobs.errors import InputError
from jobs.runtime.planning import summary
from jobs.runtime.planning.prospects import prospect
from jobs.runtime.process.console import say
from jobs.store.files import locations
from jobs.store.keys import refuse_shared_keys
from jobs.store.limits import limited
from jobs.store.object_rows import read_unit
from jobs.store.reading import TableSource, open_table, open_tables
from jobs.store.runs.table_run import TableRun
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitTask, UnitWriter
from jobs.tables import TABLES
from jobs.terms_from.config import KEEP, LANGUAGE_MODEL, TermSourcesConfig
from jobs.terms_from.graph_passes import TERMS
from jobs.terms_from.overlap import overlaps
from jobs.terms_from.title_lines import REPEATED, UNKNOWN, VALID, TitleLines
from jobs.terms_from.topics import TopicList

COLUMNS = ["response_id", "model", "sample", "status", "text"]
READ = (Status.OK.value, Status.TRUNCATED.value)  # statuses of responses that are read
COUNTS = "title_counts.json"
LINES = "lines of "  # begins the tally of a model's lines by kind


def write_model_terms(cfg: TermSourcesConfig) -> dict[str, Any] | None:
    """Write the table `terms` below `out=`; return its manifest, or None with plan=true.

    Raises:
        InputError: a table of responses, the list of topics or the location cannot be used.
    """
    try:
        topics = TopicList.from_dict(cfg.topics)
    except ValueError as error:
        raise InputError(f"terms: {error}") from error
    tables = sorted(open_tables(cfg.responses, "responses"), key=lambda table: table.uri)
    refuse_shared_keys(tables, groups=("model", "prompt"), row="response")
    plan = TablePlan(
        out=locations.join(locations.absolute(cfg.out), TERMS),
        table=TERMS,
        identity={
            "source": cfg.source.name,
            "responses": sorted(table.identity for table in tables),
            "topics": content_id(json.dumps(asdict(topics), sort_keys=True)),
            "unknown": cfg.unknown,
        },
        units=list(_units(tables)),
        config=asdict(cfg),
        metadata={},
        derived=True,
    )
    plan = limited(plan, cfg.limit, noun="responses")
    expected = prospect("terms", cfg, plan, pools=[], calibrates=False, part=TERMS)
    if cfg.plan:
        expected.show(note=quantity(sum(table.rows for table in tables), "response"))
        return None
    run = expected.open()
    reader = TitleLines(topics, keep_unknown=cfg.unknown == KEEP)
    for task in run.todo:
        with UnitWriter(run.target, task) as writer:
            _write(task, writer, reader)
    manifest = run.finish()
    summary.show_result("terms", manifest, run)
    _show(_keep_counts(run, manifest))
    return manifest


def _units(tables: Sequence[TableSource]) -> Iterator[Unit]:
    """Yield one unit per unit of responses; tables of several models have units with the same names."""
    for table in tables:
        for footer in table.footers:
            yield Unit(content_id(TERMS, table.uri, footer.unit.name), (footer.object,), rows=footer.rows)


def _write(task: UnitTask, writer: UnitWriter, reader: TitleLines) -> None:
    """Write the titles in a unit's responses; `rows_in` counts lines, and responses without readable text."""
    counts = writer.counts
    rows: list[dict[str, Any]] = []
    responses = read_unit(task.unit.inputs[0].uri, columns=COLUMNS).slice(0, task.unit.limit)
    for response in responses.to_pylist():
        tally = counts.tallies.setdefault("responses", {})
        tally[response["status"]] = tally.get(response["status"], 0) + 1
        if response["status"] not in READ or not response["text"]:
            counts.filtered[f"response_{response['status']}"] += 1
            continue
        kinds = Counter[str]()
        is_cut = response["status"] == Status.TRUNCATED
        rows += [_row(response, title._asdict()) for title in reader.read(response["text"], kinds, is_cut=is_cut)]
        of_model = counts.tallies.setdefault(f"{LINES}{response['model']}", {})
        for kind, number in kinds.items():
            of_model[kind] = of_model.get(kind, 0) + number
    writer.write(schemas.to_table(rows, TABLES[TERMS].schema()))
    lines = Counter[str]()
    for name, tally in counts.tallies.items():
        if name.startswith(LINES):
            lines.update(tally)
    used = (VALID, *UNKNOWN) if reader.keep_unknown else (VALID,)
    counts.filtered.update({kind: n for kind, n in lines.items() if kind not in used})
    counts.rows_in = counts.rows_out + counts.filtered.total()


def _row(response: Mapping[str, Any], title: Mapping[str, str]) -> dict[str, Any]:
    return {
        "term": title["page_title"],
        "source": LANGUAGE_MODEL,
        "concept": title["topic"],
        "entity_id": "",
        "response_id": response["response_id"],
        "theme": title["category"],
        "model": response["model"],
        "sample": response["sample"],
        "sub_region": title["sub_region"],
    }


def _keep_counts(run: TableRun, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the counts of a finished run, and store them in its `_run/title_counts.json`."""
    tallies = manifest["counts"]["tallies"]
    titles: dict[str, set[str]] = {}
    for batch in open_table(run.target.out, TERMS).batches(["term", "model"]):
        for term, model in zip(batch["term"].to_pylist(), batch["model"].to_pylist(), strict=True):
            titles.setdefault(model, set()).add(term.lower())
    lines = {name.removeprefix(LINES): tally for name, tally in tallies.items() if name.startswith(LINES)}
    counts = {
        "responses": tallies.get("responses", {}),
        "distinct_titles": len(set().union(*titles.values())),
        "models": {
            model: {
                "distinct_titles": len(titles.get(model, ())),
                "lines": dict(sorted(kinds.items())),
                "valid_share": _valid_share(kinds),
            }
            for model, kinds in sorted(lines.items())
        },
        "overlap": [
            {**asdict(pair), "of_union": pair.of_union, "of_smaller": pair.of_smaller} for pair in overlaps(titles)
        ],
    }
    run.keep(COUNTS, json.dumps(counts, indent=1, ensure_ascii=False).encode())
    return counts


def _valid_share(kinds: Mapping[str, int]) -> float | None:
    """Return the share of a model's lines that are valid, including repeated ones; None if it wrote no lines."""
    total = sum(kinds.values())
    return (kinds.get(VALID, 0) + kinds.get(REPEATED, 0)) / total if total else None


def _show(counts: Mapping[str, Any]) -> None:
    responses = ", ".join(f"{n:,} {status}" for status, n in sorted(counts["responses"].items()))
    say(f"  {counts['distinct_titles']:,} distinct titles; responses: {responses}")
    for model, of_model in counts["models"].items():
        kinds = ", ".join(f"{n:,} {kind}" for kind, n in of_model["lines"].items())
        say(
            f"  {model}: {_percent(of_model['valid_share'])} of lines valid ({kinds or 'no lines'}); "
            f"{of_model['distinct_titles']:,} titles"
        )
    for pair in counts["overlap"]:
        say(
            f"  {pair['first']} and {pair['second']}: {pair['common']:,} titles in common, "
            f"{_percent(pair['of_union'])} of all {pair['either']:,}, "
            f"{_percent(pair['of_smaller'])} of the smaller list's {pair['smaller']:,}"
        )


def _percent(share: float | None) -> str:
    return "undefined" if share is None else f"{share:.1%}"
