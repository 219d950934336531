"""Plain English: phrases that no text may use; `python -m tests.test_language` lists where they are.

CONTRIBUTING.md says what to write instead.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SUFFIXES = {".py", ".yaml", ".md", ".j2", ".css"}
# Texts of others: what a model may answer, a paper's wording.
QUOTED = ("conf/refusals/",)

PHRASES = [
    r"\b(is|are|was|be) told\b",
    r"\btells? (it|them|so|which|how)\b",
    r"\bstands? (in|there|twice|beside|under)\b",
    r"(?<!there )\bis no (?!longer\b|more than\b)[a-z]+",
    r"\bthat is none\b",
    r"\bare had\b",
    r"\bcan be had\b",
    r"\bgoes on\b",
    r"\bat its end\b",
    r"\bthe whole way\b",
    r"\bin other company\b",
    r"\bas it comes\b",
    r"\bbit by bit\b",
    r"\breckon",
    r"\bbeside\b",
    r"\bas they come\b",
    r"\bnobody's\b",
    r"\b(a|an) (file|rater|unit|page|actor) a ",
]
DIALECT = re.compile("|".join(PHRASES), re.IGNORECASE)


def files() -> Iterator[Path]:
    """All texts that are checked."""
    for folder in ("jobs", "actors", "conf", "docs"):
        yield from (path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in SUFFIXES)
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))


def phrases() -> Iterator[tuple[str, int, str]]:
    """(file, line number, phrase) of everything that must be rewritten."""
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(QUOTED):
            continue
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            yield from ((name, number, match.group()) for match in DIALECT.finditer(line))


def refused() -> list[str]:
    """The phrases that must be rewritten, as `file:line: phrase`."""
    return [f"{name}:{number}: {phrase!r}" for name, number, phrase in phrases()]


def test_texts_use_no_phrase_of_the_dialect() -> None:
    assert refused() == []


if __name__ == "__main__":
    lines = refused()
    print("\n".join(lines))
    sys.exit(bool(lines))
