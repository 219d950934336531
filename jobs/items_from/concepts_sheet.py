"""The CSV of concepts, which a person completes with pictures."""

import csv
import io
from collections.abc import Mapping, Sequence

from jobs.corpora import delimited
from jobs.corpora.cell_texts import TEXT_MARK, escape_cell
from jobs.errors import InputError
from jobs.items_from import concepts
from jobs.store.files import locations


def check_not_completed(sheet: str) -> None:
    """Check that writing the CSV does not lose a person's entries.

    Raises:
        InputError: it contains pictures, or has another form.
    """
    if not locations.exists(sheet):
        return
    try:
        dialect = delimited.read_dialect(sheet)
        unchanged = dialect.header == concepts.COLUMNS and not any(
            row["picture"].strip() for _, row in delimited.records(sheet, dialect, concepts.COLUMNS)
        )
    except InputError:  # another program has saved it in an unreadable form
        unchanged = False
    if not unchanged:
        raise InputError("has been edited, and a new sheet would overwrite it; use another out=", place=sheet)


def as_csv(rows: Sequence[Mapping[str, str]]) -> bytes:
    """Return the rows as CSV in UTF-8 with a byte-order mark, without which Excel garbles accents."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, concepts.COLUMNS)
    writer.writeheader()
    # A name that begins with the mark is not a formula, and remine items reads cells literally.
    writer.writerows(
        {key: cell if cell.startswith(TEXT_MARK) else escape_cell(cell) for key, cell in row.items()} for row in rows
    )
    return text.getvalue().encode("utf-8-sig")
