"""The released rows: annotations, pictures, search terms and, only on request, responses of models.

Annotations have one row per item and labeller, with a column per question, and people under pseudonyms. Pictures are
links with metadata, without bytes.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from actors.fetching.signed_urls import gives_access, without_secrets
from actors.status import Status
from jobs.annotation.century_annotations import ENDINGS, GOLD, METHOD, PERSON, QUESTIONS, RATER, SOURCE, STATUS, URL
from jobs.corpora.records import RELEASED_SPLITS, released_method
from jobs.releasing.released_files import Column
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.reading import TableSource

LABELLER = {
    METHOD: Column("human for people, else how the model answered"),
    SOURCE: Column("human, or the model with its revision"),
    RATER: Column("pseudonym of the person; empty for models"),
}
FURTHER = {  # written only if a row has a value
    "rating.rubric": Column("name of the rubric, if there are several"),
    "rating.target": Column("label that the item was rated against"),
    "rating.condition": Column("condition of the ratings"),
    "rating.order": Column("layout of the prompt, or order of presentation"),
    "rating.sample": Column("number of the sample, from 0", "integer"),
    "rating.comment": Column("comments of the person, one a line"),
}
ENDED_EACH = Column(
    "column=status of each answer that is not ok, separated by ;, an empty cell without one was not asked"
)
ENDED = Column("ok; reported or skipped by the person; refused, unparsed and so on if no question was answered")
_KEY = ("item_id", "target", "rubric", "rater", "method", "condition", "order", "sample")
_READ = (*_KEY, "question", "value", "status", "comment")


@dataclass
class Annotations:
    """Rows of annotations, sorted, and their columns.

    Attributes:
        columns: name -> column of the file.
        rows: one per item and labeller.
        left_out: reason -> number of ratings.
        people: pseudonyms; models: names.
        ratings: number of ratings in the rows.
    """

    columns: dict[str, Column]
    rows: list[dict[str, Any]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    people: set[str] = field(default_factory=set)
    models: set[str] = field(default_factory=set)
    ratings: int = 0


def read_annotations(
    sources: Sequence[TableSource],
    about: Callable[[str], Mapping[str, Any] | None],
    *,
    subject: Mapping[str, Column],
    pseudonym: Callable[[str], str],
    comments: bool,
    question_texts: Mapping[tuple[str, str], str],
) -> Annotations:
    """Return the annotations of the items that are released.

    Memory grows with the number of rows.

    Args:
        about: item_id -> values of the columns `subject`; None if the item is not released.
        subject: columns that identify what was rated.
        pseudonym: replaces the name of a person.
        comments: whether to keep people's comments.
        question_texts: (rubric, question) -> its text.
    """
    result = Annotations({})
    grouped: dict[tuple[Any, ...], dict[str, Any]] = {}
    comments_of: dict[tuple[Any, ...], dict[str, None]] = {}  # the same comment on several answers counts once
    questions: dict[str, Column] = {}
    for source in sources:
        for batch in source.batches(list(_READ)):
            for row in batch.to_pylist():
                subject_of = about(row["item_id"])
                if subject_of is None:
                    result.left_out["not about a released item"] += 1
                    continue
                column = column_of(row["question"])
                text = question_texts.get((row["rubric"], row["question"])) or f"answer to {row['question']}"
                questions.setdefault(column, Column(text))
                key = tuple(row[name] for name in _KEY)
                line = grouped.get(key)
                if line is None:
                    line = grouped[key] = {**subject_of, **_labeller(row, pseudonym, result), **_further(row)}
                    line[STATUS], comments_of[key] = {}, {}
                line[column] = row["value"] if row["status"] == Status.OK else None
                line[STATUS][column] = row["status"]
                if comments and row["comment"]:
                    comments_of[key].setdefault(row["comment"])
                    line["rating.comment"] = "\n".join(comments_of[key])
                result.ratings += 1
    for line in grouped.values():
        statuses = line[STATUS]
        line[STATUS] = _status(list(statuses.values()))
        not_ok = sorted((name, word) for name, word in statuses.items() if word != Status.OK)
        line[ENDINGS] = ";".join(f"{name}={word}" for name, word in not_ok) or None
    if len({line["rating.rubric"] for line in grouped.values()}) < 2:
        for line in grouped.values():
            line["rating.rubric"] = None
    if not any(line["rating.sample"] for line in grouped.values()):
        for line in grouped.values():
            line["rating.sample"] = None
    used = {name for line in grouped.values() for name, value in line.items() if value is not None}
    further = {name: column for name, column in FURTHER.items() if name in used}
    answers = {**_ordered(questions), STATUS: ENDED, ENDINGS: ENDED_EACH}
    result.columns = {**subject, **LABELLER, **further, **answers}
    result.rows = sorted(grouped.values(), key=lambda line: [str(line.get(name) or "") for name in result.columns])
    return result


def column_of(question: str) -> str:
    """Return the column of a question: for Century's labels as in its release, for others `rating.QUESTION`."""
    return QUESTIONS.get(question, f"rating.{question}")


def _ordered(questions: Mapping[str, Column]) -> dict[str, Column]:
    first = [column for column in QUESTIONS.values() if column in questions]
    return {name: questions[name] for name in (*first, *sorted(set(questions) - set(first)))}


def _labeller(row: Mapping[str, Any], pseudonym: Callable[[str], str], result: Annotations) -> dict[str, str]:
    if row["method"] in (PERSON, GOLD):  # gold ratings are people's too
        name = pseudonym(row["rater"])
        result.people.add(name)
        return {METHOD: row["method"], SOURCE: PERSON, RATER: name}
    result.models.add(row["rater"])
    return {METHOD: row["method"], SOURCE: row["rater"], RATER: ""}


def _further(row: Mapping[str, Any]) -> dict[str, Any]:
    texts = {f"rating.{name}": row[name] or None for name in ("rubric", "target", "condition", "order")}
    return {**texts, "rating.sample": row["sample"]}


def _status(statuses: Sequence[str]) -> str:
    """Return reported if the person did so, ok if any question was answered, else the first status, such as skipped."""
    for word in (Status.REPORTED.value, Status.OK.value):
        if word in statuses:
            return word
    return statuses[0]


def subject_of_pictures() -> dict[str, Column]:
    """Return the columns that identify the rated picture."""
    return {URL: Column("link to the picture", "url"), "century_id": Column("id of the picture")}


PICTURE_COLUMNS = {  # the first six as Century released them
    "image_url": Column("link to the picture", "url"),
    "wikipedia_url": Column("page that shows the picture", "url"),
    "wit_split": Column("split of WIT: train, validation or test; empty if unknown"),
    "century_method": Column("how the picture was found: with_knowledge_graph, with_foundation_model or "
                             "manually_curated; several, joined by a semicolon, if the set was not curated"),
    "is_starter_set": Column("whether the picture is in the starter set", "boolean"),
    "century_id": Column("id of the picture"),
    "page_title": Column("title of the page"),
    "author": Column("author of the picture according to its source; empty if unknown"),
    "licence": Column("licence of the picture according to its source; empty if unknown"),
}  # fmt: skip
TERM_COLUMNS = {"terms": Column("a search term for page titles")}


@dataclass
class ReleasedPictures:
    """The pictures of a release, sorted by id.

    Attributes:
        rows: id -> row of `pictures.csv`.
        columns: of `pictures.csv`.
        left_out: reason -> number of pictures.
    """

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    columns: Mapping[str, Column] = field(default_factory=lambda: PICTURE_COLUMNS)
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def licences(self) -> Counter[str]:
        """Licence -> number of pictures; empty if unknown."""
        return Counter(row["licence"] or "" for row in self.rows.values())


def read_pictures(
    records: TableSource, *, starter: TableSource | None, images: TableSource | None, exclusion_filter: ExclusionFilter
) -> ReleasedPictures:
    """Return the pictures of records that have a link, without excluded ones; the first of several records is used.

    Args:
        starter: the table of records of the starter set.
        images: the table with authors and licences.
    """
    in_starter = _ids(starter) if starter else None
    credits = credits_of(images) if images else {}
    pictures = ReleasedPictures()
    seen: set[str] = set()
    columns = ["image_id", "image_url", "page_url", "page_title", "split", "methods", "credited_method"]
    for batch in records.batches(columns):
        for row in batch.to_pylist():
            name, url = row["image_id"], row["image_url"]
            if name in seen:
                continue
            seen.add(name)
            if exclusion_filter.hit(name, url or ""):
                pictures.left_out["excluded"] += 1
            elif not (url or "").startswith(("http://", "https://")):
                pictures.left_out["without a link"] += 1
            elif is_private(url):
                pictures.left_out["with a link that contains credentials or a signature"] += 1
            else:
                author, licence = credits.get(name, (None, None))
                pictures.rows[name] = {
                    "image_url": url,
                    "wikipedia_url": without_secrets(row["page_url"] or "") or None,
                    "wit_split": RELEASED_SPLITS.get(row["split"] or "", row["split"]),
                    "century_method": released_method(row),
                    "is_starter_set": None if in_starter is None else name in in_starter,
                    "century_id": name,
                    "page_title": row["page_title"],
                    "author": author,
                    "licence": licence,
                }
    pictures.rows = dict(sorted(pictures.rows.items()))
    return pictures


def is_private(url: str) -> bool:
    """Return whether a link gives access to something, or cannot be read."""
    try:
        return gives_access(url)
    except ValueError:
        return True


def _ids(records: TableSource) -> set[str]:
    return {name for batch in records.batches(["image_id"]) for name in batch["image_id"].to_pylist()}


def credits_of(images: TableSource) -> dict[str, tuple[str | None, str | None]]:
    """Return author and licence by image_id, None where unknown."""
    credits: dict[str, tuple[str | None, str | None]] = {}
    for batch in images.batches(["image_id", "author", "licence"]):
        for row in batch.to_pylist():
            author, licence = (
                None if row[name] in (None, "", "unknown") else row[name] for name in ("author", "licence")
            )
            before = credits.get(row["image_id"], (None, None))
            credits[row["image_id"]] = (before[0] or author, before[1] or licence)
    return credits


def read_terms(sources: Sequence[TableSource], further: Collection[str]) -> Iterator[dict[str, str]]:
    """Yield the distinct search terms of tables and of `further`, sorted, as rows of `search_terms.csv`."""
    terms = set(further) | {
        term for source in sources for batch in source.batches(["term"]) for term in batch["term"].to_pylist()
    }
    yield from ({"terms": term} for term in sorted(terms))


RESPONSE_COLUMNS = {
    "response_id": Column("id of the response"),
    "century_id": Column("id of the picture that the model was asked about"),
    "response.model": Column("model and revision"),
    "response.prompt": Column("name of the prompt"),
    "response.condition": Column("experimental condition; empty if none"),
    "response.sample": Column("number of the sample, from 0", "integer"),
    "response.status": Column("ok, refused, truncated and so on"),
    "response.refusal_kind": Column("full, hedge, blocked or drop_event; empty if none"),
    "response.text": Column("the response"),
}
RATED_RESPONSE = {
    "response_id": Column("id of the response that was rated"),
    "century_id": Column("id of the picture that the response is about"),
}
_FACTS = [name.removeprefix("response.") for name in RESPONSE_COLUMNS if name.startswith("response.")]


class Subjects:
    """The subjects of items: their picture and their response.

    Args:
        items: tables of items.
        pictures: ids of the released pictures.
    """

    def __init__(self, items: Sequence[TableSource], pictures: Mapping[str, Any]) -> None:
        self._pictures = pictures
        self._of: dict[str, tuple[str | None, str | None]] = {}
        for source in items:
            for batch in source.batches(["item_id", "image_ids", "response_id"]):
                for row in batch.to_pylist():
                    picture = next((name for name in row["image_ids"] or () if name in pictures), None)
                    self._of[row["item_id"]] = (picture, row["response_id"])

    def picture(self, item: str) -> str | None:
        """Return the released picture that an item is or is about; None without one."""
        return item if item in self._pictures else self._of.get(item, (None, None))[0]

    def own_picture(self, item: str) -> str | None:
        """Return the released picture that an item shows; None for a response about one, or without one."""
        picture, response = self._of.get(item, (None, None))
        return picture if response is None else None

    def rated_response(self, item: str) -> dict[str, str] | None:
        """Return the columns `RATED_RESPONSE` of an item; None unless it is a response about a released
        picture."""
        picture, response = self._of.get(item, (None, None))
        return {"response_id": response, "century_id": picture} if picture and response else None


def read_responses(
    sources: Sequence[TableSource], subjects: Subjects, left_out: Counter[str]
) -> Iterator[dict[str, Any]]:
    """Yield the responses about released pictures as rows of `responses.csv`; count the others in `left_out`."""
    for source in sources:
        for batch in source.batches(["response_id", "item_id", *_FACTS]):
            for row in batch.to_pylist():
                if (picture := subjects.picture(row["item_id"])) is None:
                    left_out["not about a released picture"] += 1
                    continue
                rest = {f"response.{name}": row[name] for name in _FACTS}
                yield {"response_id": row["response_id"], "century_id": picture, **rest}
