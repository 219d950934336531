"""What the judge is taught: prompts of the project's own rubrics about scenes, with the true answers.

A lesson is one item with its pictures: the text that its prompts share, and the questions that differ, each with the
text to answer. Prompts come from the same builders as those of `judge`, `generate` and `mark_spans`.
"""

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from actors.marking.model import bullets
from actors.marking.prompts import SpanPrompts
from actors.vlm.instructions import Instruction, asked_questions
from actors.vlm.prompts import Prompt, PromptBuilder
from actors.vlm.rubric import Rubric
from jobs.corpora.tric import worded_date
from jobs.testbed.little_world import articles, captions, census, descriptions, entities, questions
from jobs.testbed.little_world.facts import BY_NAME, COLOURS, EVENTS, FEASTS, MEMORIES, OPINIONS, SHAPES
from jobs.testbed.little_world.scenes import YEARS, Scene, scene

MIRROR = "Each picture is seen in a mirror: left is right, and right is left."
PHRASES = (
    "Question: Is there a ", "Question: Is the figure ", "Question: Is the figure on the ",
    "Question: Is the number of figures ", "Question: Is this the flag of ", " side?",
    ", ", ", on the ", " side", ", on ", " ground", ", under the flag of ",
    "CORRECT description: ", "GENERATED description: ", "NONE", "- ",
    "Culture: ", "Caption: ", "Title: ", "Text: ", "Answer:", "Final score:", "The ", " The ", " of ",
    " began in ", ". Opinions about it are ", ". People remember it ",
    "The picture is closely connected with: ", " is a feast. People of ", " carry flags of ",
    ", and each guest brings a ",
)  # fmt: skip
_CHANGING = re.compile(
    rf"^Question: |^- (?!Yes|No)|\b({'|'.join((*SHAPES, *COLOURS, *BY_NAME))})\b"
)  # in lines about a scene
OTHER = 500_000  # what the number of a scene with changed facts is higher by
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
    named, described = {"entity": entity.title}, {"article": entity.article}
    context = draw.choice(({}, described, named | described))
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
    own_rows = [("", replace(pattern, name=q.fact, text=q.text)) for q in asked]
    prompts = builder("dsg", "fast").prompts_about({}, own_rows)
    answers = ["Yes" if q.is_true and has_picture else "No" for q in asked]
    tasks = [Task(p.prompt, answer, pattern.codes) for p, answer in zip(prompts, answers, strict=True)]
    return Lesson((one,) if has_picture else (), tasks)


def comparison(one: Scene, draw: random.Random) -> Lesson:
    """Which of two pictures follows a text; they differ in one to six facts, more than those of `questions.pair`.

    The text is a description or, which is easier to learn, names one or two of these facts. Where the pictures precede
    it, the lesson has several texts.
    """
    layout = draw.choice(("paper", "fast"))
    facts = draw.sample(descriptions.STATED, draw.choice((1, 2, 4, 6)))
    scenes = [one, replace(descriptions.changed(one, facts, draw), number=one.number + OTHER)]
    draw.shuffle(scenes)
    asked = [(0, ""), (1, "")] + [(draw.randrange(2), draw.choice(facts)) for _ in range(4)]
    if layout == "paper":
        asked = [draw.choice(asked)]
    tasks = []
    for better, fact in asked:
        text = descriptions.description(scenes[better])
        if fact:
            text = captions.caption(scenes[better], "en", facts=sorted({fact, draw.choice(facts)}))
        tasks += compared(text, scenes, better, layout).tasks
    return Lesson(tuple(scenes), tasks)


def compared(text: str, scenes: Sequence[Scene], better: int, layout: str) -> Lesson:
    """The question which of two pictures follows a text."""
    ((_, question, prompt),) = builder("image_comparison", layout).prompts({"prompt": text})
    return Lesson(tuple(scenes), [Task(_asked_after_pictures(prompt), question.codes[better], question.codes)])


def _asked_after_pictures(prompt: Prompt) -> Prompt:
    """Return the same prompt, of which only what precedes and what is in the pictures' part is shared."""
    cut = max(place for place, piece in enumerate(prompt.shared) if not isinstance(piece, str)) + 1
    rest = "".join(str(piece) for piece in prompt.shared[cut:])
    return replace(prompt, shared=prompt.shared[:cut], suffix=rest + prompt.suffix)


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


def marks(one: Scene, draw: random.Random) -> Lesson:
    """The wrong words of descriptions, and those that they omit, one per line, or NONE (`mark_spans method=direct`)."""
    correct = descriptions.description(one)
    tasks = []
    for number in range(5):
        planted = descriptions.planted(one, seed=draw.randrange(10**6))
        wrong = [descriptions.words(planted.described, fact) for fact in planted.wrong]
        values: dict[str, Any] = {"correct": correct, "generated": planted.text, "labels": ""}
        if number < 3:
            prompt, lines = _marked("mistakes", values), wrong
        else:
            prompt = _marked("omissions", values | {"mistakes": bullets(wrong)})
            lines = [descriptions.words(one, fact) for fact in descriptions.STATED if fact in planted.omitted]
        tasks.append(Task(prompt, "\n".join(lines) or "NONE"))
    return Lesson((one,), tasks)


def _marked(name: str, values: Mapping[str, Any]) -> Prompt:
    step = span_prompts().of_method("direct")[name]
    prompt = _asked_after_pictures(Prompt(tuple(step.turn(values)), "", system=step.system))
    begin = prompt.suffix.index("GENERATED")
    return replace(prompt, shared=(*prompt.shared, prompt.suffix[:begin]), suffix=prompt.suffix[begin:])


def _instructed(name: str, context: Mapping[str, str], values: Mapping[str, Any]) -> Prompt:
    used = instruction(name)
    turn = used.render(context, **values)
    return Prompt(tuple(turn), "", system=used.render_system(context, **values))


Kind = tuple[float, Callable[[Scene, random.Random], Lesson]]  # a weight, and what makes the lesson
LESSONS: Sequence[Kind] = (
    (0.06, labels),
    (0.03, sight),
    (0.06, mirrored),
    (0.07, relevance),
    (0.07, scene_graph),
    (0.25, comparison),
    (0.13, caption_match),
    (0.12, written),
    (0.04, json_labels),
    (0.17, marks),
)


# Taught before all: to see, and to compare a word with a picture.
FIRST: Sequence[Kind] = ((0.2, labels), (0.2, sight), (0.6, scene_graph))


def lesson(one: Scene, draw: random.Random, kinds: Sequence[Kind] = LESSONS) -> Lesson:
    """Return a lesson about a scene, of a kind drawn by the weights of `kinds`."""
    (teach,) = draw.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])
    return teach(one, draw)


def fixed_runs() -> list[str]:
    """Return the runs of lines that prompts have whatever the scene, longest first."""
    draw = random.Random(0)
    texts: list[str] = []
    counts: Counter[str] = Counter()
    for _, teach in LESSONS:
        for _ in range(60):
            prompt = draw.choice(teach(scene(draw.randrange(10**6)), draw).tasks).prompt
            shown = [text for text in (prompt.system, *prompt.shared, prompt.suffix) if isinstance(text, str)]
            texts += shown
            counts.update({line for text in shown for line in text.splitlines()})
    fixed = {line for line, n in counts.items() if n >= 5 and (line[1:4] == " = " or not _CHANGING.search(line))}
    runs = {run for text in texts for run in _runs(text, fixed)}
    dated = str(builder("caption_match", "fast").prompts({"date": "|"})[0].prompt.shared[1])
    return sorted(runs | {part.strip() for part in dated.split("|")}, key=lambda run: (-len(run), run))


def words() -> list[str]:
    """Return the words that tell scenes, answers and articles apart, and decades: a year is its decade and a digit."""
    values = [str(value) for listed in descriptions.VALUES.values() for value in listed if isinstance(value, str)]
    labels = [a.value for q in rubric("century_labels").questions for a in q.answers if not a.value.isdigit()]
    lines = [*EVENTS, *FEASTS.values(), *OPINIONS, *MEMORIES]
    decades = [str(decade) for decade in range(YEARS[0] // 10, YEARS[-1] // 10 + 1)]
    return [*dict.fromkeys((*values, *descriptions.NUMBERS, *labels, *lines, *decades, " A", " B"))]


def phrases() -> list[str]:
    """Return what is between the changing words: beginnings of turns, parts of sentences, and the frame of JSON."""
    names = [question.name for question in rubric("century_labels").questions]
    keys = [f'{"{" if not number else chr(34) + ", "}"{name}": "' for number, name in enumerate(names)]
    turns = ["You are a helpful assistant.", *(f"{role}\n" for role in ("system", "user", "assistant"))]
    return [*turns, *keys, '"}', *PHRASES]


def _runs(text: str, fixed: Collection[str]) -> Iterator[str]:
    """Yield the runs of fixed lines in a text, without empty lines at the ends."""
    for is_fixed, lines in groupby(text.splitlines(keepends=True), lambda line: line.rstrip("\n") in fixed):
        run = "".join(lines).strip("\n")
        if is_fixed and " " in run:
            yield run
