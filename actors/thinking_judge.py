"""Think first, then score: a model reasons in writing, and its closed answer is scored behind what it wrote.

CAIRE (section 5.2) lets its judges reason step by step before they grade. The grade is not read out of the text: the
thought becomes the beginning of the model's turn and the allowed answers are scored behind it, so that the whole
distribution is kept and nothing has to be parsed.
"""

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from actors.generator import sample_seed, text_generator
from actors.pictures import PictureError, decode_rgb
from actors.status import Status
from actors.vlm import context, faults
from actors.vlm.encoding import ChatEncoder
from actors.vlm.faults import EngineError, ScoringError
from actors.vlm.generation import Generated, Sampling
from actors.vlm.loading import load_vlm, rater_name
from actors.vlm.prompts import Asked, Prompt, PromptBuilder
from actors.vlm.ratings import distribution, failed, rating_table, scored
from actors.vlm.rubric import Rubric
from actors.vlm.scoring import ClosedSetScorer, Request, Scores

METHOD = "generate_then_score"
# Said after the question; a rubric may ask for the bare answer, and this comes last.
THINK = (
    "Before you answer, think it through step by step in a few sentences. "
    "Then write a last line with `Final answer:` and, behind it, nothing but your answer."
)
ANSWER_LINE = "Final answer:"  # the answer's code follows after a space
_FINAL = re.compile(r"\**final\s+(?:answer|score)\b.*", re.IGNORECASE | re.DOTALL)


class ThinkingJudge:
    """Asks a rubric's questions about pictures, letting the model think first.

    Args:
        model, revision, dtype, device_map: as `load_vlm` takes them.
        rubric, layout: as `actors.judge.Judge` takes them.
        samples: thoughts a question, each with a score of its own.
        temperature, top_p, max_tokens: of the thought.
        seed: all thoughts' seeds derive from it, the item, the target, the question and the sample's number.
        max_context_tokens: a longer context is cut and its rows become `truncated`.
        cache_gb, group_rows: as `actors.generator.Generator` takes them.
        threads: of torch, on a CPU; torch's own choice if None.

    Raises:
        ValueError: a rubric, layout or model that cannot be used.
    """

    def __init__(
        self,
        *,
        model: str,
        rubric: Mapping[str, Any],
        revision: str | None = None,
        dtype: str = "auto",
        device_map: str = "auto",
        layout: str | None = None,
        samples: int = 1,
        temperature: float = 1.0,
        top_p: float = 1.0,
        max_tokens: int = 1024,
        seed: int = 0,
        max_context_tokens: int = context.MAX_CONTEXT_TOKENS,
        cache_gb: float | None = None,
        group_rows: int | None = None,
        threads: int | None = None,
    ) -> None:
        import torch

        self.rubric = Rubric.from_dict(rubric)
        self.builder = PromptBuilder(self.rubric, layout=layout)
        self.sampling = Sampling(temperature, top_p, max_tokens)
        self.samples, self.seed = samples, seed
        if threads is not None:
            torch.set_num_threads(threads)
        loaded, processor = load_vlm(model, revision=revision, dtype=dtype, device_map=device_map)
        self.rater = rater_name(model, revision=revision)
        self.chat = ChatEncoder(processor)
        self.engine = text_generator(loaded, self.chat, cache_gb=cache_gb, group_rows=group_rows)
        self.scorer = ClosedSetScorer(loaded, processor)
        for question in self.rubric.questions:
            self.scorer.check_codes(question.codes)
        self.context_limit = context.limit(max_context_tokens, self.scorer.max_tokens)

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Judge a batch.

        Args:
            batch: `item_id`, `pictures: list<large_binary>`, `status`, and the rubric's context fields as strings.

        Returns:
            Table `ratings`: items in the batch's order; targets, questions, samples inside. `comment` is the thought.

        Raises:
            EngineError: the device failed; nothing of this batch is recorded.
        """
        rows: list[dict[str, Any]] = []
        for start in range(batch.num_rows):  # one by one, so that one item's picture is in memory at a time
            (item,) = batch.slice(start, 1).to_pylist()
            if reason := _unusable(item):
                rows += self._all(item["item_id"], failed(*reason))
                continue
            try:
                rows += self._judged(item, decode_rgb(item["pictures"][0]))
            except EngineError:
                raise
            except PictureError as error:
                rows += self._all(item["item_id"], failed(Status.ERROR, ScoringError(error.kind, str(error))))
            except Exception as error:
                rows += self._all(item["item_id"], failed(Status.ERROR, faults.reason(error)))
        return rating_table(rows)

    def _judged(self, item: Mapping[str, Any], picture: Any) -> list[dict[str, Any]]:
        fields = self.rubric.context_fields
        said, given, kept = context.cut(
            item,
            fields=fields,
            first=self.rubric.context_cut,
            limit=self.context_limit,
            starts=self.scorer.token_starts,
            as_data=self.scorer.as_data,
        )
        cut = ScoringError("context_cut", f"{kept} of {given} tokens of context kept") if kept < given else None
        asked = [
            each._replace(prompt=Prompt(each.prompt.before, each.prompt.after, f"{each.prompt.tail}\n\n{THINK}"))
            for each in self.builder.prompts(said, targets=self.rubric.targets or ("",))
        ]
        thoughts = self._thoughts(item["item_id"], asked, picture)
        requests: list[Request] = []
        places: dict[tuple[int, int], int] = {}
        for number, (each, made) in enumerate(zip(asked, thoughts, strict=True)):
            for sample, thought in enumerate(made if isinstance(made, list) else []):
                places[number, sample] = len(requests)
                prompt = Prompt(each.prompt.before, each.prompt.after, each.prompt.tail, start=begun(thought))
                requests.append(Request(prompt, picture, each.question.codes))
        results = self.scorer.score(requests)
        rows = []
        for number, (each, made) in enumerate(zip(asked, thoughts, strict=True)):
            for sample in range(self.samples):
                key = self._key(item["item_id"], each.target, each.question.name, sample)
                if isinstance(made, ScoringError):
                    rows.append(key | failed(Status.ERROR, made))
                    continue
                row = key | _columns(each, results[places[number, sample]], cut)
                rows.append(row | {"comment": made[sample]})
        return rows

    def _thoughts(self, item: str, asked: list[Asked], picture: Any) -> list[list[str] | ScoringError]:
        prompts = []
        for each in asked:
            pieces = [*([each.prompt.before] if each.prompt.before else []), None, each.prompt.after + each.prompt.tail]
            prompts.append(self.chat.encode(pieces, [picture]))
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

    def _all(self, item: str, end: dict[str, Any]) -> list[dict[str, Any]]:
        return [
            self._key(item, target, question.name, sample) | end
            for target in self.rubric.targets or ("",)
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


def _unusable(item: Mapping[str, Any]) -> tuple[Status, ScoringError] | None:
    if item["status"] == Status.REPORTED:
        return Status.REPORTED, ScoringError("excluded", "the picture may not be used")
    if item["status"] != Status.OK:
        return Status.MISSING_INPUT, ScoringError("no_picture", f"the picture's status is {item['status']}")
    if not item["pictures"] or item["pictures"][0] is None:
        return Status.MISSING_INPUT, ScoringError("no_picture", "there is no picture, or one without bytes")
    if len(item["pictures"]) > 1:
        message = f"the item has {len(item['pictures'])} pictures; a rubric is asked about one"
        return Status.SKIPPED, ScoringError("several_pictures", message)
    return None


def _columns(asked: Asked, result: Scores | ScoringError, cut: ScoringError | None) -> dict[str, Any]:
    if isinstance(result, ScoringError):
        return failed(Status.ERROR, result)
    if cut:
        return distribution(asked.question, result) | failed(Status.TRUNCATED, cut)
    return scored(asked.question, result)
