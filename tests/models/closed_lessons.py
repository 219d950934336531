"""Lessons of closed questions: each task has the codes of the allowed answers."""

import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from actors.rubrics.prompts import PromptBuilder
from actors.rubrics.rubric import Rubric
from jobs.corpora.tric import worded_date
from jobs.testbed.little_world import census, scene_texts
from jobs.testbed.little_world.scenes import Scene
from tests.models.little_world import questions
from tests.models.tasks import Lesson, Task, article_fields, asked_after_pictures, builder, conf, rubric

MIRROR = "Each picture is seen in a mirror: left is right, and right is left."
# The fact in which two pictures differ, if it is one; the harder ones are more frequent.
ALONE = ("count", "count", "count", "side", "side", "colour", "colour", "shape", "style", "country_name")
OTHER = 500_000  # what the number of a scene with changed facts is higher by


def labels(one: Scene, draw: random.Random) -> Lesson:
    """All questions of `century_labels`, sometimes without the article or without the picture."""
    has_article, has_picture = draw.random() < 0.75, draw.random() < 0.88
    layout = draw.choice(("paper", "fast"))
    return labelled(one, layout=layout, has_article=has_article, has_picture=has_picture)


def labelled(one: Scene, *, layout: str, has_article: bool, has_picture: bool) -> Lesson:
    """The questions of `century_labels` that can be answered, or whose answer may be `unsure`."""
    context = article_fields(one) if has_article else {}
    truth = census.century_labels(one)
    tasks = []
    for _, question, prompt in builder("century_labels", layout).prompts(context):
        is_known = has_picture if question.name in census.SEEN else has_article
        if question.name == "sub_region":
            is_known = has_picture or has_article
        values = [answer.value for answer in question.answers]
        if is_known or "unsure" in values:
            value = truth[question.name] if is_known else "unsure"
            tasks.append(Task(prompt, question.codes[values.index(value)], question.codes))
    return Lesson((one,) if has_picture else (), tasks)


def period(one: Scene, draw: random.Random) -> Lesson:
    """Whether the year in the article is in the period that Century asks about; with or without the picture."""
    prompts = builder("century_labels", draw.choice(("paper", "fast"))).prompts(article_fields(one))
    ((question, prompt),) = ((q, p) for _, q, p in prompts if q.name == "time_period")
    values = [answer.value for answer in question.answers]
    answer = question.codes[values.index(census.century_labels(one)[question.name])]
    return Lesson((one,) if draw.random() < 0.5 else (), [Task(prompt, answer, question.codes)])


def sight(one: Scene, draw: random.Random) -> Lesson:
    """All questions of `little_world`."""
    truth = census.little_world(one)
    tasks = []
    for _, question, prompt in builder("little_world", "fast").prompts({}):
        values = [answer.value for answer in question.answers]
        tasks.append(Task(prompt, question.codes[values.index(truth[question.name])], question.codes))
    return Lesson((one,), tasks)


@cache
def mirror_builder() -> PromptBuilder:
    """Return the builder of `little_world` with a system turn that changes what is right."""
    return PromptBuilder(Rubric.from_dict(conf("rubric", "little_world") | {"system": MIRROR}), layout="fast")


def mirrored(one: Scene, draw: random.Random) -> Lesson:
    """All questions of `little_world`, where the system's turn says that left and right are exchanged."""
    plain = sight(one, draw).tasks
    asked = [prompt for _, _, prompt in mirror_builder().prompts({})]
    tasks = []
    for prompt, task in zip(asked, plain, strict=True):
        answer = task.codes[1 - task.codes.index(task.answer)] if len(task.codes) == 2 else task.answer
        tasks.append(Task(prompt, answer, task.codes))
    return Lesson((one,), tasks)


def relevance(one: Scene, draw: random.Random) -> Lesson:
    """Return a lesson on a picture's relevance to countries, without context or with the feast's article or titles.

    Of the twelve countries one has grade 5, two have grade 3 and nine grade 1: two of these are asked about, so that no
    grade is much more frequent than another. The article names a country of guests, drawn anew for each lesson, whose
    grade is 4.
    """
    entity = census.entity_of(one)
    others = draw.sample([name for name, grade in census.cultural_relevance(one).items() if grade == "1"], 3)
    kind = draw.choice(("none", "article", "named", "titles"))
    guests = others.pop() if kind in ("article", "named") else ""
    truth = census.cultural_relevance(one, guests=guests)
    context = {"entity": entity.title} if kind == "named" else {}
    if guests:
        context["article"] = entity.article_with_guests(guests)
    if kind == "titles":
        listed = draw.sample(list(census.entities()), draw.randint(3, 19))
        context["titles"] = "\n".join(dict.fromkeys([entity.title, *(other.title for other in listed)]))
    targets = [name for name, grade in truth.items() if grade != "1" or name in others[:2]]
    draw.shuffle(targets)
    prompts = builder("cultural_relevance", draw.choice(("paper", "fast"))).prompts(context, targets=targets)
    return Lesson((one,), [Task(prompt, truth[target], question.codes) for target, question, prompt in prompts])


def scene_graph(one: Scene, draw: random.Random) -> Lesson:
    """Questions with the answers Yes and No; without the picture all answers are No."""
    has_picture = draw.random() < 0.9
    (pattern,) = rubric("dsg").questions
    asked = [q for _ in range(3) for q in questions.yes_no(one, seed=draw.randrange(10**6))]
    asked_rows = [("", replace(pattern, name=q.fact, text=q.text)) for q in asked]
    prompts = builder("dsg", "fast").prompts_about({}, asked_rows)
    answers = ["Yes" if q.is_true and has_picture else "No" for q in asked]
    tasks = [Task(p.prompt, answer, pattern.codes) for p, answer in zip(prompts, answers, strict=True)]
    return Lesson((one,) if has_picture else (), tasks)


def comparison(one: Scene, draw: random.Random) -> Lesson:
    """Return a lesson on which of two pictures follows a text; the pictures differ in one to six facts."""
    facts = draw.sample(scene_texts.STATED, draw.choice((1, 2, 4, 6)))
    return _compared_by(one, facts, draw.choice(("paper", "fast")), draw)


def close_comparison(one: Scene, draw: random.Random) -> Lesson:
    """Return a lesson on two pictures, one of which follows a text; half differ in one, often harder, fact."""
    number = draw.choice((1, 1, 1, 2, 4, 6))
    facts = draw.sample(scene_texts.STATED, number) if number > 1 else [draw.choice(ALONE)]
    return _compared_by(one, facts, draw.choice(("paper", "paper", "fast")), draw)


def _compared_by(one: Scene, facts: Sequence[str], layout: str, draw: random.Random) -> Lesson:
    """The texts are descriptions or, which is easier to learn, name one or two of the facts that differ.

    Where the pictures precede it, the lesson has several texts.
    """
    scenes = [one, replace(scene_texts.changed(one, facts, draw), number=one.number + OTHER)]
    draw.shuffle(scenes)
    asked = [(0, ""), (1, "")] + [(draw.randrange(2), draw.choice(facts)) for _ in range(3)]
    if layout == "paper":
        asked = [draw.choice(asked)]
    tasks = []
    for better, fact in asked:
        text = scene_texts.description(scenes[better])
        if fact:
            text = scene_texts.caption(scenes[better], "en", facts=sorted({fact, draw.choice(facts)}))
        tasks += compared(text, scenes, better, layout).tasks
    return Lesson(tuple(scenes), tasks)


def compared(text: str, scenes: Sequence[Scene], better: int, layout: str) -> Lesson:
    """The question which of two pictures follows a text."""
    ((_, question, prompt),) = builder("image_comparison", layout).prompts({"prompt": text})
    return Lesson(tuple(scenes), [Task(asked_after_pictures(prompt), question.codes[better], question.codes)])


def caption_match(one: Scene, draw: random.Random) -> Lesson:
    """Whether captions belong to the picture, and to its date if one of the wordings of `tric items` gives it."""
    template = draw.choice(("none", "year", "day", "day", "decade"))
    seed = draw.randrange(10**6)
    asked = [a for a in questions.captioned(one, seed=seed) if template != "none" or a.is_picture == a.is_true]
    if template == "decade":  # a year of the same decade does not contradict it
        asked = [a for a in asked if not a.is_picture or a.is_true or a.year // 10 != one.year // 10]
    context = {"date": worded_date(questions.day_of(one), template)}
    prompts = builder("caption_match", draw.choice(("paper", "fast"))).prompts(
        context, targets=[a.caption for a in asked]
    )
    tasks = [Task(p, q.codes[int(a.is_true)], q.codes) for a, (_, q, p) in zip(asked, prompts, strict=True)]
    return Lesson((one,), tasks)


def rating(one: Scene, draw: random.Random) -> Lesson:
    """Return a lesson on how well a picture matches texts with none to four wrong facts."""
    layout = draw.choice(("paper", "fast"))
    tasks = []
    for _ in range(1 if layout == "paper" else 4):
        facts = draw.sample(scene_texts.STATED, draw.choice((0, 0, 1, 1, 2, 3, 4)))
        tasks += rated(one, scene_texts.changed(one, facts, draw), len(facts), layout).tasks
    return Lesson((one,), tasks)


def rated(shown: Scene, asked: Scene, wrong: int, layout: str) -> Lesson:
    """The question how well a picture of `shown` matches the description of `asked`."""
    ((_, question, prompt),) = builder("image_rating", layout).prompts({"prompt": scene_texts.description(asked)})
    return Lesson((shown,), [Task(asked_after_pictures(prompt), census.image_rating(wrong), question.codes)])


def contextualisation(one: Scene, draw: random.Random) -> Lesson:
    """All questions of `century_contextualisation` about a description with planted merits and faults."""
    commentary = scene_texts.commentary(one, draw)
    truth = census.century_contextualisation(commentary)
    context = {"generated": commentary.text} | article_fields(one)
    prompts = builder("century_contextualisation", "paper").prompts(context)
    return Lesson((one,), [Task(prompt, truth[question.name], question.codes) for _, question, prompt in prompts])
