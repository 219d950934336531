"""method=direct: the model lists the words to mark, first the mistakes, then the omissions."""

from collections.abc import Mapping, Sequence

from actors.marking.model import KINDS, MISTAKES_UNKNOWN, Description, Kind, Mark, Marks, SpanModel, bullets, failed
from actors.marking.prompts import MISTAKES, MarkingStep
from actors.marking.quoting import Passage, Quoted, quotations
from actors.status import Status
from actors.untrusted import text_lines
from actors.vlm.errors import ScoringError

UNPARSED = "no_place"  # error_kind of lines that quote nothing


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
