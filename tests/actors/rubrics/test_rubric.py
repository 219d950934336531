"""Rubrics: short forms, codes, layouts, questions of the items, and those of the papers."""

import copy
from typing import Any

import pytest
import yaml

from actors.items import asked_pairs
from actors.rubrics import rubric_forms
from actors.rubrics.rubric import Rubric, identity
from tests.actors.vlm.helpers import ANSWERS, CONF, PEOPLE, QUESTION, readme_rubric


def test_short_forms_mean_the_full_ones() -> None:
    short = readme_rubric()
    short["questions"].append({"name": "place", "text": "Where?", "answers": ["indoors", "outdoors"]})
    rubric = Rubric.from_dict(short)
    shown, figures, place = rubric.questions
    assert [(a.value, a.label, a.score) for a in shown.answers] == [(str(n), str(n), float(n)) for n in range(1, 6)]
    assert (shown.scale, shown.codes) == ("ordinal", ("1", "2", "3", "4", "5"))
    assert (figures.scale, [(a.value, a.label) for a in figures.answers]) == ("nominal", [("yes", "yes"), ("no", "no")])
    assert [answer.value for answer in place.answers] == ["indoors", "outdoors"]
    assert (rubric.version, rubric.source, rubric.targets) == ("1", "not stated", ("joy", "sorrow", "fear"))
    assert rubric.asks_targets
    assert [question.targets for question in rubric.questions] == [True, False, True]
    pairs = [(target, question.name) for target, question in asked_pairs(rubric, {}, rubric.targets[:2])]
    about = [(target, name) for target in ("joy", "sorrow") for name in ("shown", "place")]
    assert pairs == [("", "figures"), *about]
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
