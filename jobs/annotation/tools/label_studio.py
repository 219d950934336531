"""Label Studio: the labelling configuration and the tasks, and the JSON export, a list of tasks with annotations.

Drafts and predictions in an export are ignored.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any
from xml.etree import ElementTree as Xml

import pyarrow as pa

from actors.untrusted import TooDeepError, cell_text
from jobs.annotation import batch_schemas
from jobs.annotation import form as forms
from jobs.annotation.form import Form, FormQuestion, ShownItem, picture_field
from jobs.annotation.questionnaire import ISSUE
from jobs.annotation.reading import OWN, REMARK, Reading
from jobs.annotation.span_labels import SpanKind, SpanLabels
from jobs.annotation.tool import (
    COMMENT,
    REPORT,
    SHOW,
    WELFARE,
    FinishedTask,
    PlacedItem,
    Tool,
    batches,
    rows_of,
)
from jobs.corpora import json_files
from jobs.errors import InputError
from jobs.store.writer import Reject, Rejects

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


# Keys of a result's value: what the person entered, by type of control; and the place of a region in a text or picture.
VALUES = ("choices", "rating", "number", "selected", "taxonomy", "datetime")
PLACE = frozenset(
    """
    start end text globalOffsets startOffset endOffset x y width height rotation points closed radiusX radiusY format
    rle original_width original_height image_rotation duration sequence framesCount
    """.split()
)
CHECKED_AFTER = 1000  # annotations; if none has an expected control by then, the export is another project's


def check(form: Form) -> None:
    """Check that all parts of the form, and all fields of a task, have different names.

    Raises:
        ValueError: a text, a question or a kind of spans has a name that something else has.
    """
    roles, pictures = form.texts, [picture_field(number) for number in range(form.pictures)]
    marked = [span_kind.name for span_kind in form.span_labels.kinds] if form.span_labels else []
    written = [f"{REMARK}{free_text.name}" for free_text in form.free_texts]
    parts = [INSTRUCTION, *WELFARE, *pictures, *roles, *(q.name for q in form.questions), *marked, *written]
    fields = [*FIELDS, OWN, *pictures, *roles, *(f"{role}_id" for role in roles)]
    if duplicates := [name for names in (parts, fields) for name, n in Counter(names).items() if n > 1]:
        why = (
            f"two parts of a task are called {duplicates[0]!r}; rename the role of the texts, the question "
            "or the kind of spans with this name"
        )
        raise InputError(why, key="tool", value="label_studio")


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
        name = picture_field(number)
        _add(sheet, "Image", name=name, value=f"${name}", zoom="true", zoomControl="true")


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


def task_files(form: Form, tasks: Sequence[PlacedItem]) -> dict[str, str]:
    """Return the file of some tasks."""
    labelled = [task(form, item, target=target, assigned_to=rater, place=place) for item, target, rater, place in tasks]
    return {"json": json.dumps(labelled, ensure_ascii=False, indent=1)}


def task(form: Form, item: ShownItem, *, target: str, assigned_to: str | None, place: int) -> dict[str, Any]:
    """Return a task as Label Studio imports it; its data has the fields that `import_ratings` reads by name."""
    form = form.of_task(target)
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
    data |= {picture_field(number): address for number, address in enumerate(item.pictures)}
    for role, (text_id, text) in item.texts.items():
        data |= {role: text, f"{role}_id": text_id}
    data |= {examples_field(q): forms.examples(q) for q in form.questions if _shows_pictures(q)}
    return {"data": data}


def read(uri: str, reading: Reading, reject: Rejects) -> Iterator[pa.Table]:
    """Yield the answers, spans or raters in `uri` in batches; anything else goes to `reject` with its task's number.

    Raises:
        InputError: not Label Studio's JSON export, or an export of another project.
    """
    yield from batches(_Export(uri, reading, reject).rows(), reading.table)


class _Export:
    """Converter of a file's annotations into rows, which counts their controls to detect another project's export."""

    def __init__(self, uri: str, reading: Reading, reject: Rejects) -> None:
        self._uri, self._reading, self._reject = uri, reading, reject
        self._uncommon: Counter[str] = Counter()
        self._expected: set[str] = set()
        self._matches = self._annotations = 0

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of all annotations."""
        for number, task in enumerate(islice(json_files.elements(self._uri), self._reading.limit), start=1):
            if not _is_task(task):
                is_deep = isinstance(task, TooDeepError)
                if number == 1 and not is_deep:
                    raise InputError(_mismatch(task), place=self._uri)
                message = f"the element is {task}" if is_deep else "the element has no data or no annotations"
                self._reject(Reject(self._uri, number, "not_a_task", message))
                continue
            for annotation in task.get("annotations", task.get("completions")):
                finished = self._finished(number, task, annotation)
                if finished is None:
                    continue
                self._check(enough=CHECKED_AFTER)
                yield from rows_of(self._uri, finished, self._reading, self._reject)
        self._check(enough=0)

    def _check(self, *, enough: int) -> None:
        """Raise InputError if no control was expected so far; before `enough` annotations, do nothing."""
        if self._matches or not self._uncommon or self._reading.table == "raters" or self._annotations < enough:
            return
        controls = ", ".join(name for name, _ in self._uncommon.most_common(8))
        raise InputError(
            f"another project's annotations: its controls are {controls}; expected are "
            f"{', '.join(sorted(self._expected)) or 'none'} (map them with columns.questions={{question: control}})",
            place=self._uri,
        )

    def _note(self, names: Iterable[str], of_questions: Iterable[str]) -> None:
        """Count the controls of one annotation; `of_questions` are the controls of the task's questions."""
        span_kinds = self._reading.span_labels.kinds if self._reading.span_labels else ()
        expected = {
            *of_questions,
            *(span_kind.name for span_kind in span_kinds),
            *(self._reading.text_control(free_text.name) for free_text in self._reading.free_texts),
        }
        self._expected |= expected
        self._annotations += 1
        self._matches += sum(name in expected for name in names)
        self._uncommon.update(name for name in names if name not in WELFARE and not name.startswith(REMARK))

    def _finished(self, number: int, task: Mapping[str, Any], annotation: Any) -> FinishedTask | None:
        """Return the work recorded in one annotation; None if it was rejected."""
        data, reading = task["data"], self._reading
        results = annotation.get("result") if isinstance(annotation, dict) else None
        if not isinstance(results, list):
            message = "the annotation has no list of results"
            self._reject(Reject(self._uri, number, "not_an_annotation", message))
            return None
        item = cell_text(reading.get(data, "item_id"))
        rater = cell_text(_rater(data, annotation, reading)) or reading.rater
        for name, value in (("item_id", item), ("rater", rater)):
            if value is None:
                fields = f"; its data has {', '.join(list(data)[:8])}" if name == "item_id" else ""
                message = f"task {task.get('id')} has no {name}{fields}"
                self._reject(Reject(self._uri, number, f"no_{name}", message))
                return None
        by_control: dict[str, list[Mapping[str, Any]]] = {}
        for result in results:
            value = result.get("value") if isinstance(result, dict) else result
            if isinstance(value, dict) and "from_name" in result:
                by_control.setdefault(str(result["from_name"]), []).append(value)
            elif value is not None:  # relations between regions have none
                self._reject(
                    Reject(self._uri, number, "not_a_result", "a result has no control, or no object as value")
                )
        controls = reading.controls_of(data)
        self._note(by_control, controls.values())
        has_issue_box = ISSUE in by_control or bool(data.get("asks_issue"))
        span_kinds = reading.span_labels.kinds if reading.span_labels else ()
        return FinishedTask(
            item_id=str(item),
            rater=str(rater),
            data=data,
            chosen={question: self._chosen(number, by_control, control) for question, control in controls.items()},
            texts={
                span_kind.text: (reading.get(data, span_kind.text), reading.get(data, f"{span_kind.text}_id"))
                for span_kind in span_kinds
            },
            marked={
                span_kind.name: [span for value in by_control.get(span_kind.name, ()) for span in _spans(value)]
                for span_kind in span_kinds
            },
            skipped=bool(annotation.get("was_cancelled")),
            reported=bool(self._chosen(number, by_control, REPORT)),
            issue=bool(self._chosen(number, by_control, ISSUE)) if has_issue_box else None,
            comment="\n".join(map(str, self._chosen(number, by_control, COMMENT))) or None,
            seconds=batch_schemas.duration(annotation.get("lead_time")),
            time=batch_schemas.moment(annotation.get("updated_at") or annotation.get("created_at")),
            position=number,
            number=self._annotations,
            written={
                free_text.name: "\n".join(
                    map(str, self._chosen(number, by_control, reading.text_control(free_text.name)))
                )
                for free_text in reading.free_texts
            },
        )

    def _chosen(self, number: int, by_control: Mapping[str, Sequence[Mapping[str, Any]]], control: str) -> list[Any]:
        """Return what the person entered in a control: choices, a rating, a number, paths of a taxonomy or texts.

        Raises:
            InputError: the control has values of a kind that is not read.
        """
        contents: list[Any] = []
        for value in by_control.get(control, ()):
            content = _content(value)
            if content is None:
                keys = ", ".join(key for key in value if key not in PLACE) or "a region without a label"
                raise InputError(
                    f"task {number}: control {control!r} has answers of a kind that is not read ({keys}); "
                    f"they must be {', '.join(VALUES)}, text or labels; leave it out of columns.questions=",
                    place=self._uri,
                )
            contents += content
        return contents


def _is_task(task: Any) -> bool:
    if not isinstance(task, dict) or not isinstance(task.get("data"), dict):
        return False
    return isinstance(task.get("annotations", task.get("completions")), list)


def _mismatch(task: Any) -> str:
    """Return a description of a file that does not begin with a task of the export."""
    if isinstance(task, dict) and "annotator" in task and "data" not in task:
        return "Label Studio's JSON-MIN export, which lacks required fields; export as JSON"
    if isinstance(task, dict):
        return (
            f"not Label Studio's JSON export: its first element has {', '.join(list(task)[:8])}, not data, annotations"
        )
    return f"not Label Studio's JSON export: its first element is {type(task).__name__}, not a task"


def _rater(data: Mapping[str, Any], annotation: Mapping[str, Any], reading: Reading) -> Any:
    if reading.rater_from == "assigned":
        return reading.get(data, "assigned_to")
    person = annotation.get("completed_by")
    if isinstance(person, dict):
        return next(
            (person[key] for key in ("email", "username", "id") if not batch_schemas.blank(person.get(key))), None
        )
    return person


def _content(value: Mapping[str, Any]) -> list[Any] | None:
    """Return the entries in the value of a result; None if they are of a kind that is not read."""
    key = next((name for name in (*VALUES, *filter(_names_labels, value)) if name in value), None)
    if key is None and value:
        is_typed = "text" in value and (isinstance(value["text"], list) or "start" not in value)  # not a region's text
        if not is_typed or value.keys() - PLACE:
            return None
    content = value.get(key or "text")
    entries = content if isinstance(content, list) else [content]
    if key == "taxonomy":
        entries = ["/".join(map(str, path)) if isinstance(path, list) else path for path in entries]
    if any(isinstance(entry, dict | list) for entry in entries):
        return None
    return [entry for entry in entries if not batch_schemas.blank(entry)]


def _names_labels(key: str) -> bool:
    """Return whether a key of a value has the labels of a region, as `labels` and `hypertextlabels` do."""
    return key.endswith("labels")


def _spans(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a region's span with each of its labels; without a label, one span."""
    labels = next((value[key] for key in filter(_names_labels, value) if value[key]), [None])
    span = {"start": value.get("start"), "end": value.get("end"), "text": value.get("text"), "in_browser": True}
    return [{**span, "label": label} for label in (labels if isinstance(labels, list) else [labels])]


TOOL = Tool(
    task_files=task_files,
    form_files=lambda form, kinds, per_task: {"config.xml": config_xml(form)},
    check=check,
    read=read,
    endings=(".json",),
    one_form=True,
)
