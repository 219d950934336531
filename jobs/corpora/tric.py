"""Reader of a split of TRIC, the temporal image caption retrieval challenge, in its released form.

Each line of `in.tsv` has a picture's file name and the date of its newspaper, each line of `captions.tsv` an index and
a caption (newlines are written as backslash n). If the answers are public, each line of `expected.tsv` has the index of
the correct caption.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from jobs.errors import InputError
from jobs.store.files import locations

TEMPLATES = ("none", "year", "decade")  # how a caption mentions the date
DATES = ("none", "year", "decade", "day")  # how a judge's prompt mentions the date
SPLITS = ("train", "train2", "dev-0", "test-A", "test-B")  # folders of the release, in the order of table I
ANSWERS = 100  # captions per line of the challenge's output, whose header has this many columns
# Table II of the paper: submitter, and its model if the paper names one, MRR on test-A and on test-B.
PUBLISHED = (
    ("Kaszuba (EVA02_CLIP_E_psz14_plus_s9B)", 0.6059, 0.3444),
    ("s478846", 0.5529, 0.33850),
    ("Serba", 0.3506, 0.2283),
    ("transformer baseline (clip-ViT-B-32)", 0.2697, 0.1710),
    ("Szyszk", 0.0887, 0.0621),
    ("random baseline", 0.0513, 0.0193),
    ("s478855", 0.0514, 0.0137),
)


@dataclass(frozen=True)
class Split:
    """A split: pictures and dates in the order of in.tsv, captions by index, and the correct indices if public."""

    pictures: tuple[str, ...]
    dates: tuple[date, ...]
    captions: dict[str, str]
    expected: tuple[str, ...] | None


def read_split(folder: str) -> Split:
    """Read the split in `folder`.

    Raises:
        InputError: a file is missing or invalid; the message names the file and line.
    """
    pictures, dates = [], []
    for number, (name, day) in _rows(folder, "in.tsv", 2):
        pictures.append(name)
        try:
            dates.append(date.fromisoformat(day))
        except ValueError as error:
            raise InputError(f"{day!r} is not a date (YYYY-MM-DD)", place=f"{folder}/in.tsv line {number}") from error
    if len(set(pictures)) < len(pictures):
        raise InputError("duplicate picture; each picture must have one line", place=f"{folder}/in.tsv")
    captions: dict[str, str] = {}
    for number, (index, text) in _rows(folder, "captions.tsv", 2):
        if captions.setdefault(index, text.replace("\\n", "\n")) != text.replace("\\n", "\n"):
            raise InputError(
                f"duplicate index {index}; each caption must have its own", place=f"{folder}/captions.tsv line {number}"
            )
    if not pictures or not captions:
        raise InputError("no picture or no caption; in.tsv and captions.tsv must each have a line", place=folder)
    expected = None
    if "expected.tsv" in {o.uri.rsplit("/", 1)[-1] for o in locations.find(folder)}:
        expected = tuple(row[0] for _, row in _rows(folder, "expected.tsv", 1))
        if len(expected) != len(pictures):
            raise InputError(
                f"{len(expected)} lines for {len(pictures)} pictures; must be one per picture",
                place=f"{folder}/expected.tsv",
            )
        if unknown := next((index for index in expected if index not in captions), None):
            raise InputError(
                f"index {unknown} is not in captions.tsv; it must be one of those", place=f"{folder}/expected.tsv"
            )
    return Split(tuple(pictures), tuple(dates), captions, expected)


def bucket(day: date, template: str) -> str:
    """Return the part of a date that the template contains: nothing, the year, or the decade's first year."""
    return {"none": "", "year": f"{day.year}", "decade": f"{day.year // 10 * 10}"}[template]


def decade(day: date) -> str:
    """Return the decade as text, such as 1890s."""
    return f"{day.year // 10 * 10}s"


def worded_date(day: date, template: str) -> str:
    """Return a date as worded in a prompt: nothing, 1894, the 1890s, or 13 July 1894.

    Args:
        template: one of `DATES`.
    """
    return {"none": "", "year": f"{day.year}", "decade": f"the {decade(day)}", "day": f"{day.day} {day:%B %Y}"}[
        template
    ]


def answer_lines(ranked: Sequence[Sequence[str]]) -> str:
    """Return the challenge's output: for each picture, a line of tab-separated indices of its captions, best first."""
    return "".join("\t".join(captions[:ANSWERS]) + "\n" for captions in ranked)


def _rows(folder: str, name: str, columns: int) -> list[tuple[int, list[str]]]:
    """Return line number and columns of each non-empty line."""
    uri = locations.join(folder, name)
    locations.find(uri)
    try:
        text = locations.read_bytes(uri).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 (byte {error.start}); save the file as UTF-8", place=uri) from error
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        row = line.rstrip("\r").split("\t")
        if len(row) != columns:
            raise InputError(f"{len(row)} columns; {columns} are required", place=f"{uri} line {number}")
        if empty := [column for column, value in enumerate(row, 1) if not value.strip()]:
            raise InputError(
                f"column {empty[0]} is empty; every column must have a value", place=f"{uri} line {number}"
            )
        rows.append((number, row))
    return rows
