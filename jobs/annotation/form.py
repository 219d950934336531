"""The form of a study, independent of the annotation tool: questions with options, notices and links."""

import html
import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from actors.errors import FileError
from actors.fetching.signed_urls import gives_access
from actors.ids import content_id
from actors.rubrics.people import FreeText
from actors.rubrics.rubric import Rubric
from actors.rubrics.rubric_questions import ANY, Question
from jobs.annotation.span_labels import SpanLabels
from jobs.errors import InputError

# Keys by row of the keyboard, without h and v, which pan and move pictures in Label Studio.
KEYBOARD = ("1234567890", "qwertyuiop", "asdfgjk", "zxcbnm")
# From light to dark (viridis): shows a scale as ordered without marking either end as bad.
SCALE_COLOURS = ("#fde725", "#90d743", "#35b779", "#21918c", "#31688e", "#443983", "#440154")
RESPONSE = "generated"  # the role of a text that a model wrote
_FIELD = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class OwnSet:
    """The questions about one item: the id of their set, and (question_id, text) of each valid one."""

    set_id: str
    questions: tuple[tuple[str, str], ...]


@dataclass
class WelfareConfig:
    """Settings that protect the raters; `conf/welfare/` has texts."""

    name: str = "none"
    blur: bool = True  # pictures are blurred until the rater shows them
    notice: str = ""  # text above each task
    show: str = "Show the picture"  # label of the box that shows a blurred picture
    report: str = "Report this picture"  # label of a box; empty: no such box
    report_help: str = ""  # below the box
    issue: str = "Something is wrong with this response"  # empty: no such box; only for items with a response
    issue_help: str = ""  # below the box
    comment: str = "Comment"  # empty: no such field
    skip_help: str = ""  # text about skipping
    links: list[dict[str, str]] = field(default_factory=list)  # each with label and url, which may contain {field}


class Option(NamedTuple):
    """A choice: its stored value, the label shown to people, and its hotkey and colour (both may be empty)."""

    value: str
    label: str
    hotkey: str
    colour: str


@dataclass(frozen=True)
class FormExample:
    """A worked example as shown to people; `image` is the address of its picture, empty if there is none."""

    text: str
    image: str


@dataclass(frozen=True)
class FormQuestion:
    """A question as shown to people."""

    name: str
    text: str
    guidance: str
    options: tuple[Option, ...]
    examples: tuple[FormExample, ...]
    about_target: bool = False  # whether it is asked about a target


@dataclass(frozen=True)
class Form:
    """Everything that a study's tasks have in common."""

    rubric: str
    instructions: str
    questions: tuple[FormQuestion, ...]
    span_labels: SpanLabels | None
    welfare: WelfareConfig
    pictures: int  # how many pictures a task shows
    texts: tuple[str, ...]  # roles of the texts that a task shows
    free_texts: tuple[FreeText, ...] = ()  # fields in which people write
    own_question: FormQuestion | None = None  # placeholder for each item's own questions

    @property
    def asks_both(self) -> bool:
        """Whether some questions are asked about targets and others without, in tasks of their own."""
        return len({question.about_target for question in self.questions}) == 2

    def of_task(self, target: str) -> "Form":
        """Return the form with the questions of a task: those about its target, or those without a target."""
        if not self.asks_both:
            return self
        questions = tuple(question for question in self.questions if question.about_target == bool(target))
        names = {question.name for question in questions}
        free_texts = tuple(field for field in self.free_texts if not field.question or field.question in names)
        return replace(self, questions=questions, free_texts=free_texts)

    def questions_of(self, item: "ShownItem") -> list[FormQuestion]:
        """Return the questions about one item: the form's, then the item's own."""
        own_questions = item.own_set.questions if item.own_set else ()
        if not self.own_question:
            return [*self.questions]
        return [*self.questions, *(replace(self.own_question, name=name, text=text) for name, text in own_questions)]

    @property
    def asks_issue(self) -> bool:
        """Whether the form has a box for a faulty response."""
        return bool(self.welfare.issue) and RESPONSE in self.texts

    @property
    def asks_report(self) -> bool:
        """Whether the form has a box to report the picture."""
        return bool(self.welfare.report) and self.pictures > 0


@dataclass(frozen=True)
class ShownItem:
    """An item as shown to people.

    Attributes:
        pictures: web addresses, in the order of `image_ids`.
        facts: (label, text) from the columns of `show_columns=`.
        texts: (text_id, text) by role.
        links: (label, web address).
        own_set: the questions about this item alone.
    """

    item_id: str
    image_ids: tuple[str, ...]
    pictures: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    texts: Mapping[str, tuple[str, str]]
    links: tuple[tuple[str, str], ...]
    own_set: OwnSet | None = None


def form(
    rubric: Rubric | None,
    *,
    questions: Sequence[str],
    span_labels: SpanLabels | None,
    welfare: WelfareConfig,
    pictures: int,
    texts: tuple[str, ...],
) -> Form:
    """Return the form of a rubric's part `people`: its questions, or those named in `questions`.

    Args:
        pictures: number of pictures in a task.
        texts: roles of the texts in a task.

    Raises:
        ValueError: a question that people do not answer, a link without a label or with an unknown field, or span
            labels for a text that the items do not have.
    """
    check_links(welfare.links)
    for span_kind in span_labels.kinds if span_labels else ():
        if span_kind.text not in texts:
            why = (
                f"{span_kind.name} are marked in a text of role {span_kind.text!r}; "
                f"the items have {', '.join(texts) or 'no texts'}; set texts= to their table, or use other span_labels="
            )
            raise FileError(f"span_labels: {why}", "span_labels", why)
    asked: tuple[FormQuestion, ...] = ()
    own_question = None
    if rubric and rubric.asks_own_questions:
        own_question = _form_question(rubric, ANY)
    elif rubric:
        offered = offered_questions(rubric)
        if unknown := [name for name in questions if name not in offered]:
            raise InputError(
                f"must be one of {', '.join(offered)}, which rubric {rubric.name} asks people",
                key="only_questions",
                value=unknown[0],
            )
        chosen = [name for name in offered if not questions or name in questions]
        asked = tuple(_form_question(rubric, name) for name in chosen)
    instructions = rubric.people.instructions if rubric and rubric.people else ""
    return Form(
        rubric=rubric.name if rubric else "",
        instructions=" ".join(filter(None, [instructions, span_labels.instructions if span_labels else ""])),
        questions=_with_hotkeys(
            asked,
            {label.hotkey for span_kind in (span_labels.kinds if span_labels else ()) for label in span_kind.labels},
        ),
        span_labels=span_labels,
        welfare=welfare,
        pictures=pictures,
        texts=texts,
        free_texts=_free_texts(rubric, {question.name for question in asked}),
        own_question=own_question,
    )


def _free_texts(rubric: Rubric | None, asked: Set[str]) -> tuple[FreeText, ...]:
    """Return the rubric's fields for free text, except those that explain a question that is not asked."""
    offered = rubric.people.free_texts if rubric and rubric.people else ()
    return tuple(field for field in offered if not field.question or field.question in asked)


def offered_questions(rubric: Rubric) -> list[str]:
    """Return the names of the questions that people answer, in the order of the rubric's part `people`."""
    if rubric.people and rubric.people.questions:
        return list(rubric.people.questions)
    return [question.name for question in rubric.questions]


def _form_question(rubric: Rubric, name: str) -> FormQuestion:
    question = next(q for q in rubric.questions if q.name == name)
    people = rubric.people.questions.get(name) if rubric.people else None
    guidance = " ".join(filter(None, [question.note, people.guidance if people else ""]))
    if people is None:
        chosen = [(answer.value, answer.label, "", "") for answer in question.answers]
    else:  # an option that means "no answer" is stored under its label
        chosen = [(o.label if o.value is None else o.value, o.label, o.hotkey, o.colour) for o in people.options]
    labels = {answer.value: answer.label for answer in question.answers}
    examples = [
        FormExample(f"{e.picture}: {labels[e.value]}. {e.why}", e.image) for e in (people.examples if people else ())
    ]
    options = [Option(value, label, key, colour or _colour(question, value)) for value, label, key, colour in chosen]
    about_target = rubric.asks_targets and question.targets
    return FormQuestion(name, question.text, guidance, tuple(options), tuple(examples), about_target)


def _colour(question: Question, value: str) -> str:
    values = [answer.value for answer in question.answers]
    if question.scale != "ordinal" or value not in values:
        return ""
    fraction = values.index(value) / max(1, len(values) - 1)
    return SCALE_COLOURS[round(fraction * (len(SCALE_COLOURS) - 1))]


def _with_hotkeys(asked: Sequence[FormQuestion], taken: set[str]) -> tuple[FormQuestion, ...]:
    """Return `asked` with unique hotkeys: the rubric's, then for each question free keys in one row of the keyboard.

    A question with more options than a row has free keys gets none.
    """
    by_question: list[list[str]] = []
    for question in asked:
        by_question.append([])
        for option in question.options:
            by_question[-1].append("" if option.hotkey in taken else option.hotkey)
            taken.add(option.hotkey)
    questions = []
    for question, keys in zip(asked, by_question, strict=True):
        rows = ([key for key in row if key not in taken] for row in KEYBOARD)
        free = iter(next((row for row in rows if len(row) >= keys.count("")), ()))
        keys = [key or next(free, "") for key in keys]  # noqa: PLW2901
        taken |= set(keys)
        options = tuple(option._replace(hotkey=key) for option, key in zip(question.options, keys, strict=True))
        questions.append(replace(question, options=options))
    return tuple(questions)


def check_links(links: Sequence[Mapping[str, str]], fields: Sequence[str] = ()) -> None:
    """Check the links in a file of `conf/welfare/`; `fields` are the fields that a URL may contain; empty: any.

    Raises:
        ValueError: a link lacks a label or url, has a scheme other than http or https, or an unknown field.
    """
    for link in links:
        if set(link) != {"label", "url"}:
            raise InputError("must have the keys label and url", key="welfare.links", value=dict(link))
        if urlsplit(_FIELD.sub("", link["url"])).scheme not in ("http", "https", ""):
            raise ValueError(f"welfare.links: url {link['url']!r} must begin with http:// or https://")
        if fields and (unknown := [f for f in _FIELD.findall(link["url"]) if f not in fields]):
            raise ValueError(
                f"welfare.links: url {link['url']!r} uses {unknown[0]!r}; must be one of {', '.join(fields)}"
            )


def links_of(links: Sequence[Mapping[str, str]], facts: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return (label, address) of the links whose fields are in `facts` and whose addresses a browser can open."""
    filled = []
    for link in links:
        fields = _FIELD.findall(link["url"])
        if not all(facts.get(name) for name in fields):
            continue
        if len(fields) == 1 and link["url"] == f"{{{fields[0]}}}":
            address = str(facts[fields[0]])
        else:
            address = _FIELD.sub(lambda match: quote(str(facts[match.group(1)]), safe=""), link["url"])
        if is_web(address):
            filled.append((link["label"], address))
    return tuple(filled)


def is_web(address: str | None) -> bool:
    """Return whether a browser can open the address and it contains no credentials."""
    try:
        parts = urlsplit(address or "")
        return parts.scheme in ("http", "https") and bool(parts.hostname) and not gives_access(address or "")
    except ValueError:
        return False


def examples(question: FormQuestion) -> str:
    """Return the worked examples of a question as HTML, with all texts escaped and addresses quoted."""
    parts = []
    for example in question.examples:
        if example.image:
            address = html.escape(example.image, quote=True)
            parts.append(f'<p><img src="{address}" alt="" style="max-width: 100%; max-height: 240px"/></p>')
        parts.append(f"<p>{html.escape(example.text)}</p>")
    return "".join(parts)


def instruction(item: ShownItem, target: str) -> str:
    """Return an item's target, facts and links as HTML, with all texts escaped; without the id of its question set."""
    parts = [f"<p><strong>{html.escape(target)}</strong></p>"] if target and not item.own_set else []
    parts += [f"<p>{html.escape(label)}: {html.escape(text)}</p>" for label, text in item.facts]
    parts += [
        f'<p><a href="{html.escape(address, quote=True)}" target="_blank" rel="noopener noreferrer">'
        f"{html.escape(label)}</a></p>"
        for label, address in item.links
    ]
    return "".join(parts) or "<p></p>"


PICTURE_CSS = """
.remine-show {position: absolute; opacity: 0}
.remine-show + label {cursor: pointer; text-decoration: underline}
.remine-show:focus + label {outline: 2px solid}
.remine-blurred {filter: blur(28px)}
.remine-show:checked ~ .remine-blurred {filter: none}
.remine-picture {max-width: 100%}
"""


def pictures_html(form: Form, item: ShownItem) -> str:
    """Return an item's pictures as HTML without scripts; `PICTURE_CSS` blurs them until the rater clicks the label."""
    if not item.pictures:
        return ""
    blurred = " remine-blurred" if form.welfare.blur else ""
    shown = "".join(
        f'<img class="remine-picture{blurred}" src="{html.escape(address, quote=True)}" alt=""/>'
        for address in item.pictures
    )
    box = f"show-{content_id(item.item_id)[:12]}"
    switch = (
        f'<input type="checkbox" class="remine-show" id="{box}"/>'
        f'<label for="{box}">{html.escape(form.welfare.show)}</label><br/>'
    )
    return f"<div>{switch if blurred else ''}{shown}</div>"


def picture_field(number: int) -> str:
    """Return the field of a task that holds picture `number`, from 0: image, image_2, …"""
    return "image" if number == 0 else f"image_{number + 1}"
