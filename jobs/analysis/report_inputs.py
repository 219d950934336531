"""The input tables of a report: their keys, and opening them."""

from dataclasses import dataclass, field

from jobs.analysis.report_tables import ReportTables
from jobs.errors import InputError
from jobs.judging.rating_tables import open_ratings
from jobs.store.keys import refuse_shared_keys
from jobs.store.reading import TableSource, open_table, open_tables


@dataclass
class ReportInputs:
    """Keys for tables; none is required, but at least one must have rows to report on."""

    ratings: list[str] = field(default_factory=list)  # tables, or globs of tables
    images: str | None = None  # images table: thumbnails and fetch status
    records: str | None = None  # records of these pictures
    terms: list[str] = field(default_factory=list)  # tables, or globs: search terms, for the numbers of entities
    matches: str | None = None  # rarely: output of remine mine, for the funnel of counts
    embeddings: str | None = None  # embeddings table, for its counts
    raters: list[str] = field(default_factory=list)  # tables, or globs: kinds, families, countries of raters
    # tables, or globs: attributes to disaggregate by, targets, right values
    items: list[str] = field(default_factory=list)
    # tables, or globs: model, prompt and length of the rated responses; refusal rates
    responses: list[str] = field(default_factory=list)
    spans: list[str] = field(default_factory=list)  # tables, or globs of tables
    remarks: list[str] = field(default_factory=list)  # tables, or globs: people's free text, next to their ratings
    texts: list[str] = field(default_factory=list)  # tables, or globs: texts of the spans, for metrics of tokens
    questions: str | None = None  # scene graphs: questions and their parents; the answers are in ratings
    # rarely: tables of metrics of other jobs (evaluate, tric_rank, …), or globs, for the tables of a paper
    computed: list[str] = field(default_factory=list)
    exclusions: str | None = None  # file of pictures that must not be used (jobs.runtime.selection.exclusions)


def open_inputs(inputs: ReportInputs) -> ReportTables:
    """Open the tables that the keys name.

    Raises:
        InputError: a table does not exist, two tables hold the same rating or span, or no key names a table to report
            on.
    """

    def single(key: str, uri: str | None) -> TableSource | None:
        return open_table(uri, key) if uri else None

    corpus = (
        ("matches", single("records", inputs.matches)),
        ("records", single("records", inputs.records)),
        ("images", single("images", inputs.images)),
        ("embeddings", single("embeddings", inputs.embeddings)),
    )
    tables = ReportTables(
        ratings=open_ratings(inputs.ratings),
        corpus={name: source for name, source in corpus if source},
        raters=open_tables(inputs.raters, "raters"),
        spans=open_tables(inputs.spans, "spans"),
        items=open_tables(inputs.items, "items"),
        responses=open_tables(inputs.responses, "responses"),
        texts=open_tables(inputs.texts, "texts"),
        remarks=open_tables(inputs.remarks, "remarks"),
        questions=single("questions", inputs.questions),
        terms=open_tables(inputs.terms, "terms"),
        computed=open_tables(inputs.computed, "metrics"),
    )
    refuse_shared_keys(tables.spans, groups=("rater", "kind"), row="span")
    reported = (tables.corpus, tables.ratings, tables.spans, tables.responses, tables.terms, tables.computed)
    if not any(reported):
        raise InputError(
            "report: no table to report on; set ratings=, responses=, images=, records=, matches=, spans=, terms= or "
            "computed="
        )
    return tables
