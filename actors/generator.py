"""Free text about items, in two stages: prompts are prepared on CPUs, then a model writes n samples of each."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from actors import schemas
from actors.ids import content_id
from actors.items import count_pictures, withheld
from actors.local_models import resolve
from actors.pictures import PictureError, decode_rgb
from actors.status import Status
from actors.vlm import context, errors
from actors.vlm.encoding import ChatEncoder, from_bytes, load_processor, to_bytes
from actors.vlm.errors import ScoringError
from actors.vlm.generation import Generated, TextGenerator
from actors.vlm.instructions import Instruction
from actors.vlm.loading import load_vlm, model_facts
from actors.vlm.picture_size import PixelBounds
from actors.vlm.refusals import RefusalRules
from actors.vlm.sampling import Sampling


class PromptPreparer:
    """Turns items into a model's inputs; runs on CPUs and loads no weights.

    Args:
        model, revision: whose processor it is.
        instruction: as `actors.vlm.instructions` reads it.
        questions: for instructions that ask a rubric's.
        target: for instructions about a label.
        max_context_tokens: a longer context is cut at the article's end and the row becomes `truncated`; never more
            than half of the positions that the model has, and less where picture and answer need them.
        empty_context: `answer` asks all the same, `skip` makes the row `skipped`.
        max_pixels, min_pixels: bounds of a picture's pixels as the model sees it (`actors.vlm.picture_size`); the
            processor's own if None.
        answer_tokens: what follows behind the prompt at the most, whose positions are reserved.

    Raises:
        ValueError: an instruction or option that cannot be used, a model that is not there or takes no pictures.
    """

    INPUTS = schemas.ITEMS  # and the instruction's context fields, strings
    OUTPUTS = schemas.PREPARED_PROMPTS

    def __init__(
        self,
        *,
        model: str,
        instruction: Mapping[str, Any],
        revision: str | None = None,
        questions: Sequence[Mapping[str, Any]] = (),
        target: str = "",
        max_context_tokens: int = context.MAX_CONTEXT_TOKENS,
        empty_context: str = "answer",
        max_pixels: int | None = None,
        min_pixels: int | None = None,
        answer_tokens: int = 0,
    ) -> None:
        from transformers import AutoConfig

        self.instruction = Instruction.from_dict(instruction)
        context.check_options(max_context_tokens, empty_context)
        self.skip_empty = empty_context == "skip"
        bounds = PixelBounds(max_pixels, min_pixels)
        processor = load_processor(model, revision=revision)
        config = AutoConfig.from_pretrained(resolve(model), revision=revision or "main", trust_remote_code=False)
        self.chat = ChatEncoder(processor, bounds=bounds, config=config)
        if self.instruction.shows_picture and not self.chat.sees_pictures:
            raise ValueError(
                f"model {model!r} takes no pictures and prompt {self.instruction.name!r} shows one; "
                "name a vision-language model, or a prompt whose order has no `picture`"
            )
        self._words = {"questions": list(questions), "target": target}
        positions = getattr(config.get_text_config(), "max_position_embeddings", None)
        self.context_limit = context.limit(max_context_tokens, positions)
        self.token_budget = context.token_budget(positions, answer_tokens)
        self._tally: Counter[str] = Counter()

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Prepare a batch.

        Args:
            batch: `item_id`, `pictures: list<large_binary>`, `status` (of the pictures, ok where there are none), and
                the instruction's context fields as strings, null for empty.

        Returns:
            `item_id`, `inputs` (null unless ok or truncated), `status`, `error_kind`, `error_message`.
        """
        rows = []
        for start in range(batch.num_rows):  # one by one, so that one item's pictures are in memory at a time
            (item,) = batch.slice(start, 1).to_pylist()
            rows.append({"item_id": item["item_id"], **self._row(item)})
        return pa.Table.from_pylist(rows, schema=self.OUTPUTS)

    def take_tally(self) -> dict[str, int]:
        """Counts since the last call, `group/key` -> n: pictures and their tokens."""
        taken, self._tally = dict(self._tally), Counter()
        return taken

    def _row(self, item: Mapping[str, Any]) -> dict[str, Any]:
        pictures = None if self.instruction.shows_picture else 0
        said_in = self.instruction.context_fields if self.skip_empty else ()
        if reason := withheld(item, pictures=pictures, said_in=said_in):
            return _failed(reason[0], *reason[1])
        try:
            return self._prepared(item)
        except PictureError as error:
            return _failed(Status.ERROR, error.kind, str(error))
        except Exception as error:
            return _failed(Status.ERROR, *errors.reason(error))

    def _prepared(self, item: Mapping[str, Any]) -> dict[str, Any]:
        pictures = [decode_rgb(data) for data in item["pictures"]] if self.instruction.shows_picture else []
        used = {name: value for name, value in self._words.items() if name in self.instruction.words}

        def made(said: dict[str, str]) -> tuple[dict[str, Any], int]:
            pieces = self.instruction.render(said, **used)
            inputs = self.chat.encode(pieces, pictures, start=self.instruction.begin(**used))
            return inputs, 0 if self.token_budget is None else int(inputs["input_ids"].shape[1]) - self.token_budget

        inputs, cut = context.fitted(
            item,
            made,
            fields=self.instruction.context_fields,
            first=self.instruction.context_cut,
            limit=self.context_limit,
            by=self.chat,
        )
        count_pictures(self._tally, len(pictures), self.chat.picture_tokens(inputs))
        end = _failed(Status.TRUNCATED, *cut) if cut else {"status": Status.OK.value}
        return end | {"inputs": to_bytes(inputs)}


class Generator:
    """Writes n samples of each prepared prompt, and says which of them are refusals.

    Args:
        model, revision, dtype, device_map: as `load_vlm` takes them.
        prompt: the instruction's name, for column `prompt`.
        asked: a hash of what else a response depends on (instruction, sampling), part of its id.
        samples: of each item.
        temperature, top_p, max_tokens: see `Sampling`.
        seed: all samples' seeds derive from it, the item's id and the sample's number.
        refusals: rules by language (`actors.vlm.refusals`).
        memory_budget_gb: memory for caches, in 10^9 bytes; half of what is free if None.
        group_rows: most rows at a time; None: what the memory allows.
        threads: of torch, on a CPU; torch's own choice if None.

    Raises:
        ValueError: a model, a rule or a number that cannot be used.
    """

    INPUTS = schemas.PREPARED_PROMPTS
    OUTPUTS = schemas.RESPONSES

    def __init__(
        self,
        *,
        model: str,
        prompt: str,
        asked: str,
        refusals: Mapping[str, Any],
        revision: str | None = None,
        dtype: str = "auto",
        device_map: str = "auto",
        samples: int = 3,
        temperature: float = 1.0,
        top_p: float = 1.0,
        max_tokens: int = 1024,
        seed: int = 0,
        memory_budget_gb: float | None = None,
        group_rows: int | None = None,
        threads: int | None = None,
    ) -> None:
        import torch

        self.sampling = Sampling(temperature, top_p, max_tokens)
        self.rules = RefusalRules(refusals)
        if threads is not None:
            torch.set_num_threads(threads)
        loaded, processor = load_vlm(model, revision=revision, dtype=dtype, device_map=device_map)
        self.chat = ChatEncoder(processor)
        self.engine = text_generator(loaded, self.chat, memory_budget_gb=memory_budget_gb, group_rows=group_rows)
        self.facts = model_facts(loaded, model=model, revision=revision)
        self.model, self.prompt, self.asked = self.facts.rater, prompt, asked
        self._items = 0
        self.samples, self.seed = samples, seed

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Answer a batch.

        Args:
            batch: what `PromptPreparer` returns.

        Returns:
            Table `responses`: items in the batch's order, `samples` rows each.

        Raises:
            EngineError: the device failed; nothing of this batch is recorded.
        """
        items = batch.to_pylist()
        ready = [item for item in items if item["inputs"] is not None]
        seeds = {item["item_id"]: self._seeds(item["item_id"]) for item in items}
        made = self.engine.generate(
            [from_bytes(item["inputs"]) for item in ready],
            seeds=[seeds[item["item_id"]] for item in ready],
            sampling=self.sampling,
        )
        results = iter(made)
        rows = []
        for item in items:
            result = next(results) if item["inputs"] is not None else None
            for sample, seed in enumerate(seeds[item["item_id"]]):
                key = {
                    "response_id": content_id("response", item["item_id"], self.model, self.asked, str(sample)),
                    "item_id": item["item_id"],
                    "model": self.model,
                    "prompt": self.prompt,
                    "sample": sample,
                    "seed": seed,
                }
                if result is None:
                    rows.append(key | {name: item[name] for name in ("status", "error_kind", "error_message")})
                elif isinstance(result, ScoringError):
                    rows.append(key | _failed(Status.ERROR, *result))
                else:
                    rows.append(key | self._written(result[sample], item))
        self._items += batch.num_rows
        return pa.Table.from_pylist(rows, schema=self.OUTPUTS)

    def take_tally(self) -> dict[str, int]:
        """Items since the last call, under what ran the model (`RaterFacts.tally`)."""
        items, self._items = self._items, 0
        return {self.facts.tally: items}

    def report_tokens(self, told: Callable[[int], None]) -> None:
        """Call `told` with the number of tokens drawn, at each step of the texts."""
        self.engine.on_tokens = told

    def _seeds(self, item: str) -> list[int]:
        return [sample_seed(self.seed, item, sample) for sample in range(self.samples)]

    def _written(self, made: Generated, item: Mapping[str, Any]) -> dict[str, Any]:
        text = self.chat.decode(made.tokens)
        refusal = self.rules.find(text, finish_reason=made.finish_reason)
        row: dict[str, Any] = {"text": text, "finish_reason": made.finish_reason, "status": Status.OK.value}
        row["refusal_kind"] = refusal.kind if refusal else None
        if refusal and not refusal.answered:
            return row | _failed(Status.REFUSED, refusal.kind, "the model gave no answer")
        if item["status"] == Status.TRUNCATED:
            return row | {name: item[name] for name in ("status", "error_kind", "error_message")}
        if made.finish_reason == "length":
            return row | _failed(Status.TRUNCATED, "answer_cut", f"cut after {len(made.tokens)} tokens")
        if not text:
            return row | _failed(Status.UNPARSED, "empty_answer", "the model wrote nothing")
        return row


def text_generator(
    model: Any, chat: ChatEncoder, *, memory_budget_gb: float | None = None, group_rows: int | None = None
) -> TextGenerator:
    """The engine for a loaded model: a text ends where the model's config says, or at its tokenizer's end."""
    ends = model.generation_config.eos_token_id
    ends = [ends] if isinstance(ends, int) else list(ends or ())
    end = chat.tokenizer.eos_token_id
    ends = sorted({*ends, *([end] if end is not None else [])})
    return TextGenerator(
        model,
        pad_id=pad_token(chat, model),
        ends=ends,
        budget=None if memory_budget_gb is None else int(memory_budget_gb * 1e9),
        group_rows=group_rows,
    )


def pad_token(chat: ChatEncoder, model: Any) -> int:
    """A token to fill up with; what is filled is masked, so that any will do."""
    ends = model.generation_config.eos_token_id
    end = ends[0] if isinstance(ends, list) and ends else ends if isinstance(ends, int) else 0
    pad = chat.tokenizer.pad_token_id
    return int(end if pad is None else pad)


def sample_seed(base: int, item: str, sample: int) -> int:
    """The seed of one sample: 63 bits of a hash over the run's seed, the item and the sample's number."""
    return int(content_id("seed", str(base), item, str(sample))[:16], 16) >> 1


def _failed(status: Status, kind: str, message: str) -> dict[str, Any]:
    return {"status": status.value, "error_kind": kind, "error_message": message}
