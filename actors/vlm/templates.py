"""Templates of prompt parts: Jinja2 in a sandbox, and the words that they may use."""

import jinja2
import jinja2.meta
import jinja2.sandbox

QUESTION_WORDS = frozenset({"question", "note", "options"})
TARGET_WORD = "target"


def environment() -> jinja2.Environment:
    """Return the sandbox that renders parts: no globals, no attributes of Python objects, no undefined names."""
    sandbox = jinja2.sandbox.ImmutableSandboxedEnvironment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    sandbox.globals.clear()
    return sandbox


def words(template: str) -> set[str]:
    """Return the names that `template` takes from its context."""
    return jinja2.meta.find_undeclared_variables(environment().parse(template))
