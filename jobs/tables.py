"""The tables that pass between jobs. Read this first.

A table is a folder of Parquet files with one Arrow schema, a description of every column, a primary key and a version;
`conform` casts and checks every batch before it is written. Strings are plain: Parquet dictionary-encodes them, and
readers of long tables ask for dictionaries (`jobs.store.object_rows`). Ids are content hashes (`actors.ids`), never
positions. Columns of rows that stages write are in `actors.schemas`.
"""

from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from actors.errors import first_line
from actors.schemas import Ended, ImageRow, RatingRow, ResponseRow, SpanRow, VectorRow, columns_of

STR, I32, I64, F64, BOOL = pa.string(), pa.int32(), pa.int64(), pa.float64(), pa.bool_()
STRS = pa.list_(STR)
ATTRIBUTES = pa.map_(STR, STR)
CONDITION = "condition"  # column of ratings, and dim of metrics
HUMAN = "human"  # `kind` of raters who are people, and `method` of their ratings and spans
QUOTA, SHARED, AUDITOR, NOT_DRAWN = "quota", "shared", "auditor", "not_drawn"  # values of `role` in assignments
WIT_COLUMNS = (  # in the order of the released files
    "language page_url image_url page_title section_title hierarchical_section_title "
    "caption_reference_description caption_attribution_description caption_alt_text_description mime_type "
    "original_height original_width is_main_image attribution_passes_lang_id page_changed_recently "
    "context_page_description context_section_description"
).split()


class TableError(ValueError):
    """A batch or a file does not fit its table."""


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        key: the columns of the primary key.
        columns: name -> (Arrow type, description).
        version: raised when the columns or their meaning change.
        metadata: strings for the schema of each file.
    """

    name: str
    key: tuple[str, ...]
    columns: dict[str, tuple[pa.DataType, str]]
    version: int = 1
    metadata: dict[str, str] = field(default_factory=dict)

    def schema(self, **metadata: str) -> pa.Schema:
        """Return the Arrow schema with `metadata` added to the table's, as in `schema(encoder='m')`."""
        fields = [
            pa.field(name, kind, nullable=name not in self.key, metadata={"description": text})
            for name, (kind, text) in self.columns.items()
        ]
        base = {"remine.table": self.name, "remine.version": str(self.version), "remine.key": ",".join(self.key)}
        extra = {f"remine.{k}": v for k, v in {**self.metadata, **metadata}.items()}
        return pa.schema(fields, metadata={**base, **extra})


_STATUS = columns_of(Ended)["status"]
_RATING_KEY = ("item_id", "target", "rubric", "question", "rater", "condition", "method", "order", "sample")
_SPAN_KEY = ("item_id", "rater", "condition", "method", "text_id", "kind", "start", "end")
_SCORE = (F64, "similarity or likelihood, higher is nearer")

_ALL = [
    Table("class_edges", ("entity_id", "relation", "value"), {
        "entity_id": (STR, "an item of a knowledge graph"),
        "relation": (STR, "subclass_of, redirects_to or has_title"),
        "value": (STR, "the id of the other item, or the title"),
    }),
    Table("entities", ("entity_id",), {
        "entity_id": (STR, "its id in the knowledge graph"),
        "label": (STR, "its name in the first of the languages that has one"),
        "aliases": (STRS, "its other names in these languages"),
        "title": (STR, "the title of its article"),
        "entity_type": (STR, "person, event, organization or location; null of a redirect and of an entity without a "
                             "type or a name, which only link others to concepts"),
        "entity_date": (STR, "ISO 8601 date, or interval of years; the year 0 is 1 BC"),
        "first_year": (I32, "the first year of its dates"),
        "last_year": (I32, "the last year of its dates"),
        "links": (STRS, "property=concept, for each concept that it is linked to through a class"),
        "neighbors": (STRS, "property=entity_id, for entities that may be linked to a concept themselves; of a "
                            "redirect redirects_to=entity_id"),
        "sites": (I32, "number of its articles in all sites"),
    }, version=2),
    Table("terms", ("term", "source", "concept", "entity_id", "response_id"), {
        "term": (STR, "the phrase to find in page titles"),
        "source": (STR, "its source: knowledge_graph, language_model, manual, or another name"),
        "concept": (STR, "the concept or topic it was derived from, empty if none"),
        "entity_id": (STR, "the entity's id in the source, empty if none"),
        "response_id": (STR, "the response that lists it, empty if none"),
        "theme": (STR, "the theme or category that the concept belongs to (Century, table 5)"),
        "name_kinds": (STRS, "which names of the entity it is: label, alias, title"),
        "linked_by": (STRS, "the properties that link the entity to the concept"),
        "entity_type": (STR, "event, organization, person or location"),
        "entity_date": (STR, "ISO 8601 date of the entity, or interval of years; the year 0 is 1 BC"),
        "period": (STR, "whether its years are inside or outside the period, or undated"),
        "model": (STR, "the language model that proposed it"),
        "sample": (I32, "the number of its response"),
        "sub_region": (STR, "sub-region that the language model gave"),
    }, version=2),
    Table("records", ("record_id",), {
        "record_id": (STR, "hash of the source columns, file and number among equal rows, or of item and picture"),
        "image_id": (STR, "hash of image_url"),
        **{name: (STR, f"WIT column {name}, as in the source") for name in WIT_COLUMNS},
        "split": (STR, "train, val or test, from the file's name; empty if unknown"),
        "terms": (STRS, "the search terms found in the page title, sorted"),
        "methods": (STRS, "the sources of those terms, sorted"),
        "credited_method": (STR, "the one of methods that curate credits with the picture, null before or if none"),
    }, version=2),
    Table("images", ("image_id", "rendition"), columns_of(ImageRow)),
    Table("texts", ("text_id",), {
        "text_id": (STR, "hash of role, language, text and anything else that distinguishes it"),
        "role": (STR, "article, window, titles, lemma, gloss, caption, reference, generated, prompt, or another name"),
        "language": (STR, "BCP 47 tag, empty if unknown"),
        "date": (STR, "ISO date of the events in the text"),
        "source": (STR, "its source; for a text of a knowledge base the node"),
        "revision": (STR, "revision of that source"),
        "text": (STR, "the text"),
    }),
    Table("nodes", ("node_id",), {
        "node_id": (STR, "the entity's id in its knowledge base"),
        "lemmas": (pa.map_(STR, STRS), "language -> names"),
        "titles": (pa.map_(STR, STR), "language -> title of its article"),
        "glosses": (pa.map_(STR, STR), "language -> definition"),
        "article_text_ids": (pa.map_(STR, STR), "language -> its whole article in texts"),
    }, version=2),
    Table("node_images", ("node_id", "image_id"), {
        "node_id": (STR, "an entity"),
        "image_id": (STR, "one of its pictures"),
    }),
    Table("items", ("item_id",), {
        "item_id": (STR, "hash of the content that is judged, or the id that its source gives it"),
        "kind": (STR, "image, response, pair, description or caption"),
        "image_ids": (STRS, "its pictures, in order"),
        "text_ids": (STRS, "its texts, in order"),
        "response_id": (STR, "the response that is judged"),
        "targets": (STRS, "its own targets (such as culture labels), if any"),
        "gold": (STRS, "the correct values, if known"),
        "attributes": (ATTRIBUTES, "date, scenario, sub-region and others"),
    }),
    Table("embeddings", ("item_id", "kind"), columns_of(VectorRow)),
    Table("neighbors", ("query_id", "rank"), {
        "query_id": (STR, "item_id of the query"),
        "rank": (I32, "1 is the nearest"),
        "item_id": (STR, "the neighbour"),
        "score": _SCORE,
        "probability": (F64, "that the pair matches, from SigLIP's scale and bias; null if these are unknown"),
    }),
    Table("links", ("image_id", "method", "rank"), {
        "image_id": (STR, "the picture"),
        "method": (STR, "lemma, gloss, article, lemma_vision, gloss_vision, frequency_vision or named"),
        "rank": (I32, "1 is the best"),
        "node_id": (STR, "the entity"),
        "lemma": (STR, "the lemma that matched"),
        "score": _SCORE,
    }),
    Table("responses", ("response_id",), columns_of(ResponseRow), version=5),
    Table("questions", ("set_id", "question_id"), {
        "set_id": (STR, "the prompt or caption the set belongs to"),
        "question_id": (STR, "the question inside the set"),
        "text": (STR, "the question"),
        "tuple": (STR, "the proposition that it asks about"),
        "category": (STR, "entity, attribute, relation, action, other, global, or another name"),
        "parents": (STRS, "question_ids that must be answered with yes first"),
        "valid": (BOOL, "whether it is asked and counts"),
        "fault": (STR, "why it is invalid, or why parents were dropped; null if neither"),
        "line": (I32, "its line in the file, or that of its tuple in the model's answer"),
        "about": (STR, "the text that the set is about, null if unknown"),
    }, version=2),
    Table("ratings", _RATING_KEY, columns_of(RatingRow, end_before="raw"), version=3),
    Table("spans", _SPAN_KEY, columns_of(SpanRow, end_before="raw"), version=2),
    Table("remarks", ("item_id", "target", "rubric", "field", "rater", "condition", "sample", "number"), {
        "item_id": (STR, "the item that the person rated"),
        "target": (STR, "the label that it was rated against, empty if none"),
        "rubric": (STR, "name of the rubric"),
        "field": (STR, "the field in which the person wrote: factual_error, sources, …"),
        "rater": (STR, "the person: raters.rater"),
        "condition": (STR, "experimental condition, empty if none"),
        "sample": (I32, "number of the person's answer, from 0"),
        "number": (I32, "of several entries in one field, from 1"),
        "question": (STR, "the question whose rating it explains, empty for the item as a whole"),
        "text": (STR, "what the person wrote, unchanged but for white space around it"),
    }),
    Table("raters", ("rater",), {
        "rater": (STR, "name: model@revision, or a person's pseudonym"),
        "kind": (STR, "model, human, encoder or gold"),
        "model": (STR, "for a model: its name on the hub, its folder, or local:NAME"),
        "family": (STR, "model family"),
        "revision": (STR, "commit or tag of the weights"),
        "dtype": (STR, "float32, bfloat16, …"),
        "engine": (STR, "the software that ran it"),
        "licence": (STR, "licence of the weights, from the configuration"),
        "country": (STR, "for a person"),
        "pool": (STR, "for a person: where they were recruited"),
        "experience": (STR, "for a person"),
    }, version=2),
    Table("assignments", ("rater", "place"), {
        "rater": (STR, "the rater who is shown it: raters.rater"),
        "place": (I32, "position in the rater's order, from 1"),
        "item_id": (STR, "the item that is shown"),
        "target": (STR, "the label to rate it against, empty if none"),
        "group": (STR, "the rater's group (country, pool, …), empty if none"),
        "role": (STR, "quota: a rater of the item; shared: shown to all raters of the group; auditor: rates it again; "
                      "not_drawn: nobody is shown it, but it could have been drawn; then rater and file are empty"),
        "audited": (BOOL, "whether it was drawn for the audit"),
        "file": (STR, "the file of tasks that contains it"),
        "batch": (I32, "the batch of tasks that it belongs to, from 1"),
        "probability": (F64, "with which the item was drawn in this and earlier batches; null without a draw"),
    }, version=2),
    Table("metrics", ("metric", "dims"), {
        "metric": (STR, "name of the metric"),
        "dims": (STR, "its dimensions as canonical JSON: {\"question\":\"sensitive\"}"),
        "definition": (STR, "one sentence, with its source"),
        "value": (F64, "null when undefined"),
        "low": (F64, "lower end of the interval"),
        "high": (F64, "upper end of the interval"),
        "interval_method": (STR, "method of the interval"),
        "n": (I64, "number of rows it is computed from"),
        "units": (I64, "number of independent units, such as pictures, that the interval rests on; null: n"),
        "coverage": (F64, "rated / asked"),
        "status": _STATUS,
        "reason": (STR, "the reason if it is undefined"),
    }),
]  # fmt: skip
TABLES: dict[str, Table] = {table.name: table for table in _ALL}
WRITTEN_BY: dict[str, tuple[str, ...]] = {  # the jobs that write a table, for messages
    "class_edges": ("terms",),
    "entities": ("terms",),
    "terms": ("terms",),
    "records": ("mine", "curate", "items", "candidates"),
    "images": ("fetch", "generate_images"),
    "texts": ("items", "kb", "prompts", "tric captions"),
    "nodes": ("kb",),
    "node_images": ("kb",),
    "items": ("items", "pairs", "link review", "generate_images", "tric items"),
    "embeddings": ("embed",),
    "neighbors": ("retrieve", "candidates", "tric rank"),
    "links": ("link", "link names"),
    "responses": ("generate",),
    "questions": ("questions",),
    "ratings": ("judge", "loglik", "zero_shot", "parse", "calibrate", "question_scores", "import_ratings"),
    "spans": ("mark_spans", "import_ratings"),
    "remarks": ("import_ratings",),
    "raters": ("import_ratings",),
    "assignments": ("annotate",),
    "metrics": ("report", "link evaluate", "tric rank", "tric rerank", "tric statistics"),
}


def table(name: str, *, dim: int | None = None) -> Table:
    """Return the table `name`; `dim` sets the length of the vectors of `embeddings`.

    Raises:
        TableError: there is no such table.
    """
    if name not in TABLES:
        raise TableError(f"no table {name!r}; must be one of {', '.join(TABLES)}")
    definition = TABLES[name]
    if dim is None or "embedding" not in definition.columns:
        return definition
    kind = pa.list_(pa.float16(), dim)
    columns = {**definition.columns, "embedding": (kind, definition.columns["embedding"][1])}
    return replace(definition, columns=columns)


def conform(batch: pa.Table, to: Table) -> pa.Table:
    """Cast `batch` to the schema of `to`, in its column order, and check the primary key inside the batch.

    Raises:
        TableError: names every unknown, missing, duplicate or mistyped column, a null in a key, or a duplicate key.
    """
    schema = to.schema()
    faults = []
    if unknown := [name for name in dict.fromkeys(batch.column_names) if name not in to.columns]:
        faults.append(f"unknown columns {', '.join(unknown)}")
    if missing := [name for name in to.columns if name not in batch.column_names]:
        faults.append(f"missing columns {', '.join(missing)}")
    if twice := sorted({name for name in batch.column_names if batch.column_names.count(name) > 1}):
        faults.append(f"duplicate columns {', '.join(twice)}")
    columns = {}
    for target in schema:
        if target.name in missing or target.name in twice:
            continue
        column = batch.column(target.name)
        try:
            columns[target.name] = column if column.type == target.type else column.cast(target.type)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            faults.append(f"column {target.name} is {column.type}, not {target.type} ({first_line(error)})")
    if faults:
        raise TableError(f"table {to.name}: " + "; ".join(faults))
    rows = pa.table([columns[target.name] for target in schema], schema=schema)
    _check_key(rows, to)
    return rows


def _check_key(batch: pa.Table, table: Table) -> None:
    if nulls := [name for name in table.key if batch.column(name).null_count]:
        raise TableError(f"table {table.name}: null in key column {', '.join(nulls)}")
    counts = batch.select(list(table.key)).group_by(list(table.key)).aggregate([([], "count_all")])
    duplicates = counts.filter(pc.greater(counts["count_all"], 1))
    if duplicates.num_rows:
        first = {name: duplicates[name][0].as_py() for name in table.key}
        raise TableError(f"table {table.name}: {duplicates.num_rows} duplicate keys, the first {first}")
