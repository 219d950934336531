"""What the judge is taught: prompts of the project's own rubrics about scenes, with the true answers.

A lesson is one item with its pictures: the text that its prompts share, and the questions that differ, each with the
text to answer. Prompts come from the same builders as those of `judge`, `generate` and `mark_spans`.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from actors.marking.prompts import SpanPrompts
from actors.vlm.instructions import Instruction, asked_questions
from actors.vlm.prompts import Prompt, PromptBuilder
from actors.vlm.rubric import Rubric
from jobs.corpora.tric import worded_date
from jobs.testbed.little_world import articles, census, descriptions, entities, questions
from jobs.testbed.little_world.scenes import Scene, scene

MIRROR = "Each picture is seen in a mirror: left is right, and right is left."
CONF = Path(__file__).parents[2] / "conf"


class Task(NamedTuple):
    """A prompt and the answer that is right; `codes` are the allowed ones of a closed question."""

    prompt: Prompt
    answer: str
    codes: tuple[str, ...] = ()


class Lesson(NamedTuple):
    """Tasks about one item that share the beginning of their prompts, and the scenes of its pictures."""

    scenes: tuple[Scene, ...]
    tasks: list[Task]


@cache
def rubric(name: str) -> Rubric:
    """Return a rubric of `conf/`."""
    return Rubric.from_dict(_conf("rubric", name))


@cache
def instruction(name: str) -> Instruction:
    """Return an instruction of `conf/prompt/`."""
    return Instruction.from_dict(_conf("prompt", name))


@cache
def span_prompts() -> SpanPrompts:
    """Return the prompts of `mark_spans`."""
    return SpanPrompts.from_dict(_conf("span_prompts", "docent"))


@cache
def builder(name: str, layout: str) -> PromptBuilder:
    """Return the builder of a rubric's prompts."""
    return PromptBuilder(rubric(name), layout=layout)


def _conf(group: str, name: str) -> Any:
    return yaml.safe_load((CONF / group / f"{name}.yaml").read_text(encoding="utf-8"))


def article_fields(one: Scene) -> dict[str, str]:
    """Return the context fields of a record about the scene."""
    return {"page_title": articles.title(one), "context_page_description": articles.article(one)}


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
    return PromptBuilder(Rubric.from_dict(_conf("rubric", "little_world") | {"system": MIRROR}), layout="fast")


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
    """How relevant the picture is to some countries, with or without the entity's article.

    Of the twelve countries one has grade 5, two have grade 3 and nine grade 1: two of these are asked about, so that no
    grade is much more frequent than another.
    """
    entity = entities.entity_of(one)
    context = draw.choice(({}, {"entity": entity.title, "article": entity.article}))
    truth = census.cultural_relevance(one)
    others = draw.sample([name for name, grade in truth.items() if grade == "1"], 2)
    targets = [name for name, grade in truth.items() if grade != "1" or name in others]
    draw.shuffle(targets)
    prompts = builder("cultural_relevance", draw.choice(("paper", "fast"))).prompts(context, targets=targets)
    return Lesson((one,), [Task(prompt, truth[target], question.codes) for target, question, prompt in prompts])


def scene_graph(one: Scene, draw: random.Random) -> Lesson:
    """Questions with the answers Yes and No; without the picture all answers are No."""
    has_picture = draw.random() < 0.9
    (pattern,) = rubric("dsg").questions
    asked = [q for _ in range(3) for q in questions.yes_no(one, seed=draw.randrange(10**6))]
    own = [("", replace(pattern, name=q.fact, text=q.text)) for q in asked]
    prompts = builder("dsg", "fast").prompts_about({}, own)
    answers = ["Yes" if q.is_true and has_picture else "No" for q in asked]
    tasks = [Task(p.prompt, answer, pattern.codes) for p, answer in zip(prompts, answers, strict=True)]
    return Lesson((one,) if has_picture else (), tasks)


def comparison(one: Scene, draw: random.Random) -> Lesson:
    """Which of two pictures follows the text; the other has one to four facts wrong, more than in `questions.pair`."""
    pair = questions.pair(one, seed=draw.randrange(10**6), wrong=(1, 2, 3, 4))
    prompts = builder("image_comparison", draw.choice(("paper", "fast"))).prompts({"prompt": pair.text})
    tasks = [Task(prompt, question.codes[pair.better], question.codes) for _, question, prompt in prompts]
    return Lesson(pair.scenes, tasks)


def caption_match(one: Scene, draw: random.Random) -> Lesson:
    """Whether captions belong to the picture, and to its date if one of the wordings of `tric_items` gives it."""
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


def written(one: Scene, draw: random.Random) -> Lesson:
    """A description; without a picture the answer says so."""
    has_picture = draw.random() < 0.9
    name = draw.choice(("explicit", "minimal", "explicit_context"))
    text = descriptions.description(one) if has_picture else descriptions.NO_PICTURE
    if name == "explicit_context" and has_picture:
        text += f". {articles.article(one).partition('. ')[0]}"
    prompt = _instructed(name, article_fields(one), {})
    return Lesson((one,) if has_picture else (), [Task(prompt, f"{text}.")])


def json_labels(one: Scene, draw: random.Random) -> Lesson:
    """All questions of `century_labels` at once, as JSON."""
    asked = rubric("century_labels")
    prompt = _instructed("rubric_json", article_fields(one), {"questions": asked_questions(asked)})
    return Lesson((one,), [Task(prompt, json.dumps(census.century_labels(one), ensure_ascii=False))])


def mistakes(one: Scene, draw: random.Random) -> Lesson:
    """The wrong words of a description, one per line, or NONE (`mark_spans method=direct`)."""
    planted = descriptions.planted(one, seed=draw.randrange(10**6))
    lines = [descriptions.words(planted.told, fact) for fact in planted.wrong]
    step = span_prompts().of_method("direct")["mistakes"]
    values = {"correct": descriptions.description(one), "generated": planted.text, "labels": ""}
    prompt = Prompt(tuple(step.turn(values)), "", system=step.system)
    return Lesson((one,), [Task(prompt, "\n".join(lines) or "NONE")])


def _instructed(name: str, context: Mapping[str, str], values: Mapping[str, Any]) -> Prompt:
    used = instruction(name)
    turn = used.render(context, **values)
    return Prompt(tuple(turn), "", system=used.render_system(context, **values))


LESSONS: Sequence[tuple[float, Callable[[Scene, random.Random], Lesson]]] = (
    (0.08, labels),
    (0.05, sight),
    (0.05, mirrored),
    (0.26, relevance),
    (0.34, scene_graph),
    (0.02, comparison),
    (0.02, caption_match),
    (0.09, written),
    (0.04, json_labels),
    (0.05, mistakes),
)


FIRST = tuple((weight, kind) for weight, kind in LESSONS if kind in (labels, sight, written))  # taught before the rest


def lesson(
    one: Scene, draw: random.Random, kinds: Sequence[tuple[float, Callable[[Scene, random.Random], Lesson]]] = LESSONS
) -> Lesson:
    """Return a lesson about a scene, of a kind drawn by the weights of `kinds`."""
    (teach,) = draw.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])
    return teach(one, draw)


def fixed_lines() -> list[str]:
    """Return the lines that the rubrics' and instructions' prompts have whatever the scene, longest first."""
    draw = random.Random(0)
    seen: list[set[str]] = []
    for _ in range(30):
        lines: set[str] = set()
        for _, teach in LESSONS:
            for _ in range(4):
                for task in teach(scene(draw.randrange(10**6)), draw).tasks:
                    pieces = (task.prompt.system, *task.prompt.shared, task.prompt.suffix)
                    lines |= {line for piece in pieces if isinstance(piece, str) for line in piece.splitlines()}
        seen.append(lines)
    often = {line for lines in seen for line in lines if sum(line in other for other in seen) > 12}
    lines = {line for line in often if len(line.split()) > 1}
    asked = [q for name in ("century_labels", "little_world") for q in rubric(name).questions]
    blocks = {task_options(question.codes, question.answers) for question in asked}
    return sorted(lines | {f"{line}\n" for line in lines} | blocks, key=lambda line: (-len(line), line))


def task_options(codes: Sequence[str], answers: Sequence[Any]) -> str:
    """Return the lines of a question's options as prompts have them."""
    return "\n".join(f"{code} = {answer.label}" for code, answer in zip(codes, answers, strict=True))
