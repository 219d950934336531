"""Writer of a study for Label Studio: the labelling configuration and the tasks."""

from collections import Counter
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as Xml

from jobs.annotation import form as forms
from jobs.annotation.form import Form, FormQuestion, ShownItem
from jobs.annotation.questionnaire import ISSUE
from jobs.annotation.span_labels import SpanKind, SpanLabels
from jobs.annotation.tools import COMMENT, OWN, REMARK, REPORT, SHOW, WELFARE

INSTRUCTION = "task"  # the object that all controls except those of spans refer to; it is always visible
# The box unblurs a picture by style alone: Label Studio would measure a picture hidden by a condition while it is
# hidden, and then draw it at the size of a stamp. In a browser without :has(), the picture stays blurred.
# The style contains no `>`, since Label Studio does not unescape the `&gt;` of the XML.
STYLE = """
.remine-note * {font-size: 14px !important; font-weight: 400 !important; line-height: 1.4 !important;
  margin: 4px 0 !important;}
.remine-blurred {filter: blur(28px); pointer-events: none;}
.remine-sheet:has(.remine-show input:checked) .remine-blurred {filter: none; pointer-events: auto;}
@media (min-width: 1200px) {
  .remine-columns {display: flex; gap: 24px; align-items: flex-start;}
  .remine-look {flex: 1 1 50%; min-width: 0; position: sticky; top: 0; max-height: 85vh; overflow: hidden auto;}
  .remine-ask {flex: 1 1 50%; min-width: 0;}
}
"""
KEEP_LABEL = (
    'Turn on "Keep label selected after creating a region" in the settings of Label Studio: then you choose a label '
    "once for several spans."
)
# Fields of a task besides its pictures and texts. The form writes no condition, but `import_ratings` reads one.
FIELDS = (
    "item_id",
    "target",
    "condition",
    "rubric",
    "questions",
    "image_ids",
    "instruction_html",
    "place",
    "asks_issue",
    "assigned_to",
)
BOX_KEYS = {SHOW: ".", REPORT: "-", ISSUE: "l"}  # not in KEYBOARD


def check(form: Form) -> None:
    """Check that all parts of the form, and all fields of a task, have different names.

    Raises:
        ValueError: a text, a question or a kind of spans has a name that something else has.
    """
    roles, pictures = form.texts, [field_of(number) for number in range(form.pictures)]
    marked = [span_kind.name for span_kind in form.span_labels.kinds] if form.span_labels else []
    written = [f"{REMARK}{free_text.name}" for free_text in form.free_texts]
    parts = [INSTRUCTION, *WELFARE, *pictures, *roles, *(q.name for q in form.questions), *marked, *written]
    fields = [*FIELDS, OWN, *pictures, *roles, *(f"{role}_id" for role in roles)]
    if duplicates := [name for names in (parts, fields) for name, n in Counter(names).items() if n > 1]:
        raise ValueError(
            f"tool=label_studio: two parts of a task are called {duplicates[0]!r}; rename the role of the texts, the "
            "question or the kind of spans with this name"
        )


def config_xml(form: Form) -> str:
    """Return the labelling configuration as XML. In texts, `$` becomes full-width because it would begin a variable."""
    view = Xml.Element("View", className="remine-sheet")
    _add(view, "Style").text = STYLE
    for text in filter(None, [form.welfare.notice, form.instructions, form.welfare.skip_help]):
        _note(view, text)
    columns = _add(view, "View", className="remine-columns")
    look = _add(columns, "View", className="remine-look")
    _add(look, "HyperText", name=INSTRUCTION, value="$instruction_html", inline="true", clickableLinks="true")
    if form.asks_report:
        _box(look, REPORT, form.welfare.report, form.welfare.report_help)
    if form.pictures:
        _pictures(look, form)
    # A reported picture needs no answers.
    asked = _add(columns, "View", className="remine-ask", **_when_not_reported(form))
    for role in form.texts:
        if not form.span_labels or role not in [span_kind.text for span_kind in form.span_labels.kinds]:
            _header(asked, role, size="5")
            _add(asked, "Text", name=role, value=f"${role}")
    if form.asks_issue:
        _box(asked, ISSUE, form.welfare.issue, form.welfare.issue_help)
    if form.span_labels:
        _span_kinds(asked, form.span_labels)
    for question in form.questions:
        _question(asked, question)
        _free_texts(asked, form, question.name)
    if form.own_question:
        _own_questions(asked, form.own_question)
    _free_texts(asked, form, "")
    if form.welfare.comment:
        _text_area(asked, COMMENT, form.welfare.comment, "")
    Xml.indent(view)
    return Xml.tostring(view, encoding="unicode") + "\n"


def _when_not_reported(form: Form) -> dict[str, str]:
    if not form.asks_report:
        return {}
    return {"visibleWhen": "choice-unselected", "whenTagName": REPORT, "whenChoiceValue": _word(form.welfare.report)}


def _pictures(view: Xml.Element, form: Form) -> None:
    blurred = {"className": "remine-blurred"} if form.welfare.blur else {}
    if blurred:
        _box(_add(view, "View", className="remine-show"), SHOW, form.welfare.show, "")
    sheet = _add(view, "View", **blurred)
    for number in range(form.pictures):
        name = field_of(number)
        _add(sheet, "Image", name=name, value=f"${name}", zoom="true", zoomControl="true")


def field_of(number: int) -> str:
    """Return the field of a task that holds picture `number`, from 0: image, image_2, …"""
    return "image" if number == 0 else f"image_{number + 1}"


def _box(view: Xml.Element, name: str, label: str, help_: str) -> None:
    """Add a tick box without an alias, because conditions compare the choice's value."""
    choices = _add(view, "Choices", name=name, toName=INSTRUCTION, choice="multiple", showInline="true")
    _add(choices, "Choice", value=_word(label), hotkey=BOX_KEYS[name])
    if help_:
        _note(view, help_)


def _own_questions(view: Xml.Element, question: FormQuestion) -> None:
    """Add one control per question in the task's field `OWN`, without hotkeys, which would answer all of them."""
    options = tuple(option._replace(hotkey="") for option in question.options)
    repeated = _add(view, "Repeater", on=f"${OWN}", indexFlag="{{idx}}", mode="list")
    text = f"${OWN}[{{{{idx}}}}].text"
    _question(repeated, replace(question, name=f"{OWN}_{{{{idx}}}}", options=options), text=text)


def _question(view: Xml.Element, question: FormQuestion, *, text: str = "") -> None:
    """Add a question; `text` is the field of the task with its wording, if it differs by task."""
    if text:
        _add(view, "Header", value=text, size="4")
    else:
        _header(view, question.text, size="4")
    if question.guidance:
        _note(view, question.guidance)
    if question.examples:
        panel = _add(_add(view, "Collapse"), "Panel", value="Examples")
        if _shows_pictures(question):
            field = examples_field(question)
            _add(panel, "HyperText", name=field, value=f"${field}", inline="true")
        else:
            for example in question.examples:
                _note(panel, example.text)
    message = "A question is not answered yet" if text else f"Not answered yet: {_plain(question.text)}"
    missing = {"required": "true", "requiredMessage": message}
    choices = _add(
        view, "Choices", name=question.name, toName=INSTRUCTION, choice="single-radio", showInline="false", **missing
    )
    for option in question.options:
        extra = {"hotkey": option.hotkey} if option.hotkey else {}
        if option.colour:
            extra["style"] = f"border-left: 8px solid {option.colour}; padding-left: 8px"
        _add(choices, "Choice", value=_plain(option.label), alias=option.value, **extra)


def _shows_pictures(question: FormQuestion) -> bool:
    return any(example.image for example in question.examples)


def examples_field(question: FormQuestion) -> str:
    """Return the field of a task that holds a question's examples, if they have pictures."""
    return f"examples_{question.name}"


def _free_texts(view: Xml.Element, form: Form, question: str) -> None:
    """Add the fields that explain `question`; if it is empty, the fields about the item as a whole."""
    for free_text in form.free_texts:
        if free_text.question == question:
            _text_area(view, f"{REMARK}{free_text.name}", free_text.label, free_text.guidance)


def _text_area(view: Xml.Element, name: str, label: str, guidance: str) -> None:
    _header(view, label, size="5")
    if guidance:
        _note(view, guidance)
    _add(view, "TextArea", name=name, toName=INSTRUCTION, rows="2", maxSubmissions="1", editable="true")


def _span_kinds(view: Xml.Element, span_labels: SpanLabels) -> None:
    _note(view, KEEP_LABEL)
    for role in span_labels.in_reading_order(dict.fromkeys(span_kind.text for span_kind in span_labels.kinds)):
        for span_kind in span_labels.kinds:
            if span_kind.text == role:
                _span_kind(view, span_kind)


def _span_kind(view: Xml.Element, span_kind: SpanKind) -> None:
    _header(view, span_kind.title or span_kind.name, size="4")
    if span_kind.guidance:
        _note(view, span_kind.guidance)
    labels = _add(view, "Labels", name=span_kind.name, toName=span_kind.text, showInline="true")
    for label in span_kind.labels:
        looks = {"background": label.colour, "hotkey": label.hotkey, "hint": _plain(label.guidance)}
        extra = {key: value for key, value in looks.items() if value}
        _add(labels, "Label", value=_plain(label.label), alias=label.value, **extra)
    _add(view, "Text", name=span_kind.text, value=f"${span_kind.text}", saveTextResult="yes")


def _add(parent: Xml.Element, tag: str, **attributes: str) -> Xml.Element:
    return Xml.SubElement(parent, tag, attributes)


def _header(view: Xml.Element, text: str, *, size: str) -> None:
    _add(view, "Header", value=_plain(text), size=size)


def _note(view: Xml.Element, text: str) -> None:
    _add(_add(view, "View", className="remine-note"), "Header", value=_plain(text), size="6")


def _word(text: str) -> str:
    """Return a choice's value for use in a condition, where a comma would begin another value."""
    return _plain(text).replace(",", "\N{FULLWIDTH COMMA}")


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("$", "\N{FULLWIDTH DOLLAR SIGN}")


def task(form: Form, item: ShownItem, *, target: str, assigned_to: str | None, place: int) -> dict[str, Any]:
    """Return a task as Label Studio imports it; its data has the fields that `import_ratings` reads by name."""
    data: dict[str, Any] = {
        "item_id": item.item_id,
        "target": target,
        "rubric": form.rubric,
        "questions": [question.name for question in form.questions_of(item)],
        "image_ids": list(item.image_ids),
        "instruction_html": forms.instruction(item, target),
        "place": place,
        "asks_issue": form.asks_issue,
    }
    if assigned_to is not None:
        data["assigned_to"] = assigned_to
    if form.own_question and item.own_set:
        data[OWN] = [{"question_id": name, "text": text} for name, text in item.own_set.questions]
    data |= {field_of(number): address for number, address in enumerate(item.pictures)}
    for role, (text_id, text) in item.texts.items():
        data |= {role: text, f"{role}_id": text_id}
    data |= {examples_field(q): forms.examples(q) for q in form.questions if _shows_pictures(q)}
    return {"data": data}
