"""Detection of refusals of four kinds by rules per language from `conf/refusals/` (Century, appendices S and V).

    full        declines and does not answer
    hedge       declines first and answers nevertheless
    blocked     a filter replaced the answer
    drop_event  suggests to leave the event or the picture out, whatever else it says

A language's rules are regular expressions (of Python, ignoring case) for single sentences:

    en:
      refusal: […]      # declines, in the first person; counts at the beginning of a text only
      offer: […]        # courtesy around a refusal ("I am happy to help with something else"): not an answer
      but: […]          # what follows it, in a sentence that declined, is not part of the refusal
      turn: […]         # "however", "here is": an answer follows
      blocked: […]      # messages of filters
      drop_event: […]   # suggests other material
      answer_chars: {turned: 120, plain: 400}   # so much further text is an answer, with and without a turn

All languages' rules are applied to every text, because the language that a model chose is unknown. Quotations are
removed first, since they are someone else's words, and so are thoughts (`actors.rubrics.thoughts`).
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from actors.errors import SettingError
from actors.rubrics import checks
from actors.rubrics.thoughts import ANY

KINDS = ("full", "hedge", "blocked", "drop_event")
LISTS = ("refusal", "offer", "but", "turn", "blocked", "drop_event")
OPENING = 500  # characters within which a refusal must begin
LONGEST = 20_000  # characters that are examined of a text
SHORT = 400  # characters; only a text this short can be a filter's message
_SENTENCES = re.compile(r"(?<=[.!?؟।…:])\s+|(?<=。)|\n+")
_QUOTED = re.compile(
    r"“[^”\n]{0,600}”|\"[^\"\n]{0,600}\"|«[^»\n]{0,600}»|「[^」\n]{0,600}」|『[^』\n]{0,600}』|„[^“\n]{0,600}“"
)
_WIDE = str.maketrans({"！": "! ", "？": "? "})  # before NFKC, after which no white space would follow these marks
_MARKS = re.compile(r"[#*_>`]+")


class Refusal(NamedTuple):
    """A refusal's kind (one of `KINDS`), and whether the text answers anyway."""

    kind: str
    answered: bool


@dataclass(frozen=True)
class _LanguageRules:
    name: str
    patterns: dict[str, re.Pattern[str]]
    turned: int
    plain: int

    def has(self, rule: str, sentence: str) -> bool:
        return self.patterns[rule].search(sentence) is not None


class RefusalRules:
    """Checked rules for several languages.

    Args:
        rules: by language, from `conf/refusals/*.yaml`.

    Raises:
        ValueError: no language, an unknown key, or an invalid regular expression; the message names the place.
    """

    @checks.of_file("refusals")
    def __init__(self, rules: Mapping[str, Any]) -> None:
        if not rules:
            raise SettingError("at least one language is required; refusals=all has all of them", "refusals", "{}")
        self._languages = [_language(str(name), data) for name, data in rules.items()]

    def find(self, text: str | None, *, finish_reason: str | None = None) -> Refusal | None:
        """Return the kind of refusal of `text`; None if it does not refuse.

        Args:
            finish_reason: why the text ended; with `filter` it is blocked, whatever it says.
        """
        if finish_reason == "filter":
            return Refusal("blocked", answered=False)
        plain = _plain(ANY.split(text or "").answer)
        sentences = [part.strip() for part in _SENTENCES.split(plain) if part.strip()]
        if not sentences:
            return None
        refusals = (_refusal(language, sentences) for language in self._languages)
        refusal = next((refusal for refusal in refusals if refusal), None)
        if any(language.has("drop_event", sentence) for language in self._languages for sentence in sentences):
            return Refusal("drop_event", answered=refusal is None or refusal.answered)
        if len(plain) <= SHORT and any(language.has("blocked", plain) for language in self._languages):
            return Refusal("blocked", answered=False)
        return refusal


def _refusal(language: _LanguageRules, sentences: list[str]) -> Refusal | None:
    """Return `full` or `hedge` if a sentence of the opening declines, depending on how much text is not the refusal."""
    offset, first = 0, None
    for number, sentence in enumerate(sentences):
        if offset > OPENING:
            break
        if language.has("refusal", sentence):
            first = number
            break
        offset += len(sentence)
    if first is None:
        return None
    clauses, has_turned = [], False
    for sentence in sentences:
        head, continuation = _split_at_but(language, sentence)
        clauses += [head, *([continuation] if continuation else [])]
        has_turned = has_turned or bool(continuation)
    courtesy = ("refusal", "offer", "drop_event")
    rest = [clause for clause in clauses if not any(language.has(rule, clause) for rule in courtesy)]
    later = (sentence for sentence in sentences[first:] if not language.has("offer", sentence))
    has_turned = has_turned or any(language.has("turn", sentence) for sentence in later)
    enough = language.turned if has_turned else language.plain
    return Refusal("hedge", answered=True) if sum(map(len, rest)) >= enough else Refusal("full", answered=False)


def _split_at_but(language: _LanguageRules, sentence: str) -> tuple[str, str]:
    """Split a sentence at the "but" after its refusal; without one, return (the whole sentence, empty)."""
    refusal = language.patterns["refusal"].search(sentence)
    but = language.patterns["but"].search(sentence, refusal.end()) if refusal else None
    return (sentence[: but.start()], sentence[but.end() :]) if but else (sentence, "")


def _plain(text: str) -> str:
    """Return `text` without quotations and markup, with straight apostrophes; a text that is one quotation is kept."""
    text = unicodedata.normalize("NFKC", text[:LONGEST].translate(_WIDE)).replace("’", "'").replace("‘", "'")
    text = _MARKS.sub("", text).strip()
    unquoted = _QUOTED.sub(" ", text).strip()
    return unquoted if any(letter.isalpha() for letter in unquoted) else text


def _language(name: str, data: Any) -> _LanguageRules:
    where = f"refusals, language {name!r}"
    allowed = (*LISTS, "answer_chars")
    if not isinstance(data, Mapping):
        raise ValueError(f"{where}: {data!r} must be a mapping with {', '.join(allowed)}")
    if unknown := [str(key) for key in data if key not in allowed]:
        raise ValueError(f"{where}: unknown key {unknown[0]!r}; must be one of {', '.join(allowed)}")
    if not data.get("refusal"):
        raise ValueError(f"{where}: missing key 'refusal'; at least one expression is required")
    patterns = {}
    for rule in LISTS:
        parts = data.get(rule) or []
        if isinstance(parts, str) or not all(isinstance(part, str) and part for part in parts):
            raise ValueError(f"{where}, {rule}: {parts!r} must be a list of regular expressions")
        for part in parts:
            try:
                re.compile(part)
            except re.error as error:
                raise ValueError(f"{where}, {rule}: {part!r} is not a valid regular expression ({error})") from error
        patterns[rule] = re.compile("|".join(f"(?:{part})" for part in parts) or r"(?!)", re.IGNORECASE)
    chars = data.get("answer_chars") or {}
    sizes = [chars.get(key, default) for key, default in (("turned", 120), ("plain", 400))]
    if set(chars) - {"turned", "plain"} or not all(isinstance(size, int) and size > 0 for size in sizes):
        raise ValueError(f"{where}, answer_chars: {chars!r} must have turned and plain, integers above 0")
    return _LanguageRules(name, patterns, sizes[0], sizes[1])
