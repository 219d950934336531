"""The explanation of a key: the comment on or above the line that declares it in a job's dataclass."""

import ast
import inspect
import io
import textwrap
import tokenize
from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import cache
from typing import get_type_hints

from jobs.runtime.configuration.key_types import nested_dataclass
from jobs.runtime.configuration.resources import Resources

RARELY = "rarely: "  # begins the comment of a key that few users set


def comments_below(schema: type, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the dotted keys of `schema` with their comments, except those of `resources`."""
    hints = get_type_hints(schema)
    for name, comment in explanations(schema).items():
        yield prefix + name, comment
        if (inner := nested_dataclass(hints[name])) not in (None, Resources):
            yield from comments_below(inner, f"{prefix}{name}.")


def explanations(schema: type) -> dict[str, str]:
    """Return the comment, without `rarely:`, on each field's declaration in `schema` or a class that it extends."""
    return {name: comment.removeprefix(RARELY) for name, comment in all_comments(schema).items()}


@cache
def all_comments(schema: type) -> dict[str, str]:
    """Return the comments as `explanations` does, but with `rarely:`."""
    comments: dict[str, str] = {}
    for owner in reversed(schema.__mro__):
        if is_dataclass(owner):
            comments |= {name: text for name, text in _comments(owner).items() if text or name not in comments}
    return comments


def _comments(owner: type) -> dict[str, str]:
    source = textwrap.dedent(inspect.getsource(owner))
    by_line: dict[int, str] = {
        token.start[0]: token.string.lstrip("# ").strip()
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    (body,) = ast.parse(source).body
    assert isinstance(body, ast.ClassDef)
    comments = {}
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            on_it = " ".join(by_line[number] for number in lines if number in by_line)
            above = by_line.get(node.lineno - 1, "") if _is_comment(source, node.lineno - 1) else ""
            comments[node.target.id] = on_it or above
    return comments


def _is_comment(source: str, number: int) -> bool:
    """Return whether line `number` is only a comment."""
    return source.split("\n")[number - 1].lstrip().startswith("#")
