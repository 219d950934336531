"""What people see beside the things themselves: questions with options, notices, links. Free of any tool."""

import html
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from actors.vlm.rubric import Question, Rubric
from jobs.annotation.spans import SpanLabels

# Keys along the rows of the keyboard, without h and v, by which Label Studio pans and moves pictures.
KEYBOARD = ("1234567890", "qwertyuiop", "asdfgjk", "zxcbnm")
# From light to dark (viridis), so that a scale reads as one without saying that an end of it is bad.
SCALE_COLOURS = ("#fde725", "#90d743", "#35b779", "#21918c", "#31688e", "#443983", "#440154")
RESPONSE = "generated"  # the role of a text that a model wrote
_FIELD = re.compile(r"\{(\w+)\}")


@dataclass
class WelfareConfig:
    """What protects people; `conf/welfare/` has texts."""

    name: str = "none"
    blur: bool = True  # pictures are blurred until the person asks to see them
    notice: str = ""  # what people read before they begin
    show: str = "Show the picture"  # on the button over a blurred picture
    report: str = "Report this picture"  # empty: no such box
    report_help: str = ""  # below the box
    issue: str = "Something is wrong with this response"  # empty: no such box; only where there is a response
    issue_help: str = ""  # below the box
    comment: str = "Comment"  # empty: no such field
    skip_help: str = ""  # what is said of skipping
    links: list[dict[str, str]] = field(default_factory=list)  # label and url with {field}s


class Option(NamedTuple):
    """A choice: what is stored, what people read, its key and colour (either may be empty)."""

    value: str
    label: str
    hotkey: str
    colour: str


@dataclass(frozen=True)
class FormQuestion:
    """A question as people see it."""

    name: str
    text: str
    guidance: str
    options: tuple[Option, ...]
    examples: tuple[str, ...]


@dataclass(frozen=True)
class Form:
    """Everything that is the same for all tasks of a study."""

    rubric: str
    instructions: str
    questions: tuple[FormQuestion, ...]
    span_labels: SpanLabels | None
    welfare: WelfareConfig
    pictures: int  # how many pictures a task shows
    texts: tuple[str, ...]  # roles of the texts that a task shows

    @property
    def asks_issue(self) -> bool:
        """Whether people are asked if something is wrong with a model's response."""
        return bool(self.welfare.issue) and RESPONSE in self.texts

    @property
    def asks_report(self) -> bool:
        """Whether people can report a picture."""
        return bool(self.welfare.report) and self.pictures > 0


@dataclass(frozen=True)
class ShownItem:
    """One item as it is shown: addresses of its pictures, what is told about it, its texts by role as (id, text)."""

    item_id: str
    image_ids: tuple[str, ...]
    pictures: tuple[str, ...]
    about: tuple[tuple[str, str], ...]
    texts: Mapping[str, tuple[str, str]]
    links: tuple[tuple[str, str], ...]


def form(
    rubric: Rubric | None,
    *,
    questions: Sequence[str],
    span_labels: SpanLabels | None,
    welfare: WelfareConfig,
    pictures: int,
    texts: tuple[str, ...],
) -> Form:
    """The form of a rubric's people's variant: its questions, or those named in `questions`.

    Raises:
        ValueError: a question that people are not asked, or a link without label or with an unknown field.
    """
    check_links(welfare.links)
    asked: tuple[FormQuestion, ...] = ()
    if rubric:
        offered = _offered(rubric)
        if unknown := [name for name in questions if name not in offered]:
            raise ValueError(f"question {unknown[0]!r}: people are asked {', '.join(offered)} (rubric {rubric.name})")
        chosen = [name for name in offered if not questions or name in questions]
        asked = tuple(_asked(rubric, name) for name in chosen)
    told = rubric.people.instructions if rubric and rubric.people else ""
    return Form(
        rubric=rubric.name if rubric else "",
        instructions=" ".join(filter(None, [told, span_labels.instructions if span_labels else ""])),
        questions=_with_keys(
            asked,
            {label.hotkey for span_kind in (span_labels.kinds if span_labels else ()) for label in span_kind.labels},
        ),
        span_labels=span_labels,
        welfare=welfare,
        pictures=pictures,
        texts=texts,
    )


def _offered(rubric: Rubric) -> list[str]:
    people = rubric.people.questions if rubric.people else {}
    return [question.name for question in rubric.questions if not people or question.name in people]


def _asked(rubric: Rubric, name: str) -> FormQuestion:
    question = next(q for q in rubric.questions if q.name == name)
    people = rubric.people.questions.get(name) if rubric.people else None
    guidance = " ".join(filter(None, [question.note, people.guidance if people else ""]))
    if people is None:
        chosen = [(answer.value, answer.label, "", "") for answer in question.answers]
    else:  # an option that stands for no answer is stored as its own label
        chosen = [(o.label if o.value is None else o.value, o.label, o.hotkey, o.colour) for o in people.options]
    labels = {answer.value: answer.label for answer in question.answers}
    examples = [f"{e.picture}: {labels[e.value]}. {e.why}" for e in (people.examples if people else ())]
    options = [Option(value, label, key, colour or _colour(question, value)) for value, label, key, colour in chosen]
    return FormQuestion(name, question.text, guidance, tuple(options), tuple(examples))


def _colour(question: Question, value: str) -> str:
    values = [answer.value for answer in question.answers]
    if question.scale != "ordinal" or value not in values:
        return ""
    place = values.index(value) / max(1, len(values) - 1)
    return SCALE_COLOURS[round(place * (len(SCALE_COLOURS) - 1))]


def _with_keys(asked: Sequence[FormQuestion], taken: set[str]) -> tuple[FormQuestion, ...]:
    """`asked` with each key given to one option only: the rubric's own first, then what a row of the keyboard has left.

    A question whose options do not fit into a row has no keys.
    """
    own: list[list[str]] = []
    for question in asked:
        own.append([])
        for option in question.options:
            own[-1].append("" if option.hotkey in taken else option.hotkey)
            taken.add(option.hotkey)
    made = []
    for question, keys in zip(asked, own, strict=True):
        rows = ([key for key in row if key not in taken] for row in KEYBOARD)
        free = iter(next((row for row in rows if len(row) >= keys.count("")), ()))
        keys = [key or next(free, "") for key in keys]  # noqa: PLW2901
        taken |= set(keys)
        options = tuple(option._replace(hotkey=key) for option, key in zip(question.options, keys, strict=True))
        made.append(replace(question, options=options))
    return tuple(made)


def check_links(links: Sequence[Mapping[str, str]], fields: Sequence[str] = ()) -> None:
    """Refuse a link that is none.

    Raises:
        ValueError: see above.
    """
    for link in links:
        if set(link) != {"label", "url"}:
            raise ValueError(f"welfare.links: {dict(link)} must have label and url")
        if urlsplit(_FIELD.sub("", link["url"])).scheme not in ("http", "https", ""):
            raise ValueError(f"welfare.links: {link['url']!r} is no http or https address")
        if fields and (unknown := [f for f in _FIELD.findall(link["url"]) if f not in fields]):
            raise ValueError(f"welfare.links: {link['url']!r} uses {unknown[0]!r}; there are {', '.join(fields)}")


def links_of(links: Sequence[Mapping[str, str]], facts: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Label and address of each link whose fields `facts` fill; a link that is a field alone must be a web address."""
    made = []
    for link in links:
        fields = _FIELD.findall(link["url"])
        if not all(facts.get(name) for name in fields):
            continue
        if len(fields) == 1 and link["url"] == f"{{{fields[0]}}}":
            address = str(facts[fields[0]])
        else:
            address = _FIELD.sub(lambda found: quote(str(facts[found.group(1)]), safe=""), link["url"])
        if is_web(address):
            made.append((link["label"], address))
    return tuple(made)


def is_web(address: str | None) -> bool:
    """Whether a browser can open it and no credentials stand in it."""
    parts = urlsplit(address or "")
    return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None


def instruction(thing: ShownItem, target: str) -> str:
    """What stands beside the picture as HTML, everything escaped: target, facts, links."""
    parts = [f"<p><strong>{html.escape(target)}</strong></p>"] if target else []
    parts += [f"<p>{html.escape(label)}: {html.escape(text)}</p>" for label, text in thing.about]
    parts += [
        f'<p><a href="{html.escape(address, quote=True)}" target="_blank" rel="noopener noreferrer">'
        f"{html.escape(label)}</a></p>"
        for label, address in thing.links
    ]
    return "".join(parts) or "<p></p>"
