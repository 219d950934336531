"""A rubric is data: questions with closed answers, the parts of a prompt, and how people are asked the same.

A rubric's YAML file reads

    name: culture_relevance
    version: 1
    source: where labels, scales and decision rules come from
    context: {fields: [page_title, article], cut: [article]}
    parts:                 # Jinja2, sandboxed; a part that renders to nothing is left out
      context: "{% if article %}Article: {{ article }}{% endif %}"
      scale: "{{ options }}"
      question: "{{ question }} The culture is {{ target }}."
    layouts:               # orders of the parts and of the word `picture`
      paper: [picture, context, question, scale]
      fast: [picture, context, scale, question]
    layout: fast           # the default
    answer_start: "Final score:"   # how the model's turn begins, if its answer is to follow that; may be left out
    targets: [Northern Africa, Melanesia]
    questions:
      - {name: relevance, text: …, note: …, scale: ordinal, answers: [{value: "1", label: …, score: 1}, …]}
        # reply: label   the model is to write the label itself and not a code of one character
    people: …              # see `PeopleQuestion`

Two layouts of a rubric are kept. `paper` is the order of the paper. `fast` puts the picture first and as late as
possible what differs between the prompts of one picture, so that models read what is the same once; a scale comes
before the target. A layout may hold any order in which the picture comes before what differs. How far the two
agree is a figure to report, not an assumption.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import jinja2
import jinja2.meta
import jinja2.sandbox

PICTURE = "picture"
LAYOUTS = ("paper", "fast")
SCALES = ("ordinal", "nominal")
REPLIES = ("code", "label")
QUESTION_WORDS = frozenset({"question", "note", "options"})
TARGET_WORD = "target"
MAX_ANSWERS = 26  # one letter each
COLOUR = re.compile(r"#[0-9a-fA-F]{6}")


@dataclass(frozen=True)
class Answer:
    """One allowed answer: the word stored, what the prompt says, and its number on an ordinal scale."""

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

    @property
    def codes(self) -> tuple[str, ...]:
        """What a model is to reply, for each answer: one character, or with `reply: label` the label itself.

        An ordinal scale of whole numbers from 0 to 9 uses them; every other set uses A, B, C, … in its order.
        """
        if self.reply == "label":
            return tuple(answer.label for answer in self.answers)
        scores = [answer.score for answer in self.answers]
        if self.scale == "ordinal" and all(score in range(10) for score in scores):
            return tuple(str(int(score or 0)) for score in scores)
        return tuple(chr(ord("A") + place) for place in range(len(self.answers)))


@dataclass(frozen=True)
class PeopleOption:
    """What a person may choose, and the rubric's value that it stands for (None: gives no rating)."""

    label: str
    value: str | None
    hotkey: str = ""  # one key of the keyboard; empty: the annotation tool's export picks one
    colour: str = ""  # as #1f77b4


@dataclass(frozen=True)
class PeopleExample:
    """A worked example for people: what is seen, the rubric's value, and why."""

    picture: str
    value: str
    why: str


@dataclass(frozen=True)
class PeopleQuestion:
    """How people are asked one of the rubric's questions."""

    guidance: str
    options: tuple[PeopleOption, ...]
    examples: tuple[PeopleExample, ...]


@dataclass(frozen=True)
class PeopleVariant:
    """The people's variant of a rubric; no model sees it."""

    instructions: str
    questions: dict[str, PeopleQuestion]


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

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Rubric":
        """Check a rubric as YAML or Hydra gives it.

        Raises:
            ValueError: naming the rubric, the place, the value, and what is allowed there.
        """
        where = f"rubric {data['name']!r}" if isinstance(data, Mapping) and "name" in data else "a rubric"
        _keys(
            data,
            where=where,
            required=("name", "version", "source", "parts", "layouts", "layout", "questions"),
            optional=("context", "targets", "people", "answer_start"),
        )
        context = data.get("context") or {}
        _keys(context, where=f"{where}, context", required=(), optional=("fields", "cut"))
        questions = tuple(_question(entry, where=where) for entry in _list(data["questions"], where, "questions"))
        if not questions:
            raise ValueError(f"{where} has no questions; give at least one")
        _unique((question.name for question in questions), where=where, what="question")
        rubric = cls(
            name=_text(data["name"], f"{where}, name"),
            version=_text(data["version"], f"{where}, version"),
            source=_text(data["source"], f"{where}, source"),
            parts={
                name: _text(text, f"{where}, part {name!r}")
                for name, text in _named(data["parts"], f"{where}, parts").items()
            },
            layouts={
                name: tuple(_list(order, where, f"layout {name}"))
                for name, order in _named(data["layouts"], f"{where}, layouts").items()
            },
            layout=_text(data["layout"], f"{where}, layout"),
            questions=questions,
            context_fields=_texts(context.get("fields"), f"{where}, context.fields"),
            context_cut=_texts(context.get("cut"), f"{where}, context.cut"),
            targets=_texts(data.get("targets"), f"{where}, targets"),
            people=_people(data.get("people"), questions=questions, where=f"{where}, people"),
            answer_start=_text(data["answer_start"], f"{where}, answer_start") if data.get("answer_start") else "",
        )
        _check_parts(rubric, where=where)
        _check_layouts(rubric, where=where)
        return rubric

    @property
    def asks_targets(self) -> bool:
        """Whether any part speaks of a target."""
        return any(TARGET_WORD in words(text) for text in self.parts.values())

    def resolve_layout(self, layout: str | None) -> str:
        """`layout` if this rubric has it, its default for None.

        Raises:
            ValueError: a layout that the rubric does not have.
        """
        chosen = layout or self.layout
        if chosen not in self.layouts:
            raise ValueError(f"rubric {self.name!r} has no layout {chosen!r}; it has {', '.join(self.layouts)}")
        return chosen

    def split(self, layout: str) -> int:
        """How many entries of `layout` are the same in all prompts of one picture; the last entry never counts.

        A part with a target differs; a part with a question differs if there are several questions.
        """
        order = self.layouts[layout]
        differs = {TARGET_WORD} | (QUESTION_WORDS if len(self.questions) > 1 else set())
        for place, entry in enumerate(order[:-1]):
            if entry != PICTURE and words(self.parts[entry]) & differs:
                return place
        return len(order) - 1


def identity(rubric: Rubric, *, layout: str | None = None) -> str:
    """A hash (SHA-256, 32 hexadecimal digits) of everything in `rubric` that changes ratings under `layout`.

    The people's variant, the source and the layouts that are not used do not count.
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
    facts |= {"layout": chosen, "parts": [(entry, rubric.parts.get(entry, "")) for entry in rubric.layouts[chosen]]}
    canonical = json.dumps(facts, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]


def environment() -> jinja2.Environment:
    """The sandbox in which parts are rendered: no globals, no attributes of Python's own, nothing undefined."""
    sandbox = jinja2.sandbox.ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    sandbox.globals.clear()
    return sandbox


def words(template: str) -> set[str]:
    """The names that `template` takes from outside."""
    return jinja2.meta.find_undeclared_variables(environment().parse(template))


def _check_parts(rubric: Rubric, *, where: str) -> None:
    if PICTURE in rubric.parts:
        raise ValueError(f"{where} has a part named {PICTURE!r}; that word stands for the picture itself")
    reserved = QUESTION_WORDS | {TARGET_WORD}
    if clash := sorted(reserved & set(rubric.context_fields)):
        raise ValueError(f"{where}, context field {clash[0]!r} is a word of the template; name it otherwise")
    if unknown := [field for field in rubric.context_cut if field not in rubric.context_fields]:
        raise ValueError(f"{where}, context.cut names {unknown[0]!r}; fields are {', '.join(rubric.context_fields)}")
    allowed = reserved | set(rubric.context_fields)
    for name, text in rubric.parts.items():
        place = f"{where}, part {name!r}"
        try:
            used = words(text)
        except jinja2.TemplateSyntaxError as error:
            raise ValueError(f"{place} is not a template: {error}") from error
        if unknown := sorted(used - allowed):
            raise ValueError(f"{place} uses {unknown[0]!r}; it may use {', '.join(sorted(allowed))}")
        try:
            template = environment().from_string(text)
            for sample in ("", "x"):
                template.render(dict.fromkeys(allowed, sample))
        except Exception as error:
            raise ValueError(f"{place} does not render: {error}") from error
    if rubric.targets and not rubric.asks_targets:
        raise ValueError(f"{where} has targets, but no part says {{{{ {TARGET_WORD} }}}}")


def _check_layouts(rubric: Rubric, *, where: str) -> None:
    if not rubric.layouts:
        raise ValueError(f"{where} has no layouts; give at least one of {', '.join(LAYOUTS)}")
    for name, order in rubric.layouts.items():
        place = f"{where}, layout {name!r}"
        if name not in LAYOUTS:
            raise ValueError(f"{place} is unknown; layouts are {', '.join(LAYOUTS)}")
        for entry in order:
            if entry != PICTURE and entry not in rubric.parts:
                raise ValueError(f"{place} names {entry!r}; it may name {', '.join([PICTURE, *rubric.parts])}")
        _unique(order, where=place, what="entry")
        said = set().union(*(words(rubric.parts[entry]) for entry in order if entry != PICTURE))
        if missing := sorted({"question", "options"} - said):
            raise ValueError(f"{place} never says {{{{ {missing[0]} }}}}")
        if rubric.asks_targets and TARGET_WORD not in said:
            raise ValueError(f"{place} never says {{{{ {TARGET_WORD} }}}}, which another layout does")
        if PICTURE not in order[: rubric.split(name)]:
            raise ValueError(f"{place} must have {PICTURE!r} before what differs between prompts: {', '.join(order)}")
    rubric.resolve_layout(rubric.layout)


def _question(data: Any, *, where: str) -> Question:
    named = data.get("name", "") if isinstance(data, Mapping) else data
    place = f"{where}, question {named!r}"
    _keys(data, where=place, required=("name", "text", "scale", "answers"), optional=("note", "reply"))
    scale = data["scale"]
    if scale not in SCALES:
        raise ValueError(f"{place} has scale {scale!r}; scales are {', '.join(SCALES)}")
    answers = tuple(_answer(entry, scale=scale, where=place) for entry in _list(data["answers"], place, "answers"))
    if not 2 <= len(answers) <= MAX_ANSWERS:
        raise ValueError(f"{place} has {len(answers)} answers; a closed question has 2 to {MAX_ANSWERS}")
    _unique((answer.value for answer in answers), where=place, what="answer value")
    _unique((answer.label for answer in answers), where=place, what="answer label")
    if scale == "ordinal":
        _unique((answer.score for answer in answers), where=place, what="answer score")
    note = _text(data["note"], f"{place}, note") if data.get("note") else ""
    reply = data.get("reply", "code")
    if reply not in REPLIES:
        raise ValueError(f"{place} has reply {reply!r}; replies are {', '.join(REPLIES)}")
    name, text = _text(data["name"], f"{place}, name"), _text(data["text"], f"{place}, text")
    return Question(name, text, note, scale, answers, reply)


def _answer(data: Any, *, scale: str, where: str) -> Answer:
    _keys(data, where=f"{where}, an answer", required=("value", "label"), optional=("score",))
    value = _text(data["value"], f"{where}, an answer's value")
    label = _text(data["label"], f"{where}, the label of answer {value!r}")
    score = data.get("score")
    if scale == "nominal":
        if score is not None:
            raise ValueError(f"{where}, answer {value!r} has score {score!r}; only ordinal answers have scores")
        return Answer(value, label)
    if isinstance(score, bool) or not isinstance(score, int | float) or not abs(score) < float("inf"):
        raise ValueError(f"{where}, answer {value!r} has score {score!r}; ordinal answers need a finite number")
    return Answer(value, label, float(score))


def _people(data: Any, *, questions: Sequence[Question], where: str) -> PeopleVariant | None:
    if data is None:
        return None
    _keys(data, where=where, required=("questions",), optional=("instructions",))
    by_name = {question.name: question for question in questions}
    asked = {}
    for name, entry in _named(data["questions"], f"{where}, questions").items():
        if name not in by_name:
            raise ValueError(f"{where} asks {name!r}; the rubric's questions are {', '.join(by_name)}")
        asked[name] = _people_question(entry, of=by_name[name], where=f"{where}, question {name!r}")
    return PeopleVariant(str(data.get("instructions") or "").strip(), asked)


def _people_question(data: Any, *, of: Question, where: str) -> PeopleQuestion:
    _keys(data, where=where, required=("options",), optional=("guidance", "examples"))
    values = [answer.value for answer in of.answers]
    options, examples = [], []
    for entry in _list(data["options"], where, "options"):
        _keys(entry, where=f"{where}, an option", required=("label", "value"), optional=("hotkey", "colour"))
        value = None if entry["value"] is None else _text(entry["value"], f"{where}, an option's value")
        look = [_text(entry[key], f"{where}, {key}") if entry.get(key) else "" for key in ("hotkey", "colour")]
        if look[1] and not COLOUR.fullmatch(look[1]):
            raise ValueError(f"{where}, colour {look[1]!r} is not of the form #1f77b4")
        options.append(PeopleOption(_text(entry["label"], f"{where}, an option's label"), value, *look))
    for entry in _list(data.get("examples") or [], where, "examples"):
        _keys(entry, where=f"{where}, an example", required=("picture", "value", "why"), optional=())
        examples.append(PeopleExample(*(_text(entry[key], f"{where}, {key}") for key in ("picture", "value", "why"))))
    for value in [*(option.value for option in options), *(example.value for example in examples)]:
        if value is not None and value not in values:
            raise ValueError(f"{where} maps to {value!r}; the question's values are {', '.join(values)}")
    _unique((option.label for option in options), where=where, what="option label")
    return PeopleQuestion(str(data.get("guidance") or "").strip(), tuple(options), tuple(examples))


def _keys(data: Any, *, where: str, required: Sequence[str], optional: Sequence[str]) -> None:
    allowed = [*required, *optional]
    if not isinstance(data, Mapping):
        raise ValueError(f"{where} is {data!r}; it must be a mapping with {', '.join(allowed)}")
    if unknown := [str(key) for key in data if key not in allowed]:
        raise ValueError(f"{where} has unknown key {unknown[0]!r}; allowed are {', '.join(allowed)}")
    if missing := [key for key in required if key not in data]:
        raise ValueError(f"{where} lacks {missing[0]!r}; needed are {', '.join(required)}")


def _named(data: Any, where: str) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise ValueError(f"{where} is {data!r}; it must be a mapping of names")
    return {str(name): entry for name, entry in data.items()}


def _list(data: Any, where: str, what: str) -> Sequence[Any]:
    if isinstance(data, str) or not isinstance(data, Sequence):
        raise ValueError(f"{where}, {what} is {data!r}; it must be a list")
    return data


def _text(data: Any, where: str) -> str:
    if isinstance(data, bool):  # YAML reads yes, no, on and off as booleans
        raise ValueError(f"{where} is the boolean {data!r}; put the word in quotes")
    if not isinstance(data, str | int | float) or not str(data).strip():
        raise ValueError(f"{where} is {data!r}; it must be a text that is not empty")
    return str(data).strip()


def _texts(data: Any, where: str) -> tuple[str, ...]:
    made = tuple(_text(entry, where) for entry in _list(data or [], where, "a list"))
    _unique(made, where=where, what="entry")
    return made


def _unique(values: Iterable[Any], *, where: str, what: str) -> None:
    seen = set()
    for value in values:
        if value in seen:
            raise ValueError(f"{where} has {what} {value!r} twice; each may stand once")
        seen.add(value)
