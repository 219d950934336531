"""How turns begin in templates that think, in words of our own: open, with a thought, and with the answer at once."""

from collections.abc import Callable
from typing import Any

import jinja2
import pytest
from transformers.utils import chat_template_utils

from actors.vlm.chat import Chat, ChatEncoder
from actors.vlm.chat_format import bound_templates
from actors.vlm.loading import load_processor, with_variables
from actors.vlm.model_turn import (
    FUNCTIONS,
    ModelTurn,
    declared_marks,
    environment_of_templates,
    read_turn,
    turn_of_template,
    unknown_variables,
    variables_of,
)

QUESTION = "{{ m.content if m.content is string else m.content | map(attribute='text') | join }}"
TURNS = "{% for m in messages %}{% if m.role != 'assistant' %}<{{ m.role }}>" + QUESTION + "</turn>{% else %}"
END = "{% endif %}{% endfor %}"
OPEN = "{% if add_generation_prompt %}"
# Renders thoughts, opens one by default, and closes it if `ponder` is false.
SWITCHED = (
    TURNS + "<bot><reflect>\n{{ m.reasoning_content }}\n</reflect>\n\n" + QUESTION + "</turn>" + END
    + OPEN + "<bot><reflect>\n{% if ponder is defined and not ponder %}{{ '\n</reflect>\n\n' }}{% endif %}{% endif %}"
)  # fmt: skip
# Drops the thoughts of finished turns.
DROPPED = TURNS + "<bot>" + QUESTION + "</turn>" + END + OPEN + "<bot>[REASON]\n{% endif %}"
CHANNELS = (
    TURNS + "{% if m.thinking %}<|start|>bot<|channel|>analysis<|message|>{{ m.thinking }}<|end|>{% endif %}"
    "<|start|>bot<|channel|>final<|message|>" + QUESTION + "<|return|>" + END + OPEN + "<|start|>bot{% endif %}"
)  # fmt: skip
# The model thinks by itself; the finished turn without a thought has only the closing mark.
HALF = TURNS + (
    "<bot>{% if m.reasoning_content %}<mind>{{ m.reasoning_content }}</mind>{% else %}</mind>{% endif %}" + QUESTION
    + "</turn>" + END + OPEN + "<bot><mind>{% endif %}"
)  # fmt: skip
IN_WORDS = TURNS + (
    "<bot>{% if m.reasoning %}{{ m.reasoning }}\n[BEGIN ANSWER]\n{% endif %}" + QUESTION + "</turn>" + END + OPEN
    + "<bot>These are my steps:\n{% endif %}"
)  # fmt: skip
PLAIN = TURNS + "<bot>: " + QUESTION + "</turn>" + END + OPEN + "<bot>:{% endif %}"
CLOSED = TURNS + "<bot>" + QUESTION + "</turn>" + END + OPEN + "<bot><|think|><|/think|>{% endif %}"


def render(source: str) -> Callable[..., str]:
    from transformers.utils.chat_template_utils import render_jinja_template

    bound_templates()

    def rendered(messages: list[Any], *, open_turn: bool = True, variables: Any = ()) -> str:
        (text,), _ = render_jinja_template(
            [messages], chat_template=source, add_generation_prompt=open_turn, **dict(variables)
        )
        return str(text)

    return rendered


def turn_of(source: str, **options: Any) -> ModelTurn:
    return read_turn(render(source), switches=variables_of(source)[1], **options)


def test_where_the_answer_begins_and_what_is_around_a_thought() -> None:
    cases = {
        # template: opened, before and after a thought, the answer's opening (cut, text, lead), variables
        SWITCHED: ("<reflect>", "", "\n</reflect>\n\n", ("", "", ""), {"ponder": False}),
        DROPPED: ("[REASON]", "", "\n[/REASON]\n\n", ("", "\n[/REASON]\n\n", ""), {}),
        CHANNELS: (
            "",
            "<|channel|>analysis<|message|>",
            "<|end|><|start|>bot<|channel|>final<|message|>",
            ("", "<|channel|>final<|message|>", ""),
            {},
        ),
        HALF: ("<mind>", "", "</mind>", ("<mind>", "</mind>", ""), {}),
        IN_WORDS: ("These are my steps:", "", "\n[BEGIN ANSWER]\n", ("", "\n[BEGIN ANSWER]\n", ""), {}),
        PLAIN: ("", "", "", ("", "", " "), {}),
        CLOSED: ("", "", "", ("", "", ""), {}),
    }
    for source, (opened, before, after, answer, variables) in cases.items():
        turn = turn_of(source)
        assert (turn.opened, turn.before_thought, turn.after_thought) == (opened, before, after), source
        assert turn.answer is not None
        assert ((turn.answer.cut, turn.answer.text, turn.answer.lead), turn.answer.variables) == (answer, variables)
        assert turn.marks.closes(turn.answer.of("<user>Is it?</turn><bot>" + opened)) or not opened or variables
        written = turn.marks.split(f"{before}Hm.{after}Yes.", opened=bool(opened)) if after else None
        assert written in (None, ("Hm.", "Yes.", False)), source
    assert turn_of(DROPPED).end == turn_of(PLAIN).end == "</turn>"


def test_a_thought_that_nothing_closes_is_left_out_or_refused() -> None:
    """Without a finished turn there is nothing to leave it out by."""
    only_questions = "{% for m in messages %}{% if m.role != 'user' %}{{ raise_exception('no') }}{% endif %}"
    only_questions += "<user>" + QUESTION + "{% endfor %}" + OPEN + "<bot>MARK{% endif %}"
    turn = turn_of(only_questions.replace("MARK", "<think>"))
    assert turn.answer is not None
    assert (turn.answer.text, turn.end) == ("</think>", None)
    assert turn_of(only_questions.replace("MARK", "")).answer is not None
    assert turn_of(only_questions.replace("MARK", "<think> Okay, ")).answer is not None
    shown = with_template(only_questions.replace("MARK", "◁ think▷"))
    processor: Any = shown.processor
    assert turn_of(processor.chat_template).answer is None
    with pytest.raises(ValueError, match="does not say what closes it"):
        shown.text(["x"], 0, start="So:")
    chat = Chat(shown.processor, name="tiny")
    with pytest.raises(ValueError, match="does not say what closes it"):
        chat.answers(("1", "2"))
    assert chat.answers(("1", "2"), start="</think> So:").rule == "code"


def test_marks_that_the_tokenizer_declares() -> None:
    response = {
        "start_anchor": "<bot>",
        "fields": {
            "reasoning_content": {"open": ["<muse>", "<mull>"], "close_pattern": r"</mu(?:se|ll)>"},
            "content": {"close": "</turn>"},
        },
    }
    assert declared_marks(response) == (["<muse>", "<mull>"], [r"</mu(?:se|ll)>"])
    assert turn_of(PLAIN, response=response).marks.split("<mull>a</mull>b") == ("a", "b", False)
    unusable: list[Any] = [
        None,
        {},
        {"fields": []},
        {"fields": {"thinking": "x"}},
        {"fields": {"thinking": {"open_pattern": "("}}},
    ]
    for wrong in unusable:
        assert declared_marks(wrong) == ([], [])


def test_the_variables_of_a_template() -> None:
    source = (
        "{% set ns = namespace() %}{% set mode = mode | default('a') %}"
        "{% macro f(value) %}{{ value is defined }}{% endmacro %}"
        "{% if ponder is not defined %}{% set ponder = true %}{% endif %}{% for m in messages %}{{ level }}{% endfor %}"
        "{{ bos_token }}{% if messages %}{% set inner = 1 %}{% endif %}{{ inner }}"
    )  # fmt: skip
    read, names = variables_of(source)
    assert names == ("level", "mode", "ponder")
    assert {"messages", "bos_token"}.isdisjoint(read)
    assert unknown_variables(source, {"ponder": False, "level": 1}) == unknown_variables("{%", {"x": 1}) == ""
    assert unknown_variables(source, {"pondering": 1}).endswith(
        "does not read this variable; use one of level, mode, ponder"
    )
    assert unknown_variables("{{ messages }}", {"x": 1}).endswith("it reads none; remove model.template")
    assert "remine sets it" in unknown_variables(source, {"messages": []})


def test_tags_and_functions_are_those_of_transformers() -> None:
    """Templates are parsed without transformers, whose import takes a second, and rendered by it."""
    theirs = chat_template_utils._compile_jinja_template("").environment
    ours = environment_of_templates()
    tags = [{tag for extension in e.extensions.values() for tag in extension.tags} for e in (ours, theirs)]
    assert tags[0] == tags[1]
    assert ours.globals.keys() | FUNCTIONS == theirs.globals.keys()
    marked = "{% for m in messages %}{% break %}{% generation %}{{ name }}{% endgeneration %}{% endfor %}"
    assert variables_of(marked)[1] == ("name",)


def with_template(source: str, **variables: Any) -> ChatEncoder:
    processor: Any = load_processor("local:qwen2.5-vl-tiny", variables=variables)
    processor.chat_template = source.replace(QUESTION, PICTURES)
    return ChatEncoder(processor)


PICTURES = (
    "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}"
    "{% if p.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ p.text }}{% endif %}"
    "{% endfor %}{% endif %}"
)  # fmt: skip


def test_prompts_think_unless_their_turn_is_begun() -> None:
    chat = with_template(SWITCHED)
    asked = "<user>" + "<|vision_start|><|image_pad|><|vision_end|>Is it?</turn><bot>"
    assert chat.text([None, "Is it?"], 1) == asked + "<reflect>\n"
    assert chat.text([None, "Is it?"], 1, start="It is") == asked + "<reflect>\n\n</reflect>\n\nIt is"
    assert chat.text([None, "Is it?"], 1, start="</reflect>It") == asked + "<reflect>\n</reflect>It", "as it says"
    assert [chat.opens_thought(start) for start in ("", "It", "</reflect>It", "<reflect>")] == [
        True,
        False,
        False,
        True,
    ]
    ids = chat.ids("I see.\n</reflect>\nA square.")
    assert chat.written(ids) == ("I see.", "A square.", False)
    assert chat.written(ids[:2]).is_open
    off = with_template(SWITCHED, ponder=False)
    assert off.text([None, "Is it?"], 1) == asked + "<reflect>\n\n</reflect>\n\n"
    assert not off.opens_thought()
    on = with_template(SWITCHED, ponder=True)
    assert on.text(["Is it?"], 0, start="So") == "<user>Is it?</turn><bot><reflect>\n\n</reflect>\n\nSo"


def test_answers_follow_a_closed_thought() -> None:
    chat = Chat(with_template(SWITCHED).processor, name="tiny")
    asked = [{"role": "user", "content": [{"type": "text", "text": "Is it?"}]}]
    assert chat.answering(asked).endswith("<bot><reflect>\n\n</reflect>\n\n")
    assert chat.open_start.endswith("<bot><reflect>\n")
    closed = chat.answers(("1", "2"), start="Score:")
    assert closed == chat.answers(("1", "2"), start="Score:", written="A thought.\n</reflect>\n\n")
    assert chat.answers(("1", "2")) == chat.answers(("1", "2"), written="A thought.\n</reflect>\n\n")
    with pytest.raises(ValueError, match="leaves a thought open"):
        chat.answers(("1", "2"), start="<reflect>Score:")


def test_a_variable_that_the_template_does_not_read_is_refused() -> None:
    with pytest.raises(ValueError, match=r"model.template=\{pondr: …\}.*use one of ponder"):
        with_template(SWITCHED, pondr=False)
    processor = load_processor("local:llama-tiny")
    processor.tokenizer.chat_template = PLAIN
    with pytest.raises(ValueError, match="it reads none"):
        ChatEncoder(with_variables(processor, {"x": 1}))


def test_templates_that_refuse_what_is_not_a_conversation() -> None:
    """A system's turn elsewhere than at the beginning, no question, no content, two turns of a role."""
    strict = (
        "{% set ns = namespace(last='') %}{% for m in messages %}"
        "{% if m.content is none %}{{ raise_exception('content is required') }}{% endif %}"
        "{% if m.role == 'system' and not loop.first %}{{ raise_exception('system first') }}{% endif %}"
        "{% if m.role == ns.last %}{{ raise_exception('alternate') }}{% endif %}{% set ns.last = m.role %}"
        "{% if m.role == 'user' and not ("
        + "m.content if m.content is string else m.content | map(attribute='text') | join"
        + ") %}{{ raise_exception('a question is required') }}{% endif %}{% endfor %}"
        "{% if messages | selectattr('role', 'equalto', 'user') | list | length == 0 %}"
        "{{ raise_exception('no user') }}{% endif %}"
        + SWITCHED
    )  # fmt: skip
    chat = with_template(strict)
    assert chat.text(["Is it?"], 0, system="Be brief.") == "<system>Be brief.</turn><user>Is it?</turn><bot><reflect>\n"
    assert not chat.moves_system
    assert chat.ids(" It")[-1:] == chat.continuation("So", " It")[-1:]
    assert Chat(chat.processor, name="tiny").turn_end == chat.ids("</turn>")[0]
    with pytest.raises(jinja2.TemplateError, match="a question is required"):
        chat.text([""], 0)


def test_a_template_of_a_stranger_ends_nothing() -> None:
    """Without a tokenizer, as a plan looks at it: in time, within memory, and without an error."""
    bound_templates()
    for source in (
        "{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}",
        "{{ 'a' * 10**10 }}",
        "{{ 1 / 0 }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{" + "(" * 5000,
    ):
        assert turn_of_template(source, {}, special={}, response=None) is None, source
    with pytest.raises(jinja2.TemplateSyntaxError):
        variables_of("{{" + "(" * 5000)
