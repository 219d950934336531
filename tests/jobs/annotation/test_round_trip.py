"""Round trip: write tasks, answer them in the tools' own export formats, and read the same answers again."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from actors.ids import content_id
from actors.rubrics.rubric import Rubric
from jobs.annotation import form as forms
from jobs.annotation import imported_rows
from jobs.annotation.form import Form, ShownItem, WelfareConfig
from jobs.annotation.questionnaire import rubric_questionnaire
from jobs.annotation.reading import Reading
from jobs.annotation.span_labels import SpanLabels
from jobs.annotation.tools import label_studio, prodigy
from jobs.runtime.configuration.config_files import CONF
from jobs.store.writer import Reject
from tests.jobs.annotation import tool_exports
from tests.jobs.annotation.tool_exports import Act

REFERENCE, GENERATED = "Ein Hund 🐕 am sandigen Strand.", "🐈🐈 A black otter & <i>two</i> cats by the ocean 🌊."
RATERS = ["anna@example.org", "p-07", "bo"]


def load(group: str, name: str) -> Any:
    return OmegaConf.to_container(OmegaConf.load(CONF / group / f"{name}.yaml"))


RUBRIC = Rubric.from_dict(load("rubric", "century_labels"))
SPAN_LABELS = SpanLabels.from_dict(load("span_labels", "mistakes_omissions"))
assert RUBRIC.people is not None
QUESTIONS = {name: [str(option.value) for option in asked.options] for name, asked in RUBRIC.people.questions.items()}
SCORES = {q.name: {answer.value: answer.score for answer in q.answers} for q in RUBRIC.questions}
LABELS = {span_kind.name: [label.label for label in span_kind.labels] for span_kind in SPAN_LABELS.kinds}
VALUES = {(m.name, label.label): label.value for m in SPAN_LABELS.kinds for label in m.labels}


def study() -> Form:
    welfare = WelfareConfig(**load("welfare", "century"))
    texts = ("generated", "reference")
    return forms.form(RUBRIC, questions=[], span_labels=SPAN_LABELS, welfare=welfare, pictures=1, texts=texts)


def shown_item(number: int) -> ShownItem:
    return ShownItem(
        item_id=content_id("item", str(number)),
        image_ids=(content_id("picture", str(number)),),
        pictures=(f"https://upload.example/{number}.jpg",),
        facts=(("page title", '<b>A "title" & more</b>'),),
        texts={"generated": (f"g{number}", GENERATED), "reference": (f"r{number}", REFERENCE)},
        links=(("Look it up", "https://en.wikipedia.org/w/index.php?search=a%26b"),),
    )


def spans(text: str, labels: list[str]) -> Any:
    """Distinct spans of `text`, each with a label."""
    place = st.tuples(st.integers(0, len(text) - 1), st.integers(1, len(text))).filter(lambda p: p[0] < p[1])
    return st.lists(st.tuples(place, st.sampled_from(labels)), max_size=3, unique_by=lambda s: s[0]).map(
        lambda spans: [(start, end, label) for (start, end), label in spans]
    )


acts = st.builds(
    Act,
    rater=st.sampled_from(RATERS),
    chosen=st.fixed_dictionaries({}, optional={q: st.sampled_from(values) for q, values in QUESTIONS.items()}),
    marked=st.fixed_dictionaries(
        {"mistakes": spans(GENERATED, LABELS["mistakes"]), "omissions": spans(REFERENCE, LABELS["omissions"])}
    ),
    skipped=st.booleans(),
    reported=st.booleans(),
    issue=st.booleans(),
    comment=st.none() | st.just("fine, I think\n– ok"),
    seconds=st.floats(1, 500),
)


def wanted_ratings(act: Act) -> dict[str, tuple[Any, ...]]:
    """Question -> (status, value, score), by the rules of docs/people.md."""
    wanted: dict[str, tuple[Any, ...]] = {}
    for question in QUESTIONS:
        value = act.chosen.get(question)
        if act.reported or act.skipped or value is None:
            wanted[question] = ("reported" if act.reported else "skipped", None, None)
        else:
            wanted[question] = ("ok", value, SCORES[question][value])
    ended = "reported" if act.reported else "skipped" if act.skipped else None
    issue = ("ok", "yes", None) if act.issue else (ended, None, None) if ended else ("ok", "no", None)
    return {**wanted, "response_issue": issue}


def wanted_spans(act: Act) -> set[tuple[Any, ...]]:
    """(kind, text_id's first letter, start, end, category, status)."""
    wanted: set[tuple[Any, ...]] = set()
    for span_kind in SPAN_LABELS.kinds:
        text = span_kind.text[0]
        if act.reported or act.skipped:
            wanted.add((span_kind.kind, text, 0, 0, None, "reported" if act.reported else "skipped"))
            continue
        marked: list[tuple[Any, ...]] = [
            (span_kind.kind, text, s, e, VALUES[span_kind.name, label], "ok")
            for s, e, label in act.marked[span_kind.name]
        ]
        wanted |= set(marked or [(span_kind.kind, text, 0, 0, None, "ok")])
    return wanted


def ratings_read(reader: Any, uri: Path) -> list[dict[str, Any]]:
    rejects: list[Reject] = []
    questionnaire = rubric_questionnaire(RUBRIC)
    reading = Reading(table="ratings", questionnaire=questionnaire, span_labels=SPAN_LABELS)
    batches = reader.read(str(uri), reading, rejects.append)
    ratings = [
        row
        for raw in batches
        for row in imported_rows.rating_rows(raw, questionnaire, method="human", condition="").to_pylist()
    ]
    assert rejects == []
    return ratings


def spans_read(reader: Any, uri: Path) -> list[dict[str, Any]]:
    rejects: list[Reject] = []
    reading = Reading(table="spans", span_labels=SPAN_LABELS)
    spans = [
        row
        for raw in reader.read(str(uri), reading, rejects.append)
        for row in imported_rows.span_rows(raw, method="human", condition="").to_pylist()
    ]
    assert rejects == []
    return spans


def by_person(table: list[dict[str, Any]], item: str, rater: str) -> list[dict[str, Any]]:
    return [row for row in table if row["item_id"] == item and row["rater"] == rater]


def spans_of(table: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    return {(row["kind"], row["text_id"][0], row["start"], row["end"], row["category"], row["status"]) for row in table}


def distinct(given_acts: list[list[Act]]) -> list[list[Act]]:
    """Return one act per person and task; repeated tasks have a separate test."""
    return [list({act.rater: act for act in done}.values()) for done in given_acts]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(done=st.lists(st.lists(acts, max_size=3), min_size=1, max_size=3).map(distinct))
def test_label_studio(tmp_path: Path, done: list[list[Act]]) -> None:
    form = study()
    tasks = [label_studio.task(form, shown_item(n), target="", assigned_to=None, place=n + 1) for n in range(len(done))]
    export = tmp_path / "export.json"
    export.write_text(json.dumps(tool_exports.label_studio(tasks, done), ensure_ascii=False), "utf-8")
    ratings, spans = ratings_read(label_studio, export), spans_read(label_studio, export)
    for number, of_task in enumerate(done):
        for act in of_task:
            item = content_id("item", str(number))
            mine = by_person(ratings, item, act.rater)
            assert {r["question"]: (r["status"], r["value"], r["score"]) for r in mine} == wanted_ratings(act)
            assert sum(r["seconds"] for r in mine) == pytest.approx(act.seconds)
            assert [r["comment"] for r in mine if r["comment"]] == ([act.comment] if act.comment else [])
            kept = {r["question"]: r["raw"] for r in mine if r["raw"]}
            assert kept == ({**act.chosen} if act.reported or act.skipped else {})
            assert spans_of(by_person(spans, item, act.rater)) == wanted_spans(act)
    assert len(ratings) == sum(map(len, done)) * (len(QUESTIONS) + 1)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(done=st.lists(st.lists(acts, max_size=3), min_size=1, max_size=3).map(distinct))
def test_prodigy(tmp_path: Path, done: list[list[Act]]) -> None:
    form = study()
    lines = []
    for number, of_task in enumerate(done):
        for act in of_task:
            tasks = prodigy.tasks(form, shown_item(number), target="", assigned_to=act.rater, place=1)
            lines += [tool_exports.prodigy(task, act, dataset="people", time=1_780_000_000) for task in tasks]
    if not lines:
        return
    out = tmp_path / "out.jsonl"
    out.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    ratings, spans = ratings_read(prodigy, out), spans_read(prodigy, out)
    for number, of_task in enumerate(done):
        for act in of_task:
            item = content_id("item", str(number))
            mine = by_person(ratings, item, act.rater)
            wanted = wanted_ratings(act)
            if (
                act.issue
            ):  # who says that the response is faulty chooses that instead of an answer to the first question
                first = next(iter(QUESTIONS))
                wanted[first] = ("reported" if act.reported else "skipped", None, None)
            if act.issue and act.reported:  # Prodigy keeps one of the two, and the report weighs more
                wanted["response_issue"] = ("reported", None, None)
            assert {r["question"]: (r["status"], r["value"], r["score"]) for r in mine} == wanted
            assert spans_of(by_person(spans, item, act.rater)) == wanted_spans(act)


def test_label_studios_old_offsets_in_utf_16_units_are_converted(tmp_path: Path) -> None:
    # Before 2021 its offsets counted UTF-16 units: the two cats take four of them.
    export = tool_exports.label_studio(
        [label_studio.task(study(), shown_item(0), target="", assigned_to=None, place=1)],
        [[Act("anna", marked={"mistakes": [(5, 10, "Wrong property")]})]],
    )
    value = next(r["value"] for r in export[0]["annotations"][0]["result"] if r["from_name"] == "mistakes")
    assert value["text"] == "black"
    value["start"], value["end"] = 7, 12
    (tmp_path / "old.json").write_text(json.dumps(export), "utf-8")
    mistakes = [row for row in spans_read(label_studio, tmp_path / "old.json") if row["kind"] == "mistake"]
    assert [(row["start"], row["end"]) for row in mistakes] == [(5, 10)]


def test_the_form_has_the_controls_of_rubric_and_welfare() -> None:
    form = study()
    view = Xml.fromstring(label_studio.config_xml(form))
    controls = {e.get("name"): e for e in view.iter() if e.tag in ("Choices", "Labels", "TextArea")}
    assert set(controls) == {*QUESTIONS, *LABELS, "report_picture", "show_picture", "response_issue", "comment"}
    objects = {e.get("name") for e in view.iter() if e.tag in ("Image", "Text", "HyperText")}
    assert all(control.get("toName") in objects for control in controls.values())
    sensitive = [(e.get("value"), e.get("alias"), bool(e.get("hotkey"))) for e in controls["sensitive"]]
    assert sensitive[0] == ("(1) Not at all sensitive", "1", True)
    assert not any(e.get("hotkey") for e in controls["sub_region"])  # more answers than a row has keys
    keys = [e.get("hotkey") for e in view.iter() if e.tag in ("Choice", "Label") and e.get("hotkey")]
    assert len(keys) == len(set(keys))
    blurred = next(e for e in view.iter("View") if e.get("className") == "remine-blurred")
    assert [e.get("name") for e in blurred] == ["image"]
    style = next(view.iter("Style")).text or ""
    assert ".remine-sheet:has(.remine-show input:checked) .remine-blurred {filter: none" in style
    assert ">" not in style  # Label Studio would read &gt;
    assert form.welfare.notice.split()[0] in next(view.iter("Header")).get("value", "")


@pytest.mark.parametrize("span_labels", [None, "docent"])
def test_each_text_is_shown_once_whether_it_is_marked_or_not(span_labels: str | None) -> None:
    marks = SpanLabels.from_dict(load("span_labels", span_labels)) if span_labels else None
    roles = ("article", "generated", "reference")
    form = forms.form(RUBRIC, questions=[], span_labels=marks, welfare=WelfareConfig(), pictures=1, texts=roles)
    view = Xml.fromstring(label_studio.config_xml(form))
    assert sorted(text.get("name", "") for text in view.iter("Text")) == list(roles)


def labels_of(name: str) -> list[tuple[str, ...]]:
    """Text, value, key and colour of each label in the order of Label Studio's form."""
    span_labels = SpanLabels.from_dict(load("span_labels", name))
    form = forms.form(
        None,
        questions=[],
        span_labels=span_labels,
        welfare=WelfareConfig(),
        pictures=1,
        texts=("generated", "reference"),
    )
    view = Xml.fromstring(label_studio.config_xml(form))
    return [
        (labels.get("toName", ""), *(label.get(key, "") for key in ("alias", "hotkey", "background")))
        for labels in view.iter("Labels")
        for label in labels
    ]


def test_the_correct_description_is_read_first_and_mistakes_are_marked_first() -> None:
    assert [(text, key) for text, _, key, _ in labels_of("mistakes_omissions")] == [
        ("reference", "5"), *[("generated", key) for key in "1234"]
    ]  # fmt: skip
    assert labels_of("docent") == [("reference", "missing", "2", "#1f77b4"), ("generated", "mistake", "1", "#d62728")]
    steps = list(prodigy.tasks(study(), shown_item(0), target="", assigned_to=None, place=1))
    assert [task["span_kind"] for task in steps if "span_kind" in task] == ["mistakes", "omissions"]
    page = steps[0]["html"]
    assert page.index("<blockquote>reference:") < page.index("<blockquote>generated:")


@pytest.mark.parametrize("texts", ["generated", {"generated": 1}, ["other"], [1], ["generated", "generated"]])
def test_an_order_of_texts_that_are_not_marked_is_refused(texts: object) -> None:
    with pytest.raises(ValueError, match="texts"):
        SpanLabels.from_dict({**load("span_labels", "mistakes_omissions"), "texts": texts})


def test_people_choose_the_nearest_sub_region_because_they_have_no_option_unsure() -> None:
    values = [answer.value for answer in next(q for q in RUBRIC.questions if q.name == "sub_region").answers]
    assert QUESTIONS["sub_region"] == values[:-1]
    assert values[-1] == "unsure"  # the models' list has it (Century, figure 5)


def test_examples_have_the_pictures_that_the_rubric_names() -> None:
    rubric = load("rubric", "century_labels")
    rubric["people"]["questions"]["sensitive"]["examples"][0]["image"] = 'https://i.example/"a.jpg'
    form = forms.form(
        Rubric.from_dict(rubric), questions=["sensitive", "controversial"], span_labels=None,
        welfare=WelfareConfig(), pictures=1, texts=(),
    )  # fmt: skip
    config = Xml.fromstring(label_studio.config_xml(form))
    panels = {panel[0].tag: len(panel) for panel in config.iter("Panel")}
    assert panels == {"HyperText": 1, "View": 3}  # the examples of `controversial` have no pictures
    data = label_studio.task(form, shown_item(0), target="", assigned_to=None, place=1)["data"]
    shown = next(e.get("value") for e in config.iter("HyperText") if e.get("name") == "examples_sensitive")
    sensitive, controversial = prodigy.tasks(form, shown_item(0), target="", assigned_to=None, place=1)
    for text in (data[(shown or "").removeprefix("$")], sensitive["html"]):
        assert '<img src="https://i.example/&quot;a.jpg"' in text
        assert "an achievement of space flight: Not at all sensitive." in text
    assert "examples_controversial" not in data
    assert "a feat of engineering" in controversial["html"]
    for address in ("javascript:alert(1)", "a.jpg", "https://user:key@i.example/a.jpg"):
        rubric["people"]["questions"]["sensitive"]["examples"][0]["image"] = address
        with pytest.raises(ValueError, match=r"image: .* must be an address"):
            Rubric.from_dict(rubric)


def test_nothing_from_data_becomes_markup() -> None:
    bad = ShownItem("i", ("p",), ('https://x/"><script>',), (("title", "<script>alert(1)</script>"),), {}, ())
    form = forms.form(RUBRIC, questions=["sensitive"], span_labels=None, welfare=WelfareConfig(), pictures=1, texts=())
    tasks: list[Mapping[str, Any]] = [*prodigy.tasks(form, bad, target="<i>", assigned_to=None, place=1)]
    instruction = label_studio.task(form, bad, target="<i>", assigned_to=None, place=1)["data"]["instruction_html"]
    for text in [instruction, *(task["html"] for task in tasks)]:
        assert "<script" not in text
        assert "<i>" not in text


def test_links_that_are_not_web_addresses_are_left_out() -> None:
    links = [{"label": "article", "url": "{page_url}"}, {"label": "look up", "url": "https://w/?q={page_title}"}]
    facts = {"page_url": "javascript:alert(1)", "page_title": "a&b c"}
    assert forms.links_of(links, facts) == (("look up", "https://w/?q=a%26b%20c"),)
    assert forms.links_of(links, {"page_title": None}) == ()
    with pytest.raises(ValueError, match=r"welfare\.links: url 'javascript"):
        forms.check_links([{"label": "x", "url": "javascript:{page_url}"}])
