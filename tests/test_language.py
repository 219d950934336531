"""Plain English and names: phrases that no text may use, words that name no local, and names that were replaced.

`python -m tests.test_language` lists where they are; CONTRIBUTING.md says what to write instead.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).parents[1]
SUFFIXES = {".py", ".yaml", ".md", ".j2", ".css"}
FOLDERS = ("jobs", "actors", "conf", "docs", "tests")
FILES = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "Makefile",
    "Dockerfile",
    "pyproject.toml",
    "cluster.yaml",
)
# Texts of others, such as what a model may answer; lessons of the demo's models, whose weights depend on the wording.
QUOTED = (
    "conf/refusals/",
    "tests/actors/vlm/refusal_sentences.py",
    "tests/models/",
    "tests/test_language.py",
    "conf/prompt/rare_concepts.yaml",
)

PHRASES = [
    r"\b(is|are|was|be) told\b",
    r"\btells? (it|them|so|which|how|what)\b",
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
    r"\b(a|an) \w+ of (its|their|one's) own\b",
    r"\b(file|picture|table)s? of yours\b",
    r"\ba (first )?try\b",
    r"\bthe other way round\b",
    r"\b(behind|before or behind) the limit\b",
    r"\bitems? out of\b",
    r"\b(of|between) each two\b",
    r"\bare made (again|anew)\b",
    r"\bcome in (as|this)\b",
    r"\b(is|are) in doubt\b",
    r"\ballowed is\b(?! None)",
    r"\bin vain\b",
    r"\bworker's side\b",
]
# Names that others replaced; docs/glossary.md has the terms in use.
REPLACED = [
    r"\bjobs\.(probe|figures|ratings|score|captions|tric|verdicts|think)\b",
    r"\bR/verdicts\b",
    r"\b(budget|cache|hold)_gb\b",
    r"\bencoderrater\b",
    r"\bverdictskb\b",
    r"\bfile_figures\b",
    r"\bfiguring\b",
    r"\bconf/(probe|marks|labels|judge)/",
]

# Participles and pronouns do not say what a local holds.
NO_NOUNS = frozenset("found made known told said own given of each there what how who".split())
PAIR = {"one", "other"}  # names of two things of a kind; alone, `one` says nothing


def _literal(pattern: str) -> str:
    """Return the longest text that every match of `pattern` has, in lower case."""
    fixed = re.sub(r"\(.*?\)|\[.*?\]|\w\?|\\.|[|*+?]", "\n", pattern)
    return max(fixed.lower().split("\n"), key=len)


PATTERNS = [(_literal(pattern), re.compile(pattern, re.IGNORECASE)) for pattern in (*PHRASES, *REPLACED)]


def files() -> Iterator[Path]:
    """Yield all texts that are checked."""
    for folder in FOLDERS:
        yield from (path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in SUFFIXES)
    yield from (ROOT / name for name in FILES)


def phrases() -> Iterator[tuple[str, int, str]]:
    """(file, line number, phrase) of everything that must be rewritten."""
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(QUOTED):
            continue
        text = path.read_text(encoding="utf-8")
        lower = text.lower()
        patterns = [pattern for literal, pattern in PATTERNS if literal in lower]
        for number, line in enumerate(text.splitlines() if patterns else (), start=1):
            yield from ((name, number, match.group()) for pattern in patterns for match in pattern.finditer(line))


def phrases_in_names() -> Iterator[tuple[str, int, str]]:
    """(file, line number, name) of each function and class whose name, read as words, has a phrase of `PHRASES`."""
    definition = re.compile(r"^\s*(?:async def|def|class) (\w+)", re.MULTILINE)
    for folder in ("jobs", "actors", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            for match in definition.finditer(text):
                words = match[1].replace("_", " ").strip()
                if any(literal in words.lower() and pattern.search(words) for literal, pattern in PATTERNS):
                    yield path.relative_to(ROOT).as_posix(), text.count("\n", 0, match.start(1)) + 1, match[1]


def nameless(code: CodeType) -> Iterator[tuple[int, str]]:
    """(first line of the function, name) of each parameter and local that has no noun."""
    names = {*code.co_varnames, *code.co_cellvars}
    refused_names = NO_NOUNS | PAIR if names & PAIR == {"one"} else NO_NOUNS
    yield from ((code.co_firstlineno, name) for name in sorted(names & refused_names))
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nameless(constant)


def locals_without_nouns() -> Iterator[tuple[str, int, str]]:
    """(file, first line of the function, name) of each local of the code that has no noun."""
    for folder in ("jobs", "actors", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            code = compile(path.read_bytes(), path, "exec", dont_inherit=True)
            for line, name in nameless(code):
                if not (folder == "tests" and name in PAIR):  # a test may look at one of its cases
                    yield path.relative_to(ROOT).as_posix(), line, name


def refused() -> list[str]:
    """Return the phrases and names that must be rewritten, as `file:line: phrase`."""
    places = (*phrases(), *phrases_in_names(), *locals_without_nouns())
    return [f"{name}:{number}: {phrase!r}" for name, number, phrase in places]


def test_texts_and_names_follow_the_rules() -> None:
    assert refused() == []


def test_locals_without_a_noun_are_noticed() -> None:
    text = "def f(said, *given):\n for found in said:\n  each = lambda who: found\n return [of for of in given]\n"
    names = {name for _, name in nameless(compile(text, "text", "exec"))}
    assert names == {"said", "given", "found", "each", "who", "of"}
    assert list(nameless(compile("def f(rows):\n return [one for one in rows]\n", "text", "exec"))) == [(2, "one")]
    assert list(nameless(compile("def f(one, other):\n return one + other\n", "text", "exec"))) == []
    for text in ("class Step:\n    each: int = 1\n", "def f(words):\n    return words.found  # found = said\n"):
        assert list(nameless(compile(text, "text", "exec"))) == []


def test_each_phrase_is_looked_for_where_its_words_occur() -> None:
    for pattern, text in ((PHRASES[1], "It TELLS us"), (PHRASES[1], "tell it"), (REPLACED[2], "cache_gb=1")):
        assert _literal(pattern) in text.lower()
    assert all(len(literal) > 2 for literal, _ in PATTERNS)


if __name__ == "__main__":
    lines = refused()
    print("\n".join(lines))
    sys.exit(bool(lines))
