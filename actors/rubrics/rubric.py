"""A rubric: questions with closed answers, the parts of a prompt, and how people are asked the same questions.

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
    layouts:               # orders of the parts and of the word `picture`, or picture1, … (`actors.rubrics.pieces`)
      paper: [picture, context, question, scale]
      fast: [picture, context, scale, question]
    layout: fast           # the default
    answer_start: "Final score:"   # optional: how the model's turn begins, with its answer to follow
    targets: [Northern Africa, Melanesia]
    sensitive: true        # optional: the pictures may disturb; raters are warned, and all pages blur them
    questions:
      - {name: relevance, text: …, note: …, scale: ordinal, answers: [{value: "1", label: …, score: 1}, …]}
        # reply: label   the model writes the label itself instead of a code of one character
        # targets: false the question is asked once per item, without a target, in a rubric that asks about targets
        # name: "*"      the only question: each item is asked its own questions in its place (`judge questions=`)
    people: …              # see `actors.rubrics.people`

`actors.rubrics.rubric_forms` has shorter forms: only `name` and `questions` are needed, and `answers: [1, 2, 3]` will
do.

The layout `paper` is the paper's order. `fast` puts the picture first and what differs between an item's prompts as
late as possible, so that the model reads their common beginning once. In any layout, all pictures must come before what
differs. The system's turn is the same in all prompts of an item; the model's chat template writes it
(`actors.vlm.chat_format`).
"""

import hashlib
import json
from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass
from typing import Any

import jinja2

from actors.errors import SettingError
from actors.rubrics import checks, pieces, rubric_forms
from actors.rubrics.checks import AS_IS, OPTIONAL_TEXT, REQUIRED_TEXT, TEXTS, Key, or_empty
from actors.rubrics.people import PeopleVariant, people_variant
from actors.rubrics.rubric_questions import ANY, Question, literal, read_questions
from actors.rubrics.templates import QUESTION_WORDS, TARGET_WORD, environment, words


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
    sensitive: bool = False

    @classmethod
    @checks.of_file("rubric")
    def from_dict(cls, data: Mapping[str, Any]) -> "Rubric":
        """Return the rubric in `data`, as read from YAML.

        Raises:
            ValueError: the data is invalid; the message has the rubric and, for each mistake, the place, the value and
                what is allowed.
        """
        where = checks.named("rubric", data)
        mistakes = checks.Mistakes(where)
        full, required = data, rubric_forms.required_keys(data if isinstance(data, Mapping) else {})
        if isinstance(data, Mapping):
            full = rubric_forms.completed(data)
        keys = checks.read_keys(full, _KEYS, where, mistakes=mistakes, required=required)
        context, people = keys.pop("context"), keys.pop("people")
        keys["questions"] = read_questions(keys["questions"], mistakes, where=where) if "questions" in full else ()
        keys["parts"] = _parts(keys["parts"], mistakes, where=where)
        mistakes.refuse()
        values = {question.name: [answer.value for answer in question.answers] for question in keys["questions"]}
        of_people = mistakes.of(people_variant, people, values=values, where=f"{where}, people", instead=None)
        rubric = cls(**keys, context_fields=context["fields"], context_cut=context["cut"], people=of_people)
        _check_parts(rubric, mistakes, where=where)
        mistakes.refuse()  # the checks below need orders of valid parts
        _check_layouts(rubric, mistakes, where=where)
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
        """Return the question with this name, or the one that the items' own questions replace."""
        return next(question for question in self.questions if question.name in (name, ANY))

    def resolve_layout(self, layout: str | None) -> str:
        """Return `layout`, or the rubric's default for None.

        Raises:
            ValueError: the rubric does not have this layout.
        """
        chosen = layout or self.layout
        if chosen not in self.layouts:
            why = f"rubric {self.name!r} has no such layout; must be one of {', '.join(self.layouts)}"
            raise SettingError(why, "layout", chosen)
        return chosen

    @property
    def differing_words(self) -> set[str]:
        """Return the words that make an item's prompts differ: the target, and those of several questions."""
        if self.asks_own_questions:
            return {"question"}
        return {TARGET_WORD} | (QUESTION_WORDS if len(self.questions) > 1 else set())

    def picture_count(self, layout: str) -> int | None:
        """Return how many pictures an item must have for `layout`; None: one or more."""
        return pieces.picture_count(self.layouts[layout])

    def split(self, layout: str) -> int:
        """Return how many entries of `layout` are the same in all prompts of an item; never all of them."""
        order = self.layouts[layout]
        for place, entry in enumerate(order[:-1]):
            if not pieces.is_picture(entry) and words(self.parts[entry]) & self.differing_words:
                return place
        return len(order) - 1


def identity(rubric: Rubric, *, layout: str | None = None) -> str:
    """Return a hash (SHA-256, 32 hexadecimal digits) of everything in `rubric` that affects ratings under `layout`.

    The variant for people, the source, unused layouts and what protects people are left out.
    """
    chosen = rubric.resolve_layout(layout)
    facts = asdict(rubric)
    for unused in ("people", "source", "layouts", "sensitive"):
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


def _parts(data: Any, mistakes: checks.Mistakes, *, where: str) -> dict[str, str]:
    parts = mistakes.of(checks.mapping, data, f"{where}, parts", instead={})
    return {name: mistakes.of(checks.text, text, f"{where}, part {name!r}", instead="") for name, text in parts.items()}


def _order(data: Any, where: str) -> tuple[str, ...]:
    return tuple(checks.entries(data, where))


CONTEXT = Key(
    lambda data, where: checks.read_keys(data or {}, {"fields": TEXTS, "cut": TEXTS}, where), {"fields": (), "cut": ()}
)
_KEYS = {
    "name": REQUIRED_TEXT,
    "questions": AS_IS._replace(required=True),
    **dict.fromkeys(("version", "source"), Key(checks.text, "")),
    "parts": AS_IS._replace(default={}),
    "layouts": Key(checks.map_of(_order), {}),
    "layout": Key(checks.text, ""),
    "context": CONTEXT,
    "targets": TEXTS,
    "people": AS_IS,
    "answer_start": Key(or_empty(literal), ""),
    "system": OPTIONAL_TEXT,
    "sensitive": Key(checks.boolean(), False),
}


def _check_parts(rubric: Rubric, mistakes: checks.Mistakes, *, where: str) -> None:
    reserved = QUESTION_WORDS | {TARGET_WORD}
    if clash := sorted(reserved & set(rubric.context_fields)):
        mistakes.add(f"{where}: context field {clash[0]!r} is a reserved word of templates; use another name")
    if odd := [field for field in rubric.context_fields if not field.isidentifier()]:
        mistakes.add(
            f"{where}, context, fields: {odd[0]!r} must be a name of letters, digits and underscores; rename the column"
        )
    if unknown := [field for field in rubric.context_cut if field not in rubric.context_fields]:
        mistakes.add(
            f"{where}, context, cut: unknown field {unknown[0]!r}; fields are {', '.join(rubric.context_fields)}"
        )
    allowed = reserved | set(rubric.context_fields)
    for name, text in rubric.parts.items():
        mistakes.of(_check_template, text, allowed, where=f"{where}, part {name!r}", instead=None)
    of_system = allowed - rubric.differing_words
    mistakes.of(_check_template, rubric.system, of_system, where=f"{where}, system", instead=None)
    mistakes.refuse()  # the checks below read the templates
    if rubric.asks_own_questions and rubric.asks_targets:
        mistakes.add(f"{where}: question {ANY!r} is replaced by the items' own questions, which have no targets")
    if rubric.asks_targets and not any(question.targets for question in rubric.questions):
        mistakes.add(
            f"{where}: every question has targets: false, but a part uses {{{{ {TARGET_WORD} }}}}; remove it there, or "
            "targets: false of a question"
        )
    if rubric.targets and not rubric.asks_targets:
        mistakes.add(f"{where}, targets: no part uses {{{{ {TARGET_WORD} }}}}; use it in one, or remove targets")


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


def _check_layouts(rubric: Rubric, mistakes: checks.Mistakes, *, where: str) -> None:
    if not rubric.layouts:
        mistakes.add(f"{where}, layouts: at least one is required")
    elif rubric.layout not in rubric.layouts:
        mistakes.add(f"{where}, layout: {rubric.layout!r} must be one of layouts: {', '.join(rubric.layouts)}")
    for name in rubric.layouts:
        mistakes.of(_check_layout, rubric, name, where=f"{where}, layout {name!r}", instead=None)
    mistakes.refuse()


def _check_layout(rubric: Rubric, name: str, *, where: str) -> None:
    order = rubric.layouts[name]
    pieces.check_order(rubric.parts, order, where=where)
    used = set().union(*(words(rubric.parts[entry]) for entry in order if not pieces.is_picture(entry)))
    if missing := sorted({"question", "options"} - used):
        raise ValueError(f"{where} does not use {{{{ {missing[0]} }}}}; add a part that does")
    if rubric.asks_targets and TARGET_WORD not in used:
        raise ValueError(
            f"{where} does not use {{{{ {TARGET_WORD} }}}}, which another layout does; add a part that does"
        )
    split = rubric.split(name)
    if rubric.picture_count(name) == 0 or any(pieces.is_picture(entry) for entry in order[split:]):
        raise ValueError(
            f"{where} must have its pictures, and at least one, before what differs between prompts: {', '.join(order)}"
        )
