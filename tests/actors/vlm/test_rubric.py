"""Rubrics are checked when they are built; each error names the place and the value."""

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from actors.rubric_rater import asked_pairs
from actors.vlm import rubric_forms
from actors.vlm.rubric import Rubric, identity
from tests.actors.vlm.helpers import CONF, readme_rubric
from tests.cases import check_cases

Change = Callable[[dict[str, Any]], Any]
QUESTION: Callable[[dict[str, Any]], dict[str, Any]] = lambda data: data["questions"][0]  # noqa: E731
ANSWERS: Callable[[dict[str, Any]], list[dict[str, Any]]] = lambda data: QUESTION(data)["answers"]  # noqa: E731
PEOPLE = {
    "questions": {"relevance": {"options": [{"label": "yes", "value": "high"}, {"label": "skip", "value": None}]}}
}

REFUSED: dict[str, tuple[Change, str]] = {
    "unknown key": (lambda d: d.update(colour=1), "unknown key 'colour'"),
    "missing key": (lambda d: d.pop("questions"), "missing key 'questions'"),
    "a missing key and a key of a question": (
        lambda d: (d.pop("layout"), QUESTION(d).update(hint=1)),
        "missing key 'layout'.*also: .*unknown key 'hint'",
    ),
    "missing key next to others": (lambda d: d.pop("layout"), "missing key 'layout'"),
    "unknown key of a question": (lambda d: QUESTION(d).update(hint=1), "'relevance'.*unknown key 'hint'"),
    "unknown key of an answer": (lambda d: ANSWERS(d)[0].update(text=1), "unknown key 'text'"),
    "unknown key of the context": (lambda d: d["context"].update(limit=3), "unknown key 'limit'"),
    "no questions": (lambda d: d.update(questions=[]), "questions: at least one is required"),
    "questions not a list": (lambda d: d.update(questions="x"), "must be a list"),
    "a question of the items next to another": (
        lambda d: d["questions"].append({**QUESTION(d), "name": "*"}),
        "must be the only one",
    ),
    "a question of the items with targets": (lambda d: QUESTION(d).update(name="*"), "which have no targets"),
    "unknown reply": (lambda d: QUESTION(d).update(reply="word"), "reply: 'word' must be one of code, label"),
    "the target in the system's turn": (lambda d: d.update(system="{{ target }}"), "system: unknown word 'target'"),
    "no layouts": (lambda d: d.update(layouts={}), "layouts: at least one is required"),
    "ordinal with a Boolean": (lambda d: ANSWERS(d)[1].update(score=True), "answers: score True of 'mid'"),
    "question twice": (lambda d: d["questions"].append(QUESTION(d)), "duplicate question 'relevance'"),
    "answer value twice": (lambda d: ANSWERS(d)[1].update(value="low"), "duplicate answer value 'low'"),
    "answer label twice": (lambda d: ANSWERS(d)[1].update(label="Relevant"), "duplicate answer label 'Relevant'"),
    "empty label": (lambda d: ANSWERS(d)[1].update(label=" "), "answer 2, label: ' '"),
    "boolean value": (lambda d: ANSWERS(d)[1].update(value=True), "True is a boolean"),
    "one answer": (lambda d: QUESTION(d).update(answers=ANSWERS(d)[:1]), "answers: 1 of them"),
    "27 answers": (
        lambda d: QUESTION(d).update(
            scale="nominal", answers=[{"value": f"v{n}", "label": f"l{n}"} for n in range(27)]
        ),
        "answers: 27 of them",
    ),
    "unknown scale": (
        lambda d: QUESTION(d).update(scale="interval"),
        "scale: 'interval' must be one of ordinal, nominal",
    ),
    "ordinal without a number": (
        lambda d: ANSWERS(d)[1].pop("score"),
        "no score of 'mid', .*write {value: mid, label: mid, score: 1}",
    ),
    "ordinal with a word": (lambda d: ANSWERS(d)[1].update(score="2"), "score '2' of 'mid' must be a finite number"),
    "ordinal with infinity": (
        lambda d: ANSWERS(d)[1].update(score=float("inf")),
        "score inf of 'mid' must be a finite number",
    ),
    "score twice": (lambda d: ANSWERS(d)[1].update(score=1), "duplicate answer score 1.0"),
    "nominal with a number": (
        lambda d: QUESTION(d).update(scale="nominal"),
        "answers: score 1 of 'low', .* is not allowed with scale: nominal",
    ),
    "no picture": (
        lambda d: d["layouts"].update(fast=["context", "scale", "question"]),
        "must have its pictures, and at least one, before",
    ),
    "picture after what differs": (
        lambda d: d["layouts"].update(fast=["context", "question", "picture", "scale"]),
        "'fast' must have its pictures, and at least one, before",
    ),
    "layout with an unknown part": (
        lambda d: d["layouts"].update(fast=["picture", "preface", "question", "scale"]),
        "unknown part 'preface'",
    ),
    "layout without the options": (
        lambda d: d["layouts"].update(fast=["picture", "question"]),
        "does not use {{ options }}",
    ),
    "default layout that is not there": (
        lambda d: d["layouts"].pop("fast"),
        "layout: 'fast' must be one of layouts: paper",
    ),
    "target that one layout leaves out": (
        lambda d: (
            d["parts"].update(plain="{{ question }}"),
            d["layouts"].update(fast=["picture", "context", "scale", "plain"]),
        ),
        "'fast' does not use {{ target }}",
    ),
    "targets that no part names": (lambda d: d["parts"].update(question="{{ question }}"), "no part uses {{ target }}"),
    "no question about targets": (lambda d: QUESTION(d).update(targets=False), "every question has targets: false"),
    "targets of a question": (lambda d: QUESTION(d).update(targets="no"), "targets: 'no' must be false"),
    "target twice": (lambda d: d.update(targets=["a", "a"]), "duplicate entry 'a'"),
    "undeclared context": (lambda d: d["parts"].update(context="{{ caption }}"), "unknown word 'caption'"),
    "a global of Jinja's": (lambda d: d["parts"].update(context="{{ range(9) }}"), "unknown word 'range'"),
    "not a template": (lambda d: d["parts"].update(context="{% if %}"), "not a valid template"),
    "Python behind a string": (lambda d: d["parts"].update(context="{{ ''.__class__ }}"), "cannot be rendered"),
    "Python behind a field": (
        lambda d: d["parts"].update(context="{{ title.__class__.__mro__ }}"),
        "cannot be rendered",
    ),
    "part named picture": (lambda d: d["parts"].update(picture="x"), "a part is named 'picture'"),
    "field named as a word": (lambda d: d["context"].update(fields=["target"], cut=[]), "context field 'target'"),
    "cut of a field that is not there": (lambda d: d["context"].update(cut=["body"]), "unknown field 'body'"),
    "people asked something else": (
        lambda d: d.update(people={"questions": {"mood": {"options": []}}}),
        "unknown question 'mood'",
    ),
    "people's option without a meaning": (
        lambda d: (
            d.update(people=copy.deepcopy(PEOPLE)),
            d["people"]["questions"]["relevance"]["options"][0].update(value="x"),
        ),
        "unknown value 'x'",
    ),
}


def test_refused(small: dict[str, Any]) -> None:
    Rubric.from_dict(small)  # valid until it is changed
    misses = []
    for case, (change, message) in REFUSED.items():
        rubric = copy.deepcopy(small)
        change(rubric)
        try:
            Rubric.from_dict(rubric)
        except ValueError as error:
            if not re.search(message, str(error)):
                misses.append(f"{case}: {error}")
        else:
            misses.append(f"{case}: accepted")
    assert not misses


def test_all_mistakes_are_named_at_once(small: dict[str, Any]) -> None:
    QUESTION(small).update(scale="interval")
    small["questions"].append({"name": "second", "text": "?", "scale": "nominal", "answers": ["one"]})
    small["parts"]["context"] = " "
    with pytest.raises(ValueError, match=r"scale: 'interval' .*answers: 1 of them.*part 'context'") as caught:
        Rubric.from_dict(small)
    assert str(caught.value).count("; also: ") == 2
    assert str(caught.value).count(f"rubric {small['name']!r}") == 1


def test_short_forms_mean_the_full_ones() -> None:
    short = readme_rubric()
    short["questions"].append({"name": "place", "text": "Where?", "answers": ["indoors", "outdoors"]})
    rubric = Rubric.from_dict(short)
    shown, people, place = rubric.questions
    assert [(a.value, a.label, a.score) for a in shown.answers] == [(str(n), str(n), float(n)) for n in range(1, 6)]
    assert (shown.scale, shown.codes) == ("ordinal", ("1", "2", "3", "4", "5"))
    assert (people.scale, [(a.value, a.label) for a in people.answers]) == ("nominal", [("yes", "yes"), ("no", "no")])
    assert [answer.value for answer in place.answers] == ["indoors", "outdoors"]
    assert (rubric.version, rubric.source, rubric.targets) == ("1", "not stated", ("joy", "sorrow", "fear"))
    assert rubric.asks_targets
    assert [question.targets for question in rubric.questions] == [True, False, True]
    pairs = [(target, question.name) for target, question in asked_pairs(rubric, {}, rubric.targets[:2])]
    about = [(target, name) for target in ("joy", "sorrow") for name in ("shown", "place")]
    assert pairs == [("", "people"), *about]
    assert not Rubric.from_dict({**short, "targets": None}).asks_targets

    full = rubric_forms.completed(short)
    assert rubric_forms.completed(full) == full
    assert identity(Rubric.from_dict(full)) == identity(rubric)
    nominal = {**short, "questions": [{**short["questions"][0], "scale": "nominal"}]}
    assert [answer.score for answer in Rubric.from_dict(nominal).questions[0].answers] == [None] * 5


def test_short_forms_are_checked_like_the_full_ones() -> None:
    for answers, message in (
        ([], "answers: 0 of them"),
        ([1], "answers: 1 of them"),
        ([1, 1], "duplicate answer value"),
        (["a", "a"], "duplicate answer value"),
        ([1, "a", None], "answer 3: None must be a number, a word, or {value: …, label: …"),
        ("yes", "must be a list"),
    ):
        question = {"name": "q", "text": "?", "scale": "nominal", "answers": answers}
        with pytest.raises(ValueError, match=message):
            Rubric.from_dict({"name": "r", "questions": [question]})


def refusal(data: dict[str, Any]) -> str:
    """The message about a rubric that must be refused."""
    with pytest.raises(ValueError, match=r"^rubric") as caught:
        Rubric.from_dict(data)
    return str(caught.value)


def test_a_short_rubric_needs_a_name_and_questions_only() -> None:
    questions = [{"name": "q", "text": "?", "answers": [1, 2]}]
    assert refusal({"questions": questions}) == "rubric: missing key 'name'; required are name, questions"
    assert refusal({"name": "r"}) == "rubric 'r': missing key 'questions'; required are name, questions"
    with_parts = refusal({"name": "r", "questions": questions, "parts": {"question": "{{ question }} {{ options }}"}})
    assert with_parts.endswith("required are name, questions, parts, layouts, layout")
    assert "missing key 'layouts', 'layout'" in with_parts


def test_answers_of_another_form_are_told_what_to_write() -> None:
    forms = ["[1, 2, 3]", "[yes, no]", "{value: …, label: …, score: …}"]
    cases: dict[str, tuple[str, list[str]]] = {
        "numbered": (
            "{1: low, 2: mid}",
            [*forms, "write [{value: 1, label: low, score: 1}, …] with scale: ordinal"],
        ),
        "scored": ("{no: 1, yes: 2}", ["write [{value: no, label: no, score: 1}, …] with scale: ordinal"]),
        "named": ("{lo: low, hi: high}", ["write [{value: lo, label: low}, …] with scale: nominal"]),
        "number": ("5", ["answers: 5 must be a list", *forms]),
        "two words": ("yes/no", ["answers: 'yes/no' must be a list", *forms, "write [yes, no]"]),
        "range": ("1..5", ["answers: '1..5' must be a list", "write [1, 2, 3, 4, 5]"]),
        "range in a list": ("[1..5]", ["answers: 1 of them", "write [1, 2, 3, 4, 5]"]),
        "range with a dash": ("['-1 - 1']", ["answers: 1 of them", "write [-1, 0, 1]"]),
        "words without scores": (
            "[low, mid]\n  scale: ordinal",
            ["no score of 'low', 'mid'", "write {value: low, label: low, score: 1}", "or scale: nominal"],
        ),
        "labels without a scale": (
            "[{value: a, label: A}, {value: b, label: B}]",
            ["missing key 'scale'; required are name, text, scale, answers"],
        ),
    }

    def check(answers: str, parts: list[str]) -> None:
        message = refusal({"name": "r", "questions": yaml.safe_load(f"- name: q\n  text: x\n  answers: {answers}")})
        assert message.startswith("rubric 'r', question 'q'"), message
        assert [part for part in parts if part not in message] == [], message
        assert "also:" not in message
        assert ("missing key" in message) == ("missing key" in parts[0])

    check_cases(check, cases)
    for unclear in ("1..99", "5..1", "[much]", "soon"):
        question = yaml.safe_load(f"[{{name: q, text: x, answers: {unclear}}}]")
        assert "; write" not in refusal({"name": "r", "questions": question})


def test_a_question_without_a_usable_name_is_called_by_its_place() -> None:
    answers = [1, 2]
    good = {"name": "first", "text": "?", "answers": answers}
    for third, mistake in (
        ({"text": "?", "answers": answers}, "question 3: missing key 'name'; required are name, text, answers"),
        ({"name": True, "text": "?", "answers": answers}, "question 3, name: True is a boolean"),
        ({"name": "  ", "text": "?", "answers": answers}, "question 3, name: '  ' must be a text"),
        ("shown", "question 3: 'shown' must be a mapping"),
    ):
        message = refusal({"name": "r", "questions": [good, {**good, "name": "second"}, third]})
        assert mistake in message
        assert "also:" not in message


def test_tags_of_templates_are_refused_where_they_would_reach_the_model() -> None:
    question = {"name": "q", "text": "How?", "note": "", "scale": "nominal"}
    labelled = [{"value": "a", "label": "A"}, {"value": "b", "label": "B"}]
    for key, change, tag in (
        ("text", {"text": "How {{ title }}?"}, "{{ title }}"),
        ("note", {"note": "{% if title %}Look twice.{% endif %}"}, "{% if title %}"),
        ("answer 2, label", {"answers": [labelled[0], {"value": "b", "label": "{{ b }}"}]}, "{{ b }}"),
    ):
        message = refusal({"name": "r", "questions": [{**question, "answers": labelled, **change}]})
        assert f"question 'q', {key}: {tag} would reach the model as it is written; " in message
        assert "use context fields and {{ target }} in a part" in message
    short = {"name": "r", "questions": [{**question, "answers": labelled}]}
    assert "answer_start: {{ x }} would reach the model" in refusal({**short, "answer_start": "{{ x }}"})
    braces = {**question, "answers": labelled, "text": "Is {it} {{ or 50 %} more?"}
    assert Rubric.from_dict({"name": "r", "questions": [braces]}).questions[0].text == braces["text"]


def test_all_mistakes_of_questions_are_named_at_once() -> None:
    wrong = {"name": "q", "text": "", "answers": [1, 2], "targets": "perhaps", "reply": "word", "scale": "interval"}
    message = refusal({"name": "r", "questions": [{"name": "q", "text": "?", "answers": ["a", "b", "a", "b"]}, wrong]})
    for part in (
        "duplicate answer value 'a', 'b'",
        "question 'q', text: '' must be",
        "question 'q', targets: 'perhaps' must be",
        "question 'q', reply: 'word' must be",
        "question 'q', scale: 'interval' must be",
        "duplicate question 'q'",
    ):
        assert message.count(part) == 1, (part, message)
    assert message.count("; also: ") == 5


def test_all_mistakes_of_parts_are_named_at_once(small: dict[str, Any]) -> None:
    small["parts"] |= {"context": "{{ caption }}", "scale": "{{ options }} {{ hint }}"}
    small["system"] = "{{ target }}"
    small["context"]["cut"] = ["body"]
    small["people"] = {"questions": {"mood": {"options": []}}}
    message = refusal(small)
    for word in (
        "part 'context': unknown word 'caption'",
        "part 'scale': unknown word 'hint'",
        "system: unknown word",
        "context.cut: unknown field 'body'",
        "people: unknown question 'mood'",
    ):
        assert word in message
    empty = refusal({**small, "parts": {"context": "", "scale": " ", "question": "x"}})
    assert "part 'context'" in empty
    assert "part 'scale'" in empty


def test_all_mistakes_of_layouts_are_named_at_once(small: dict[str, Any]) -> None:
    small["layouts"] = {"paper": ["picture", "question"], "fast": ["picture", "preface"]}
    message = refusal({**small, "layout": "slow"})
    for part in ("layout: 'slow' must be", "layout 'paper' does not use {{ options }}", "unknown part 'preface'"):
        assert part in message


def test_not_a_mapping() -> None:
    with pytest.raises(ValueError, match="must be a mapping"):
        Rubric.from_dict([])  # type: ignore[arg-type]


def test_people_variant(small: dict[str, Any]) -> None:
    people = Rubric.from_dict(small | {"people": PEOPLE}).people
    assert people is not None
    assert [(option.label, option.value) for option in people.questions["relevance"].options] == [
        ("yes", "high"),
        ("skip", None),
    ]


def test_codes(small: dict[str, Any]) -> None:
    def codes() -> tuple[str, ...]:
        return Rubric.from_dict(small).questions[0].codes

    assert codes() == ("1", "2", "3")
    ANSWERS(small)[0]["score"] = 3
    ANSWERS(small)[2]["score"] = 1
    assert codes() == ("3", "2", "1")  # the scale's own numbers, not places
    for score, expected in ((-1, "A"), (0, "0"), (9, "9"), (10, "A"), (1.5, "A")):
        ANSWERS(small)[0]["score"] = score
        assert codes()[0] == expected
    QUESTION(small)["reply"] = "label"
    assert codes() == ("Not relevant", "Somewhat relevant", "Relevant")


@pytest.mark.parametrize("count", [2, 26])
def test_most_and_fewest_answers(small: dict[str, Any], count: int) -> None:
    answers = [{"value": f"v{n}", "label": f"l{n}"} for n in range(count)]
    QUESTION(small).update(scale="nominal", answers=answers)
    assert Rubric.from_dict(small).questions[0].codes == tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:count])


def test_questions_of_the_items(small: dict[str, Any]) -> None:
    """They have the answers of the only question, and only the question differs between the prompts of an item."""
    QUESTION(small)["name"] = "*"
    del small["targets"]
    small["parts"]["question"] = "{{ question }}"
    rubric = Rubric.from_dict(small)
    assert rubric.asks_own_questions
    assert rubric.question("any") == rubric.questions[0]
    assert rubric.differing_words == {"question"}
    QUESTION(small)["name"] = "other"
    assert not Rubric.from_dict(small).asks_own_questions
    with pytest.raises(StopIteration):
        Rubric.from_dict(small).question("any")


def test_split_shares_all_that_is_the_same(small: dict[str, Any]) -> None:
    rubric = Rubric.from_dict(small)
    assert rubric.layouts["paper"][rubric.split("paper") :] == ("question", "scale")
    assert rubric.layouts["fast"][rubric.split("fast") :] == ("question",)
    second = copy.deepcopy(QUESTION(small)) | {"name": "other"}
    several = Rubric.from_dict(small | {"questions": [QUESTION(small), second]})
    assert several.layouts["fast"][several.split("fast") :] == ("scale", "question")


def test_layouts_have_any_name(small: dict[str, Any]) -> None:
    small["layouts"]["quick"] = ["picture", "context", "question", "scale"]
    rubric = Rubric.from_dict(small)
    assert rubric.resolve_layout("quick") == "quick"
    assert identity(rubric, layout="quick") != identity(rubric, layout="fast")
    with pytest.raises(ValueError, match="'scaleless' does not use"):
        Rubric.from_dict(small | {"layouts": {**small["layouts"], "scaleless": ["picture", "question"]}})


def test_identity_is_of_what_changes_ratings(small: dict[str, Any]) -> None:
    def hashed(chosen: str | None = None, **changes: Any) -> str:
        return identity(Rubric.from_dict(copy.deepcopy(small) | changes), layout=chosen)

    assert hashed() == hashed("fast") == hashed(source="elsewhere") == hashed(people=PEOPLE)
    assert hashed() == hashed("fast", layout="paper")  # the default does not matter once a layout is chosen
    reordered = [dict(QUESTION(small), answers=list(reversed(ANSWERS(small))))]
    relabelled = [dict(QUESTION(small), note="Look twice.")]
    others = [
        hashed("paper"),
        hashed(version=2),
        hashed(targets=["Melanesia"]),
        hashed(questions=reordered),
        hashed(questions=relabelled),
        hashed(parts=small["parts"] | {"scale": "Choose: {{ options }}"}),
        hashed(context={"fields": ["title", "article"]}),
        hashed(answer_start="Score:"),
        hashed(system="You grade."),
        hashed(questions=[dict(QUESTION(small), reply="label")]),
    ]
    assert len({hashed(), *others}) == len(others) + 1
    with pytest.raises(ValueError, match=r"^layout=slow: .* must be one of paper, fast"):
        hashed("slow")


def test_rome_has_the_papers_scenarios() -> None:
    """Ströbel et al. 2024, section 4.1: five options of a rating, and a choice of one of two pictures."""
    rating, comparison = (
        Rubric.from_dict(yaml.safe_load((CONF / "rubric" / f"{name}.yaml").read_text(encoding="utf-8")))
        for name in ("image_rating", "image_comparison")
    )
    (match,), (preference,) = rating.questions, comparison.questions
    assert (match.scale, [answer.score for answer in match.answers]) == ("ordinal", [1, 2, 3, 4, 5])
    assert (preference.scale, [answer.value for answer in preference.answers]) == ("nominal", ["first", "second"])
    for layout in ("paper", "fast"):
        assert (rating.picture_count(layout), comparison.picture_count(layout)) == (1, 2)
        order = comparison.layouts[layout]
        assert order.index("first") < order.index("picture1") < order.index("second") < order.index("picture2")
        assert {"prompt", "question"} <= {*order}


def test_century_has_the_papers_labels(century: dict[str, Any]) -> None:
    """Akbulut et al. 2025, appendix I, figure 5."""
    rubric = Rubric.from_dict(century)
    labels = {question.name: [answer.label for answer in question.answers] for question in rubric.questions}
    regions = (
        "Northern Africa|Central Africa|Eastern Africa|Southern Africa|Western Africa|Central Asia|Eastern Asia|"
        "Southern Asia|South-eastern Asia|Western Asia|Melanesia|Micronesia|Polynesia|Australia and New Zealand|"
        "Caribbean|Northern Europe|Eastern Europe|Southern Europe|Western Europe|North America|Central America|"
        "South America|unsure"
    )
    kinds = (
        "photograph|artistic depiction, painting or cartoon|document, letter, or map|chart or infographic|"
        "symbol, logo or sign|unsure"
    )
    expected = {
        "image_type": kinds.split("|"),
        "content_type": ["person", "organization", "event", "location", "unsure"],
        "concept": ["conflict", "reform", "oppression", "discrimination", "unsure"],
        "sub_region": regions.split("|"),
        "time_period": ["yes", "no", "unsure"],
    }
    for word in ("sensitive", "controversial", "commemorative"):
        graded = ["Not at all {}", "Not {}", "Somewhat {}", "{}", "Very {}"]
        expected[word] = [label.format(word if "{} " in label or label != "{}" else word.title()) for label in graded]
    assert labels == expected
    assert list(labels) == list(expected)
    for question in rubric.questions:
        assert [answer.value for answer in question.answers if answer.score is None] in (labels[question.name], [])
        if question.scale == "ordinal":
            assert [answer.score for answer in question.answers] == [1, 2, 3, 4, 5]
            assert question.codes == tuple(answer.value for answer in question.answers) == ("1", "2", "3", "4", "5")
    assert [question.scale for question in rubric.questions] == ["nominal"] * 5 + ["ordinal"] * 3
    assert rubric.people is not None
    assert list(rubric.people.questions) == [question.name for question in rubric.questions]


def test_contextualisation_has_the_papers_questions_scale_and_orders() -> None:
    rubric = Rubric.from_dict(yaml.safe_load((CONF / "rubric" / "century_contextualisation.yaml").read_text("utf-8")))
    thoroughness, objectivity = (
        ["beginner_friendly", "appropriate_summary"],
        ["due_weight", "no_loaded_language", "opinions_not_stated_as_facts"],
    )
    names = [*thoroughness, *objectivity, "identification", "factual_errors"]  # Century, figure 10
    assert [question.name for question in rubric.questions] == names
    agreement = ["Strongly disagree", "Disagree", "Neither agree nor disagree", "Agree", "Strongly agree"]
    for question in rubric.questions:
        assert [(answer.label, answer.score) for answer in question.answers] == list(
            zip(agreement, range(1, 6), strict=True)
        )
    assert rubric.layout == "paper"
    assert rubric.people is not None
    asked = rubric.people.questions
    # appendix X.1: opinions and loaded language before due weight; factual errors are free text
    assert list(asked) == [*thoroughness, *objectivity[:0:-1], "due_weight", "identification"]
    labels = ["Strongly disagree", "Slightly disagree", "Neutral", "Slightly agree", "Strongly agree"]
    for people in asked.values():
        assert [o.label for o in people.options] == [f"({n}) {label}" for n, label in enumerate(labels, 1)]
        assert [o.value for o in people.options] == ["1", "2", "3", "4", "5"]
    assert [(text.name, text.separator) for text in rubric.people.free_texts] == [
        ("factual_error", ";"),
        ("sources", ";"),
    ]


def test_century_reads_columns_of_records(century: dict[str, Any]) -> None:
    from jobs.tables import table

    assert set(century["context"]["fields"]) <= set(table("records").columns)


def test_files_of_models() -> None:
    for path in sorted((CONF / "model").glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        data = yaml.safe_load(text)
        assert list(data) == ["name", "checkpoint", "revision", "dtype", "device_map", "memory_gb", "licence"], path
        assert data["name"] == path.stem
        assert text.startswith("#   python -m jobs.judge"), path
        assert f"model={path.stem} " in text, path
