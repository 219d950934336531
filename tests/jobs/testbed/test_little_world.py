"""The little world: deterministic, distinct where it must be, and its truths agree with its texts."""

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import yaml

from actors.rubrics.rubric import Rubric
from actors.vlm.refusals import Refusal, RefusalRules
from jobs.testbed.little_world import census, drawing, scene_texts, scenes
from jobs.testbed.little_world.scenes import VISIBLE, Scene, distinct_scenes, random_scene
from tests.models import claim_lessons as claims
from tests.models import closed_lessons as closed
from tests.models import lessons, tasks
from tests.models import written_lessons as written
from tests.models.little_world import knowledge_base, questions

SCENES = distinct_scenes(300, seed=3)


def test_scenes_and_pictures_depend_on_their_two_integers_alone() -> None:
    assert random_scene(7, seed=1) == random_scene(7, seed=1) != random_scene(7, seed=2)
    first, again, other = (drawing.paint(random_scene(7, seed=1), seed=seed) for seed in (1, 1, 2))
    assert first.size == (256, 256)
    assert first.tobytes() == again.tobytes() != other.tobytes()


def test_distinct_scenes_differ_in_sight_and_in_title() -> None:
    assert len({tuple(getattr(one, name) for name in VISIBLE) for one in SCENES}) == len(SCENES)
    assert len({scene_texts.title(one) for one in SCENES}) == len(SCENES)


def test_every_value_occurs_about_equally_often() -> None:
    for name, values in {**scene_texts.VALUES, "event": tuple(scenes.EVENTS)}.items():
        counts = Counter(getattr(one, name) for one in SCENES)
        assert set(counts) == set(values)
        assert min(counts.values()) > 0.4 * len(SCENES) / len(values)


def test_flags_differ_in_more_than_the_direction_of_their_bands() -> None:
    assert len({country.bands for country in scenes.COUNTRIES}) == len(scenes.COUNTRIES)


def test_a_swap_of_red_and_blue_changes_what_a_picture_says() -> None:
    one = replace(random_scene(0), colour="red")
    swapped = np.asarray(drawing.paint(one))[..., ::-1].astype(int)
    blue = np.asarray(drawing.paint(replace(one, colour="blue"))).astype(int)
    assert np.abs(swapped - blue).mean() < 20


@pytest.mark.parametrize("language", scene_texts.LANGUAGES)
def test_words_of_a_language_name_one_value_each(language: str) -> None:
    terms = scene_texts.LANGUAGES[language]
    lengths = [len(scenes.SHAPES), len(scenes.COLOURS), len(scenes.COUNTS), len(scenes.SIDES), len(scenes.STYLES)]
    assert [len(set(names)) for names in terms] == lengths


def test_a_caption_is_true_of_the_scenes_with_its_facts() -> None:
    one, other = SCENES[0], replace(SCENES[0], colour="red" if SCENES[0].colour != "red" else "blue")
    assert scene_texts.caption(one, "de") != scene_texts.caption(other, "de")
    assert scene_texts.matches(one, other, ("shape", "side"))
    assert not scene_texts.matches(one, other, ("shape", "colour"))


@pytest.mark.parametrize("one", SCENES[:5])
def test_the_census_answers_with_values_of_the_rubrics(one: Scene) -> None:
    rubric: Rubric = tasks.rubric("century_labels")
    truth = census.century_labels(one)
    assert set(truth) == {question.name for question in rubric.questions} == {*census.SEEN, *census.READ}
    for question in rubric.questions:
        assert truth[question.name] in {answer.value for answer in question.answers}
    scores = census.cultural_relevance(one)
    assert scores[one.country_name] == "5"
    assert Counter(scores.values()) == {"1": 9, "3": 2, "5": 1}


def test_articles_state_what_the_census_reads_and_nothing_that_is_seen() -> None:
    for one in SCENES[:50]:
        text = scene_texts.article(one)
        assert one.event in text
        assert str(one.year) in text
        assert scenes.OPINIONS[one.opinion - 1] in text
        assert not any(f" {word} " in text for word in (*scenes.COLOURS, *scenes.SHAPES, *scenes.STYLES))


def test_planted_mistakes_are_where_the_description_differs_from_the_true_one() -> None:
    for one in SCENES[:100]:
        planted = scene_texts.planted(one, seed=0)
        true = scene_texts.description(one, omitted=planted.omitted)
        different = [word for word, other in zip(planted.text.split(), true.split(), strict=True) if word != other]
        places = list(scene_texts.places(planted.text, planted.described, planted.wrong))
        assert [planted.text[begin:end] for begin, end in places] == [word.rstrip(",") for word in different]
        assert all(scene_texts.stated_words(one, fact) in scene_texts.description(one) for fact in planted.omitted)


def test_questions_have_answers_that_hold_of_the_scene() -> None:
    for one in SCENES[:50]:
        for asked in questions.yes_no(one, seed=0):
            assert asked.is_true == (questions.ask(one, asked.fact) == asked.text)
        pair = questions.pair(one, seed=0)
        assert pair.text == scene_texts.description(pair.scenes[pair.better])
        assert pair.text != scene_texts.description(pair.scenes[1 - pair.better])
        assert sum(asked.is_true for asked in questions.captioned(one, seed=0)) in (1, 2)
        for captioned in questions.captioned(one, seed=0):
            assert captioned.is_true == (captioned.caption == questions.dated_caption(one, one.year))
            assert captioned.is_picture == (captioned.caption == questions.dated_caption(one, captioned.year))


def test_entities_have_names_of_their_own() -> None:
    listed = list(census.entities())
    assert len(listed) == len({entity.node for entity in listed}) == 72
    assert len({entity.lemma("ja") for entity in listed}) == len({entity.title for entity in listed}) == 72
    assert census.entity_of(SCENES[0]) in listed


def test_the_knowledge_base_has_informative_and_uninformative_names() -> None:
    pictures = {entity: list(knowledge_base.pictures(entity, seed=0)) for entity in census.entities()}
    rows = {row["node"]: row for row in knowledge_base.rows(pictures)}
    nodes_of_picture = Counter(name for row in rows.values() for name in row["images"])
    for entity, names in pictures.items():
        is_named = knowledge_base.dataset(entity) == knowledge_base.NAMED
        row = rows[entity.node]
        text = " ".join([*row["lemmas"], row["gloss"], row["article"]])
        assert (entity.country_name in text) == (entity.shape in text) == is_named
        assert {nodes_of_picture[name] for name in names} == {2 if is_named else 1}
    assert len(rows) == len(pictures) + 2


def test_days_of_newspapers_are_in_the_year_of_the_scene() -> None:
    assert all(questions.day_of(one).year == one.year for one in SCENES)


def test_grades_of_relevance_are_balanced_in_lessons() -> None:
    draw = random.Random(0)
    grades = Counter(task.answer for one in SCENES for task in closed.relevance(one, draw).tasks)
    assert grades["1"] == grades["3"] == 2 * grades["5"] == 2 * len(SCENES)
    assert 0.4 < grades["4"] / len(SCENES) < 0.6  # where the article names the country of the guests


def test_every_second_wrong_year_is_near_and_every_fourth_very_near() -> None:
    draw = random.Random(0)
    distances = [abs(questions.wrong_year(1850, draw) - 1850) for _ in range(2000)]
    assert min(distances) == 1
    assert 0.5 < np.mean([distance <= 9 for distance in distances]) < 0.58
    assert 0.25 < np.mean([distance <= 3 for distance in distances]) < 0.4


def test_guests_are_from_another_union_and_only_the_article_names_them() -> None:
    for entity in census.entities():
        guests = scenes.BY_NAME[entity.guests]
        assert guests.union != scenes.BY_NAME[entity.country_name].union
        assert entity.guests not in entity.article + entity.title + entity.gloss
        assert entity.guests in entity.article_with_guests(entity.guests)
    one = SCENES[0]
    grades = census.cultural_relevance(one, guests=census.entity_of(one).guests)
    assert Counter(grades.values()) == {"1": 8, "3": 2, "4": 1, "5": 1}


def test_merits_and_faults_of_a_commentary_decide_its_grades() -> None:
    one = SCENES[0]
    plain = scene_texts.Commentary(f"{scene_texts.description(one)}.")
    grades = census.century_contextualisation(plain)
    assert set(grades) == {question.name for question in tasks.rubric("century_contextualisation").questions}
    assert grades == dict.fromkeys(grades, "5") | {"beginner_friendly": "1", "factual_errors": "1"}
    faulty = plain._replace(wrong=("shape", "count"), omitted=("side",), has_background=True, is_loaded=True)
    assert census.century_contextualisation(faulty) == {
        "beginner_friendly": "5", "appropriate_summary": "3", "due_weight": "3", "no_loaded_language": "1",
        "opinions_not_stated_as_facts": "5", "identification": "3", "factual_errors": "5",
    }  # fmt: skip
    draw = random.Random(0)
    for one in SCENES[:50]:
        commentary = scene_texts.commentary(one, draw)
        assert commentary.has_background == (scene_texts.background(one) in commentary.text)
        assert commentary.is_loaded == any(sentence in commentary.text for sentence in scene_texts.LOADED)
        assert commentary.has_opinion == any(sentence in commentary.text for sentence in scene_texts.VERDICTS)


def test_the_sentence_about_a_missing_picture_is_a_refusal() -> None:
    (taught,) = written.described_as(SCENES[0], "explicit", has_picture=False).tasks
    assert taught.answer == scene_texts.NO_PICTURE
    rules = yaml.safe_load((tasks.CONF / "refusals" / "en.yaml").read_text(encoding="utf-8"))
    assert RefusalRules(rules).find(taught.answer) == Refusal("full", answered=False)


def test_claims_are_wrong_missing_or_corrections_as_planted() -> None:
    one = SCENES[0]
    planted = next(p for seed in range(99) if (p := scene_texts.planted(one, seed=seed)).wrong and p.omitted)
    for name, fault in (("mistakes", planted.wrong), ("omissions", planted.omitted)):
        lesson = claims.judged_as(one, planted, name)
        assert sum(task.answer == "A" for task in lesson.tasks) == len(fault)
        assert all("[[" in task.prompt.suffix for task in lesson.tasks)
    corrected = [task.answer for task in claims.judged_as(one, planted, "omissions").tasks]
    assert corrected.count("C") == len(planted.wrong)


def test_lessons_answer_with_allowed_codes() -> None:
    draw = random.Random(0)
    for one in SCENES[:30]:
        for _, teach in lessons.ALL:
            for task in teach(one, draw).tasks:
                assert task.answer
                assert not task.codes or task.answer in task.codes
