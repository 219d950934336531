"""Page titles as JSON lines in a model's response: which lines are usable, and what is wrong with the others.

Titles are kept as written. Whether an article with that name exists is not checked, since one that does not exist
matches nothing in a corpus (Century, appendix G).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from actors.titles import LONGEST_TERM
from actors.untrusted import parse_first_json, parse_json, text_lines
from jobs.terms_from.topics import TopicList, spellings

KEYS = ("sub_region", "category", "topic", "page_title")
VALID, REPEATED = "valid", "repeated"
UNKNOWN = ("unknown_category", "unknown_topic", "topic_of_other_category", "unknown_sub_region")
MALFORMED = ("not_json", "not_an_object", "missing_key", "wrong_type", "empty_title", "long_title", "cut")
FENCE = "```"
BRACKETS = ("[", "]")  # lines around a list with one object per line


class ListedTitle(NamedTuple):
    """A usable line."""

    page_title: str
    category: str
    topic: str
    sub_region: str


class TitleLines:
    """Reader of responses to the prompt for a list of topics.

    Args:
        keep_unknown: whether to use lines whose category, topic or region is not in the list, as written.
    """

    def __init__(self, topics: TopicList, *, keep_unknown: bool) -> None:
        self._categories = spellings(topics.categories)
        self._topics = {name: spellings(entries) for name, entries in topics.categories.items()}
        self._every_topic = spellings(topic for entries in topics.categories.values() for topic in entries)
        self._sub_regions = spellings(topics.sub_regions)
        self.keep_unknown = keep_unknown

    def read(self, text: str, kinds: Counter[str], *, is_cut: bool) -> Iterator[ListedTitle]:
        """Yield the titles in a response; count its lines by kind, except empty ones, code fences and lone brackets.

        An object that spans several lines counts as one line. A title that the response has already listed under the
        same topic is `repeated`. With `keep_unknown`, a line with an unknown category is counted as such and yielded.

        Args:
            kinds: counter to update: one of `VALID`, `REPEATED`, `UNKNOWN` and `MALFORMED` per line.
            is_cut: whether the response reached the token limit, so that its last line may be incomplete.
        """
        lines = list(_lines(text))
        listed = set[tuple[str, str]]()
        for number, line in enumerate(lines, 1):
            entry = _parsed(line)
            if isinstance(entry, str):
                kinds["cut" if is_cut and number == len(lines) and entry == "not_json" else entry] += 1
                continue
            title, unknown = self._checked(entry)
            key = (title.page_title.lower(), title.topic)
            if unknown and not self.keep_unknown:
                kinds[unknown] += 1
            elif key in listed:
                kinds[REPEATED] += 1
            else:
                listed.add(key)
                kinds[unknown or VALID] += 1
                yield title

    def _checked(self, entry: dict[str, str]) -> tuple[ListedTitle, str]:
        """Return the line in the list's spelling, and the values that are not in the list."""
        category, topic, sub_region = (entry[key].lower() for key in ("category", "topic", "sub_region"))
        unknown = ""
        if category not in self._categories:
            unknown = "unknown_category"
        elif topic not in self._topics[self._categories[category]]:
            unknown = "topic_of_other_category" if topic in self._every_topic else "unknown_topic"
        elif sub_region not in self._sub_regions:
            unknown = "unknown_sub_region"
        title = ListedTitle(
            entry["page_title"],
            self._categories.get(category, entry["category"]),
            self._every_topic.get(topic, entry["topic"]),
            self._sub_regions.get(sub_region, entry["sub_region"]),
        )
        return title, unknown


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of a text without mere separators, and an object that spans several lines as one line."""
    lines = text_lines(text)
    number = 0
    while number < len(lines):
        line, number = lines[number].strip(), number + 1
        if line.startswith("{") and (more := _lines_to_end(line, lines[number:])):
            line = "\n".join([line, *lines[number : number + more]]).strip()
            number += more
        if line and not line.startswith(FENCE) and line not in BRACKETS:
            yield line


def _lines_to_end(first: str, following: Sequence[str]) -> int:
    """Return how many following lines belong to an object that begins in `first`; 0 if it is not one, or one line."""
    text = "\n".join([first, *following])
    try:
        _, end = parse_first_json(text)
    except ValueError:
        return 0
    rest = text[end:].partition("\n")[0].strip()
    return text.count("\n", 0, end) if rest in ("", ",") else 0


def _parsed(line: str) -> dict[str, str] | str:
    """Return a line's values by key, or what is wrong with the line; a trailing comma is allowed."""
    try:
        value: Any = parse_json(line.removesuffix(","))
    except ValueError:
        return "not_json"
    if not isinstance(value, dict):
        return "not_an_object"
    if any(key not in value for key in KEYS):
        return "missing_key"
    if not all(isinstance(value[key], str) for key in KEYS):
        return "wrong_type"
    entry = {key: " ".join(value[key].split()) for key in KEYS}
    if len(entry["page_title"]) > LONGEST_TERM:
        return "long_title"
    return entry if entry["page_title"] else "empty_title"
