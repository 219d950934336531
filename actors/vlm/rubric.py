"""A rubric: questions with closed answers, the parts of a prompt, and how people are asked the same.

A rubric's YAML file reads

    name: cultural_relevance
    version: 1
    source: where labels, scales and decision rules come from
    context: {fields: [page_title, article], cut: [article]}
    system: You grade …    # optional: text of the system's turn, with context fields; none if it renders to nothing
    parts:                 # Jinja2, sandboxed; a part that renders to nothing is left out
      context: "{% if article %}Article: {{ article }}{% endif %}"
      scale: "{{ options }}"
      question: "{{ question }} The culture is {{ target }}."
    layouts:               # orders of the parts and of the word `picture`, or picture1, … (`actors.vlm.pieces`)
      paper: [picture, context, question, scale]
      fast: [picture, context, scale, question]
    layout: fast           # the default
    answer_start: "Final score:"   # optional: how the model's turn begins, with its answer to follow
    targets: [Northern Africa, Melanesia]
    questions:
      - {name: relevance, text: …, note: …, scale: ordinal, answers: [{value: "1", label: …, score: 1}, …]}
        # reply: label   the model writes the label itself instead of a code of one character
        # targets: false the question is asked once per item, without a target, in a rubric that asks about targets
        # name: "*"      the only question: each item is asked its own questions in its place (`judge questions=`)
    people: …              # see `actors.vlm.people`

`actors.vlm.rubric_forms` has shorter forms: only `name` and `questions` are needed, and `answers: [1, 2, 3]` will do.

Layout `paper` is the order of the paper. `fast` puts the picture first and what differs between the prompts of one
item as late as possible, so that the model reads what they share once. In any layout all pictures must come before what
differs. The system's turn is the same in all prompts of one item; the model's chat template writes it
(`actors.vlm.chat_format`).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from typing import Any, Literal

import jinja2

from actors.vlm import checks, pieces, rubric_forms
from actors.vlm.people import PeopleVariant, people_variant
from actors.vlm.templates import QUESTION_WORDS, TARGET_WORD, environment, words

SCALES = ("ordinal", "nominal")
REPLIES = ("code", "label")
MAX_ANSWERS = 26  # one letter each
TEXTS, OPTIONAL_TEXTS = ("name", "version", "source", "layout"), ("answer_start", "system")
ANY = "*"  # the name of a question that is replaced by the items' own questions


@dataclass(frozen=True)
class Answer:
    """One allowed answer: the value stored, the label in the prompt, and its number on an ordinal scale."""

    value: str
    label: str
    score: float | None = None


@dataclass(frozen=True)
class Question:
    """A question with a closed set of answers, in the order in which they are shown and stored."""

    name: str
    text: str
    note: str
    scale: Literal["ordinal", "nominal"]
    answers: tuple[Answer, ...]
    reply: Literal["code", "label"] = "code"
    targets: bool = True  # whether a rubric that asks about targets asks this question about each of them

    @property
    def codes(self) -> tuple[str, ...]:
        """What the model is to reply for each answer: one character, or with `reply: label` the label itself.

        An ordinal scale of integers from 0 to 9 uses them; all other sets use A, B, C, … in their order.
        """
        if self.reply == "label":
            return tuple(answer.label for answer in self.answers)
        scores = [answer.score for answer in self.answers]
        if self.scale == "ordinal" and all(score in range(10) for score in scores):
            return tuple(str(int(score or 0)) for score in scores)
        return tuple(chr(ord("A") + place) for place in range(len(self.answers)))


@dataclass(frozen=True)
class Rubric:
    """A checked rubric; build it with `Rubric.from_dict`."""

    name: str
    version: str
    source: str
    parts: dict[str, str]
    layouts: dict[str, tuple[str, ...]]
    layout: str
    questions: tuple[Question, ...]
    context_fields: tuple[str, ...] = ()
    context_cut: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    people: PeopleVariant | None = None
    answer_start: str = ""
    system: str = ""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Rubric":
        """Check a rubric from YAML or Hydra.

        Raises:
            ValueError: naming the rubric, and for each mistake the place, the value, and what is allowed there.
        """
        where = checks.named("rubric", data)
        if isinstance(data, Mapping):
            data = rubric_forms.completed(data)
        mistakes = checks.Mistakes(where)
        mistakes.of(
            checks.check_keys,
            data,
            instead=None,
            where=where,
            required=("name", "version", "source", "parts", "layouts", "layout", "questions"),
            optional=("context", "targets", "people", "answer_start", "system"),
        )
        if not isinstance(data, Mapping):
            mistakes.refuse()
        questions = _questions(data["questions"], mistakes, where=where) if "questions" in data else ()
        texts: dict[str, Any] = {
            key: mistakes.of(checks.text, data[key], f"{where}, {key}", instead="") for key in TEXTS if key in data
        } | {
            key: mistakes.of(checks.optional_text, data.get(key), f"{where}, {key}", instead="")
            for key in OPTIONAL_TEXTS
        }
        parts = mistakes.of(_parts, data.get("parts", {}), where=where, instead={})
        layouts = mistakes.of(_layouts, data.get("layouts", {}), where=where, instead={})
        fields, cut = mistakes.of(_context, data.get("context") or {}, where=f"{where}, context", instead=((), ()))
        targets = mistakes.of(checks.texts, data.get("targets"), f"{where}, targets", instead=())
        mistakes.refuse()
        values = {question.name: [answer.value for answer in question.answers] for question in questions}
        rubric = cls(
            **texts,
            parts=parts,
            layouts=layouts,
            questions=questions,
            context_fields=fields,
            context_cut=cut,
            targets=targets,
            people=people_variant(data.get("people"), values=values, where=f"{where}, people"),
        )
        _check_parts(rubric, where=where)
        _check_layouts(rubric, where=where)
        return rubric

    @property
    def asks_targets(self) -> bool:
        """Whether any part uses the target."""
        return any(TARGET_WORD in words(text) for text in self.parts.values())

    @property
    def asks_own_questions(self) -> bool:
        """Whether each item is asked its own questions, which replace the name and text of the only question."""
        return self.questions[0].name == ANY

    def question(self, name: str) -> Question:
        """Return the question of that name, or the one that is replaced by the items' own."""
        return next(question for question in self.questions if question.name in (name, ANY))

    def resolve_layout(self, layout: str | None) -> str:
        """Return `layout`, or the rubric's default for None.

        Raises:
            ValueError: a layout that the rubric does not have.
        """
        chosen = layout or self.layout
        if chosen not in self.layouts:
            raise ValueError(
                f"layout={chosen}: rubric {self.name!r} has no such layout; must be one of {', '.join(self.layouts)}"
            )
        return chosen

    @property
    def differing_words(self) -> set[str]:
        """Return the words that make the prompts of one item differ: the target, and those of several questions."""
        if self.asks_own_questions:
            return {"question"}
        return {TARGET_WORD} | (QUESTION_WORDS if len(self.questions) > 1 else set())

    def picture_count(self, layout: str) -> int | None:
        """Return how many pictures an item must have for `layout`; None: one or more."""
        return pieces.picture_count(self.layouts[layout])

    def split(self, layout: str) -> int:
        """Return how many entries of `layout` are the same in all prompts of one item; never all of them."""
        order = self.layouts[layout]
        for place, entry in enumerate(order[:-1]):
            if not pieces.is_picture(entry) and words(self.parts[entry]) & self.differing_words:
                return place
        return len(order) - 1


def identity(rubric: Rubric, *, layout: str | None = None) -> str:
    """Return a hash (SHA-256, 32 hexadecimal digits) of everything in `rubric` that changes ratings under `layout`.

    The people's variant, the source and the layouts that are not used are left out.
    """
    chosen = rubric.resolve_layout(layout)
    facts = asdict(rubric)
    for unused in ("people", "source", "layouts"):
        del facts[unused]
    if not rubric.answer_start:
        del facts["answer_start"]
    for question in facts["questions"]:
        if question["reply"] == "code":
            del question["reply"]
        if question["targets"]:
            del question["targets"]
    facts |= {"layout": chosen, "parts": [(entry, rubric.parts.get(entry, "")) for entry in rubric.layouts[chosen]]}
    canonical = json.dumps(facts, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]


def _questions(data: Any, mistakes: checks.Mistakes, *, where: str) -> tuple[Question, ...]:
    entries = mistakes.of(checks.entries, data, f"{where}, questions", instead=[])
    if not entries:
        mistakes.of(_refuse, f"{where}, questions: at least one is required", instead=None)
    read = [mistakes.of(_question, entry, where=where, instead=None) for entry in entries]
    questions = tuple(question for question in read if question is not None)
    mistakes.of(_check_names, [question.name for question in questions], where=where, instead=None)
    return questions


def _refuse(message: str) -> None:
    raise ValueError(message)


def _check_names(names: Sequence[str], *, where: str) -> None:
    checks.check_unique(names, where=where, kind="question")
    if len(names) > 1 and ANY in names:
        raise ValueError(f"{where}: question {ANY!r} is replaced by the items' own questions; it must be the only one")


def _context(data: Any, *, where: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    checks.check_keys(data, where=where, required=(), optional=("fields", "cut"))
    return checks.texts(data.get("fields"), f"{where}.fields"), checks.texts(data.get("cut"), f"{where}.cut")


def _parts(data: Any, *, where: str) -> dict[str, str]:
    parts = checks.mapping(data, f"{where}, parts")
    return {name: checks.text(text, f"{where}, part {name!r}") for name, text in parts.items()}


def _layouts(data: Any, *, where: str) -> dict[str, tuple[str, ...]]:
    layouts = checks.mapping(data, f"{where}, layouts")
    return {name: tuple(checks.entries(order, f"{where}, layout {name}")) for name, order in layouts.items()}


def _check_parts(rubric: Rubric, *, where: str) -> None:
    reserved = QUESTION_WORDS | {TARGET_WORD}
    if clash := sorted(reserved & set(rubric.context_fields)):
        raise ValueError(f"{where}: context field {clash[0]!r} is a reserved word of templates; use another name")
    if unknown := [field for field in rubric.context_cut if field not in rubric.context_fields]:
        raise ValueError(
            f"{where}, context.cut: unknown field {unknown[0]!r}; fields are {', '.join(rubric.context_fields)}"
        )
    allowed = reserved | set(rubric.context_fields)
    for name, text in rubric.parts.items():
        _check_template(text, allowed, where=f"{where}, part {name!r}")
    _check_template(rubric.system, allowed - rubric.differing_words, where=f"{where}, system")
    if rubric.asks_own_questions and rubric.asks_targets:
        raise ValueError(f"{where}: question {ANY!r} is replaced by the items' own questions, which have no targets")
    if rubric.asks_targets and not any(question.targets for question in rubric.questions):
        raise ValueError(
            f"{where}: every question has targets: false, but a part uses {{{{ {TARGET_WORD} }}}}; remove it there, or "
            "targets: false of a question"
        )
    if rubric.targets and not rubric.asks_targets:
        raise ValueError(f"{where}, targets: no part uses {{{{ {TARGET_WORD} }}}}; use it in one, or remove targets")


def _check_template(text: str, allowed: Set[str], *, where: str) -> None:
    try:
        used = words(text)
    except jinja2.TemplateSyntaxError as error:
        raise ValueError(f"{where}: not a valid template: {error}") from error
    if unknown := sorted(used - allowed):
        raise ValueError(f"{where}: unknown word {unknown[0]!r}; must be one of {', '.join(sorted(allowed))}")
    try:
        template = environment().from_string(text)
        for sample in ("", "x"):
            template.render(dict.fromkeys(allowed, sample))
    except Exception as error:
        raise ValueError(f"{where}: cannot be rendered: {error}") from error


def _check_layouts(rubric: Rubric, *, where: str) -> None:
    if not rubric.layouts:
        raise ValueError(f"{where}, layouts: at least one is required")
    if rubric.layout not in rubric.layouts:
        raise ValueError(f"{where}, layout: {rubric.layout!r} must be one of layouts: {', '.join(rubric.layouts)}")
    for name, order in rubric.layouts.items():
        place = f"{where}, layout {name!r}"
        pieces.check_order(rubric.parts, order, where=place)
        used = set().union(*(words(rubric.parts[entry]) for entry in order if not pieces.is_picture(entry)))
        if missing := sorted({"question", "options"} - used):
            raise ValueError(f"{place} does not use {{{{ {missing[0]} }}}}; add a part that does")
        if rubric.asks_targets and TARGET_WORD not in used:
            raise ValueError(
                f"{place} does not use {{{{ {TARGET_WORD} }}}}, which another layout does; add a part that does"
            )
        split = rubric.split(name)
        if rubric.picture_count(name) == 0 or any(pieces.is_picture(entry) for entry in order[split:]):
            raise ValueError(
                f"{place} must have its pictures, and at least one, before what differs between prompts: "
                f"{', '.join(order)}"
            )


def _question(data: Any, *, where: str) -> Question:
    name = data.get("name", "") if isinstance(data, Mapping) else data
    place = f"{where}, question {name!r}"
    checks.check_keys(
        data, where=place, required=("name", "text", "scale", "answers"), optional=("note", "reply", "targets")
    )
    scale = data["scale"]
    if scale not in SCALES:
        raise ValueError(f"{place}: unknown scale {scale!r}; must be one of {', '.join(SCALES)}")
    entries = checks.entries(data["answers"], f"{place}, answers")
    answers = tuple(_answer(entry, scale=scale, where=place) for entry in entries)
    if not 2 <= len(answers) <= MAX_ANSWERS:
        raise ValueError(f"{place}, answers: {len(answers)} of them; a closed question must have 2 to {MAX_ANSWERS}")
    checks.check_unique((answer.value for answer in answers), where=place, kind="answer value")
    checks.check_unique((answer.label for answer in answers), where=place, kind="answer label")
    if scale == "ordinal":
        checks.check_unique((answer.score for answer in answers), where=place, kind="answer score")
    reply = data.get("reply", "code")
    if reply not in REPLIES:
        raise ValueError(f"{place}: unknown reply {reply!r}; must be one of {', '.join(REPLIES)}")
    targets = data.get("targets", True)
    if not isinstance(targets, bool):
        raise ValueError(f"{place}: targets {targets!r} must be false (asked without a target) or true")
    name, text = (checks.text(data[key], f"{place}, {key}") for key in ("name", "text"))
    note = checks.optional_text(data.get("note"), f"{place}, note")
    return Question(name, text, note, scale, answers, reply, targets)


def _answer(data: Any, *, scale: str, where: str) -> Answer:
    checks.check_keys(data, where=f"{where}, an answer", required=("value", "label"), optional=("score",))
    value = checks.text(data["value"], f"{where}, an answer's value")
    label = checks.text(data["label"], f"{where}, label of answer {value!r}")
    score = data.get("score")
    if scale == "nominal":
        if score is not None:
            raise ValueError(f"{where}, answer {value!r}: score {score!r} is not allowed; only ordinal scales have any")
        return Answer(value, label)
    if isinstance(score, bool) or not isinstance(score, int | float) or not abs(score) < float("inf"):
        raise ValueError(f"{where}, answer {value!r}: score {score!r} must be a finite number on an ordinal scale")
    return Answer(value, label, float(score))
