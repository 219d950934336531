"""A spreadsheet: a CSV with one row per question, which people fill in and `import_ratings` reads as any other CSV.

It reads the columns item_id, target, rater, question, value, comment, skipped and reported, and fields for free text,
by name. A spreadsheet program shows pictures as addresses: the page next to the sheet shows them, blurred if the study
asks for it.
"""

import csv
import html
import io
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from jobs.annotation import form as forms
from jobs.annotation.form import Form, ShownItem, picture_field
from jobs.annotation.tool import COMMENT, PlacedItem, Tool
from jobs.corpora.cell_texts import escape_cell
from jobs.errors import InputError

ABOUT, REPORTED, SKIPPED = "about", "reported", "skipped"
READ = (
    "target",
    "condition",
    "order",
    "sample",
    "seconds",
    "time",
    REPORTED,
)  # columns that `import_ratings` reads if present


def check(form: Form) -> None:
    """Check that a spreadsheet's rows can ask the form's questions.

    Raises:
        ValueError: people mark spans, or write free text about items with several questions, or a text has the name of
            a column with another meaning.
    """
    if form.span_labels:
        why = "people cannot mark spans in a spreadsheet"
        raise InputError(why, key="tool", value="spreadsheet", remedy="use label_studio or prodigy")
    if form.free_texts and (form.own_question or len(form.questions) != 1):
        names = ", ".join(free_text.name for free_text in form.free_texts)
        why = (
            f"the fields for free text ({names}) need a row per item, and each question has a row; choose "
            "one question (only_questions=), or use label_studio or prodigy"
        )
        raise InputError(why, key="tool", value="spreadsheet")
    texts = [*form.texts, *(free_text.name for free_text in form.free_texts)]
    duplicates = [name for name, n in Counter(header(form)).items() if n > 1]
    if wrong := [*duplicates, *(name for name in texts if name in READ)]:
        why = (
            f"a column {wrong[0]!r} has another meaning; rename the role of the texts, or the field for free "
            "text, with this name"
        )
        raise InputError(why, key="tool", value="spreadsheet")


def header(form: Form) -> list[str]:
    """Return the columns: what people read, what they fill in, and at the end the names that `import_ratings` reads."""
    pictures = [picture_field(number) for number in range(form.pictures)]
    target = ["target"] if any(question.about_target for question in form.questions) or form.own_question else []
    shown = ["place", *pictures, ABOUT, *form.texts, *target, "wording", "answers"]
    filled = ["value", *(free_text.name for free_text in form.free_texts), *([COMMENT] if form.welfare.comment else [])]
    return [*shown, *filled, SKIPPED, *([REPORTED] if form.asks_report else []), "question", "rater", "item_id"]


def rows(
    form: Form, item: ShownItem, *, target: str, assigned_to: str | None, place: int
) -> Iterator[dict[str, str | int]]:
    """Yield one row per question of a task, by column; those to fill in are missing."""
    shown: dict[str, str | int] = {picture_field(number): address for number, address in enumerate(item.pictures)}
    shown |= {role: escape_cell(text) for role, (_, text) in item.texts.items()}
    shown[ABOUT] = escape_cell("\n".join(f"{label}: {text}" for label, text in (*item.facts, *item.links)))
    if target:
        shown["target"] = target
    for question in form.of_task(target).questions_of(item):
        yield shown | {
            "place": place,
            "rater": assigned_to or "",
            "item_id": item.item_id,
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


_STYLE = f"""
body {{font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 1rem auto; padding: 0 1rem}}
section {{border-top: 1px solid #999; margin: 2rem 0}}
{forms.PICTURE_CSS}
.remine-picture {{max-height: 80vh}}
"""


def pictures_page(form: Form, tasks: Sequence[PlacedItem]) -> str:
    """Return a page with the pictures of a sheet under the places of their rows, each item once."""
    places: dict[str, list[int]] = defaultdict(list)
    items = {item.item_id: item for item, *_ in tasks}
    for item, _, _, place in tasks:
        places[item.item_id].append(place)
    notes = filter(None, [form.welfare.notice, form.instructions, form.welfare.skip_help])
    parts = [f"<p>{html.escape(note)}</p>" for note in notes]
    for item_id, item in items.items():
        numbers = ", ".join(map(str, sorted(places[item_id])))
        texts = "".join(f"<p>{html.escape(role)}: {html.escape(text)}</p>" for role, (_, text) in item.texts.items())
        shown = f"{forms.instruction(item, '')}{forms.pictures_html(form, item)}{texts}"
        parts.append(f"<section><h2>{numbers}</h2>{shown}</section>")
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>Pictures</title><style>{_STYLE}</style>\n'
        + "\n".join(parts)
        + "\n</html>\n"
    )


def task_files(form: Form, tasks: Sequence[PlacedItem]) -> dict[str, str]:
    """Return the files of some tasks: the sheet, and if there are pictures a page that shows them."""
    filled = [
        row
        for item, target, rater, place in tasks
        for row in rows(form, item, target=target, assigned_to=rater, place=place)
    ]
    page = {"html": pictures_page(form, tasks)} if form.pictures else {}
    return {"csv": as_csv(form, filled), **page}


def has_answers(uri: str, content: bytes) -> bool:
    """Return whether a sheet has an answer, a comment or a mark; one that a program changed beyond reading counts."""
    if not uri.endswith(".csv"):
        return False
    try:
        text = content.decode("utf-8-sig")
        rows = list(csv.DictReader(io.StringIO(text), delimiter=max(",;\t", key=text.partition("\n")[0].count)))
    except (UnicodeDecodeError, csv.Error):
        return True
    return any((row.get(name) or "").strip() for row in rows for name in ("value", COMMENT, SKIPPED, REPORTED))


TOOL = Tool(task_files=task_files, check=check, has_answers=has_answers)
