"""Write a data set for publication: links to pictures, terms and annotations, with a data card -> CSV, README.md.

    remine release records=R/records ratings=[R/ratings/*,R/people] terms=[R/graph/terms] \\
        card.title='My pictures' card.licence=cc-by-4.0 key_file=key.txt out=R/release
    remine release items=[R/set/items] images=R/images ratings=[R/ratings/*] columns=[region] \\
        card.title='My pictures' card.licence=cc-by-4.0 out=R/release
    remine release records=R/records ratings=[R/ratings/*] responses=[R/responses/*] items=[R/items] \\
        include=[responses,response_ratings] card.licence=cc-by-4.0 out=R/release

By default the files contain what Century released: search terms, pictures as links with metadata, and annotations of
pictures. Responses, ratings of responses and people's comments are written only if they are in `include`. People have
pseudonyms, excluded pictures are left out, and there are no bytes of pictures. OUT/README.md starts with the metadata
that the Hugging Face Hub reads; OUT/croissant.json has the Croissant metadata.
"""

import sys
import tempfile
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from actors.quantities import quantity
from jobs.annotation.pseudonyms import PseudonymsOnDemand, read_key
from jobs.corpora.terms import is_file, read_phrases
from jobs.errors import InputError
from jobs.judging.rating_tables import open_ratings
from jobs.releasing import card, publishing
from jobs.releasing.card import CardSettings, croissant
from jobs.releasing.contents import Contents, ReleaseTables, check_included, write_contents
from jobs.releasing.publishing import CARD, METADATA, PushSettings
from jobs.releasing.released_files import ReleasedFile
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.planning import summary
from jobs.runtime.process.console import say
from jobs.runtime.selection import exclusions
from jobs.store.files import locations
from jobs.store.reading import open_table, open_tables


@dataclass
class ReleaseConfig:
    """Keys of `release`."""

    out: str = MISSING  # a separate folder or s3://bucket/prefix
    records: str | None = None  # table of the pictures; null: those of items=, which need no link
    starter: str | None = None  # records of the starter set (remine curate select=starter)
    images: str | None = None  # images table: authors and licences
    # tables, or globs, or .csv, .tsv, .txt and .parquet files: search terms
    terms: list[str] = field(default_factory=list)
    ratings: list[str] = field(default_factory=list)  # tables, or globs: annotations of pictures, and of responses
    # tables, or globs: the response and picture of each item, and without records= the pictures to release
    items: list[str] = field(default_factory=list)
    # without records=: attributes of items, which become columns of pictures.csv; image_url, page_title, author and
    # licence have these meanings
    columns: list[str] = field(default_factory=list)
    responses: list[str] = field(default_factory=list)  # tables, or globs; written only with include=[responses]
    include: list[str] = field(default_factory=list)  # of responses, response_ratings, comments
    card: CardSettings = field(default_factory=CardSettings)
    key_file: str | None = None  # file with the key of people's pseudonyms; null: $REMINE_RATER_KEY
    push: PushSettings = field(default_factory=PushSettings)  # publish it as a data set on the Hugging Face Hub
    overwrite: bool = False  # replace the files of an earlier release
    exclusions: str | None = None  # file of pictures that must not be released (jobs.runtime.selection.exclusions)


def execute(cfg: ReleaseConfig) -> list[ReleasedFile]:
    """Run the job and return the files that were written; see the module's docstring.

    Raises:
        InputError: a key has a value that is not allowed, a table cannot be read, people's ratings need a key of
            pseudonyms, no picture is left, or the folder has files.
    """
    check(cfg)
    tables = ReleaseTables(
        records=open_table(cfg.records, "records", key="records") if cfg.records else None,
        columns=cfg.columns,
        starter=open_table(cfg.starter, "records", key="starter") if cfg.starter else None,
        images=open_table(cfg.images, "images", key="images") if cfg.images else None,
        terms=open_tables([path for path in cfg.terms if not is_file(path)], "terms"),
        listed_terms={term for path in cfg.terms if is_file(path) for term in read_phrases(path)},
        ratings=open_ratings(cfg.ratings),
        items=open_tables(cfg.items, "items", key="items"),
        responses=open_tables(cfg.responses, "responses", key="responses"),
    )
    excluded = exclusions.read_exclusions(cfg.exclusions)
    exclusion_filter = exclusions.ExclusionFilter(excluded.marks)
    with tempfile.TemporaryDirectory(prefix="remine-") as name:
        folder = Path(name)
        contents = write_contents(
            tables,
            folder,
            include=cfg.include,
            pseudonym=PseudonymsOnDemand(cfg.key_file),
            exclusion_filter=exclusion_filter,
        )
        facts = contents.facts(tables, cfg.include)
        (folder / CARD).write_text(card.data_card(cfg.card, contents.files, facts), encoding="utf-8")
        (folder / METADATA).write_text(croissant(cfg.card, contents.files), encoding="utf-8")
        publishing.publish(folder, cfg.out)
        published = publishing.push(cfg.push, folder) if cfg.push.repo else None
    _show(cfg, contents)
    if published:
        say(f"  published: {published}")
    for line in summary.exclusion_lines(excluded, exclusion_filter.matched):
        say(line)
    return contents.files


def check(cfg: ReleaseConfig) -> None:
    """Validate the keys without reading tables.

    Raises:
        InputError: a key has a value that is not allowed, or the folder has files and `overwrite` is false.
    """
    if not cfg.records and not cfg.items:
        raise InputError("records= or items= is required: the pictures to release")
    if cfg.records and cfg.columns:
        raise InputError("only without records=, of the attributes of items=", key="columns", value=cfg.columns)
    card.check(cfg.card)
    if cfg.key_file:
        read_key(cfg.key_file)
    publishing.check_push(cfg.push)
    check_included(cfg.include, {"ratings": cfg.ratings, "items": cfg.items, "responses": cfg.responses})
    publishing.check_place(cfg.out, overwrite=cfg.overwrite)


def check_writers(cfg: ReleaseConfig, jobs: Collection[str]) -> None:
    """Check the key of people's pseudonyms before people are asked, if the release will have their ratings.

    Raises:
        InputError: there is no key.
    """
    if "import_ratings" in jobs:
        read_key(cfg.key_file)


def _show(cfg: ReleaseConfig, contents: Contents) -> None:
    """Print the numbers of rows, and of what was left out."""
    say(f"release: {locations.absolute(cfg.out)}")
    for file in contents.files:
        say(f"  {file.path}: {quantity(file.rows, 'row')}")
    for label, left_out in (
        ("pictures", contents.pictures.left_out),
        ("ratings", contents.annotations.left_out),
        ("responses", contents.responses),
    ):
        if counts := [f"{n:,} {reason}" for reason, n in left_out.items() if n]:
            say(f"  {label} left out: {', '.join(counts)}")
    if not cfg.records and cfg.items:
        pictures = contents.pictures.rows.values()
        missing = {name: sum(not row[name] for row in pictures) for name in ("author", "licence")}
        if unknown := [f"{name} of {quantity(n, 'picture')}" for name, n in missing.items() if n]:
            say(f"  unknown: {', '.join(unknown)}; columns author and licence of the table of pictures are released")
    if not cfg.images and cfg.records:
        say("  authors and licences are unknown; set images= to release them")


JOB = cli.Job("release", ReleaseConfig, execute, check=check, check_writers=check_writers)

if __name__ == "__main__":
    sys.exit(cli.main("release"))
