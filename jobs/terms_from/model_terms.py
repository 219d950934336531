"""Mode `source=language_model` of `terms`: conversion of the titles that models listed to the table `terms`.

Titles are JSON lines in a response, and are kept as written. Whether an article with that name exists is not checked,
since one that does not exist matches nothing in a corpus (Century, appendix G). Section 3.2 reports that 15.1 % of the
titles of two models overlap but does not define the share, so both usual definitions are given.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any, NamedTuple

from actors import schemas
from actors.ids import content_id
from actors.quantities import quantity
from actors.status import Status
from actors.titles import LONGEST_TERM
from actors.untrusted import parse_first_json, parse_json, text_lines
from jobs.errors import as_input_error
from jobs.runtime.job_tables import plan_table
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.planning import summary
from jobs.runtime.planning.prospects import prospect
from jobs.store.files import locations
from jobs.store.keys import refuse_shared_keys
from jobs.store.object_rows import read_unit
from jobs.store.reading import TableSource, open_table, open_tables
from jobs.store.runs.table_run import TableRun
from jobs.store.table_plan import limited
from jobs.store.units import Unit
from jobs.store.writer import UnitTask, UnitWriter
from jobs.tables import TABLES
from jobs.terms_from.descriptions import TopicList, spellings
from jobs.terms_from.graph_passes import TERMS
from jobs.terms_from.terms_config import KEEP, LANGUAGE_MODEL, ResponsesKeys, TermSourcesConfig


class ListedTitle(NamedTuple):
    """A usable line."""

    page_title: str
    category: str
    topic: str
    sub_region: str


class TitleLines:
    """Reader of responses to the prompt for a list of topics.

    Args:
        keep_unknown: whether to use lines whose category, topic or region is not in the list, as written.
    """

    def __init__(self, topics: TopicList, *, keep_unknown: bool) -> None:
        self._categories = spellings(topics.categories)
        self._topics = {name: spellings(entries) for name, entries in topics.categories.items()}
        self._every_topic = spellings(topic for entries in topics.categories.values() for topic in entries)
        self._sub_regions = spellings(topics.sub_regions)
        self.keep_unknown = keep_unknown

    def read(self, text: str, kinds: Counter[str], *, is_cut: bool) -> Iterator[ListedTitle]:
        """Yield the titles in a response; count its lines by kind, except empty ones, code fences and lone brackets.

        An object that spans several lines counts as one line. A title that the response has already listed under the
        same topic is `repeated`. With `keep_unknown`, a line with an unknown category is counted as such and yielded.

        Args:
            kinds: counter to update: one of `VALID`, `REPEATED`, `UNKNOWN` and faults of form (`not_json`, …) per line.
            is_cut: whether the response reached the token limit, so that its last line may be incomplete.
        """
        lines = list(_lines(text))
        listed = set[tuple[str, str]]()
        for number, line in enumerate(lines, 1):
            entry = _parsed(line)
            if isinstance(entry, str):
                kinds["cut" if is_cut and number == len(lines) and entry == "not_json" else entry] += 1
                continue
            title, unknown = self._checked(entry)
            key = (title.page_title.lower(), title.topic)
            if unknown and not self.keep_unknown:
                kinds[unknown] += 1
            elif key in listed:
                kinds[REPEATED] += 1
            else:
                listed.add(key)
                kinds[unknown or VALID] += 1
                yield title

    def _checked(self, entry: dict[str, str]) -> tuple[ListedTitle, str]:
        """Return the line in the list's spelling, and the values that are not in the list."""
        category, topic, sub_region = (entry[key].lower() for key in ("category", "topic", "sub_region"))
        unknown = ""
        if category not in self._categories:
            unknown = "unknown_category"
        elif topic not in self._topics[self._categories[category]]:
            unknown = "topic_of_other_category" if topic in self._every_topic else "unknown_topic"
        elif sub_region not in self._sub_regions:
            unknown = "unknown_sub_region"
        title = ListedTitle(
            entry["page_title"],
            self._categories.get(category, entry["category"]),
            self._every_topic.get(topic, entry["topic"]),
            self._sub_regions.get(sub_region, entry["sub_region"]),
        )
        return title, unknown


COLUMNS = ["response_id", "model", "sample", "status", "text"]
READ = (Status.OK.value, Status.TRUNCATED.value)  # statuses of responses that are read
COUNTS = "title_counts.json"
LINES = "lines of "  # begins the tally of a model's lines by kind


def write_model_terms(cfg: TermSourcesConfig) -> Plan | Manifest:
    """Write the table `terms` below `out=`; return its manifest, or with plan=true its plan.

    Raises:
        InputError: a table of responses, the list of topics or the location cannot be used.
    """
    try:
        topics = TopicList.from_dict(cfg.topics)
    except ValueError as error:
        raise as_input_error(error) from error
    tables = sorted(open_tables(cfg.responses, "responses", key="responses"), key=lambda table: table.uri)
    refuse_shared_keys(tables, groups=("model", "prompt"), row="response")
    plan = plan_table(
        cfg,
        TERMS,
        list(_units(tables)),
        {
            "source": cfg.source.name,
            "responses": sorted(table.identity for table in tables),
            "topics": content_id(json.dumps(asdict(topics), sort_keys=True)),
        },
        base=ResponsesKeys,
        out=locations.join(locations.absolute(cfg.out), TERMS),
    )
    plan = limited(plan, cfg.limit, noun="responses")
    expected = prospect("terms", cfg, plan, pools=[], calibrates=False, part=TERMS)
    if cfg.plan:
        return expected.describe(note=quantity(sum(table.rows for table in tables), "response"))
    run = expected.open()
    reader = TitleLines(topics, keep_unknown=cfg.unknown == KEEP)
    for task in run.todo:
        with UnitWriter(run.target, task) as writer:
            _write(task, writer, reader)
    manifest = summary.closed("terms", run)
    manifest.lines += _count_lines(_keep_counts(run, manifest))
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


def _count_lines(counts: Mapping[str, Any]) -> Iterator[str]:
    responses = ", ".join(f"{n:,} {status}" for status, n in sorted(counts["responses"].items()))
    yield f"  {counts['distinct_titles']:,} distinct titles; responses: {responses}"
    for model, of_model in counts["models"].items():
        kinds = ", ".join(f"{n:,} {kind}" for kind, n in of_model["lines"].items())
        yield (
            f"  {model}: {_percent(of_model['valid_share'])} of lines valid ({kinds or 'no lines'}); "
            f"{of_model['distinct_titles']:,} titles"
        )
    for pair in counts["overlap"]:
        yield (
            f"  {pair['first']} and {pair['second']}: {pair['common']:,} titles in common, "
            f"{_percent(pair['of_union'])} of all {pair['either']:,}, "
            f"{_percent(pair['of_smaller'])} of the smaller list's {pair['smaller']:,}"
        )


def _percent(share: float | None) -> str:
    return "undefined" if share is None else f"{share:.1%}"


@dataclass(frozen=True)
class TitleOverlap:
    """The titles that two models have in common.

    common: number of titles that both models list.
    either: number of titles that at least one lists.
    smaller: number of titles of the model that lists fewer.
    """

    first: str
    second: str
    common: int
    either: int
    smaller: int

    @property
    def of_union(self) -> float | None:
        """`common / either` (Jaccard); None if neither lists a title."""
        return self.common / self.either if self.either else None

    @property
    def of_smaller(self) -> float | None:
        """`common / smaller` (overlap coefficient); None if one of them lists no title."""
        return self.common / self.smaller if self.smaller else None


def overlaps(titles: Mapping[str, set[str]]) -> Iterator[TitleOverlap]:
    """Yield the overlap of each pair of models, ordered by name.

    Args:
        titles: each model's titles, normalised for comparison.
    """
    for first, second in combinations(sorted(titles), 2):
        one, other = titles[first], titles[second]
        yield TitleOverlap(first, second, len(one & other), len(one | other), min(len(one), len(other)))


KEYS = ("sub_region", "category", "topic", "page_title")
VALID, REPEATED = "valid", "repeated"
UNKNOWN = ("unknown_category", "unknown_topic", "topic_of_other_category", "unknown_sub_region")
FENCE = "```"
BRACKETS = ("[", "]")  # lines around a list with one object per line


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of a text without mere separators, and an object that spans several lines as one line."""
    lines = text_lines(text)
    number = 0
    while number < len(lines):
        line, number = lines[number].strip(), number + 1
        if line.startswith("{") and (more := _lines_to_end(line, lines[number:])):
            line = "\n".join([line, *lines[number : number + more]]).strip()
            number += more
        if line and not line.startswith(FENCE) and line not in BRACKETS:
            yield line


def _lines_to_end(first: str, following: Sequence[str]) -> int:
    """Return how many following lines belong to an object that begins in `first`; 0 if it is not one, or one line."""
    text = "\n".join([first, *following])
    try:
        _, end = parse_first_json(text)
    except ValueError:
        return 0
    rest = text[end:].partition("\n")[0].strip()
    return text.count("\n", 0, end) if rest in ("", ",") else 0


def _parsed(line: str) -> dict[str, str] | str:
    """Return a line's values by key, or what is wrong with the line; a trailing comma is allowed."""
    try:
        value: Any = parse_json(line.removesuffix(","))
    except ValueError:
        return "not_json"
    if not isinstance(value, dict):
        return "not_an_object"
    if any(key not in value for key in KEYS):
        return "missing_key"
    if not all(isinstance(value[key], str) for key in KEYS):
        return "wrong_type"
    entry = {key: " ".join(value[key].split()) for key in KEYS}
    if len(entry["page_title"]) > LONGEST_TERM:
        return "long_title"
    return entry if entry["page_title"] else "empty_title"
