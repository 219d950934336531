"""A spreadsheet: a CSV with one row per question, which people fill in and `import_ratings` reads as any other CSV.

It reads the columns item_id, target, rater, question, value, comment, skipped and reported, and fields for free text,
by name.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from jobs.annotation.form import Form, ShownItem, picture_field
from jobs.annotation.tool import COMMENT, PlacedItem, Tool
from jobs.corpora.cell_texts import escape_cell

ABOUT, REPORTED, SKIPPED = "about", "reported", "skipped"
READ = ("condition", "order", "sample", "seconds", "time", REPORTED)  # columns that `import_ratings` reads if present


def check(form: Form) -> None:
    """Check that a spreadsheet's rows can ask the form's questions.

    Raises:
        ValueError: people mark spans, or write free text about items with several questions, or a text has the name of
            a column with another meaning.
    """
    if form.span_labels:
        raise ValueError("tool=spreadsheet: people cannot mark spans in a spreadsheet; use label_studio or prodigy")
    if form.free_texts and (form.own_question or len(form.questions) != 1):
        names = ", ".join(free_text.name for free_text in form.free_texts)
        raise ValueError(
            f"tool=spreadsheet: the fields for free text ({names}) need a row per item, and each question has a row; "
            "choose one question (only_questions=), or use label_studio or prodigy"
        )
    texts = [*form.texts, *(free_text.name for free_text in form.free_texts)]
    duplicates = [name for name, n in Counter(header(form)).items() if n > 1]
    if wrong := [*duplicates, *(name for name in texts if name in READ)]:
        raise ValueError(
            f"tool=spreadsheet: a column {wrong[0]!r} has another meaning; rename the role of the texts, or the field "
            "for free text, with this name"
        )


def header(form: Form) -> list[str]:
    """Return the columns: what people read, then what they fill in."""
    pictures = [picture_field(number) for number in range(form.pictures)]
    shown = ["place", "rater", "item_id", "target", "question", *pictures, ABOUT, *form.texts, "wording", "answers"]
    filled = ["value", *(free_text.name for free_text in form.free_texts), *([COMMENT] if form.welfare.comment else [])]
    return [*shown, *filled, SKIPPED, *([REPORTED] if form.asks_report else [])]


def rows(
    form: Form, item: ShownItem, *, target: str, assigned_to: str | None, place: int
) -> Iterator[dict[str, str | int]]:
    """Yield one row per question of an item, by column; those to fill in are missing."""
    shown: dict[str, str | int] = {picture_field(number): address for number, address in enumerate(item.pictures)}
    shown |= {role: escape_cell(text) for role, (_, text) in item.texts.items()}
    shown[ABOUT] = escape_cell("\n".join(f"{label}: {text}" for label, text in (*item.facts, *item.links)))
    for question in form.questions_of(item):
        yield shown | {
            "place": place,
            "rater": assigned_to or "",
            "item_id": item.item_id,
            "target": target,
            "question": question.name,
            "wording": escape_cell(" ".join(filter(None, [question.text, question.guidance]))),
            "answers": escape_cell(" / ".join(option.label for option in question.options)),
        }


def as_csv(form: Form, filled: Sequence[dict[str, Any]]) -> str:
    """Return the file with a byte-order mark, from which spreadsheet programs recognise UTF-8."""
    out = io.StringIO()
    writer = csv.DictWriter(out, header(form))
    writer.writeheader()
    writer.writerows(filled)
    return "\ufeff" + out.getvalue()


def task_files(form: Form, tasks: Sequence[PlacedItem]) -> dict[str, str]:
    """Return the file of some tasks."""
    filled = [
        row
        for item, target, rater, place in tasks
        for row in rows(form, item, target=target, assigned_to=rater, place=place)
    ]
    return {"csv": as_csv(form, filled)}


TOOL = Tool(task_files=task_files, check=check)
