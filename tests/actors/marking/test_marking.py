"""Both ways of marking with the prompts of conf/span_prompts, and a reader who follows their text.

The guidelines' worked examples: which words count as mistakes, and which as omissions.
"""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from omegaconf import OmegaConf

from actors.marking.methods import ClaimsMarking, DirectMarking
from actors.marking.span_prompts import Description, Kind, Marks, Request, SpanPrompts, kinds_from
from actors.status import Status
from actors.vlm.errors import ScoringError
from jobs.runtime.configuration.config_files import CONF
from tests.cases import check_cases

PICTURE = object()


def conf(group: str, name: str) -> Any:
    return OmegaConf.to_container(OmegaConf.load(CONF / group / f"{name}.yaml"))


PROMPTS = SpanPrompts.from_dict(conf("span_prompts", "docent"))
KINDS = kinds_from(conf("span_labels", "docent")["kinds"])
FINE = kinds_from(conf("span_labels", "mistakes_omissions")["kinds"])


@dataclass
class Reader:
    """A scripted model: it knows what is wrong, what is right instead, and what is vague, and reads the prompts.

    Attributes:
        wrong: wrong words -> the words that are right instead, empty if there are none.
        vague: words of the correct description -> the vague words for them.
        phrases: words that a cut text keeps together.
        first: answers instead of those that follow from the rules, by step.
    """

    wrong: dict[str, str] = field(default_factory=dict)
    vague: dict[str, str] = field(default_factory=dict)
    phrases: tuple[str, ...] = ()
    first: dict[str, str | ScoringError] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def write(self, requests: Sequence[Request]) -> list[str | ScoringError]:
        return [self._written(request) for request in requests]

    def score(self, requests: Sequence[Request]) -> list[tuple[float, ...] | ScoringError]:
        return [self._scored(request) for request in requests]

    def _written(self, request: Request) -> str | ScoringError:
        name, text = request.step.name, "".join(p for p in request.step.turn(request.words) if isinstance(p, str))
        self.asked.append((name, text))
        if name in self.first:
            return self.first[name]
        if name == "cut":
            return "\n".join(re.findall("|".join([*self.phrases, r"\w+"]), request.words["text"]))
        if name == "mistakes":
            return "\n".join(f"- {words}" for words in self.wrong) or "NONE"
        assert name == "omissions", name
        return "\n".join(w for w in _words(request.words["correct"]) if self._is_missing(w, request, text)) or "NONE"

    def _scored(self, request: Request) -> tuple[float, ...]:
        prompt = request.step.prompt(request.words)
        text = "".join(p for p in (*prompt.shared, prompt.suffix) if isinstance(p, str))
        self.asked.append((request.step.name, text))
        claim = request.words["claim"]
        if request.step.name == "category":
            return (0.1, 0.7, 0.1, 0.1)
        if request.step.name == "mistakes":
            return (0.9, 0.05, 0.05) if claim in self.wrong else (0.2, 0.5, 0.3)
        if self._is_missing(claim, request, text):
            return (0.8, 0.1, 0.1)
        return (0.1, 0.2, 0.7)

    def _is_missing(self, word: str, request: Request, text: str) -> bool:
        """Return whether a word is missing once the mistakes that the prompt lists are corrected."""
        if word in self.vague:
            return self.vague[word] in request.words["generated"]
        corrected = [right for wrong, right in self.wrong.items() if f"\n- {wrong}\n" in f"{text}\n"]
        words = {part for text in (request.words["generated"], *corrected) for part in _words(text)}
        return not words.issuperset(_words(word))


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def mark(method: str, reader: Reader, correct: str, generated: str, kinds: Any = KINDS) -> dict[str, Marks]:
    steps = PROMPTS.of_method(method)
    marking = DirectMarking(steps, kinds) if method == "direct" else ClaimsMarking(steps, kinds, threshold=0.5)
    (marks,) = marking.mark(reader, [Description((PICTURE,), correct, generated)])
    return marks


EXAMPLES = {  # guidelines: correct, generated, reader, mistakes, omissions
    "added detail": ("A dog on the beach.", "A dog playing fetch on the beach.", Reader({"playing": "", "fetch": ""}),
                     ["playing", "fetch"], []),
    "otter and dog": ("A dog on a beach.", "An otter on a beach.", Reader({"otter": "A dog"}), ["otter"], []),
    "animal and dog": ("A dog on a beach.", "An animal on a beach.", Reader(vague={"dog": "animal", "A": "?"}), [],
                       ["dog"]),
    "wrong descriptor": ("A dog on a sandy beach.", "A black dog on a sandy beach.", Reader({"black": ""}), ["black"],
                         []),
    "wrong relationship": ("A dog by the ocean.", "A dog in the ocean.", Reader({"in": "by"}), ["in"], []),
    "missing detail": ("A dog on a sandy beach.", "A dog on a beach.", Reader(), [], ["sandy"]),
    "three women": ("Four women.", "Three women.", Reader({"Three": "Four"}), ["Three"], []),
    "left hand": ("Her left hand is held aloft.", "Her left hand is resting on a bench.",
                  Reader({"resting on a bench": "held aloft"}, phrases=("resting on a bench", "held aloft")),
                  ["resting on a bench"], []),
    "pearls": ("A child with pearls.", "A figure with ornamentation.",
               Reader(vague={"child": "figure", "pearls": "ornamentation"}), [], ["child", "pearls"]),
}  # fmt: skip


def test_the_guidelines_examples() -> None:
    def check(name: str, method: str) -> None:
        correct, generated, reader, mistakes, omissions = EXAMPLES[name]
        marks = mark(method, reader, correct, generated)
        assert [m.status for m in marks.values()] == [Status.OK, Status.OK]
        assert marks["mistakes"].quoted(generated) == mistakes
        assert marks["omissions"].quoted(correct) == omissions

    check_cases(check, itertools.product(EXAMPLES, ["direct", "claims"]))


def test_each_claim_has_a_probability_and_a_category() -> None:
    marks = mark("claims", Reader({"otter": "A dog"}), "A dog on a beach.", "An otter on a beach.", FINE)
    spans = marks["mistakes"].spans
    assert [(s.start, s.end, s.category, s.probability, s.marked) for s in spans[:3]] == [
        (0, 2, None, 0.2, False),
        (3, 8, "noun", 0.9, True),
        (9, 11, None, 0.2, False),
    ]
    assert len(spans) == len(marks["omissions"].spans) == 5
    assert {s.category for s in marks["omissions"].spans} == {None}


def test_the_question_about_a_claim_shows_its_place() -> None:
    reader = Reader({"otter": "A dog"})
    mark("claims", reader, "A dog.", "An otter, and an otter.", FINE)
    asked = [text for step, text in reader.asked if step in ("mistakes", "category")]
    assert sum("An [[otter]], and an otter." in text for text in asked) == 2  # whether it is wrong, and in which way
    of_category = next(text for step, text in reader.asked if step == "category")
    lines = [f"{code} = {words}" for code, words in zip("ABCD", FINE[0].labels.values(), strict=True)]
    assert "\n".join(lines) in of_category
    assert sum("An otter, and an [[otter]]." in text for text in asked) == 2


@pytest.mark.parametrize("count", [1, 2])
def test_the_label_of_a_claim_is_asked_for_if_there_are_several(count: int) -> None:
    labels = dict(list(FINE[0].labels.items())[:count])
    reader = Reader({"otter": "A dog"})
    kinds = (replace(FINE[0], labels=labels), FINE[1])
    spans = mark("claims", reader, "A dog on a beach.", "An otter on a beach.", kinds)["mistakes"].spans
    assert [span.category for span in spans if span.marked] == [list(labels)[-1]]
    assert [step for step, _ in reader.asked].count("category") == count - 1


def test_without_the_list_of_mistakes_the_otter_would_count_twice() -> None:
    """Control: the reader finds the dog missing where the prompt does not list the otter."""
    correct, generated = "A dog on a beach.", "An otter on a beach."
    reader = Reader({"otter": "A dog"}, first={"mistakes": "NONE"})
    assert mark("direct", reader, correct, generated)["omissions"].quoted(correct) == ["A", "dog"]
    steps = PROMPTS.of_method("claims")
    lenient = ClaimsMarking(steps, KINDS, threshold=0.95)  # nothing is marked as wrong
    (marks,) = lenient.mark(Reader({"otter": "A dog"}), [Description((PICTURE,), correct, generated)])
    missing = [correct[s.start : s.end] for s in marks["omissions"].spans if (s.probability or 0) > 0.5]
    assert missing == ["A", "dog"]


def test_the_prompts_have_the_guidelines_rules() -> None:
    """The prompts of both ways of marking contain each rule that concerns them."""
    rules = {
        "mistakes": ['"animal" for a dog', "interpretation", "believe the CORRECT description", '"lies on the table"',
                     '"three" is the wrong word'],
        "omissions": ['"dog" if it says "animal"', '"dog" if "otter" is listed', '"four" if "three" is'],
    }  # fmt: skip
    for method in ("direct", "claims"):
        for name, phrases in rules.items():
            step = PROMPTS.of_method(method)[name]
            prompt = " ".join(" ".join(step.parts.get(part, "") for part in step.order).split())
            for phrase in phrases:
                assert phrase in prompt, (method, name, phrase)


def test_words_of_the_labels() -> None:
    """A single label is not named in the prompt."""
    description = Description((), "A dog.", "A cat.")
    one, two = (Kind("mistakes", "error", "generated", dict.fromkeys(names, "what it is")) for names in ("a", "ab"))
    assert description.words(one) == {"correct": "A dog.", "generated": "A cat.", "labels": ""}
    assert description.words(two)["labels"] == "- a: what it is\n- b: what it is"


@pytest.mark.parametrize(("threshold", "marked"), [(0.8, True), (0.81, False)])
def test_a_claim_with_the_threshold_itself_is_marked(threshold: float, marked: bool) -> None:
    marking = ClaimsMarking(PROMPTS.of_method("claims"), KINDS, threshold=threshold)
    (marks,) = marking.mark(Reader(), [Description((PICTURE,), "A wet dog.", "A dog.")])
    (wet,) = [mark for mark in marks["omissions"].spans if mark.start == 2]
    assert (wet.probability, wet.marked) == (0.8, marked)


def test_a_step_has_the_turn_of_the_system() -> None:
    data = conf("span_prompts", "docent") | {"system": "You compare."}
    step = SpanPrompts.from_dict(data).of_method("claims")["mistakes"]
    words = dict.fromkeys(("correct", "generated", "labels", "claim", "marked"), "x")
    assert step.prompt(words).system == "You compare."
    assert SpanPrompts.from_dict(data).identity("claims") != PROMPTS.identity("claims")


def test_identity_of_prompts_does_not_change_between_versions() -> None:
    """Runs that were begun by an earlier version are continued."""
    step = {"order": ["question"], "parts": {"question": "?"}}
    steps = dict.fromkeys(("mistakes", "omissions", "mistakes_again", "omissions_again"), step)
    prompts = SpanPrompts.from_dict({"name": "n", "version": 1, "source": "s", "direct": steps})
    assert prompts.identity("direct") == "8d5f46f05b0339168ebb13ba4872c2e3"


def test_lines_without_a_place_are_asked_again_once() -> None:
    reader = Reader(
        first={"mistakes": "- otter\n- unicorn\n- a", "mistakes_again": "- on [[a]] beach", "omissions": "NONE"}
    )
    marks = mark("direct", reader, "A dog on a beach.", "An otter on a beach, a hat.")
    assert marks["mistakes"].status == Status.OK
    assert marks["mistakes"].quoted("An otter on a beach, a hat.") == ["otter", "a"]
    again = dict(reader.asked)["mistakes_again"]
    assert "unicorn (these words are not in the description)" in again
    assert "a (these words are in the description more than once)" in again
    assert "otter (" not in again


def test_a_second_answer_without_a_place_is_unparsed() -> None:
    reader = Reader(first={"mistakes": "- otter\n- unicorn", "mistakes_again": "- horn", "omissions": "NONE"})
    marks = mark("direct", reader, "A dog on a beach.", "An otter on a beach.")
    mistakes = marks["mistakes"]
    assert (mistakes.status, mistakes.raw, len(mistakes.spans)) == (Status.UNPARSED, "- horn", 1)
    assert mistakes.reason is not None
    assert mistakes.reason.kind == "no_place"
    assert marks["omissions"].status == Status.OK  # what the model listed is known
    assert "- - horn" in dict(reader.asked)["omissions"]
    assert [step for step, _ in reader.asked] == ["mistakes", "mistakes_again", "omissions"]


def test_the_first_answer_stays_where_the_second_repeats_it_or_fails() -> None:
    answers: dict[str, str | ScoringError] = {"mistakes": "noun: otter\nnoun: unicorn", "omissions": "NONE"}
    repeated = Reader(first=answers | {"mistakes_again": "descriptor: otter\ndescriptor: beach"})
    marks = mark("direct", repeated, "A dog on a beach.", "An otter on a beach.", FINE)["mistakes"]
    assert [(span.start, span.category) for span in marks.spans] == [(3, "noun"), (14, "descriptor")]
    failing = Reader(first=answers | {"mistakes_again": ScoringError("answer_cut", "too long")})
    marks = mark("direct", failing, "A dog on a beach.", "An otter on a beach.", FINE)["mistakes"]
    assert (marks.status, marks.raw, len(marks.spans)) == (Status.UNPARSED, "noun: unicorn", 1)


def test_omissions_need_the_mistakes() -> None:
    reader = Reader(first={"mistakes": ScoringError("answer_cut", "too long")})
    marks = mark("direct", reader, "A dog on a beach.", "An otter on a beach.")
    assert marks["mistakes"].status == Status.TRUNCATED
    assert marks["omissions"].status == Status.SKIPPED
    assert marks["omissions"].reason is not None
    assert marks["omissions"].reason.kind == "mistakes_unknown"


@dataclass
class FailingReader(Reader):
    """A reader whose score fails for one claim of one step.

    Attributes:
        fails: step, claim and kind of the error.
    """

    fails: tuple[str, str, str] = ("", "", "")

    def score(self, requests: Sequence[Request]) -> list[tuple[float, ...] | ScoringError]:
        step, claim, kind = self.fails
        return [
            ScoringError(kind, "no") if (request.step.name, request.words["claim"]) == (step, claim) else score
            for request, score in zip(requests, super().score(requests), strict=True)
        ]


def test_one_claim_without_a_score_leaves_its_text_without_marks() -> None:
    correct, generated = "A dog on a beach.", "An otter on a beach."
    unknown: Any = (Status.SKIPPED, "mistakes_unknown", [])
    right: Any = (Status.OK, None, ["otter"])
    missing: Any = (Status.OK, None, [])
    cases = {
        ("mistakes", "beach", "too_long"): [(Status.ERROR, "too_long", []), unknown],
        ("mistakes", "An", "answer_cut"): [(Status.TRUNCATED, "answer_cut", []), unknown],
        ("omissions", "beach", "too_long"): [right, (Status.ERROR, "too_long", [])],
        ("omissions", "sand", "too_long"): [right, missing],
    }
    outcomes = {}
    for fails in cases:
        marks = mark("claims", FailingReader({"otter": "A dog"}, fails=fails), correct, generated)
        outcomes[fails] = [
            (one.status, one.reason and one.reason.kind, one.quoted(text))
            for one, text in zip(marks.values(), (generated, correct), strict=True)
        ]
    assert outcomes == cases
    cut = mark("claims", Reader(first={"cut": ScoringError("answer_cut", "too long")}), correct, generated)
    assert [marks.status for marks in cut.values()] == [Status.TRUNCATED, Status.SKIPPED]


def test_a_claim_whose_label_cannot_be_scored_is_marked_without_one() -> None:
    reader = FailingReader({"otter": "A dog", "beach": ""}, fails=("category", "otter", "too_long"))
    spans = mark("claims", reader, "A dog on a beach.", "An otter on a beach.", FINE)["mistakes"].spans
    assert [(span.start, span.category) for span in spans if span.marked] == [(3, None), (14, "noun")]


def test_one_text_is_cut_once() -> None:
    reader = Reader()
    marking = ClaimsMarking(PROMPTS.of_method("claims"), KINDS, threshold=0.5)
    marking.mark(reader, [Description((PICTURE,), "A dog.", text) for text in ("A dog.", "A cat.")])
    assert [step for step, _ in reader.asked].count("cut") == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"direct": {}}, "missing key 'mistakes'"),
        ({"parts": {}}, "unknown part 'texts'"),
        ({"other": 1}, "unknown key 'other'"),
    ],
)
def test_a_wrong_file_is_refused(change: dict[str, Any], message: str) -> None:
    data = conf("span_prompts", "docent")
    with pytest.raises(ValueError, match=message):
        SpanPrompts.from_dict({**data, **change})


def span_kind(name: str, text: str, *labels: dict[str, Any], **keys: Any) -> dict[str, Any]:
    return {"name": name, "kind": f"{name[:-1]}", "text": text, "labels": labels or [{"value": 1, "label": "L"}]} | keys


def test_labels_mean_their_guidance_or_else_what_the_form_shows() -> None:
    """Whatever the order in the file, mistakes come first."""
    labels: list[dict[str, Any]] = [
        {"value": "noun", "label": "Wrong object", "guidance": "  Mistaken for another.\n"},
        {"value": 2, "label": " Wrong property ", "guidance": "", "colour": "red", "hotkey": "2"},
    ]
    data = [span_kind("omissions", "reference", title="T", guidance="G"), span_kind("mistakes", "generated", *labels)]
    assert kinds_from(data) == (
        Kind("mistakes", "mistake", "generated", {"noun": "Mistaken for another.", "2": "Wrong property"}),
        Kind("omissions", "omission", "reference", {"1": "L"}),
    )


def test_wrong_kinds_of_spans_are_refused() -> None:
    cases = [
        ([], "kinds: none; must be mistakes and omissions"),
        ("mistakes", "kinds: 'mistakes' must be a list"),
        ([{"name": "mistakes", "kind": "mistake", "text": "generated"}], "kinds: missing key 'labels'"),
        ([{"name": "m", "kind": "k", "text": "t", "labels": [{"value": "v"}]}], "kinds, labels, entry 1: missing key"),
        ([span_kind("mistakes", "generated", size=1)], "kinds: unknown key 'size'"),
        ([span_kind("mistakes", "generated", {"value": "v", "label": "L", "size": 1})], "kinds, labels, entry 1: unk"),
        ([span_kind("mistakes", "generated")], "kinds: mistakes; must be"),
        ([span_kind(name, name) for name in ("mistakes", "omissions", "doubts")],
         "kinds: mistakes, omissions, doubts; must be"),
        ([span_kind(name, "generated") for name in ("mistakes", "omissions")],
         "kinds: mistakes and omissions are marked in one text"),
    ]  # fmt: skip

    def check(kinds: Any, message: str) -> None:
        with pytest.raises(ValueError, match=f"^span_labels, {message}"):
            kinds_from(kinds)

    check_cases(check, cases)


def test_a_file_without_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="no steps; at least one of direct, claims is required"):
        SpanPrompts.from_dict({"name": "n", "version": 1, "source": "s"})


def test_an_unknown_word_is_named() -> None:
    data = conf("span_prompts", "docent")
    data["parts"]["texts"] = "{{ caption }}"
    with pytest.raises(ValueError, match="unknown word 'caption'; must be one of correct, generated"):
        SpanPrompts.from_dict(data)


def test_what_precedes_a_claim_does_not_use_it() -> None:
    data = conf("span_prompts", "docent")
    data["claims"]["mistakes"]["parts"]["texts"] = "{{ claim }}"
    with pytest.raises(ValueError, match="only the last part of a scored step may"):
        SpanPrompts.from_dict(data)


def test_answers_that_mark_nothing_are_refused() -> None:
    data = conf("span_prompts", "docent")
    for answer in data["claims"]["mistakes"]["answers"]:
        answer["marks"] = False
    with pytest.raises(ValueError, match="at least one answer with marks: true"):
        SpanPrompts.from_dict(data)
