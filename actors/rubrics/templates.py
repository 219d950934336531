"""Templates of prompt parts: Jinja2 in a sandbox, and the words that they may use."""

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jinja2
import jinja2.meta
import jinja2.sandbox
import jinja2.visitor
from jinja2 import nodes
from jinja2.filters import do_format, do_replace

QUESTION_WORDS = frozenset({"question", "note", "options", "numbers"})
LONGEST = 10_000  # largest width in characters, or length of a repeated text
LONGEST_TEXT = 1_000_000  # characters of a composed text
DEEPEST_CALL = 50  # macros that call each other
_CHARACTERS_PER_STEP = 1000
_GROWING = ("join", "translate", "expandtabs", "replace")  # methods whose result may be a product of lengths
MOST_STEPS = 100_000  # of all loops of a rendering together
_STEPS, _TEXT = "remine_steps", "remine_text"  # filters that are added to templates
_OF_WIDTHS = ("batch", "center", "indent", "round", "slice", "tojson", "truncate", "wordwrap")
_OF_PRODUCTS = {"join": 1}  # index of each filter's input, after Jinja's context
_PERCENT = re.compile(r"%(?:\(\w*\))?([-+ #0-9.*]*)")  # width and precision of a printf-style format
_SPEC = re.compile(r"\{[^{}:]*:([^}]*)\}")  # of str.format
_DIGITS = re.compile(r"\d{1,4000}")
TARGET_WORD = "target"


class BoundedSandbox(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """A sandbox that refuses templates which take too long, or make gigabytes of text from a few characters.

    Models' chat templates are rendered in it too (`actors.vlm.chat_format`).
    """

    intercepted_binops = frozenset({"%", "*", "**", "+"})

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.filters |= {"format": _format, _STEPS: _steps, _TEXT: _bounded_text}
        self.filters |= {name: _with_bounded_widths(self.filters[name]) for name in _OF_WIDTHS}
        self.filters |= {name: _bounded_product(self.filters[name], place) for name, place in _OF_PRODUCTS.items()}
        self.filters["replace"] = _replace

    def from_string(self, source: Any, *arguments: Any, **options: Any) -> jinja2.Template:
        """Compile a template.

        Raises:
            jinja2.TemplateSyntaxError: it is not a valid template, or nested too deeply.
        """
        self.filters["tojson"] = _with_bounded_widths(self.filters["tojson"])  # transformers replaces it
        try:
            return super().from_string(source, *arguments, **options)
        except (RecursionError, MemoryError, SyntaxError, ValueError) as error:
            raise jinja2.TemplateSyntaxError(f"cannot be compiled ({type(error).__name__})", 1) from error

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "%" and isinstance(left, str):
            _check_percent(left, right if isinstance(right, tuple) else (right,))
        elif operator == "*":
            for text, times in ((left, right), (right, left)):
                if isinstance(text, str | list | tuple) and isinstance(times, int):
                    _check_widths([len(text) * times])
            if isinstance(left, int) and isinstance(right, int):
                _check_widths([left.bit_length() + right.bit_length()])
        elif operator == "**":
            if not isinstance(left, int | float) or not isinstance(right, int | float):
                raise jinja2.sandbox.SecurityError("** is for numbers")
            if isinstance(left, int):
                _check_widths([left.bit_length() * abs(int(right))])
        elif operator == "+" and isinstance(left, str | list | tuple) and isinstance(right, str | list | tuple):
            _check_widths([len(left) + len(right)], LONGEST_TEXT)
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, function: Any, *arguments: Any, **named: Any) -> Any:
        if isinstance(getattr(function, "__self__", None), str):  # such as `ljust`
            _check_widths([*arguments, *named.values()])
            _check_method(function, [*arguments, *named.values()])
        if not isinstance(function, jinja2.runtime.Macro):
            return super().call(context, function, *arguments, **named)
        state = context.eval_ctx
        state.depth = getattr(state, "depth", 0) + 1
        if state.depth > DEEPEST_CALL:
            raise jinja2.sandbox.SecurityError(f"macros that call each other too deeply; at most {DEEPEST_CALL}")
        _count_steps(state, 1)
        try:
            return super().call(context, function, *arguments, **named)
        finally:
            state.depth -= 1

    def _parse(self, source: str, name: str | None, filename: str | None) -> jinja2.nodes.Template:
        tree: jinja2.nodes.Template = super()._parse(source, name, filename)
        for loop in tree.find_all(nodes.For):
            if loop.recursive:
                raise jinja2.TemplateSyntaxError("recursive loops are not allowed", loop.lineno)
            cost = nodes.Const(1 + len(source) // _CHARACTERS_PER_STEP, lineno=loop.lineno)
            loop.iter = nodes.Filter(loop.iter, _STEPS, [cost], [], None, None, lineno=loop.lineno)
        _Bounding().generic_visit(tree)
        return tree

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        safe = super().wrap_str_format(value)
        if safe is None:
            return None

        def bounded(*arguments: Any, **named: Any) -> str:
            for spec in _SPEC.findall(value.__self__):
                nested = [*arguments, *named.values()] if "{" in spec else []
                _check_widths([*map(int, _DIGITS.findall(spec)), *nested])
            return safe(*arguments, **named)

        return bounded


class _RubricSandbox(BoundedSandbox):
    """The sandbox of rubrics' parts, which need no macros."""

    def _parse(self, source: str, name: str | None, filename: str | None) -> jinja2.nodes.Template:
        tree = super()._parse(source, name, filename)
        if macro := tree.find(nodes.Macro) or tree.find(nodes.CallBlock):
            raise jinja2.TemplateSyntaxError("macros are not allowed", macro.lineno)
        return tree


class _Bounding(jinja2.visitor.NodeTransformer):
    """Transformer that bounds the texts composed by `~` and by blocks of `set`, and those that are written."""

    def visit_Output(self, node: nodes.Output) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.nodes = [
            part
            if isinstance(part, nodes.TemplateData)
            else nodes.Filter(part, _TEXT, [], [], None, None, lineno=node.lineno)
            for part in node.nodes
        ]
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 (the name that Jinja looks for)
        self.generic_visit(node)
        return nodes.Filter(node, _TEXT, [], [], None, None, lineno=node.lineno)

    def visit_AssignBlock(self, node: nodes.AssignBlock) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.filter = nodes.Filter(node.filter, _TEXT, [], [], None, None, lineno=node.lineno)
        return node


@jinja2.pass_context
def _steps(context: Any, values: Iterable[Any], cost: int) -> Iterator[Any]:
    """Yield the values of a loop; all loops and composed texts of a rendering share `MOST_STEPS`."""
    for value in values:
        _count_steps(context.eval_ctx, cost)
        yield value


def _count_steps(state: Any, steps: int) -> None:
    state.steps = getattr(state, "steps", 0) + steps
    if state.steps > MOST_STEPS:
        raise jinja2.sandbox.SecurityError(f"loops of too many steps; at most {MOST_STEPS:,}")


@jinja2.pass_context
def _bounded_text(context: Any, value: Any) -> Any:
    """Return a value that is composed or written, and count the characters of a text as steps."""
    if isinstance(value, str):
        _check_widths([len(value)], LONGEST_TEXT)
        _count_steps(context.eval_ctx, len(value) // _CHARACTERS_PER_STEP)
    return value


@jinja2.pass_eval_context
def _replace(context: Any, text: Any, old: str, new: str, count: int | None = None) -> Any:
    """Apply Jinja's filter `replace` to a result of bounded length."""
    _check_replaced(str(text), str(old), str(new))
    return do_replace(context, text, old, new, count)


def _check_replaced(text: str, old: str, new: str) -> None:
    _check_widths([len(text) + text.count(old) * max(len(new) - len(old), 0)], LONGEST_TEXT)


def _check_method(function: Any, arguments: Iterable[Any]) -> None:
    """Raise SecurityError if a method of a text would return a text that is too long."""
    text, values, length = function.__self__, list(arguments), 0
    if function.__name__ == "replace" and len(values) >= 2 and all(isinstance(value, str) for value in values[:2]):
        _check_replaced(text, values[0], values[1])
    elif function.__name__ in _GROWING:
        texts = [value for value in values if isinstance(value, str | list | tuple | dict)]
        texts = [list(value.values()) if isinstance(value, dict) else value for value in texts]
        longest = max((sum(map(len, map(str, value))) for value in texts), default=0)
        widest = max((value for value in values if isinstance(value, int)), default=0)
        length = (len(text) + 1) * (max(longest, widest) + 1)
    _check_widths([length], LONGEST_TEXT)


def _with_bounded_widths(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a Jinja filter whose whole-number arguments are bounded as widths."""

    @functools.wraps(function)
    def bounded(*arguments: Any, **named: Any) -> Any:
        _check_widths([*arguments[1:], *named.values()])
        return function(*arguments, **named)

    return bounded


def _bounded_product(function: Callable[..., Any], place: int) -> Callable[..., Any]:
    """Return a bounded Jinja filter that may put an argument after each character or value of its input."""

    @functools.wraps(function)
    def bounded(*arguments: Any, **named: Any) -> Any:
        values = arguments[place]
        values = values if isinstance(values, str | list | tuple) else list(values)
        texts = [len(text) for text in (*arguments[place + 1 :], *named.values()) if isinstance(text, str)]
        lengths = sum(len(value) if isinstance(value, str) else 1 for value in values)
        _check_widths([lengths + (len(values) + 1) * max(texts, default=0)], LONGEST_TEXT)
        return function(*arguments[:place], values, *arguments[place + 1 :], **named)

    return bounded


def _check_percent(form: str, arguments: Iterable[Any]) -> None:
    for spec in _PERCENT.findall(form):
        _check_widths([*map(int, _DIGITS.findall(spec)), *(arguments if "*" in spec else ())])


def _check_widths(widths: Iterable[Any], most: int = LONGEST) -> None:
    """Raise SecurityError if one of the whole numbers is larger than `most`."""
    if max((width for width in widths if isinstance(width, int)), default=0) > most:
        raise jinja2.sandbox.SecurityError(f"a text or number of too many characters; at most {most:,}")


def _format(form: str, *arguments: Any, **named: Any) -> str:
    """Apply Jinja's filter `format` with bounded widths."""
    _check_percent(str(form), [*arguments, *named.values()])
    return do_format(form, *arguments, **named)


def environment() -> jinja2.Environment:
    """Return the sandbox that renders parts: no globals, no attributes of Python objects, no undefined names."""
    sandbox = _RubricSandbox(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)
    sandbox.globals.clear()
    return sandbox


@functools.lru_cache(maxsize=1024)  # compiling takes a thousand times as long as rendering
def compiled(template: str) -> jinja2.Template:
    """Return `template`, ready to be rendered.

    Raises:
        jinja2.TemplateSyntaxError: it is not a valid template.
    """
    return environment().from_string(template)


@functools.lru_cache(maxsize=1024)  # a rubric is checked each time it is read
def words(template: str) -> frozenset[str]:
    """Return the names that `template` takes from its context.

    Raises:
        jinja2.TemplateSyntaxError: it is not a valid template.
    """
    try:
        return frozenset(jinja2.meta.find_undeclared_variables(environment().parse(template)))
    except RecursionError as error:
        raise jinja2.TemplateSyntaxError("nested too deeply", 1) from error
