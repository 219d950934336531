"""Generate n samples of text for each prompt that `actors.preparers` prepared."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from actors import schemas
from actors.errors import SettingError
from actors.ids import content_id
from actors.preparers import PromptPreparer
from actors.schemas import ResponseRow, ended, failed
from actors.settings import ConditionSettings
from actors.status import EMPTY_ANSWER, Status, is_blank
from actors.tallies import TallyingStage
from actors.vlm.chat import ChatEncoder
from actors.vlm.engine_sample import EngineSample
from actors.vlm.errors import ScoringError
from actors.vlm.generation import Generated, TextGenerator, sample_seed, text_ends, text_generator
from actors.vlm.loading import RaterFacts, load_model
from actors.vlm.model_inputs import from_bytes
from actors.vlm.refusals import RefusalRules
from actors.vlm.settings import ModelSettings, SamplingSettings
from actors.vlm.vllm_engine import VllmModel, VllmTextGenerator

ENGINES = ("auto", "transformers", "vllm")
LoadedGenerator = tuple[TextGenerator | VllmTextGenerator, ChatEncoder, RaterFacts]


@dataclass(kw_only=True)
class GeneratorSettings(SamplingSettings, ConditionSettings):
    """Settings of `Generator`: sampling, the rules that recognise refusals, and the condition."""

    engine: str = "auto"  # transformers, vllm, or auto: on GPUs vllm, if it writes the same texts on a sample
    samples: int = 3  # texts per item
    refusals: dict[str, Any] = field(default_factory=dict)  # rules that recognise refusals, by language

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise SettingError(f"must be one of {', '.join(ENGINES)}", "engine", self.engine)
        RefusalRules(self.refusals)
        super().__post_init__()


class Generator(TallyingStage):
    """Actor that generates n samples for each prepared prompt and marks refusals.

    Args:
        settings: sampling, limits and the rules for refusals.
        model: which model to load.
        prompt: name of the instruction, for the column `prompt`.
        prompt_hash: hash of the instruction and the sampling settings, part of a response's id.
        start: the beginning of the model's turn.
        threads: torch's threads on a CPU; None: torch's default.

    Raises:
        ValueError: the model cannot be loaded.
    """

    INPUTS = schemas.PREPARED_PROMPTS
    OUTPUTS = schemas.RESPONSES

    def __init__(
        self,
        settings: GeneratorSettings,
        *,
        model: ModelSettings,
        prompt: str,
        prompt_hash: str,
        start: str = "",
        threads: int | None = None,
    ) -> None:
        super().__init__()
        self.samples, self.seed, self.sampling = settings.samples, settings.seed, settings.sampling
        self.rules = RefusalRules(settings.refusals)
        load = load_in_vllm if settings.engine == "vllm" else load_in_transformers
        self.engine, self.chat, self.facts = load(settings, model, threads)
        self.prompt, self.prompt_hash, self.condition = prompt, prompt_hash, settings.condition
        self.start = start

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Generate the texts of a batch.

        Args:
            batch: `actors.schemas.PREPARED_PROMPTS`, as `actors.preparers.PromptPreparer` returns it.

        Returns:
            Table `responses`: `samples` rows per item, in the batch's order.

        Raises:
            EngineError: the device failed; no row of this batch is returned.
        """
        items = batch.to_pylist()
        ready = [item for item in items if item["inputs"] is not None]
        seeds = {item["item_id"]: self._seeds(item["item_id"]) for item in items}
        results = iter(
            self.engine.generate(
                [from_bytes(item["inputs"]) for item in ready],
                seeds=[seeds[item["item_id"]] for item in ready],
                sampling=self.sampling,
            )
        )
        rows: list[ResponseRow] = []
        for item in items:
            result = next(results) if item["inputs"] is not None else None
            for sample, seed in enumerate(seeds[item["item_id"]]):
                key = self._key(item["item_id"], sample, seed)
                key["empty_context"] = item["empty_context"]
                if result is None:
                    rows.append({**key, **ended(ResponseRow, item)})
                elif isinstance(result, ScoringError):
                    rows.append({**key, **failed(ResponseRow, Status.ERROR, result)})
                else:
                    rows.append({**key, **self._response(result[sample], item)})
        self._tally[self.facts.tally] += batch.num_rows
        return schemas.to_table(rows, self.OUTPUTS)

    def report_tokens(self, report: Callable[[int], None]) -> None:
        """Call `report` with the number of new tokens at each step of generation."""
        self.engine.on_tokens = report

    def _seeds(self, item_id: str) -> list[int]:
        return [sample_seed(self.seed, item_id, sample) for sample in range(self.samples)]

    def _key(self, item_id: str, sample: int, seed: int) -> ResponseRow:
        return {
            "response_id": content_id(
                "response", item_id, self.facts.rater, self.prompt_hash, self.condition, str(sample)
            ),
            "item_id": item_id,
            "model": self.facts.rater,
            "prompt": self.prompt,
            "condition": self.condition,
            "sample": sample,
            "seed": seed,
        }

    def _response(self, sample: Generated, item: Mapping[str, Any]) -> ResponseRow:
        """Return the columns of a sample: its text, and its status refused, truncated, unparsed or ok."""
        thought, text, in_thought = self.chat.written(sample.tokens, start=self.start)
        refusal = self.rules.find(text, finish_reason=sample.finish_reason)
        row: ResponseRow = {
            "text": text,
            "thought": thought or None,
            "finish_reason": sample.finish_reason,
            "refusal_kind": refusal.kind if refusal else None,
            "truncated": item["truncated"],
            "status": Status.OK.value,
        }
        if refusal and not refusal.answered:
            reason = ScoringError(refusal.kind, "the text is a refusal without an answer")
            return {**row, **failed(ResponseRow, Status.REFUSED, reason)}
        is_cut = sample.finish_reason == "length"
        if in_thought and not is_cut:
            reason = ScoringError("answer_cut", "the text ended inside its thought")
            return {**row, **failed(ResponseRow, Status.TRUNCATED, reason)}
        if is_blank(text) and not (thought and is_cut):
            reason = ScoringError(EMPTY_ANSWER, "the model generated no text, or only blanks")
            return {**row, **failed(ResponseRow, Status.UNPARSED, reason)}
        if is_cut:
            reason = ScoringError("answer_cut", f"the text reached the limit of {len(sample.tokens)} tokens")
            return {**row, **failed(ResponseRow, Status.TRUNCATED, reason)}
        return row


def load_in_transformers(settings: SamplingSettings, model: ModelSettings, threads: int | None) -> LoadedGenerator:
    """Load a model with transformers; return its generator, its chat format and the facts about it."""
    loaded = load_model(model, threads=threads)
    chat = ChatEncoder(loaded.processor)
    engine = text_generator(
        loaded.model, chat, memory_budget_gb=settings.memory_budget_gb, group_rows=settings.group_rows
    )
    return engine, chat, loaded.facts


def load_in_vllm(settings: SamplingSettings, model: ModelSettings, threads: int | None) -> LoadedGenerator:
    """Load a model in vLLM; return its generator, its chat format and the facts about it."""
    loaded = VllmModel(
        model, memory_budget_gb=settings.memory_budget_gb, sequences=settings.group_rows, threads=threads
    )
    chat = ChatEncoder(loaded.processor)
    return VllmTextGenerator(loaded, ends=text_ends(loaded, chat)), chat, loaded.facts


def greedy_texts(
    items: pa.Table,
    *,
    engine: str,
    prepare: Mapping[str, Any],
    max_tokens: int,
    memory_budget_gb: float | None = None,
    compared: int | None = None,
    texts: Sequence[Sequence[int]] | None = None,
) -> EngineSample:
    """Load a model in an engine and return the likeliest texts about items.

    Args:
        items: as for `actors.preparers.PromptPreparer`; items without a prompt are left out.
        prepare: arguments of the constructor of `PromptPreparer`.
        max_tokens: longest text.
        compared: number of the items whose texts are returned; of the others, only the time is. None: all.
        texts: texts whose tokens' probabilities are returned; None: those that the engine writes.

    Raises:
        ValueError: the model cannot be loaded, or a prompt has no text.
    """
    model: ModelSettings = prepare["model"]
    prepared = PromptPreparer(**{**prepare, "keeps_pictures": engine == "vllm"})(items)
    inputs = [from_bytes(data) for data in prepared["inputs"].to_pylist() if data is not None]
    settings = SamplingSettings(temperature=0.0, max_tokens=max_tokens, memory_budget_gb=memory_budget_gb)
    generator, _, facts = (load_in_vllm if engine == "vllm" else load_in_transformers)(settings, model, None)

    def written(prompts: list[Any]) -> list[Generated]:
        likeliest: list[Generated] = []
        for result in generator.generate(prompts, seeds=[[0]] * len(prompts), sampling=settings.sampling):
            if isinstance(result, ScoringError):
                raise ValueError(result.message)
            likeliest += result
        return likeliest

    first, others = inputs[:compared], inputs[len(inputs[:compared]) :]
    likeliest = written(first)
    asked = [text.tokens for text in likeliest] if texts is None else texts
    logprobs = [
        generator.token_logprobs(prompt, text) if text else [] for prompt, text in zip(first, asked, strict=True)
    ]
    began = time.perf_counter()
    if others:
        written(others)
    seconds = time.perf_counter() - began if others else 0.0
    reasons = [text.finish_reason for text in likeliest]
    return EngineSample([t.tokens for t in likeliest], reasons, logprobs, facts.dtype, facts.engine, seconds)
