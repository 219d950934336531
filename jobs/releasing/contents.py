"""Write the files of a release from tables."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from actors.quantities import quantity
from jobs.errors import InputError, check_choice
from jobs.judging.kept_rubric import read_rubrics
from jobs.releasing import own_pictures, released_rows
from jobs.releasing.card import CardFacts
from jobs.releasing.released_files import Column, ReleasedFile, write_csv
from jobs.releasing.released_rows import Annotations, ReleasedPictures, read_annotations, subject_of_pictures
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.reading import TableSource

RESPONSES, RESPONSE_RATINGS, COMMENTS = INCLUDED = ("responses", "response_ratings", "comments")
# Value of `include` -> the tables that it needs.
NEEDED_TABLES = {RESPONSES: ("responses",), RESPONSE_RATINGS: ("ratings", "items")}
FILES = ("pictures", "search_terms", "annotations", RESPONSES, RESPONSE_RATINGS)  # all files that a release may contain
LABELLED = "the answers of one person or model about one {}"


@dataclass(frozen=True)
class ReleaseTables:
    """The tables of a release: `starter` and `images` are optional, and the other lists may be empty.

    Without `records`, the pictures are those of `items`. `listed_terms` are search terms from files, `columns` are
    attributes of items.
    """

    records: TableSource | None
    starter: TableSource | None
    images: TableSource | None
    terms: Sequence[TableSource]
    ratings: Sequence[TableSource]
    items: Sequence[TableSource]
    responses: Sequence[TableSource]
    listed_terms: Collection[str] = ()
    columns: Sequence[str] = ()

    @property
    def sources(self) -> list[TableSource]:
        """All tables."""
        optional = [source for source in (self.records, self.starter, self.images) if source]
        return [*optional, *self.terms, *self.ratings, *self.items, *self.responses]


@dataclass(frozen=True)
class Contents:
    """The files that were written, and their contents.

    Attributes:
        files: in the order of the card.
        pictures: the released pictures; annotations: of pictures.
        responses: number of responses that are not about a released picture.
    """

    files: list[ReleasedFile]
    pictures: ReleasedPictures
    annotations: Annotations
    responses: Counter[str]

    def facts(self, tables: ReleaseTables, include: Collection[str]) -> CardFacts:
        """Return the facts about the contents for the data card."""
        return CardFacts(
            pictures=len(self.pictures.rows),
            linked=sum(row["image_url"] is not None for row in self.pictures.rows.values()),
            licences=self.pictures.licences,
            is_sensitive=read_rubrics(tables.ratings).blur,
            people=len(self.annotations.people),
            models=sorted(self.annotations.models),
            left_out=_left_out(self.pictures, include),
            sources=[(source.name, source.identity) for source in tables.sources],
        )


def check_included(include: Collection[str], tables: Mapping[str, Sequence[str]]) -> None:
    """Check the values of `include`, and that the tables that they need are configured.

    Args:
        tables: key of the configuration -> its tables.

    Raises:
        InputError: an unknown value, or a value without the tables that it needs.
    """
    for name in include:
        check_choice("include", name, INCLUDED)
    for name, keys in NEEDED_TABLES.items():
        if name in include and (missing := [key for key in keys if not tables[key]]):
            raise InputError(f"needs {' and '.join(f'{key}=' for key in missing)}", key="include", value=name)


def write_contents(
    tables: ReleaseTables,
    folder: Path,
    *,
    include: Collection[str],
    pseudonym: Callable[[str], str],
    exclusion_filter: ExclusionFilter,
) -> Contents:
    """Write the CSV files below `folder`.

    Args:
        include: values of `INCLUDED`: what to write besides pictures, terms and annotations of pictures.
        pseudonym: replaces the name of a person.

    Raises:
        InputError: no picture is left to release.
    """
    if tables.records:
        chosen = released_rows.read_pictures(
            tables.records, starter=tables.starter, images=tables.images, exclusion_filter=exclusion_filter
        )
    else:
        chosen = own_pictures.read_pictures(
            tables.items, images=tables.images, columns=tables.columns, exclusion_filter=exclusion_filter
        )
    if not chosen.rows:
        counts = ", ".join(f"{n:,} {reason}" for reason, n in chosen.left_out.items()) or "it is empty"
        raise InputError(f"no picture to release ({counts})", key="records" if tables.records else "items")
    subjects = released_rows.Subjects(tables.items, chosen.rows)
    kept = read_rubrics(tables.ratings).by_name.values()
    texts = {(rubric.name, question.name): question.text for rubric in kept for question in rubric.questions}

    def annotations(about: Callable[[str], Mapping[str, str] | None], subject: Mapping[str, Column]) -> Annotations:
        return read_annotations(
            tables.ratings, about, subject=subject, pseudonym=pseudonym, comments=COMMENTS in include,
            question_texts=texts,
        )  # fmt: skip

    def picture(item: str) -> dict[str, str] | None:
        if tables.records:
            row = chosen.rows.get(item)
            return {"image_url": row["image_url"], "century_id": item} if row else None
        name = subjects.own_picture(item)
        return {"item_id": item, "file": chosen.rows[name]["file"], "century_id": name} if name else None

    files = [write_csv(folder, "pictures", "a picture", chosen.columns, chosen.rows.values())]
    if tables.terms or tables.listed_terms:
        rows = released_rows.read_terms(tables.terms, tables.listed_terms)
        files.append(write_csv(folder, "search_terms", "a search term", released_rows.TERM_COLUMNS, rows))
    of_pictures = annotations(picture, subject_of_pictures() if tables.records else own_pictures.SUBJECT)
    if of_pictures.rows:
        row_noun = LABELLED.format("picture")
        files.append(write_csv(folder, "annotations", row_noun, of_pictures.columns, of_pictures.rows))
    left_out = Counter[str]()
    if RESPONSES in include:
        answered = released_rows.read_responses(tables.responses, subjects, left_out)
        files.append(write_csv(folder, RESPONSES, "a response of a model", released_rows.RESPONSE_COLUMNS, answered))
    if RESPONSE_RATINGS in include:
        rated = annotations(subjects.rated_response, released_rows.RATED_RESPONSE)
        files.append(write_csv(folder, RESPONSE_RATINGS, LABELLED.format("response"), rated.columns, rated.rows))
    return Contents(files, chosen, of_pictures, left_out)


def _left_out(chosen: ReleasedPictures, include: Collection[str]) -> list[str]:
    """Return sentences about what the release does not include."""
    lines = ["Bytes of pictures."]
    if RESPONSES not in include:
        lines.append("Responses of models to the pictures.")
    if RESPONSE_RATINGS not in include:
        lines.append("Ratings of these responses.")
    if COMMENTS not in include:
        lines.append("Comments of people.")
    if excluded := chosen.left_out["excluded"]:
        lines.append(f"{quantity(excluded, 'picture')} that were reported or withdrawn.")
    return lines
