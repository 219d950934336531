"""How a model's turn begins, read from renderings of its chat template: open, with a thought, or with the answer.

The template renders a question, the question with its answer, and with a thought before the answer; where these texts
differ is what opens a thought, what closes it, and what comes before an answer. No list of models is needed. What
cannot be read in this way (templates that drop the thoughts of finished turns) follows from the tag with which the open
turn ends.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jinja2
import jinja2.ext
import jinja2.meta
import jinja2.parser
from jinja2 import nodes

from actors.rubrics.templates import BoundedSandbox
from actors.rubrics.thoughts import ANY, ThoughtMarks, closing

QUESTION = "Is it?"
_ANSWER, _THOUGHT = "REMINE7ANSWER", "REMINE7THOUGHT"  # no template changes them
_FIELDS = (
    "reasoning_content",
    "thinking",
    "reasoning",
)  # of a message and of a declared response; templates read one of them
_CUT_TAG = re.compile(r"[<\[◁][^<>\[\]◁▷]*\Z")
# Variables that the caller of a template sets, besides the special tokens of the tokenizer.
GIVEN = frozenset(
    {"messages", "tools", "documents", "add_generation_prompt", "continue_final_message", "chat_template", "tokenize"}
)
FUNCTIONS = frozenset({"raise_exception", "strftime_now"})  # that transformers adds
Variables = Mapping[str, Any]
Render = Callable[..., str]  # (messages, open_turn=…, variables=…) -> text; raises what a template may raise


class AnswerOpening(NamedTuple):
    """What changes an open turn into one in which the model answers at once, without a thought or after a closed one.

    Attributes:
        variables: variables of the template, besides the user's.
        cut: the end of the open turn that is removed.
        text: what follows instead, up to the answer or the white space before it.
        lead: the white space before an answer.
    """

    variables: Variables
    cut: str
    text: str
    lead: str

    def of(self, rendered: str) -> str:
        """Return a prompt, rendered with `variables`, in which the model answers at once."""
        return rendered.removesuffix(self.cut) + self.text if self.cut else rendered + self.text


class ModelTurn(NamedTuple):
    """How a model's turn begins.

    Attributes:
        marks: the marks of its thoughts.
        mark_texts: those of them that its template writes.
        opened: the mark of the thought that the open turn begins; empty if it begins none.
        before_thought: what the model writes between the open turn and its thought, in the template's words.
        after_thought: what it writes between its thought and its answer.
        answer: how it answers at once; None if the open turn begins a thought that cannot be closed.
        end: what ends the turn; None if the template writes nothing after an answer, or no finished turn.
    """

    marks: ThoughtMarks
    mark_texts: tuple[str, ...]
    opened: str
    before_thought: str
    after_thought: str
    answer: AnswerOpening | None
    end: str | None

    @property
    def no_answer(self) -> str:
        """Why the model cannot answer at once, and what to do; for a turn without `answer`."""
        return (
            f"the model's chat template opens a thought ({self.opened}) and does not say what closes it, so that "
            "answers would be scored inside it; close it in the prompt (answer_start, start), or by a variable of the "
            "template (model.template)"
        )


class _Finished(NamedTuple):
    """A finished turn: the texts before and after its answer, and those around its thought, if it has one."""

    before: str
    after: str
    thought: tuple[str, str] | None


class _GenerationTag(jinja2.ext.Extension):
    """The tag around what a model wrote, which only transformers knows; an import of transformers takes a second."""

    tags = {"generation"}

    def parse(self, parser: jinja2.parser.Parser) -> list[nodes.Node]:
        """Return the content of the tag."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def environment_of_templates() -> jinja2.Environment:
    """Return an environment that parses chat templates, whose constants jinja2 may compute, and renders none."""
    return BoundedSandbox(extensions=[_GenerationTag, jinja2.ext.loopcontrols])


def variables_of(source: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the variables that a template may read, and those of them that it does not only set itself.

    Raises:
        jinja2.TemplateSyntaxError: the template cannot be parsed.
    """
    environment = environment_of_templates()
    try:
        tree = environment.parse(source)
    except RecursionError:
        raise jinja2.TemplateSyntaxError("nested too deeply", 1) from None
    read = jinja2.meta.find_undeclared_variables(tree) - GIVEN - FUNCTIONS - environment.globals.keys()
    read = {name for name in read if not name.endswith("_token")}
    names = list(tree.find_all(nodes.Name))
    stored = {name.name for name in names if name.ctx == "store"}
    tested = {
        test.node.name
        for test in tree.find_all((nodes.Test, nodes.Filter))
        if test.name in ("defined", "undefined", "default", "d") and isinstance(test.node, nodes.Name)
    }
    return frozenset(read), tuple(sorted(name for name in read if name in tested or name not in stored))


def unknown_variables(source: str, variables: Variables) -> str:
    """Return why variables cannot be passed to a template: it does not read them; empty if it reads all.

    Args:
        source: the template.
    """
    if not variables:
        return ""
    if reserved := sorted(GIVEN & variables.keys()):
        return f"model.template={{{reserved[0]}: …}}: not a variable for users; remine sets it"
    try:
        read, names = variables_of(source)
    except jinja2.TemplateError:
        return ""  # rendering it reports the error
    if unknown := sorted(variables.keys() - read):
        allowed = f"use one of {', '.join(names)}" if names else "it reads none; remove model.template"
        return f"model.template={{{unknown[0]}: …}}: the model's chat template does not read this variable; {allowed}"
    return ""


def declared_marks(response: Mapping[str, Any] | None) -> tuple[list[str], list[str]]:
    """Return the regular expressions that open and close a thought in a tokenizer's `response_template`."""
    opens, closes = list[str](), list[str]()
    fields = (response or {}).get("fields")
    for name in _FIELDS:
        field = fields.get(name) if isinstance(fields, Mapping) else None
        for key, patterns in (("open", opens), ("close", closes)):
            for kind, quote in ((key, re.escape), (f"{key}_pattern", str)):
                values = field.get(kind) if isinstance(field, Mapping) else None
                values = [values] if isinstance(values, str) else values
                patterns.extend(map(quote, filter(None, values if isinstance(values, list) else ())))
    return [p for p in opens if _is_pattern(p)], [p for p in closes if _is_pattern(p)]


def read_turn(render: Render, *, switches: Iterable[str] = (), response: Mapping[str, Any] | None = None) -> ModelTurn:
    """Return how a model's turn begins in its chat template.

    Args:
        render: renders messages; arguments `open_turn` and `variables`.
        switches: variables of the template that the user did not set. If one of them, false or true, makes the
            template close the thought, the model answers at once in prompts with this value.
        response: the tokenizer's `response_template`, if it declares one.

    Raises:
        jinja2.TemplateError, TypeError, ValueError: the template does not render a question.
    """
    opened = _after_question(render(_messages()))
    finished = _finished(render)
    marks, texts, is_open = _marks(opened, finished, declared_marks(response))
    before, after = finished.thought if finished and finished.thought else ("", "")
    before = before[len(_shared(opened, before)) :]
    mark = marks.unclosed(opened) or ("a thought" if is_open else "")
    if mark and not after and (tag := closing(mark)) and marks.closes(tag[1]):
        after = f"\n{tag[1]}\n\n" if "\n" in opened.rpartition(mark)[2] else tag[1]
    answer = _answer(opened, finished, marks, after, is_open=bool(mark), variables={})
    if not marks.closes(opened):
        answer = _switched(render, switches, marks) or answer
    return ModelTurn(marks, tuple(texts), mark, before, after, answer, finished.after if finished else None)


def turn_of_template(
    source: str, variables: Variables, *, special: Mapping[str, str], response: Mapping[str, Any] | None
) -> ModelTurn | None:
    """Return how a model's turn begins, without its tokenizer; None if the template cannot be rendered so.

    Args:
        source: the template.
        variables: those that the user set.
        special: the tokenizer's special tokens by the names under which templates read them.
        response: as for `read_turn`.
    """
    from transformers.utils.chat_template_utils import _compile_jinja_template

    set_by_user = dict(variables)

    def render(messages: list[dict[str, Any]], *, open_turn: bool = True, variables: Variables | None = None) -> str:
        options = {**special, **set_by_user, **(variables or {}), "add_generation_prompt": open_turn, "tools": None}
        try:
            text = str(template.render(messages=messages, **options))
        except (jinja2.TemplateError, TypeError):  # not one that takes pieces
            text = ""
        if text and "'type'" not in text:
            return text
        texts = [{**message, "content": message["content"][0]["text"]} for message in messages]
        return str(template.render(messages=texts, **options))  # templates of text models accept only strings

    try:
        template = _compile_jinja_template(source)
        _, names = variables_of(source)
        return read_turn(render, switches=[name for name in names if name not in set_by_user], response=response)
    except Exception:  # a stranger's template may raise any; loading the model reports it
        return None


def _marks(
    opened: str, finished: _Finished | None, declared: tuple[list[str], list[str]]
) -> tuple[ThoughtMarks, list[str], bool]:
    """Return the marks of thoughts, those that the template writes, and whether renderings show an open thought.

    Args:
        opened: the open turn.
        declared: regular expressions of marks that open and close thoughts.
    """
    opens, closes = declared
    texts: list[str] = []
    is_open = False
    if finished and finished.thought:
        before, after = (text.strip() for text in finished.thought)
        shared = _shared(opened, finished.thought[0])
        rest, before = opened[len(shared) :].strip(), finished.thought[0][len(shared) :].strip()
        is_open = not before and not rest.startswith(after)
        tag = closing(shared)
        texts = [before or (rest if is_open else "") or (tag[0] if tag and tag[1] == after else ""), after]
    elif finished and not (ANY.unclosed(opened) or ANY.closes(opened)):
        texts = list(closing(opened[len(_shared(opened, finished.before)) :]) or ())
    if texts:
        opens, closes = [*filter(None, map(re.escape, texts[:1])), *opens], [re.escape(texts[1]), *closes]
    return ThoughtMarks.of(opens, closes), texts, is_open


def _answer(
    opened: str, finished: _Finished | None, marks: ThoughtMarks, close: str, *, is_open: bool, variables: Variables
) -> AnswerOpening | None:
    """Return how the model answers at once after the open turn; None if its thought cannot be closed.

    Args:
        opened: the open turn.
        close: what closes the thought that it opens, or that the model would write; empty if unknown.
        is_open: whether it opens a thought.
    """
    if finished is None:
        return AnswerOpening(variables, "", close, "") if close or not is_open else None
    shared = _shared(opened, finished.before)
    cut, text = opened[len(shared) :], finished.before[len(shared) :]
    if is_open and not marks.closes(text):
        # A finished turn has no thought, or one without its end: close it here, or else leave it out.
        cut, text = ("", close) if close or not cut else (cut, text)
        if not close and not cut:
            return None
    elif not is_open and cut:  # the thought that the open turn closes, or words of that turn alone
        cut, text = "", text if marks.closes(opened) and not marks.pattern.search(text) else ""
    bare = text.rstrip(" ") if text.strip() else ""
    return AnswerOpening(variables, cut, bare, text[len(bare) :])


def _switched(render: Render, switches: Iterable[str], marks: ThoughtMarks) -> AnswerOpening | None:
    """Return how the model answers at once with the first variable that makes the template close the thought."""
    for name in switches:
        for value in (False, True):
            variables = {name: value}
            opened = _tried(render, _messages(), variables=variables)
            if opened is not None and marks.closes(opened):
                finished = _finished(render, variables)
                return _answer(opened, finished, marks, "", is_open=False, variables=variables)
    return None


def _finished(render: Render, variables: Variables | None = None) -> _Finished | None:
    """Return a finished turn; None if the template renders none."""
    options = {"open_turn": False, "variables": variables or {}}
    before, mark, after = (_tried(render, _messages(answer=True), **options) or "").partition(_ANSWER)
    if not mark:
        return None
    text = _tried(render, _messages(answer=True, thought=True), **options) or ""
    begin, has_thought, rest = text.partition(_THOUGHT)
    between, has_answer, _ = rest.partition(_ANSWER)
    is_apart = has_thought and has_answer and between.strip()
    return _Finished(before, after, (begin, between) if is_apart else None)


def _tried(render: Render, messages: list[dict[str, Any]], **options: Any) -> str | None:
    """Return what follows the question; None if the template refuses the messages."""
    try:
        return _after_question(render(messages, **options))
    except (TypeError, ValueError, jinja2.TemplateError):
        return None


def _shared(first: str, second: str) -> str:
    """Return the text with which both begin, without a tag that is cut inside it."""
    length = next((n for n, pair in enumerate(zip(first, second, strict=False)) if pair[0] != pair[1]), None)
    return _CUT_TAG.sub("", first[: min(len(first), len(second)) if length is None else length])


def _after_question(rendered: str) -> str:
    return rendered.rpartition(QUESTION)[2]


def _messages(*, answer: bool = False, thought: bool = False) -> list[dict[str, Any]]:
    """Return a question, and its answer after a thought, if they are asked for."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": QUESTION}]}]
    if answer:
        thoughts = dict.fromkeys(_FIELDS if thought else (), _THOUGHT)
        messages.append({"role": "assistant", "content": [{"type": "text", "text": _ANSWER}], **thoughts})
    return messages


def _is_pattern(text: str) -> bool:
    """Return whether a text is a regular expression without groups of its own."""
    try:
        return not re.compile(text).groupindex
    except re.error:
        return False
