"""A study's form: its questions, options with keys and colours, and links that browsers can open."""

from dataclasses import replace
from typing import Any

import pytest

from actors.rubrics.rubric import Rubric
from jobs.annotation import form as forms
from jobs.annotation.form import SCALE_COLOURS, Form, OwnSet, ShownItem, WelfareConfig
from jobs.annotation.span_labels import SpanLabels
from tests.cases import check_cases

YES_NO = [{"value": "yes", "label": "Yes"}, {"value": "no", "label": "No"}]
TONE = {"name": "tone", "text": "Tone?", "scale": "ordinal", "answers": [1, 2, 3], "note": "As a whole."}
CLEAR = {"name": "clear", "text": "Clear?", "scale": "nominal", "answers": YES_NO}
SPANS = {"name": "s", "instructions": "Mark slips.", "kinds": [
    {"name": "slips", "kind": "slip", "text": "generated", "labels": [{"value": "a", "label": "A", "hotkey": "1"}]}
]}  # fmt: skip


def form(rubric: dict[str, Any] | None, **keys: Any) -> Form:
    keys = {"questions": [], "span_labels": None, "welfare": WelfareConfig(), "pictures": 1, "texts": (), **keys}
    return forms.form(Rubric.from_dict(rubric) if rubric else None, **keys)


def rubric(*questions: dict[str, Any], **people: Any) -> dict[str, Any]:
    return {"name": "r", "questions": list(questions or (TONE, CLEAR)), **({"people": people} if people else {})}


def test_without_a_part_for_people_they_get_the_questions_of_models() -> None:
    both = form(rubric())
    assert [(q.name, q.text, q.guidance) for q in both.questions] == [
        ("tone", "Tone?", "As a whole."), ("clear", "Clear?", "")
    ]  # fmt: skip
    assert [[(o.value, o.label) for o in q.options] for q in both.questions] == [
        [("1", "1"), ("2", "2"), ("3", "3")], [("yes", "Yes"), ("no", "No")]
    ]  # fmt: skip
    assert [option.colour for option in both.questions[0].options] == [SCALE_COLOURS[n] for n in (0, 3, 6)]
    assert {option.colour for option in both.questions[1].options} == {""}
    assert [q.name for q in form(rubric(), questions=["clear"]).questions] == ["clear"]
    instructed = form(rubric(instructions="Look first.", questions={}))
    assert (instructed.questions, instructed.instructions) == (both.questions, "Look first.")
    assert (form(None).rubric, form(None).questions, form(None).instructions) == ("", (), "")


def test_options_for_people_have_their_own_labels_colours_and_keys() -> None:
    options = [
        {"label": "low", "value": 1}, {"label": "high", "value": 3, "colour": "#123456", "hotkey": "w"},
        {"label": "cannot say", "value": None},
    ]  # fmt: skip
    people = {"instructions": "Look first.", "questions": {"tone": {"options": options, "guidance": "Be quick."}}}
    tone = form(rubric(**people), questions=["tone"])
    assert tone.instructions == "Look first."
    (question,) = tone.questions
    assert question.guidance == "As a whole. Be quick."
    assert [tuple(option) for option in question.options] == [
        ("1", "low", "1", SCALE_COLOURS[0]), ("3", "high", "w", "#123456"), ("cannot say", "cannot say", "2", "")
    ]  # fmt: skip
    with pytest.raises(ValueError, match="only_questions=clear: must be one of tone, which rubric r asks"):
        form(rubric(**people), questions=["tone", "clear"])


def test_each_key_chooses_one_option() -> None:
    def keys(form: Form) -> list[str]:
        return ["".join(option.hotkey for option in question.options) for question in form.questions]

    def question(number: int, answers: int) -> dict[str, Any]:
        return {"name": f"q{number}", "text": "?", "answers": list(range(answers))}

    # A question takes the keys that are free in one row of the keyboard, here the first or the second one.
    assert keys(form(rubric(question(1, 3), question(2, 7), question(3, 2)))) == ["123", "4567890", "qw"]
    assert keys(form(rubric(question(1, 10), question(2, 11), question(3, 10)))) == ["1234567890", "", "qwertyuiop"]
    marked = form(rubric(), span_labels=SpanLabels.from_dict(SPANS), texts=("generated",))
    assert keys(marked) == ["234", "56"]  # 1 marks a span
    assert marked.instructions == "Mark slips."
    both = rubric(
        TONE, **{"questions": {"tone": {"options": [{"label": str(n), "value": n, "hotkey": "1"} for n in (1, 2)]}}}
    )
    assert keys(form(both)) == ["12"]


def test_the_questions_of_an_item_follow_those_of_the_form() -> None:
    asking = form(rubric({"name": "*", "text": "?", "scale": "nominal", "answers": YES_NO}))
    assert asking.questions == ()
    item = ShownItem("i", (), (), (), {}, (), OwnSet("s", (("1", "Red?"), ("2", "Blue?"))))
    asked = asking.questions_of(item)
    assert [(question.name, question.text, len(question.options)) for question in asked] == [
        ("1", "Red?", 2), ("2", "Blue?", 2)
    ]  # fmt: skip
    assert asking.questions_of(replace(item, own_set=None)) == []
    both = form(rubric())
    assert [question.name for question in both.questions_of(item)] == ["tone", "clear"]


def test_spans_are_marked_in_texts_that_the_items_have() -> None:
    for texts, message in (((), "the items have no texts"), (("a", "b"), "the items have a, b;")):
        with pytest.raises(ValueError, match=f"span_labels: slips .*'generated'; {message}"):
            form(None, span_labels=SpanLabels.from_dict(SPANS), texts=texts)


def test_boxes_are_shown_where_there_is_something_to_report() -> None:
    cases = [
        ({"texts": ("generated",)}, (True, True)),
        ({"texts": ("reference",)}, (False, True)),
        ({"texts": ("generated",), "pictures": 0}, (True, False)),
        ({"texts": ("generated",), "welfare": WelfareConfig(issue="", report="")}, (False, False)),
    ]  # fmt: skip

    def check(keys: dict[str, Any], boxes: tuple[bool, bool]) -> None:
        shown = form(rubric(), **keys)
        assert (shown.asks_issue, shown.asks_report) == boxes

    check_cases(check, cases)


def test_links_have_a_label_and_an_address_that_browsers_open() -> None:
    cases = [
        ({"label": "x"}, r"welfare\.links=\{'label': 'x'\}: must have the keys label and url"),
        ({"label": "x", "url": "https://w", "title": "y"}, "must have the keys label and url"),
        ({"label": "x", "url": "ftp://w/{a}"}, "url 'ftp://w/{a}' must begin with http"),
        ({"label": "x", "url": "https://w/{a}/{b}"}, "uses 'b'; must be one of a, c"),
    ]

    def check(link: dict[str, str], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            forms.check_links([link], ["a", "c"])

    check_cases(check, cases)
    with pytest.raises(ValueError, match="must have the keys label and url"):
        form(rubric(), welfare=WelfareConfig(links=[{"label": "x"}]))
    forms.check_links([{"label": "x", "url": "http://w/{other}"}, {"label": "x", "url": "{a}"}])
    facts = {"a": "https://w/a%20b?c=d/e", "b": "f/g h", "c": ""}
    urls = [
        "{a}",
        "https://w/{b}?q={b}",
        "https://w/{c}",
        "https://w/{b}/{c}",
        "https://w/",
        "{b}",
        "https://key:word@w/",
        "http://[w/",
    ]
    links = forms.links_of([{"label": url, "url": url} for url in urls], facts)
    assert links == (
        ("{a}", "https://w/a%20b?c=d/e"),
        ("https://w/{b}?q={b}", "https://w/f%2Fg%20h?q=f%2Fg%20h"),
        ("https://w/", "https://w/"),
    )
    addresses = (None, "", "https://", "http://w", "HTTPS://w/?X-Amz-Signature=a")
    assert [forms.is_web(address) for address in addresses] == [False, False, False, True, False]


def test_an_item_with_own_questions_does_not_show_the_id_of_their_set() -> None:
    item = ShownItem("i", (), (), (("Title", "A & B"),), {}, (("Page", 'https://w/?a="b'),))
    assert forms.instruction(item, "joy & awe") == (
        "<p><strong>joy &amp; awe</strong></p><p>Title: A &amp; B</p>"
        '<p><a href="https://w/?a=&quot;b" target="_blank" rel="noopener noreferrer">Page</a></p>'
    )
    bare = ShownItem("i", (), (), (), {}, (), OwnSet("s", (("1", "Red?"),)))
    assert forms.instruction(bare, "s") == forms.instruction(ShownItem("i", (), (), (), {}, ()), "") == "<p></p>"
