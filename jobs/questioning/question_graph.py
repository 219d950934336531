"""Rows of the table `questions`, and their faults: duplicates, unsuitable questions, and unknown parents.

A question is invalid, and is not counted, if it is asked twice, asks for the picture itself ("Is there an image?"), or
cannot be answered with yes or no. A parent that is missing from the set is dropped, as are the parents of the questions
on a cycle; the question stays valid.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from actors.rubrics.scene_graphs import LineFault

DUPLICATE, ABOUT_PICTURE, NOT_YES_NO, MARKED = "duplicate", "asks_for_the_picture", "not_yes_or_no", "marked_invalid"
NO_QUESTION = "no_question"
UNKNOWN_PARENT, CYCLE = "unknown_parent", "cycle"
_PICTURE = r"(?:image|picture|photo(?:graph)?|illustration|visuali[sz]ation|depiction|scene)"
_OF_PICTURE = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?:is|are) there (?:an? |the |any )?(?:historical |visual )?{_PICTURE}s?(?: here| shown| created)?\?",
        r"is (?:this|it) (?:an? |the )?(?:historical )?(?:image|picture|scene|depiction|visuali[sz]ation)\?",
        rf"is (?:an?|the) (?:historical )?{_PICTURE} (?:there|shown|created|generated|made|present|visible)\?",
        rf"does (?:an?|the) (?:historical )?{_PICTURE} exist\?",
        rf"(?:can|could|do|would) you (?:picture|see|make|have|show)\b.*\b{_PICTURE}\b.*\?",
        r"(?:can|could|do|would) you (?:visuali[sz]e|imagine|create|generate|draw)\b.*\?",
    )
]
_OPEN = re.compile(r"(?:what|which|who|whom|whose|where|when|why|how)\b", re.IGNORECASE)


@dataclass(frozen=True)
class GraphQuestion:
    """A row of the table `questions`.

    Attributes:
        line: line in the file, or of the tuple in the model's answer; from 1.
        proposition: the tuple that it asks about.
        fault: why it is invalid, or what was changed; empty if nothing was.
    """

    set_id: str
    question_id: str
    text: str
    line: int
    proposition: str = ""
    category: str = ""
    parents: tuple[str, ...] = ()
    valid: bool = True
    fault: str = ""


def invalid_kind(text: str) -> str:
    """Return why a question cannot be asked about a picture (it asks for the picture, or is open); empty if it can."""
    plain = " ".join(text.split())
    if any(pattern.fullmatch(plain) for pattern in _OF_PICTURE):
        return ABOUT_PICTURE
    return NOT_YES_NO if _OPEN.match(plain) else ""


def checked(questions: Sequence[GraphQuestion]) -> list[GraphQuestion]:
    """Return the questions of one set with their faults marked; see the module's docstring.

    Args:
        questions: questions with distinct question_ids.
    """
    ids = {question.question_id for question in questions}
    cyclic = {name for cycle in cycles(questions) for name in cycle}
    asked: set[str] = set()
    marked = []
    for question in questions:
        text = " ".join(question.text.split()).casefold()
        kind = invalid_kind(question.text) or (DUPLICATE if text and text in asked else "")
        asked.add(text)
        faults = [kind] if kind else [question.fault] if question.fault else []
        parents = tuple(parent for parent in question.parents if parent in ids and parent != question.question_id)
        faults += [UNKNOWN_PARENT] if set(question.parents) - ids else []
        if question.question_id in cyclic:
            faults.append(CYCLE)
            parents = tuple(parent for parent in parents if parent not in cyclic)
        valid = question.valid and not kind
        marked.append(replace(question, parents=parents, valid=valid, fault=", ".join(faults)))
    return marked


def cycles(questions: Sequence[GraphQuestion]) -> list[list[str]]:
    """Return the sets of questions that depend on each other, in the order of the questions; a question that depends on
    itself is a set of one."""
    parents_of = {question.question_id: question.parents for question in questions}
    reach: dict[str, set[str]] = {}
    for name, parents in parents_of.items():
        reached: set[str] = set()
        waiting = list(parents)
        while waiting:
            parent = waiting.pop()
            if parent not in reached and parent in parents_of:
                reached.add(parent)
                waiting += parents_of[parent]
        reach[name] = reached
    groups: dict[frozenset[str], list[str]] = {}
    for name, reached in reach.items():
        if name in reached:
            groups.setdefault(frozenset(other for other in reached if name in reach[other]), []).append(name)
    return list(groups.values())


def from_answers(
    set_id: str,
    tuples: dict[int, tuple[int, str]],
    questions: dict[int, tuple[int, str]],
    parents: dict[int, tuple[int, str]],
) -> tuple[list[GraphQuestion], list[LineFault]]:
    """Return the questions of a set from a model's answers, and the tuples without a question.

    Args:
        tuples, questions, parents: (line, text) by number, from `actors.rubrics.scene_graphs.parse`. A tuple
        without a line
            of parents has no parents.
    """
    rows = [
        GraphQuestion(
            set_id=set_id,
            question_id=str(number),
            text=questions[number][1],
            line=line,
            proposition=text,
            category=text.partition(" ")[0],
            parents=tuple(filter(None, parents.get(number, (0, ""))[1].split(","))),
        )
        for number, (line, text) in tuples.items()
        if number in questions
    ]
    missing = [
        LineFault("questions", line, NO_QUESTION, f"{number} | {text}")
        for number, (line, text) in tuples.items()
        if number not in questions
    ]
    return checked(rows), missing


def question_row(question: GraphQuestion, text: str | None) -> dict[str, Any]:
    """Return the row of a question; `text` is the text that its set is about, None if unknown."""
    return {
        "set_id": question.set_id,
        "question_id": question.question_id,
        "text": question.text,
        "tuple": question.proposition or None,
        "category": question.category or None,
        "parents": list(question.parents),
        "valid": question.valid,
        "fault": question.fault or None,
        "line": question.line,
        "about": text,
    }
