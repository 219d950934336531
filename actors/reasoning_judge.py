"""Think first, then score: a model reasons in writing, and its closed answer is scored behind what it wrote.

This is not CAIRE's method: its prompt asks for step-by-step reasoning (section 5.2, figure 8), but the answer is
decoded from the score tokens alone (section 3.2), so that no reasoning is written. Here it is written. The grade is not
parsed from the text: the thought becomes the beginning of the model's turn and the allowed answers are scored after it,
so that the whole distribution is kept.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from actors import schemas
from actors.generator import sample_seed, text_generator
from actors.items import count_pictures, withheld
from actors.judge import judged_targets, own_targets
from actors.pictures import PictureError, decode_rgb
from actors.status import Status
from actors.vlm import context, errors
from actors.vlm.encoding import ChatEncoder
from actors.vlm.errors import EngineError, ScoringError
from actors.vlm.generation import Generated
from actors.vlm.loading import load_vlm, model_facts
from actors.vlm.picture_size import PixelBounds
from actors.vlm.prompts import Prompt, PromptBuilder, TargetPrompt
from actors.vlm.ratings import answered, failed, rating_table
from actors.vlm.requests import ScoringRequest
from actors.vlm.rubric import Rubric
from actors.vlm.sampling import Sampling
from actors.vlm.scoring import ClosedSetScorer

METHOD = "generate_then_score"
# Said after the question; a rubric may ask for the bare answer, and this comes last.
THINK = (
    "Before you answer, think it through step by step in a few sentences. "
    "Then write a last line with `Final answer:` and, behind it, nothing but your answer."
)
ANSWER_LINE = "Final answer:"  # the answer's code follows after a space
CLOSING_TOKENS = 32  # for that line, and for a thought that other tokens say than those it was written in
_FINAL = re.compile(r"\**final\s+(?:answer|score)\b.*", re.IGNORECASE | re.DOTALL)


class ReasoningJudge:
    """Asks a rubric's questions about pictures, letting the model think first.

    Args:
        model, revision, dtype, device_map: as `load_vlm` takes them.
        rubric, layout, targets, empty_context: as `actors.judge.Judge` takes them.
        samples: thoughts a question, each with a score of its own.
        temperature, top_p, max_tokens: of the thought.
        seed: all thoughts' seeds derive from it, the item, the target, the question and the sample's number.
        max_context_tokens: a longer context is cut at the article's end and its rows become `truncated`; never more
            than half of the positions that the model has, and less where picture, question and thought need them.
        max_pixels, min_pixels: as `actors.judge.Judge` takes them.
        memory_budget_gb, group_rows: as `actors.generator.Generator` takes them.
        threads: of torch, on a CPU; torch's own choice if None.

    Raises:
        ValueError: a rubric, layout or model that cannot be used.
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
        samples: int = 1,
        temperature: float = 1.0,
        top_p: float = 1.0,
        max_tokens: int = 1024,
        seed: int = 0,
        max_context_tokens: int = context.MAX_CONTEXT_TOKENS,
        empty_context: str = "answer",
        max_pixels: int | None = None,
        min_pixels: int | None = None,
        memory_budget_gb: float | None = None,
        group_rows: int | None = None,
        threads: int | None = None,
    ) -> None:
        import torch

        self.rubric = Rubric.from_dict(rubric)
        self.targets = judged_targets(self.rubric, targets)
        context.check_options(max_context_tokens, empty_context)
        self.said_in = self.rubric.context_fields if empty_context == "skip" else ()
        self.builder = PromptBuilder(self.rubric, layout=layout)
        self.sampling = Sampling(temperature, top_p, max_tokens)
        self.samples, self.seed = samples, seed
        bounds = PixelBounds(max_pixels, min_pixels)
        self._tally: Counter[str] = Counter()
        if threads is not None:
            torch.set_num_threads(threads)
        loaded, processor = load_vlm(model, revision=revision, dtype=dtype, device_map=device_map)
        self.facts = model_facts(loaded, model=model, revision=revision)
        self.rater, self._items = self.facts.rater, 0
        self.chat = ChatEncoder(processor, bounds=bounds, config=loaded.config)
        self.engine = text_generator(loaded, self.chat, memory_budget_gb=memory_budget_gb, group_rows=group_rows)
        self.scorer = ClosedSetScorer(loaded, processor, bounds=bounds)
        for question in self.rubric.questions:
            self.scorer.check_codes(question.codes)
        self.context_limit = context.limit(max_context_tokens, self.scorer.max_tokens)
        if self.engine.max_positions is not None:  # the answer is scored behind the longest thought
            self.engine.max_positions -= CLOSING_TOKENS

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Judge a batch.

        Args:
            batch: as `actors.judge.Judge` takes it.

        Returns:
            Table `ratings`: items in the batch's order; targets, questions, samples inside. `comment` is the thought.

        Raises:
            EngineError: the device failed; nothing of this batch is recorded.
        """
        rows: list[dict[str, Any]] = []
        for start in range(batch.num_rows):  # one by one, so that one item's picture is in memory at a time
            (item,) = batch.slice(start, 1).to_pylist()
            if reason := withheld(item, pictures=1 if self.chat.sees_pictures else 0, said_in=self.said_in):
                rows += self._all(item, failed(*reason))
                continue
            try:
                rows += self._judged(item)
            except EngineError:
                raise
            except PictureError as error:
                rows += self._all(item, failed(Status.ERROR, ScoringError(error.kind, str(error))))
            except Exception as error:
                rows += self._all(item, failed(Status.ERROR, errors.reason(error)))
        self._items += batch.num_rows
        return rating_table(rows)

    def take_tally(self) -> dict[str, int]:
        """Counts since the last call, `group/key` -> n: items under what ran the model (`RaterFacts.tally`), pictures
        and their tokens."""
        taken, self._tally = {self.facts.tally: self._items, **self._tally}, Counter()
        self._items = 0
        return taken

    def report_tokens(self, told: Callable[[int], None]) -> None:
        """Call `told` with the number of tokens drawn, at each step of the thoughts."""
        self.engine.on_tokens = told

    def _judged(self, item: Mapping[str, Any]) -> list[dict[str, Any]]:
        picture = decode_rgb(item["pictures"][0]) if self.chat.sees_pictures else None
        (asked, prompts), cut = context.fitted(
            item,
            partial(self._prompts, item, picture),
            fields=self.rubric.context_fields,
            first=self.rubric.context_cut,
            limit=self.context_limit,
            by=self.scorer,
        )
        if picture is not None and prompts:
            count_pictures(self._tally, 1, self.chat.picture_tokens(prompts[0]))
        thoughts = self._thoughts(item["item_id"], asked, prompts)
        requests: list[ScoringRequest] = []
        places: dict[tuple[int, int], int] = {}
        for number, (each, made) in enumerate(zip(asked, thoughts, strict=True)):
            for sample, thought in enumerate(made if isinstance(made, list) else []):
                places[number, sample] = len(requests)
                prompt = Prompt(each.prompt.before, each.prompt.after, each.prompt.suffix, start=begun(thought))
                requests.append(ScoringRequest(prompt, picture, each.question.codes))
        results = self.scorer.score(requests)
        rows = []
        for number, (each, made) in enumerate(zip(asked, thoughts, strict=True)):
            for sample in range(self.samples):
                key = self._key(item["item_id"], each.target, each.question.name, sample)
                if isinstance(made, ScoringError):
                    rows.append(key | failed(Status.ERROR, made))
                    continue
                row = key | answered(each.question, results[places[number, sample]], cut)
                rows.append(row | {"comment": made[sample]})
        return rows

    def _prompts(
        self, item: Mapping[str, Any], picture: Any, said: dict[str, str]
    ) -> tuple[tuple[list[TargetPrompt], list[dict[str, Any]]], int]:
        """What is asked, its inputs, and how many tokens too long the longest is for a thought and an answer."""
        asked = [
            each._replace(prompt=Prompt(each.prompt.before, each.prompt.after, f"{each.prompt.suffix}\n\n{THINK}"))
            for each in self.builder.prompts(said, targets=self._targets_of(item))
        ]
        pictures = [] if picture is None else [picture]
        prompts = []
        for each in asked:
            before, behind = each.prompt.before, each.prompt.after + each.prompt.suffix
            pieces = [*([before] if before else []), None, behind] if pictures else [before + behind]
            prompts.append(self.chat.encode(pieces, pictures))
        token_budget = context.token_budget(self.scorer.token_budget(), self.sampling.max_tokens + CLOSING_TOKENS)
        longest = max(int(inputs["input_ids"].shape[1]) for inputs in prompts)
        return (asked, prompts), 0 if token_budget is None else longest - token_budget

    def _thoughts(
        self, item: str, asked: list[TargetPrompt], prompts: list[dict[str, Any]]
    ) -> list[list[str] | ScoringError]:
        seeds = [
            [sample_seed(self.seed, f"{item}\x1f{each.target}\x1f{each.question.name}", n) for n in range(self.samples)]
            for each in asked
        ]
        return [
            made if isinstance(made, ScoringError) else [self._text(one) for one in made]
            for made in self.engine.generate(prompts, seeds=seeds, sampling=self.sampling)
        ]

    def _text(self, made: Generated) -> str:
        # The answer that the model gave itself is left out: the one that is scored takes its place.
        return self.chat.as_data(_FINAL.sub("", self.chat.decode(made.tokens)).strip())

    def _targets_of(self, item: Mapping[str, Any]) -> Sequence[str]:
        return own_targets(self.rubric, item) or self.targets

    def _all(self, item: Mapping[str, Any], end: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            self._key(item["item_id"], target, question.name, sample) | end
            for target in self._targets_of(item)
            for question in self.rubric.questions
            for sample in range(self.samples)
        ]

    def _key(self, item: str, target: str, question: str, sample: int) -> dict[str, Any]:
        return {
            "item_id": item,
            "target": target,
            "rubric": self.rubric.name,
            "question": question,
            "rater": self.rater,
            "condition": "",
            "method": METHOD,
            "order": self.builder.layout,
            "sample": sample,
        }


def begun(thought: str) -> str:
    """The model's turn up to its answer."""
    return f"{thought}\n\n{ANSWER_LINE}" if thought else ANSWER_LINE
