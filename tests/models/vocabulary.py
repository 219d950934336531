"""Single tokens of the judge's tokenizer: fixed parts of prompts, phrases of answers, and informative words."""

import random
import re
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import groupby

from jobs.testbed.little_world import scene_texts
from jobs.testbed.little_world.scenes import (
    BY_NAME,
    COLOURS,
    EVENTS,
    FEASTS,
    MEMORIES,
    OPINIONS,
    SHAPES,
    YEARS,
    random_scene,
)
from tests.models.lessons import ALL
from tests.models.tasks import builder, rubric

PHRASES = (
    "Question: Is there a ", "Question: Is the figure ", "Question: Is the figure on the ",
    "Question: Is the number of figures ", "Question: Is this the flag of ", " side?",
    ", ", ", on the ", " side", ", on ", " ground", ", under the flag of ",
    "CORRECT description: ", "GENERATED description: ", "NONE", "- ",
    "Culture: ", "Caption: ", "Title: ", "Text: ", "Answer:", "Final score:", "The ", " The ", " of ",
    " began in ", ". Opinions about it are ", ". People remember it ",
    "The picture is closely connected with: ", " is a feast. People of ", " carry flags of ",
    ", and each guest brings a ", ". Guests come from ",
    "Description: ", "The GENERATED description again, with one piece marked: ",
    "The CORRECT description again, with one piece marked: ", 'What holds for the words "',
    '" in [[ ]]? Other pieces may be wrong as well; judge these words only.', '" in [[ ]]? Judge these words only.',
    "[[", "]]", scene_texts.NO_PICTURE, *scene_texts.LOADED, *scene_texts.VERDICTS,
)  # fmt: skip
_CHANGING = re.compile(
    rf"^Question: |^- (?!Yes|No)|\[\[\w|^What holds |^Description: |\b({'|'.join((*SHAPES, *COLOURS, *BY_NAME))})\b"
)  # in lines about a scene


def fixed_runs() -> list[str]:
    """Return the runs of lines that prompts have whatever the scene, longest first."""
    draw = random.Random(0)
    texts: list[str] = []
    counts: Counter[str] = Counter()
    for _, teach in ALL:
        for _ in range(60):
            prompt = draw.choice(teach(random_scene(draw.randrange(10**6)), draw).tasks).prompt
            shown = [text for text in (prompt.system, *prompt.shared, prompt.suffix) if isinstance(text, str)]
            texts += shown
            counts.update({line for text in shown for line in text.splitlines()})
    fixed = {line for line, n in counts.items() if n >= 5 and (line[1:4] == " = " or not _CHANGING.search(line))}
    runs = {run for text in texts for run in _runs(text, fixed)}
    dated = str(builder("caption_match", "fast").prompts({"date": "|"})[0].prompt.shared[1])
    return sorted(runs | {part.strip() for part in dated.split("|")}, key=lambda run: (-len(run), run))


def words() -> list[str]:
    """Return the words that tell scenes, answers and articles apart, and the years."""
    values = [str(value) for listed in scene_texts.VALUES.values() for value in listed if isinstance(value, str)]
    labels = [a.value for q in rubric("century_labels").questions for a in q.answers if not a.value.isdigit()]
    sentences = [*EVENTS, *FEASTS.values(), *OPINIONS, *MEMORIES]
    return [*dict.fromkeys((*values, *scene_texts.NUMBERS, *labels, *sentences, *map(str, YEARS), " A", " B"))]


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
