"""The stage that judges: a batch of pictures in, their ratings under one rubric by one model out."""

import hashlib
import math
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from actors import schemas
from actors.errors import first_line
from actors.items import COLUMNS, TARGETS, count_pictures, withheld
from actors.pictures import PictureError, decode_rgb
from actors.status import Status
from actors.vlm import context, errors
from actors.vlm.errors import EngineError, ScoringError
from actors.vlm.loading import load_vlm, model_facts
from actors.vlm.picture_size import PixelBounds
from actors.vlm.prompts import PromptBuilder, TargetPrompt
from actors.vlm.ratings import METHODS, answered, failed, rating_table
from actors.vlm.requests import RequestGroup, Scores, ScoringRequest
from actors.vlm.rubric import Rubric
from actors.vlm.scoring import ClosedSetScorer

READERS = 2  # threads that decode and tokenise ahead of the device


@dataclass(frozen=True)
class _Ready:
    """An item before the device: what is asked about it, or why nothing is."""

    item: dict[str, Any]
    asked: Sequence[TargetPrompt] = ()
    group: RequestGroup | None = None
    cut: ScoringError | None = None
    failure: tuple[Status, ScoringError] | None = None


class Judge:
    """Asks one model every question of a rubric about every picture of a batch, against every target.

    Args:
        model: hub name, folder or `local:NAME`, with `revision`, `dtype`, `device_map` as `load_vlm` takes them.
        rubric: a rubric as its YAML file reads (`actors.vlm.rubric`).
        layout: one of the rubric's layouts; its default if None.
        targets: labels to judge against, in place of the rubric's; an item's own go before.
        rater: name in column `rater`; `model@revision` if None.
        max_context_tokens: a longer context is cut at the article's end and its rows become `truncated`;
            never more than half of the positions that the model has.
        empty_context: `answer` without it, or `skip` an item about which nothing is said.
        engine: how prompts pass through the model (`actors.vlm.engines`).
        memory_budget_gb: memory for what passes at once; half of what is free if None.
        max_pixels, min_pixels: bounds of a picture's pixels as the model sees it (`actors.vlm.picture_size`); the
            processor's own if None.
        rescore_fraction: share of the rows, chosen by a hash of their key, that is scored twice, to measure rounding.
        threads: of torch, on a CPU; torch's own choice if None.
        readers: threads that decode pictures and prepare prompts while the device works.

    Raises:
        ValueError: a rubric, layout, engine or model that cannot be used, or answer codes that the model writes alike.
    """

    INPUTS = schemas.ITEMS
    OUTPUTS = schemas.RATINGS

    def __init__(
        self,
        *,
        model: str,
        rubric: Mapping[str, Any],
        revision: str | None = None,
        dtype: str = "auto",
        device_map: str = "auto",
        layout: str | None = None,
        targets: Sequence[str] | None = None,
        rater: str | None = None,
        max_context_tokens: int = context.MAX_CONTEXT_TOKENS,
        empty_context: str = "answer",
        engine: str = "auto",
        memory_budget_gb: float | None = None,
        max_pixels: int | None = None,
        min_pixels: int | None = None,
        rescore_fraction: float = 0.0,
        threads: int | None = None,
        readers: int = READERS,
    ) -> None:
        import torch

        self.rubric = Rubric.from_dict(rubric)
        self.targets = judged_targets(self.rubric, targets)
        self.builder = PromptBuilder(self.rubric, layout=layout)
        context.check_options(max_context_tokens, empty_context)
        if not 0 <= rescore_fraction <= 1:
            raise ValueError(f"rescore_fraction={rescore_fraction:g}: must be from 0 to 1")
        bounds = PixelBounds(max_pixels, min_pixels)
        if threads is not None:
            torch.set_num_threads(threads)
        loaded, processor = load_vlm(model, revision=revision, dtype=dtype, device_map=device_map)
        self.scorer = ClosedSetScorer(
            loaded, processor, engine=engine, memory_budget_gb=memory_budget_gb, bounds=bounds
        )
        facts = model_facts(loaded, model=model, revision=revision)
        self.facts = facts._replace(rater=rater or facts.rater)
        self.methods = {
            question.name: METHODS[self.scorer.answers(question.codes, start=self.rubric.answer_start).rule]
            for question in self.rubric.questions
        }
        self.context_limit = context.limit(max_context_tokens, self.scorer.max_tokens)
        self.empty_context, self.rescore_fraction, self.readers = empty_context, rescore_fraction, max(1, readers)
        self._pool = ThreadPoolExecutor(self.readers, thread_name_prefix="judge-reader")
        self._tally: Counter[str] = Counter()
        self._left: float | None = None  # when the last batch was done

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Judge a batch.

        Args:
            batch: `item_id: string`, `pictures: list<large_binary>` (encoded, may be null), `status: string` (of the
                pictures), and any of the rubric's context fields as strings; a field that is absent or null is empty.
                `targets: list<string>`, where it is neither null nor empty, holds an item's own targets.

        Returns:
            Table `ratings`: items in the batch's order; for each, targets outside and questions inside.

        Raises:
            ValueError: a column that is not there.
            EngineError: the device failed; nothing of this batch is recorded.
        """
        if missing := [name for name in COLUMNS if name not in batch.column_names]:
            raise ValueError(f"no column {missing[0]!r} in the batch; needed are {', '.join(COLUMNS)}")
        wanted = {*COLUMNS, TARGETS, *self.rubric.context_fields}
        chosen = batch.select([name for name in batch.column_names if name in wanted])
        begun = time.perf_counter()
        since = begun if self._left is None else self._left
        rows: list[dict[str, Any]] = []
        for ready in self._ahead(chosen):
            rows += self._rows(ready)
        made = rating_table(rows)
        self._left = time.perf_counter()
        self._tally["milliseconds/all"] += round(1000 * (self._left - since))
        return made

    def take_tally(self) -> dict[str, int]:
        """Counts since the last call, `group/key` -> n: tokens, pictures, milliseconds, who judged, rescored rows."""
        taken, self._tally = dict(self._tally), Counter()
        return taken

    def _ahead(self, batch: pa.Table) -> Iterator[_Ready]:
        """The items in order, prepared by other threads; as many pictures in memory as there are readers, and one."""
        waiting: deque[Future[_Ready]] = deque()
        for start in range(batch.num_rows):
            waiting.append(self._pool.submit(self._ready, batch.slice(start, 1)))
            if len(waiting) > self.readers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _ready(self, one: pa.Table) -> _Ready:
        (item,) = one.to_pylist()
        try:
            if reason := self._withheld(item):
                return _Ready(item, failure=reason)
            return self._prepared(item)
        except PictureError as error:
            return _Ready(item, failure=(Status.ERROR, ScoringError(error.kind, first_line(error))))
        except Exception as error:
            return _Ready(item, failure=(Status.ERROR, errors.reason(error)))

    def _withheld(self, item: Mapping[str, Any]) -> tuple[Status, ScoringError] | None:
        """Why an item is not judged, if it is not."""
        said_in = self.rubric.context_fields if self.empty_context == "skip" else ()
        return withheld(item, pictures=1 if self.scorer.sees_pictures else 0, said_in=said_in)

    def _prepared(self, item: dict[str, Any]) -> _Ready:
        """Prompts whose context is cut until the longest fits the model and its memory."""
        picture = decode_rgb(item["pictures"][0]) if self.scorer.sees_pictures else None
        token_budget = self.scorer.token_budget()

        def made(said: dict[str, str]) -> tuple[tuple[list[TargetPrompt], RequestGroup], int]:
            asked = self.builder.prompts(said, targets=self._targets_of(item))
            group = self.scorer.prepare([ScoringRequest(each.prompt, picture, each.question.codes) for each in asked])
            return (asked, group), 0 if token_budget is None else group.longest - token_budget

        (asked, group), cut = context.fitted(
            item,
            made,
            fields=self.rubric.context_fields,
            first=self.rubric.context_cut,
            limit=self.context_limit,
            by=self.scorer,
        )
        return _Ready(item, asked, group, cut)

    def _rows(self, ready: _Ready) -> list[dict[str, Any]]:
        item = ready.item
        if ready.failure or ready.group is None:
            assert ready.failure is not None
            status, reason = ready.failure
            return [
                self._key(item, target=target, question=question.name) | failed(status, reason)
                for target in self._targets_of(item)
                for question in self.rubric.questions
            ]
        begun = time.perf_counter()
        try:
            found = self.scorer.run(ready.group)
        except EngineError:
            raise
        except Exception as error:
            found = dict.fromkeys(ready.group.places, errors.reason(error))
        self._count(found.values())
        count_pictures(self._tally, 1, self.scorer.picture_tokens(ready.group) if self.scorer.sees_pictures else None)
        if self.rescore_fraction:
            self._score_again(ready, found)
        self._tally["milliseconds/device"] += round(1000 * (time.perf_counter() - begun))
        return [
            self._key(item, target=each.target, question=each.question.name)
            | answered(each.question, found[place], ready.cut)
            for place, each in enumerate(ready.asked)
        ]

    def _score_again(self, ready: _Ready, found: Mapping[int, Scores | ScoringError]) -> None:
        """Score rows chosen by their key once more, each alone: what differs is rounding."""
        assert ready.group is not None
        chosen = [
            place
            for place, each in enumerate(ready.asked)
            if isinstance(found[place], Scores)
            and _share(ready.item["item_id"], each.target, each.question.name) < self.rescore_fraction
        ]
        if not chosen:
            return
        for place in chosen:  # the whole prompt is then its prefix, and every product has another shape
            again, before = self.scorer.run(ready.group.subset([place]))[place], found[place]
            self._tally["rescored/rows"] += 1
            if not isinstance(again, Scores) or not isinstance(before, Scores):
                self._tally["rescored/failed"] += 1
                continue
            pairs = list(zip(before.probabilities, again.probabilities, strict=True))
            self._tally["rescored/changed answers"] += _top(before) != _top(again)
            self._tally[f"rescored difference/{_rounded_up(max(abs(a - b) for a, b in pairs))}"] += 1

    def _count(self, found: Iterable[Scores | ScoringError]) -> None:
        good = [each for each in found if isinstance(each, Scores)]
        self._tally["tokens/of whole prompts"] += sum(each.prompt_tokens for each in good)
        self._tally["tokens/passed"] += round(sum(each.passed_tokens for each in good))
        facts = self.facts._replace(engine=f"{self.scorer.engine}, {self.facts.engine}")
        self._tally[facts.tally] += len(good)

    def _targets_of(self, item: Mapping[str, Any]) -> Sequence[str]:
        return own_targets(self.rubric, item) or self.targets

    def _key(self, item: dict[str, Any], *, target: str, question: str) -> dict[str, Any]:
        return {
            "item_id": item["item_id"],
            "target": target,
            "rubric": self.rubric.name,
            "question": question,
            "rater": self.facts.rater,
            "condition": "",
            "method": self.methods[question],
            "order": self.builder.layout,
            "sample": 0,
        }


def judged_targets(rubric: Rubric, given: Sequence[str] | None) -> tuple[str, ...]:
    """The labels that items without any of their own are judged against: what is given, else the rubric's.

    One empty label for a rubric that asks about none; no label, and so no row for such an item, where there is none.

    Raises:
        ValueError: labels for a rubric that asks about none.
    """
    if given and not rubric.asks_targets:
        raise ValueError(f"rubric {rubric.name!r} asks about no target, and targets are given")
    return tuple(given or rubric.targets) if rubric.asks_targets else ("",)


def own_targets(rubric: Rubric, item: Mapping[str, Any]) -> Sequence[str]:
    """The labels that an item brings for a rubric that asks about any; none if it brings none."""
    return (item.get(TARGETS) or ()) if rubric.asks_targets else ()


def _share(*key: str) -> float:
    """A number from 0 to 1 that is the key's own, evenly spread over keys."""
    return int.from_bytes(hashlib.sha256("\x1f".join(key).encode()).digest()[:6], "big") / 2**48


def _top(scores: Scores) -> int:
    return max(range(len(scores.probabilities)), key=lambda place: scores.probabilities[place])


def _rounded_up(value: float) -> str:
    """Two figures, never below the value: a largest difference is to be a bound."""
    if value == 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / unit) * unit:.1e}"
