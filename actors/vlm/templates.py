"""Templates of prompt parts: Jinja2 in a sandbox, and the words that they may use."""

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any

import jinja2
import jinja2.meta
import jinja2.sandbox
from jinja2.filters import do_format

QUESTION_WORDS = frozenset({"question", "note", "options", "numbers"})
LONGEST = 10_000  # characters of a width, or of a text that is repeated
_PERCENT = re.compile(r"%(?:\(\w*\))?([-+ #0-9.*]*)")  # width and precision of a printf-style format
_SPEC = re.compile(r"\{[^{}:]*:([^}]*)\}")  # of str.format
_DIGITS = re.compile(r"\d{1,4000}")
TARGET_WORD = "target"


class _Sandbox(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """Refuses formats and repetitions that make a text of gigabytes from a few characters."""

    intercepted_binops = frozenset({"%", "*"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "%" and isinstance(left, str):
            _check_percent(left, right if isinstance(right, tuple) else (right,))
        elif operator == "*":
            for text, times in ((left, right), (right, left)):
                if isinstance(text, str | list | tuple) and isinstance(times, int):
                    _check_widths([len(text) * times])
        return super().call_binop(context, operator, left, right)

    def call(self, context: Any, function: Any, *arguments: Any, **named: Any) -> Any:
        if isinstance(getattr(function, "__self__", None), str):  # such as `ljust`
            _check_widths([*arguments, *named.values()])
        return super().call(context, function, *arguments, **named)

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


def _check_percent(form: str, arguments: Iterable[Any]) -> None:
    for spec in _PERCENT.findall(form):
        _check_widths([*map(int, _DIGITS.findall(spec)), *(arguments if "*" in spec else ())])


def _check_widths(widths: Iterable[Any]) -> None:
    """Raise SecurityError if one of the whole numbers is larger than `LONGEST`."""
    if (widest := max((width for width in widths if isinstance(width, int)), default=0)) > LONGEST:
        raise jinja2.sandbox.SecurityError(f"a text of {widest:,} characters; at most {LONGEST:,}")


def _format(form: str, *arguments: Any, **named: Any) -> str:
    """Jinja's filter `format`, with bounded widths."""
    _check_percent(str(form), [*arguments, *named.values()])
    return do_format(form, *arguments, **named)


def environment() -> jinja2.Environment:
    """Return the sandbox that renders parts: no globals, no attributes of Python objects, no undefined names."""
    sandbox = _Sandbox(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)
    sandbox.globals.clear()
    sandbox.filters["format"] = _format
    return sandbox


@functools.lru_cache(maxsize=1024)  # compiling takes a thousand times as long as rendering
def compiled(template: str) -> jinja2.Template:
    """Return `template`, ready to be rendered.

    Raises:
        jinja2.TemplateSyntaxError: it is not a template.
    """
    return environment().from_string(template)


@functools.lru_cache(maxsize=1024)  # a rubric is checked each time it is read
def words(template: str) -> frozenset[str]:
    """Return the names that `template` takes from its context.

    Raises:
        jinja2.TemplateSyntaxError: it is not a template.
    """
    try:
        return frozenset(jinja2.meta.find_undeclared_variables(environment().parse(template)))
    except RecursionError as error:
        raise jinja2.TemplateSyntaxError("nested too deeply", 1) from error
