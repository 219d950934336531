"""Measure a judge of the demo on held-out pictures: the share of right answers for each kind of lesson.

    python -m tests.models.measure_judge [--model local:demo-judge] [--pictures 24]

A text is right if it is the same as that of the lesson. Chance is the share of the most frequent right answer;
where lessons were chosen by their right answer, it is 1 by the number of answers. The last lines are the shares of the
grades that pictures like those of Rome's pipeline are given, by the number of their wrong facts.
"""

import argparse
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from jobs.testbed.little_world.scenes import Scene, distinct_scenes
from tests.models import claim_lessons as claims
from tests.models import closed_lessons as closed
from tests.models import harder_lessons as harder
from tests.models import lessons, tasks
from tests.models import written_lessons as written
from tests.models.judge import Answered, Judge
from tests.models.little_world import studies
from tests.models.little_world.rome import LEVELS
from tests.models.pool import HELD_OUT
from tests.models.tasks import Lesson

LAYOUTS = ("fast", "paper")
WRONG = range(5)  # facts
DRAWN_PER_PICTURE = 8  # scenes of which models draw pictures, per picture of the other lessons

Teach = Callable[[Scene, random.Random], Lesson]


class Measured(NamedTuple):
    """Answers to lessons of one kind."""

    kind: str
    right: int
    asked: int
    chance: float

    def __str__(self) -> str:
        return f"{self.kind:38}{self.right:6}{self.asked:6}{self.right / self.asked:8.3f}{self.chance:8.3f}"


def measured(judge: Judge, scenes: Sequence[Scene]) -> Iterator[Measured]:
    """Yield how many answers to each kind of lesson are right, two lessons per scene, and to harder questions."""
    for teach in (*(teach for _, teach in lessons.ALL), written.dated):
        kind = teach.__name__
        answered = judge.answers(_taught(kind, teach, scenes))
        yield _measured(kind, answered)
        if teach is closed.contextualisation:
            names = [question.name for question in tasks.rubric("century_contextualisation").questions]
            for place, name in enumerate(names):
                yield _measured(f"{kind} {name}", answered[place :: len(names)])
        if teach is claims.judged:
            for code in ("A", "B", "C"):
                yield _measured(f"{kind} {code}", [answer for answer in answered if answer.task.answer == code])
    for layout in LAYOUTS:
        for wrong in (1, 2):
            answered = judge.answers(harder.pairs(scenes, wrong=wrong, layout=layout))
            yield _measured(f"pair {layout} {wrong} wrong", answered)
            both = [one.is_right and other.is_right for one, other in zip(answered[::2], answered[1::2], strict=True)]
            yield Measured(f"pair {layout} {wrong} wrong, both orders", sum(both), len(both), 0.25)
    for layout in LAYOUTS:
        graded: list[Answered] = []
        for wrong in WRONG:
            kind = f"grade {layout} {wrong} wrong"
            answered = judge.answers(_taught(kind, partial(harder.grade, wrong=wrong, layout=layout), scenes))
            yield _measured(kind, answered)
            graded += answered
        yield _measured(f"grade {layout}", graded)
    for distance in harder.DISTANCES:
        yield _measured(f"year {distance} away", judge.answers([harder.years(one, distance) for one in scenes]))


def _taught(kind: str, teach: Teach, scenes: Sequence[Scene]) -> list[Lesson]:
    draw = random.Random(f"{kind} 0")
    return [teach(one, draw) for one in scenes for _ in range(2)]


def _measured(kind: str, answered: Sequence[Answered]) -> Measured:
    expected: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
    for answer in answered:
        expected[answer.task.codes][answer.task.answer] += 1
    most = sum(
        counts.total() / len(codes) if codes and len(counts) == 1 else max(counts.values())
        for codes, counts in expected.items()
    )
    return Measured(kind, sum(answer.is_right for answer in answered), len(answered), most / len(answered))


def grades(judge: Judge, scenes: Sequence[Scene]) -> Mapping[int, Mapping[str, float]]:
    """Return the share of pictures that are given each grade, by the number of wrong facts; see `studies.WRONG`."""
    drawn = list(studies.drawn_pictures(scenes).values())
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for one, answer in zip(drawn, judge.answers([harder.grade_of_drawn(one) for one in drawn]), strict=True):
        counts[5 - studies.rating_of(one)][answer.value] += 1
    return {
        wrong: {level: of_level[level] / of_level.total() for level in LEVELS} for wrong, of_level in counts.items()
    }


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="local:demo-judge")
    parser.add_argument("--pictures", type=int, default=24)
    arguments = parser.parse_args()
    judge = Judge(arguments.model)
    print(f"{'kind':38}{'right':>6}{'asked':>6}{'share':>8}{'chance':>8}")
    for one in measured(judge, distinct_scenes(arguments.pictures, seed=HELD_OUT)):
        print(one, flush=True)
    drawn = distinct_scenes(arguments.pictures * DRAWN_PER_PICTURE, seed=HELD_OUT)
    print(f"\n{f'grades of {len(drawn)} pictures, by wrong facts':38}{''.join(f'{level:>8}' for level in LEVELS)}")
    for wrong, shares in grades(judge, drawn).items():
        print(f"{wrong:<38}{''.join(f'{shares[level]:8.3f}' for level in LEVELS)}")


if __name__ == "__main__":
    main()
