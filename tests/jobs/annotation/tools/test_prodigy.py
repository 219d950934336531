"""Lines of `prodigy db-out`: which are read, who answered, and which are rejected."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from actors.rubrics.people import FreeText
from actors.rubrics.rubric import Rubric
from jobs.annotation import form as forms
from jobs.annotation.form import Form, ShownItem, WelfareConfig
from jobs.annotation.questionnaire import ISSUE, list_questionnaire, rubric_questionnaire
from jobs.annotation.reading import Reading
from jobs.annotation.span_labels import SpanLabels
from jobs.annotation.tools import prodigy
from jobs.errors import InputError
from jobs.runtime.configuration.config_files import CONF
from jobs.store.writer import Reject
from tests.cases import check_cases


def line(**fields: Any) -> dict[str, Any]:
    return {"item_id": "i", "question": "q", "answer": "accept", "accept": ["1"], "_annotator_id": "anna", **fields}


def read(folder: Path, lines: list[dict[str, Any]], **reading: Any) -> tuple[list[dict[str, Any]], list[Any]]:
    path = folder / "out.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    rejects: list[Reject] = []
    batches = prodigy.read(str(path), Reading(**{"table": "ratings", **reading}), rejects.append)
    return [row for batch in batches for row in batch.to_pylist()], [(r.position, r.reason) for r in rejects]


def test_lines_after_a_rejected_one_are_read(tmp_path: Path) -> None:
    lines = [
        line(item_id="a"),
        {**line(item_id="no"), "answer": None},
        line(item_id=" "),
        line(item_id="no", _annotator_id=None),
        line(item_id="b", _annotator_id=None, _session_id="data-bo"),
        line(item_id="c", assigned_to="cy", _annotator_id="data-cy"),
        line(item_id="d", assigned_to="cy", _annotator_id="data-bo"),
        line(item_id="e", accept="4", _timestamp=12),
        line(item_id="f", answer="ignore"),
    ]
    rows, rejects = read(tmp_path, lines)
    assert [(row["item_id"], row["rater"]) for row in rows] == [
        ("a", "anna"), ("b", "data-bo"), ("c", "cy"), ("d", "data-bo"), ("e", "anna"), ("f", "anna")
    ]  # fmt: skip
    assert rejects == [(2, "no_answer"), (3, "no_item_id"), (4, "no_rater")]
    assert [(row["answer"], row["status"], row["time"]) for row in rows[-2:]] == [
        ("4", None, 12.0), (rows[-1]["answer"], "skipped", None)
    ]  # fmt: skip
    assert [row["item_id"] for row in read(tmp_path, lines, limit=5)[0]] == ["a", "b"]
    unusual = [
        line(_annotator_id=7, assigned_to="7"), line(_annotator_id="data-", assigned_to=""),
        line(_annotator_id="data-5", assigned_to=5), line(_timestamp="noon"), line(_timestamp=[1]),
    ]  # fmt: skip
    rows, rejects = read(tmp_path, unusual)
    assert ([row["rater"] for row in rows], rejects) == (["7", "data-", "data-5", "anna", "anna"], [])
    assert [row["time"] for row in rows] == [None] * 5
    raters, _ = read(tmp_path, [lines[0], lines[5], lines[6]], table="raters", rater_from="assigned")
    assert [row["rater"] for row in raters] == ["cy", "cy"]


def test_what_prodigy_does_not_write_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not what `prodigy db-out` writes: line 1 has item_id, but no answer"):
        read(tmp_path, [{"item_id": "i"}])
    with pytest.raises(InputError, match="line 1 has no question; set question=NAME"):
        read(tmp_path, [line(question=None)])
    assert len(read(tmp_path, [line(question=None)], question="q")[0]) == 1
    with pytest.raises(InputError, match="line 1 has a, b, c, d, e, f, g, h, but no answer"):
        read(tmp_path, [dict.fromkeys("abcdefghi", 1)])


@pytest.mark.parametrize("private", [False, True])
def test_private_lines_stay_out_of_rejects(tmp_path: Path, private: bool) -> None:
    path = tmp_path / "out.jsonl"
    path.write_text(f"{json.dumps(line())}\nanna@x.example\n")
    rejects: list[Reject] = []
    assert [batch.num_rows for batch in prodigy.read(str(path), Reading("ratings", private=private),
                                                     rejects.append)] == [1]  # fmt: skip
    assert [(reject.position, reject.raw) for reject in rejects] == [(2, "" if private else "anna@x.example")]


def test_spans_without_whole_numbers_or_outside_of_the_text_are_rejected(tmp_path: Path) -> None:
    ends = [(0, 1), (0, None), (None, 1), (0.5, 1), (-1, 1), (1, 1), (0, 7), (0, 6)]
    lines = [
        {"item_id": f"i{number}", "answer": "accept", "_annotator_id": "anna", "span_kind": "mistakes",
         "text": "A dog.", "text_id": "t", "spans": [{"start": start, "end": end, "label": "mistake"}]}
        for number, (start, end) in enumerate(ends)
    ]  # fmt: skip
    rows, rejects = read(tmp_path, lines, table="spans", span_labels=docent())
    assert [(row["start"], row["end"], row["text_id"]) for row in rows] == [(0, 1, "t"), (0, 6, "t")]
    assert rejects == [*((n, "bad_span") for n in (2, 3, 4)), *((n, "span_outside_text") for n in (5, 6, 7))]


def docent() -> SpanLabels:
    settings: Any = OmegaConf.to_container(OmegaConf.load(CONF / "span_labels" / "docent.yaml"))
    return SpanLabels.from_dict(settings)


def test_a_kind_of_spans_whose_text_the_item_lacks_has_no_task() -> None:
    form = forms.form(
        None, questions=[], span_labels=docent(), welfare=WelfareConfig(), pictures=0, texts=("generated", "reference")
    )
    for role in ("generated", "reference"):
        item = ShownItem("i", (), (), (), {role: ("t", "A dog.")}, (), None)
        tasks = prodigy.tasks(form, item, target="", assigned_to=None, place=1)
        assert [(task["text_id"], task["text"]) for task in tasks] == [("t", "A dog.")]


SPAN_LABELS = SpanLabels.from_dict({"name": "s", "kinds": [
    {"name": "slips", "kind": "slip", "text": "generated", "title": "A & B", "guidance": "Mark each.", "labels": [
        {"value": "swap", "label": "Mix-up", "colour": "#d62728", "hotkey": "1", "guidance": "Two things."},
        {"value": "other", "label": "Else"},
    ]},
    {"name": "gaps", "kind": "gap", "text": "reference", "labels": [{"value": "gap", "label": "Gap", "hotkey": "2"}]},
]})  # fmt: skip
RUBRIC = Rubric.from_dict({"name": "mood", "questions": [
    {"name": "tone", "text": "Tone & mood?", "scale": "ordinal", "answers": [
        {"value": "1", "label": "low", "score": 1}, {"value": "2", "label": "high", "score": 2},
    ]},
    {"name": "clear", "text": "Clear?", "scale": "nominal", "answers": ["yes", "no"], "note": "As a <whole>."},
], "people": {
    "questions": {
        "tone": {"options": [{"label": "low", "value": "1"}, {"label": "high", "value": "2"}]},
        "clear": {"options": [{"label": word, "value": word} for word in ("yes", "no")], "examples": [
            {"picture": "A cup", "value": "yes", "why": "It is one."},
        ]},
    },
    "free_texts": [{"name": "why", "label": "Why?", "guidance": "Briefly."}],
}})  # fmt: skip


def study(**keys: Any) -> Form:
    keys = {"questions": [], "span_labels": SPAN_LABELS, "welfare": WelfareConfig(), "pictures": 1, **keys}
    return forms.form(RUBRIC, texts=("generated", "reference"), **keys)


def test_settings_name_the_labels_of_spans_and_the_people_per_task() -> None:
    settings = prodigy.settings(study(), prodigy.SPANS, per_task=None)
    spans = next(block for block in settings["blocks"] if block["view_id"] == "spans_manual")
    assert spans["labels"] == ["swap", "other", "gap"]
    assert settings["custom_theme"] == {"labels": {"swap": "#d62728"}}
    assert settings["keymap_by_label"] == {"swap": "1", "gap": "2"}
    assert [block["view_id"] for block in settings["blocks"]] == ["html", "spans_manual", "choice", "text_input"]
    choice = prodigy.settings(study(), prodigy.CHOICE, per_task=3)
    assert [block["view_id"] for block in choice["blocks"]] == ["html", "choice", "text_input"]
    assert {"custom_theme", "keymap_by_label"}.isdisjoint(choice)
    usual = {"buttons": ["accept", "ignore", "undo"], "show_stats": False, "exclude_by": "task", "batch_size": 1,
             "instant_submit": False, "choice_style": "single", "choice_auto_accept": False}  # fmt: skip
    assert settings | usual == settings
    assert choice | usual == choice
    assert choice["blocks"][1:] == [  # the html block alone shows texts and pictures
        {"view_id": "choice", "text": None, "html": None, "image": None},
        {"view_id": "text_input", "field_id": "comment", "field_label": "Comment", "field_rows": 2},
    ]
    shares = [(one["feed_overlap"], one.get("annotations_per_task")) for one in (settings, choice)]
    assert shares == [(True, None), (False, 3)]
    bare = study(welfare=WelfareConfig(comment=""), span_labels=None)
    for kind in prodigy.KINDS:
        blocks = prodigy.settings(bare, kind, per_task=None)["blocks"]
        fields = [(block["field_id"], block["field_label"]) for block in blocks if block["view_id"] == "text_input"]
        assert fields == ([("remark_why", "Why? Briefly.")] if kind == prodigy.TEXTS else [])
        assert [block["view_id"] for block in blocks][:2] == ["html", "choice"]
    texts = prodigy.settings(study(), prodigy.TEXTS, per_task=None)["blocks"]
    assert [block.get("field_id") for block in texts] == [None, None, "remark_why"]  # without a field for comments


def test_an_item_has_a_task_per_question_and_per_text_to_mark() -> None:
    form = study()
    texts = {"generated": ("g", "A dog."), "reference": ("r", "<b>")}
    item = ShownItem("i", ("p",), ("https://x/1.jpg",), (), texts, ())
    tasks = list(prodigy.tasks(form, item, target="joy", assigned_to="bo", place=3))
    assert [(t.get("question"), t.get("span_kind"), t.get("text"), t.get("text_id")) for t in tasks] == [
        ("tone", None, None, None), ("clear", None, None, None), (None, "slips", "A dog.", "g"),
        (None, "gaps", "<b>", "r"), (None, None, None, None),
    ]  # fmt: skip
    kinds = [prodigy.CHOICE] * 2 + [prodigy.SPANS] * 2 + [prodigy.TEXTS]
    assert [prodigy.kind_of(task) for task in tasks] == kinds
    assert tasks[-1]["free_texts"] == ["why"]
    assert [task["image_ids"] for task in tasks] == [["p"]] * 5
    fields = {name: {str(task[name]) for task in tasks} for name in ("item_id", "target", "rubric", "place")}
    assert fields == {"item_id": {"i"}, "target": {"joy"}, "rubric": {"mood"}, "place": {"3"}}
    assert {task["assigned_to"] for task in tasks} == {"bo"}
    assert not any("assigned_to" in t for t in prodigy.tasks(form, item, target="", assigned_to=None, place=1))
    report, issue = prodigy.REPORT_OPTION, prodigy.ISSUE_OPTION
    assert [[option["id"] for option in task["options"]] for task in tasks] == [
        ["1", "2", report, issue], ["yes", "no", report], [report], [report], [report]
    ]  # fmt: skip
    assert ["style" in option for option in tasks[0]["options"]] == [True, True, False, False]
    pages = [task["html"] for task in tasks]
    assert [("generated: A dog." in page, "reference: &lt;b&gt;" in page) for page in pages] == [
        (True, True), (True, True), (False, True), (True, False), (True, True)
    ]  # fmt: skip
    assert [("As a &lt;whole&gt;." in page, "A cup: yes. It is one." in page) for page in pages[:2]] == [
        (False, False), (True, True)
    ]  # fmt: skip
    assert pages[0].index("generated: A dog.") < pages[0].index("reference: ")  # without an order, as in the item
    assert [page.count('<p class="remine-note"></p>') for page in pages] == [0] * 5
    ordered = replace(form, span_labels=replace(SPAN_LABELS, texts=("reference", "generated")))
    page = next(prodigy.tasks(ordered, item, target="", assigned_to=None, place=1))["html"]
    assert page.index("reference: ") < page.index("generated: A dog.")
    unmarked = list(prodigy.tasks(study(span_labels=None), item, target="", assigned_to=None, place=1))
    assert ([task.get("question") for task in unmarked], "style" in unmarked[1]["options"][0]) == (
        ["tone", "clear", None], False
    )  # fmt: skip
    assert "<h3>Tone &amp; mood?</h3>" in pages[0]
    assert all(text in pages[2] for text in ("<h3>A &amp; B</h3>", "Mark each.", "swap: Mix-up. Two things."))
    assert "<h3>gaps</h3>" in pages[3]
    assert all("remine-blurred" in page and "https://x/1.jpg" in page for page in pages)
    assert tasks[2]["tokens"] == [
        {"text": "A", "start": 0, "end": 1, "id": 0, "ws": True},
        {"text": "dog", "start": 2, "end": 5, "id": 1, "ws": False},
        {"text": ".", "start": 5, "end": 6, "id": 2, "ws": False},
    ]
    clear = study(welfare=WelfareConfig(blur=False, issue="", report=""))
    (first, *_) = prodigy.tasks(clear, item, target="", assigned_to=None, place=1)
    assert (len(first["options"]), "remine-blurred" in first["html"]) == (2, False)
    assert first["html"].count("<input") == 0
    texts_of_welfare = WelfareConfig(
        notice="Careful <all>.", show="Show & tell", skip_help="Or skip.", report_help="To us."
    )
    people = replace(form, welfare=texts_of_welfare, instructions="Look first.")
    other_item = replace(item, item_id="j")
    boxes = [next(prodigy.tasks(people, one, target="joy", assigned_to=None, place=1))["html"]
             for one in (item, other_item)]  # fmt: skip
    notes = "".join(f'<p class="remine-note">{text}</p>' for text in (
        "Careful &lt;all&gt;.", "Look first.", "Or skip.", "To us."))  # fmt: skip
    for page in boxes:
        assert page.startswith(f"{notes}<p><strong>joy</strong></p><div><input")
        (box, name), (of_label, _) = re.findall(r'(?:id|for)="(show-(\w+))"', page)
        assert (box, len(name)) == (of_label, 12)
        assert f'<label for="{box}">Show &amp; tell</label>' in page
    assert boxes[0] != boxes[1], "a box shows the pictures of its own item"
    unpictured = prodigy.tasks(form, ShownItem("i", (), (), (), texts, ()), target="", assigned_to=None, place=1)
    assert "<div>" not in next(unpictured)["html"]


def test_an_option_is_read_by_its_value_or_by_its_text(tmp_path: Path) -> None:
    options = [
        {"id": 1, "text": "high"},
        {"id": "x", "text": "low"},
        {"id": "y", "text": "?"},
        {"id": "z"},
        "no option",
    ]
    accepted: list[Any] = [[1], ["x"], ["y"], ["z"], ["missing"], ["x", "y"], []]
    lines = [
        line(item_id=f"i{n}", question="tone", accept=chosen, options=options) for n, chosen in enumerate(accepted)
    ]
    rows, _ = read(tmp_path, lines, questionnaire=rubric_questionnaire(RUBRIC))
    assert [row["answer"] for row in rows] == ["1", "low", "y", "z", "missing", '["low", "y"]', None]
    rows, _ = read(tmp_path, lines)  # without a rubric, the options' values
    assert [row["answer"] for row in rows] == ["1", "x", "y", "z", "missing", '["x", "y"]', None]
    lines = [line(question=text) for text in ("tone", " TONE & Mood?", "other")]
    rows, rejects = read(tmp_path, lines, questionnaire=rubric_questionnaire(RUBRIC))
    assert ([row["question"] for row in rows], rejects) == (["tone", "tone"], [(3, "unknown_question")])


def test_options_to_report_and_lines_of_other_kinds(tmp_path: Path) -> None:
    report, issue = prodigy.REPORT_OPTION, prodigy.ISSUE_OPTION
    offered = [{"id": name, "text": name} for name in ("1", report, issue)]
    lines = [
        line(item_id="a", accept=[report], options=offered),
        line(item_id="b", accept=[issue], options=offered),
        line(item_id="c", accept=["1", issue], options=offered),
        line(item_id="d", options=offered, comment=" well "),
        line(item_id="e", answer="reject", comment=" "),
        {**line(item_id="f", span_kind="slips", text="A dog.", accept=[issue]), "spans": []},
        line(item_id="g", free_texts=["why"], remark_why=" because ", remark_other="x"),
        line(item_id="h", remark_other=" "),
    ]
    rows, _ = read(tmp_path, lines)
    assert [tuple(row[name] for name in ("item_id", "question", "answer", "status", "comment")) for row in rows] == [
        ("a", "q", None, "reported", None), ("a", ISSUE, None, "reported", None),
        ("b", "q", None, "skipped", None), ("b", ISSUE, "yes", None, None),
        ("c", "q", "1", None, None), ("c", ISSUE, "yes", None, None),
        ("d", "q", "1", None, " well "), ("d", ISSUE, "no", None, None),
        ("e", "q", "1", "refused", None),
        ("h", "q", "1", None, None),
    ]  # fmt: skip
    keys: dict[str, Any] = {"table": "spans", "span_labels": SPAN_LABELS}
    rows, _ = read(tmp_path, lines, **keys)
    assert [tuple(row[name] for name in ("item_id", "kind", "start", "end", "status")) for row in rows] == [
        ("f", "slip", 0, 0, "ok")
    ]  # fmt: skip
    # Tasks of other programs name neither kind nor text_id: the only text is that of each kind.
    rows, rejects = read(tmp_path, [line(text="A dog.", spans=[{"start": 2, "end": 5, "label": "other"}])], **keys)
    assert [(row["kind"], row["start"], row["end"], row["category"]) for row in rows] == [("slip", 2, 5, "other")]
    assert rejects == [(1, "unknown_label")]
    texts = {"table": "remarks", "free_texts": [FreeText("why", "Why?"), FreeText("other", "Else?")]}
    rows, _ = read(tmp_path, lines, **texts)
    assert [tuple(row[name] for name in ("item_id", "field", "text", "annotation")) for row in rows] == [
        ("g", "why", "because", 7), ("g", "other", "x", 7), ("h", "other", None, 8)
    ]  # fmt: skip


def test_an_issue_counts_if_it_is_offered_or_chosen_and_a_task_needs_no_question(tmp_path: Path) -> None:
    issue = prodigy.ISSUE_OPTION
    options = [{"id": "1"}, {"id": issue}]
    lines = [
        line(item_id="chosen", accept=[issue]),
        line(item_id="offered", options=options),
        line(item_id="both", accept=["1", issue], options=options),
        line(item_id="neither"),
        line(item_id="no question", question=None, comment="x"),
    ]
    done: list[Any] = []
    for number, data in enumerate(lines, start=1):
        reading = Reading(table="ratings" if number < 5 else "raters")
        done.append(prodigy._finished("f", number, data, reading, lambda reject: None))
    assert [(task.issue, task.skipped) for task in done] == [
        (True, True), (False, False), (True, False), (None, False), (None, False)
    ]  # fmt: skip
    assert done[0].data["questions"] == ["q"]
    assert "questions" not in done[4].data


def test_tasks_without_options_are_questions_of_yes_and_no(tmp_path: Path) -> None:
    def binary(answer: str, **fields: Any) -> dict[str, Any]:
        return {"item_id": answer, "label": "Q", "answer": answer, "_annotator_id": "anna", "question": "q", **fields}

    lines = [binary("accept"), binary("reject"), binary("ignore")]

    def check(values: tuple[str, ...], accepted: str, rejected: str) -> None:
        questionnaire = list_questionnaire("r", values, ordinal=False)
        rows, _ = read(tmp_path, lines, questionnaire=questionnaire)
        assert [(row["answer"], row["status"]) for row in rows] == [
            (accepted, None), (rejected, None), (None, "skipped")
        ]  # fmt: skip

    check_cases(check, [
        (("yes", "no"), "yes", "no"), (("No", "Yes"), "Yes", "No"), (("0", "1"), "1", "0"),
        (("false", "true"), "true", "false"),
    ])  # fmt: skip
    for values in (("1", "2", "3"), ("left", "right"), ("yes", "maybe", "no")):
        for line_ in lines[:2]:
            with pytest.raises(InputError, match="line 1 has no options, so that"):
                read(tmp_path, [line_], questionnaire=list_questionnaire("r", values, ordinal=False))
    of_choice = [binary("reject", options=[{"id": "yes"}]), binary("accept", accept=[])]
    rows, _ = read(tmp_path, of_choice, questionnaire=list_questionnaire("r", ("yes", "no"), ordinal=False))
    assert [(row["answer"], row["status"]) for row in rows] == [(None, "refused"), (None, None)]


def test_tasks_without_a_session_get_the_default_rater(tmp_path: Path) -> None:
    lines = [line(_annotator_id=None, _session_id=None), line(_annotator_id="bo"), line(item_id=1.0, _annotator_id=2.0)]
    rows, rejects = read(tmp_path, lines, rater="anna")
    assert [(row["item_id"], row["rater"]) for row in rows] == [("i", "anna"), ("i", "bo"), ("1", "2")]
    assert rejects == []
