"""The two methods by which a model marks spans.

direct: the model lists the words to mark, first the mistakes, then the omissions.

claims: the model cuts a text into its smallest claims, and closed answers score each of them. A claim's probability is
that of the answers with `marks: true` among all allowed answers.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from actors.marking.quotes import Located, Passage, Quoted, quotations
from actors.marking.span_prompts import (
    KINDS,
    MISTAKES,
    MISTAKES_UNKNOWN,
    ClosedAnswer,
    Description,
    Kind,
    Mark,
    MarkingStep,
    Marks,
    Request,
    SpanModel,
    bullets,
    failed,
)
from actors.status import Status
from actors.untrusted import text_lines
from actors.vlm.errors import ScoringError

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"  # codes of the labels of a kind
UNPARSED = "no_place"  # error_kind of lines that quote nothing


class _Passage(NamedTuple):
    """A text of a description, and the words for prompts about its claims."""

    kind: Kind
    description: Description
    words: Mapping[str, str]

    def request(self, step: MarkingStep, claim: Located, codes: tuple[str, ...]) -> Request:
        """Return the question about one claim."""
        text = self.description.text(self.kind)
        marked = f"{text[: claim.start]}[[{text[claim.start : claim.end]}]]{text[claim.end :]}"
        words = {**self.words, "claim": text[claim.start : claim.end], "marked": marked}
        return Request(step, words, self.description.pictures, codes)


class ClaimsMarking:
    """Method that marks the claims whose probability is at least a threshold.

    The question about omissions shows the marked mistakes, so that the model does not count them twice.

    Args:
        steps: the prompts of method=claims.
        kinds: mistakes and omissions.
        threshold: the lowest probability of a marked claim.
    """

    def __init__(self, steps: Mapping[str, MarkingStep], kinds: Sequence[Kind], *, threshold: float) -> None:
        self._steps, self._kinds = steps, {kind.name: kind for kind in kinds}
        self._threshold = threshold

    def mark(self, model: SpanModel, descriptions: Sequence[Description]) -> list[dict[str, Marks]]:
        """Return the marks of each description by the kind's name; each claim of a text is a span.

        Raises:
            actors.vlm.errors.EngineError: the device failed.
        """
        texts = list(dict.fromkeys(d.text(kind) for d in descriptions for kind in self._kinds.values()))
        passages = [
            Passage(text, self._steps["cut"], self._steps["cut_again"], {"text": text}, in_order=True) for text in texts
        ]
        claims = dict(zip(texts, quotations(model, passages), strict=True))
        results: list[dict[str, Marks]] = [{} for _ in descriptions]
        for name in KINDS:
            for description, marks in zip(descriptions, results, strict=True):
                kind = self._kinds[name]
                cut = claims[description.text(kind)]
                if name != MISTAKES and not marks[MISTAKES].are_known:
                    marks[name] = Marks(status=Status.SKIPPED, reason=MISTAKES_UNKNOWN)
                elif isinstance(cut, ScoringError):
                    marks[name] = failed(cut)
                else:
                    marks[name] = self._marks(model, kind, description, cut, marks)
        return results

    def _marks(
        self, model: SpanModel, kind: Kind, description: Description, cut: Quoted, earlier: Mapping[str, Marks]
    ) -> Marks:
        """Return the marks of one text from the scores of its claims."""
        words = description.words(kind)
        if kind.name != MISTAKES:
            words["mistakes"] = bullets(earlier[MISTAKES].quoted(description.generated))
        passage = _Passage(kind, description, words)
        answers = self._steps[kind.name].answers
        codes = tuple(answer.code for answer in answers)
        asked = [passage.request(self._steps[kind.name], claim, codes) for claim in cut.spans]
        results = model.score(asked) if asked else []
        if fault := next((result for result in results if isinstance(result, ScoringError)), None):
            return failed(fault)
        probabilities = [_share(result, answers) for result in results if not isinstance(result, ScoringError)]
        marked = [n for n, probability in enumerate(probabilities) if probability >= self._threshold]
        labels = self._categories(model, passage, [cut.spans[n] for n in marked])
        categories = dict(zip(marked, labels, strict=True))
        spans = [
            Mark(claim.start, claim.end, categories.get(number), probabilities[number], number in categories)
            for number, claim in enumerate(cut.spans)
        ]
        return incomplete(spans, cut)

    def _categories(self, model: SpanModel, passage: _Passage, claims: Sequence[Located]) -> list[str | None]:
        """Return the most likely label of each marked claim; None if it cannot be scored."""
        labels = passage.kind.labels
        if len(labels) == 1 or not claims:
            return [next(iter(labels))] * len(claims)
        names, codes = list(labels), tuple(LETTERS[: len(labels)])
        options = "\n".join(f"{code} = {labels[name]}" for code, name in zip(codes, names, strict=True))
        with_options = passage._replace(words={**passage.words, "options": options})
        asked = [with_options.request(self._steps["category"], claim, codes) for claim in claims]
        return [
            None if isinstance(result, ScoringError) else names[max(range(len(names)), key=result.__getitem__)]
            for result in model.score(asked)
        ]


def _share(probabilities: Sequence[float], answers: Sequence[ClosedAnswer]) -> float:
    return sum(share for share, answer in zip(probabilities, answers, strict=True) if answer.marks)


class DirectMarking:
    """Method that marks the spans that a model quotes.

    The question about omissions shows the mistakes that the model listed, so that it does not count them twice.

    Args:
        steps: the prompts of method=direct.
        kinds: mistakes and omissions.
    """

    def __init__(self, steps: Mapping[str, MarkingStep], kinds: Sequence[Kind]) -> None:
        self._steps, self._kinds = steps, {kind.name: kind for kind in kinds}

    def mark(self, model: SpanModel, descriptions: Sequence[Description]) -> list[dict[str, Marks]]:
        """Return the marks of each description by the kind's name.

        Raises:
            actors.vlm.errors.EngineError: the device failed.
        """
        results: list[dict[str, Marks]] = [{} for _ in descriptions]
        for name in KINDS:
            asked = []
            for number, marks in enumerate(results):
                if name == MISTAKES or marks[MISTAKES].are_known:
                    asked.append(number)
                else:
                    marks[name] = Marks(status=Status.SKIPPED, reason=MISTAKES_UNKNOWN)
            passages = [self._passage(self._kinds[name], descriptions[n], results[n]) for n in asked]
            for number, quoted in zip(asked, quotations(model, passages), strict=True):
                results[number][name] = _marks(quoted)
        return results

    def _passage(self, kind: Kind, description: Description, earlier: Mapping[str, Marks]) -> Passage:
        words = description.words(kind)
        if kind.name != MISTAKES:
            mistakes = earlier[MISTAKES]
            lines = mistakes.quoted(description.generated) + text_lines(mistakes.raw or "")
            words["mistakes"] = bullets(lines)
        return Passage(
            description.text(kind),
            self._steps[kind.name],
            self._steps[f"{kind.name}_again"],
            words,
            description.pictures,
            tuple(kind.labels),
        )


def _marks(quoted: Quoted | ScoringError) -> Marks:
    if isinstance(quoted, ScoringError):
        return failed(quoted)
    spans = [Mark(span.start, span.end, span.label or None) for span in quoted.spans]
    return incomplete(spans, quoted)


def incomplete(spans: list[Mark], quoted: Quoted) -> Marks:
    """Return the marks of a text; unparsed if lines of the answer have no place in the text."""
    if not quoted.faults:
        return Marks(spans)
    kinds = ", ".join(sorted({fault.reason for fault in quoted.faults}))
    reason = ScoringError(UNPARSED, f"{len(quoted.faults)} lines of the answer have no place in the text ({kinds})")
    return Marks(spans, Status.UNPARSED, reason, "\n".join(fault.line for fault in quoted.faults))
