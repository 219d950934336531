"""Templates of prompt parts: Jinja2 in a sandbox, and the words that they may use."""

import functools

import jinja2
import jinja2.meta
import jinja2.sandbox

QUESTION_WORDS = frozenset({"question", "note", "options", "numbers"})
TARGET_WORD = "target"


def environment() -> jinja2.Environment:
    """Return the sandbox that renders parts: no globals, no attributes of Python objects, no undefined names."""
    sandbox = jinja2.sandbox.ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    sandbox.globals.clear()
    return sandbox


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
