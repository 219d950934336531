"""Let a model mark mistakes and omissions in descriptions of pictures: `mark_spans`."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from actors import schemas
from actors.errors import SettingError, first_line
from actors.fetching.decoders import PictureReader
from actors.items import skip_reason
from actors.marking.methods import ClaimsMarking, DirectMarking
from actors.marking.span_prompts import Description, Kind, MarkingStep, Marks, Request, SpanPrompts, kinds_from
from actors.pictures import PictureError
from actors.schemas import SpanRow
from actors.settings import ConditionSettings, RuntimeOnly, check_positive
from actors.status import Status
from actors.tallies import TallyingStage
from actors.vlm import errors
from actors.vlm.chat import ChatEncoder
from actors.vlm.errors import EngineError, ScoringError
from actors.vlm.generation import text_generator
from actors.vlm.loading import LoadedModel, load_model
from actors.vlm.scoring import ClosedSetScorer
from actors.vlm.scoring_requests import ScoringRequest
from actors.vlm.settings import MemorySettings, ModelSettings, Sampling


@dataclass(kw_only=True)
class MarkingSettings(MemorySettings, ConditionSettings):
    """Settings of `SpanMarker`: how the model marks, its prompts, and the labels of the spans."""

    method: str = "direct"  # direct: the model lists words; claims: it cuts the text, and each piece is scored
    span_labels: dict[str, Any] = field(default_factory=dict)  # kinds of spans and their labels (conf/span_labels)
    span_prompts: dict[str, Any] = field(default_factory=dict)  # what the model is asked (conf/span_prompts)
    threshold: float = 0.5  # rarely: method=claims: the lowest probability of a marked claim
    max_tokens: int = 512  # rarely: tokens of one answer
    group_rows: RuntimeOnly[int | None] = (
        None  # rarely: most prompts in a batch that is written; null: what the memory budget holds
    )

    def __post_init__(self) -> None:
        check_positive(group_rows=self.group_rows)
        if not 0 < self.threshold <= 1:
            raise SettingError("must be above 0 and at most 1", "threshold", self.threshold)
        if self.threshold != MarkingSettings.threshold and self.method != "claims":
            raise SettingError(f"method={self.method} has no such key; set method=claims", "threshold", self.threshold)
        Sampling(0.0, 1.0, self.max_tokens)
        kinds_from(self.span_labels.get("kinds") or ())
        SpanPrompts.from_dict(self.span_prompts).of_method(self.method)
        super().__post_init__()

    @property
    def steps(self) -> Mapping[str, MarkingStep]:
        """Return the prompts of the method."""
        return SpanPrompts.from_dict(self.span_prompts).of_method(self.method)

    @property
    def shows_picture(self) -> bool:
        """Return whether any prompt of the method shows the picture."""
        return any(step.shows_picture for step in self.steps.values())

    @property
    def kinds(self) -> tuple[Kind, Kind]:
        """Return the kinds of spans: mistakes and omissions."""
        return kinds_from(self.span_labels.get("kinds") or ())

    @property
    def marking(self) -> DirectMarking | ClaimsMarking:
        """Return the method by which the model marks."""
        if self.method == "direct":
            return DirectMarking(self.steps, self.kinds)
        return ClaimsMarking(self.steps, self.kinds, threshold=self.threshold)


class SpanMarker(TallyingStage):
    """Actor that has a model mark spans in the two texts of each item and returns rows of the table `spans`.

    Pictures are decoded here because each step has a separate prompt.

    Args:
        settings: method, prompts and labels.
        model: which model to load.
        threads: torch's threads on a CPU; None: torch's default.

    Raises:
        ValueError: the model cannot be loaded, or the prompts show a picture and the model does not accept any.
    """

    INPUTS = schemas.DESCRIBED_ITEMS
    OUTPUTS = schemas.SPANS

    def __init__(self, settings: MarkingSettings, *, model: ModelSettings, threads: int | None = None) -> None:
        super().__init__()
        loaded = load_model(model, threads=threads)
        self.facts = loaded.facts
        self.kinds, self.method, self.condition = settings.kinds, settings.method, settings.condition
        self.shows_picture = settings.shows_picture
        self.model = LoadedSpanModel(loaded, settings, model)
        if self.shows_picture and not self.model.chat.sees_pictures:
            why = (
                f"does not accept pictures, and the prompts of method={settings.method} show one; use a "
                "vision-language model"
            )
            raise SettingError(why, "model.checkpoint", model.checkpoint)
        self.marking = settings.marking
        self._read = PictureReader()

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Mark the texts of a batch.

        Args:
            batch: `actors.schemas.DESCRIBED_ITEMS`: items with their pictures, and their texts and text_ids by role.

        Returns:
            Table `spans`: items in the batch's order, mistakes before omissions, by position. Each text has at least
            one row: from 0 to 0 if nothing is marked, or if the status says that the marks are unknown or incomplete.

        Raises:
            EngineError: the device failed; no row of this batch is returned.
        """
        items = batch.to_pylist()
        results: dict[int, dict[str, Marks]] = {}
        ready: dict[int, Description] = {}
        for number, item in enumerate(items):
            description = describe(item, self.kinds, shows_picture=self.shows_picture, read=self._read)
            if isinstance(description, Marks):
                results[number] = {kind.name: description for kind in self.kinds}
            else:
                ready[number] = description
        begin = time.perf_counter()
        marked = self.marking.mark(self.model, list(ready.values())) if ready else []
        self._tally["milliseconds/marking"] += round(1000 * (time.perf_counter() - begin))
        results |= dict(zip(ready, marked, strict=True))
        self._tally[self.facts.tally] += len(ready)
        self._tally.update(self.model.take_tally())
        rows = [row for number, item in enumerate(items) for row in self._rows(item, results[number])]
        return schemas.to_table(rows, self.OUTPUTS)

    def report_tokens(self, report: Any) -> None:
        """Call `report` with the number of new tokens at each step of generation."""
        self.model.engine.on_tokens = report

    def _rows(self, item: Mapping[str, Any], results: Mapping[str, Marks]) -> Iterator[SpanRow]:
        for kind in self.kinds:
            marks = results[kind.name]
            ids = dict(item["text_ids"] or ()).get(kind.role) or []
            key: SpanRow = {
                "item_id": item["item_id"],
                "rater": self.facts.rater,
                "condition": self.condition,
                "method": self.method,
                "text_id": ids[0] if len(ids) == 1 else "",
                "kind": kind.kind,
            }
            if marks.status != Status.OK or not any(mark.marked for mark in marks.spans):
                reason = marks.reason or ScoringError("", "")
                yield {
                    **key,
                    "start": 0,
                    "end": 0,
                    "marked": False,
                    "status": marks.status.value,
                    "error_kind": reason.kind or None,
                    "error_message": reason.message or None,
                    "raw": marks.raw,
                }
            for mark in marks.spans:
                yield {
                    **key,
                    "start": mark.start,
                    "end": mark.end,
                    "category": mark.category,
                    "probability": mark.probability,
                    "marked": mark.marked,
                    "status": Status.OK.value,
                }


def describe(
    item: Mapping[str, Any], kinds: Sequence[Kind], *, shows_picture: bool, read: PictureReader
) -> Description | Marks:
    """Return an item's pictures and texts, or why it cannot be marked.

    Args:
        item: a row of `actors.schemas.DESCRIBED_ITEMS`.
        kinds: mistakes and omissions.
        shows_picture: whether the prompts show the picture.
        read: decodes a picture.
    """
    if reason := skip_reason(item, pictures=1 if shows_picture else 0):
        return Marks(status=reason[0], reason=reason[1])
    texts = []
    for kind in kinds:
        of_role = dict(item["texts"] or ()).get(kind.role) or []
        if len(of_role) != 1 or not (of_role[0] or "").strip():
            message = f"the item has {len(of_role)} texts of role {kind.role!r}; one that is not empty is required"
            return Marks(status=Status.SKIPPED, reason=ScoringError("text_count", message))
        texts.append(of_role[0])
    generated, correct = texts
    try:
        pictures = tuple(map(read, item["pictures"])) if shows_picture else ()
    except PictureError as error:
        return Marks(status=Status.ERROR, reason=ScoringError(error.kind, first_line(error)))
    return Description(pictures, correct, generated)


class LoadedSpanModel(TallyingStage):
    """A loaded model as `actors.marking.span_prompts.SpanModel`."""

    def __init__(self, loaded: LoadedModel, settings: MarkingSettings, model: ModelSettings) -> None:
        super().__init__()
        self.chat = ChatEncoder(loaded.processor, bounds=model.bounds, config=loaded.model.config)
        self.engine = text_generator(
            loaded.model, self.chat, memory_budget_gb=settings.memory_budget_gb, group_rows=settings.group_rows
        )
        self.scorer = ClosedSetScorer(
            loaded.model, loaded.processor, memory_budget_gb=settings.memory_budget_gb, bounds=model.bounds
        )
        self.sampling = Sampling(0.0, 1.0, settings.max_tokens)

    def write(self, requests: Sequence[Request]) -> list[str | ScoringError]:
        """Return the most likely text after each prompt; one that was cut is an error.

        Raises:
            EngineError: the device failed.
        """
        results: list[str | ScoringError] = []
        prompts: dict[int, dict[str, Any]] = {}
        for number, request in enumerate(requests):
            try:
                prompts[number] = self._encoded(request)
                results.append("")
            except Exception as error:
                results.append(errors.reason(error))
        self._tally["prompts/written"] += len(prompts)
        texts = self.engine.generate(list(prompts.values()), seeds=[[0]] * len(prompts), sampling=self.sampling)
        for number, samples in zip(prompts, texts, strict=True):
            if isinstance(samples, ScoringError):
                results[number] = samples
                continue
            written = self.chat.written(samples[0].tokens)
            if samples[0].finish_reason == "length" or written.is_open:
                ended = "ended inside a thought" if written.is_open else "reached the limit"
                message = f"the answer {ended} after {len(samples[0].tokens)} tokens"
                results[number] = ScoringError("answer_cut", message)
            else:
                results[number] = written.answer
        return results

    def score(self, requests: Sequence[Request]) -> list[tuple[float, ...] | ScoringError]:
        """Return the probabilities of each request's codes; requests with the same pictures share their encoding.

        Raises:
            EngineError: the device failed.
        """
        self._tally["prompts/scored"] += len(requests)
        asked = [ScoringRequest(r.step.prompt(self._data(r)), r.pictures or None, r.codes) for r in requests]
        try:
            results = self.scorer.score(asked)
        except EngineError:
            raise
        except Exception as error:
            return [errors.reason(error)] * len(requests)
        return [result if isinstance(result, ScoringError) else result.probabilities for result in results]

    def _encoded(self, request: Request) -> dict[str, Any]:
        turn = request.step.turn(self._data(request))
        pictures = list(request.pictures) if request.step.shows_picture else []
        inputs = self.chat.encode(turn, pictures, system=request.step.system)
        self._count_pictures(len(pictures), self.chat.picture_tokens(inputs))
        return inputs

    def _data(self, request: Request) -> dict[str, str]:
        """Return the words of a prompt, in which special tokens of the model are ordinary text."""
        return {name: self.chat.as_data(text) for name, text in request.words.items()}
