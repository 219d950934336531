"""`plan=true show_prompts=3`: the prompts about the first items as the model gets them, and answers of a tiny model.

Everything runs in this process, without Ray. The processor is the model's own if it is on this machine, or else that of
the tiny model, whose template and tokens differ. The answers are always the tiny model's, whose weights are random.

The prompts of `mark_spans` repeat the model's answers to earlier ones. No model is loaded for it: the first words of
each text are used in place of the answers, and each answer is printed after its prompt.
"""

import functools
import io
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from actors import schemas
from actors.errors import first_line
from actors.fetching.decoders import PictureReader
from actors.items import EMPTY_CONTEXT, QUESTIONS, TARGETS
from actors.marking.span_prompts import MISTAKES, OMISSIONS, Description, Kind, Marks, Request
from actors.quantities import quantity
from actors.rubrics.pieces import Piece
from actors.span_marker import MarkingSettings, describe
from actors.status import Status
from actors.vlm.errors import ScoringError
from actors.vlm.settings import ModelSettings
from jobs.errors import InputError, check_least
from jobs.judging import vllm_engine
from jobs.judging.items import ItemReader
from jobs.judging.model_config import ModelRunConfig
from jobs.runtime.selection import exclusions
from jobs.runtime.stage_contract import Stage
from jobs.store.units import Unit
from jobs.store.writer import UnitTask

TINY = ModelSettings(checkpoint="local:qwen2.5-vl-tiny", dtype="float32", device_map="cpu")
PromptCounts = Callable[[], tuple[list[tuple[int, int, int]], str]]  # what `token_counts` returns
ITEMS_TRIED = 4  # whose prompts an estimate counts
ENDS_SHOWN = 3  # most prompts of an item that are shown; only what follows their common beginning
ANSWERS_SHOWN = 12  # most answers that are shown, over all items
TOKENS = 24  # most tokens of a text that the tiny model writes
INDENT = "    | "
_FIRST_WORDS = re.compile(r"\s*(\S+(?:\s+\S+){0,2})")


def check(cfg: ModelRunConfig) -> None:
    """Raise InputError for a value of `show_prompts` that is not allowed."""
    check_least("show_prompts", cfg.show_prompts, 0)
    if cfg.show_prompts and not cfg.only_plans:
        raise InputError("only used with plan=true", key="show_prompts", remedy="add it, or omit show_prompts=")


def lines(cfg: ModelRunConfig, units: Iterable[Unit], reader: ItemReader, stages: Sequence[Stage]) -> Iterator[str]:
    """Yield the prompts about the first `show_prompts` items, and what the tiny model answers.

    Args:
        reader: returns the items of a unit.
        stages: the stage that prepares prompts, and the stage that answers them.
    """
    items = yield from items_to_show(cfg, units, reader)
    if items is None:
        return
    prepare, answer = stages
    _without_progress_bars()
    shown = yield from model_to_show(prepare.kwargs["model"])
    prepared = _called(prepare, shown, items)
    yield from _prompt_lines(items.to_pylist(), prepared.to_pylist(), shown)
    tiny = prepared if shown == TINY else _called(prepare, TINY, items)
    yield f"answers of {TINY.checkpoint} (random weights): meaningless; they only show the table's format"
    answers = _called(answer, TINY, tiny).to_pylist()
    for row in answers[:ANSWERS_SHOWN]:
        yield f"  {_answer_line(row)}"
    if len(answers) > ANSWERS_SHOWN:
        yield f"  … and {len(answers) - ANSWERS_SHOWN:,} more"


def items_to_show(
    cfg: ModelRunConfig, units: Iterable[Unit], reader: ItemReader
) -> Generator[str, None, pa.Table | None]:
    """Return the first `show_prompts` items; None if that is 0 or, after a line, if the input has no items."""
    if not cfg.show_prompts:
        return None
    items = first_items(units, reader, cfg.show_prompts)
    if not items.num_rows:
        yield "prompts: the input has no items"
        return None
    return items


def model_to_show(model: ModelSettings) -> Generator[str, None, ModelSettings]:
    """Return the model whose processor renders the prompts: if it is not here, after a line the tiny one."""
    if _is_here(model):
        return model
    yield (
        f"  the processor of {model.checkpoint} is not on this machine: prompts are formatted for {TINY.checkpoint} "
        "instead"
    )
    return TINY


def first_items(units: Iterable[Unit], reader: ItemReader, count: int) -> pa.Table:
    """Return the first `count` items; units after them are not read."""
    parts: list[pa.Table] = []
    read = reader.without_copies()
    for unit in units:
        parts.append(read(UnitTask(unit)).slice(0, count - sum(part.num_rows for part in parts)))
        if sum(part.num_rows for part in parts) >= count:
            break
    return pa.concat_tables(parts) if parts else pa.table({})


def prompt_counts(units: Iterable[Unit], reader: ItemReader, prepare: Stage) -> PromptCounts:
    """Return a function that counts the prompts about the first items when it is called, and only once."""
    return functools.cache(lambda: token_counts(first_items(units, reader, ITEMS_TRIED), prepare))


def token_counts(items: pa.Table, prepare: Stage) -> tuple[list[tuple[int, int, int]], str]:
    """Return the prompts about items, and what is missing for exact numbers.

    The prompts are, for each item that has any, their number, their tokens, and their tokens if those that they share
    are counted once.

    Args:
        items: as `first_items` returns them.
        prepare: the stage that prepares prompts.
    """
    from actors.vlm.model_inputs import from_bytes
    from actors.vlm.token_trees import rows_of, shared_length

    model: ModelSettings = prepare.kwargs["model"]
    shown, reason = (model, "") if _is_here(model) else (TINY, ", as a small model's tokenizer counts them")
    counts = []
    for row in _called(prepare, shown, items).to_pylist():
        if row["status"] != Status.OK.value:
            continue
        if "suffixes" in row:
            ends, more = row["suffixes"], shared_length(row["suffixes"])
            trees, _ = rows_of([end[more:] for end in ends], [()] * len(ends))  # as the engines pass them
            whole = sum(map(len, ends)) + len(ends) * row["shared"]
            counts.append((len(ends), whole, row["shared"] + more + sum(len(tree.tokens) for tree in trees)))
        else:
            tokens = from_bytes(row["inputs"])["input_ids"].shape[1]
            counts.append((1, tokens, tokens))
    return counts, reason


def _is_here(model: ModelSettings) -> bool:
    """Return whether the model's processor can be loaded without the network."""
    from actors.local_models import is_local
    from actors.vlm.loading import load_processor

    if is_local(model.checkpoint):
        return True
    try:
        load_processor(model.checkpoint, revision=model.revision, local_only=True)
    except ValueError:
        return False
    return True


def _without_progress_bars() -> None:
    """Hide progress bars: a small model loads in a moment, and its bar would appear between the prompts."""
    from transformers.utils import logging

    logging.disable_progress_bar()


def _called(stage: Stage, model: ModelSettings, rows: pa.Table) -> pa.Table:
    settings = stage.kwargs["settings"]
    if hasattr(settings, "max_tokens"):
        settings = replace(settings, max_tokens=min(settings.max_tokens, TOKENS))
    changed = {"model": model, "settings": settings}
    if getattr(settings, "engine", None) == vllm_engine.NAME:  # which takes a minute to start
        changed["settings"] = replace(settings, engine=type(settings).engine)
    if "keeps_pictures" in stage.kwargs:
        changed["keeps_pictures"] = False
    try:
        actor = stage.actor(**stage.kwargs | changed)
    except Exception as error:  # a stranger's template or processor may raise any
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise InputError(f"{kind}{first_line(error)}", key="model.checkpoint", value=model.checkpoint) from error
    rows_out: pa.Table = actor(rows)
    return rows_out


def _prompt_lines(
    items: Sequence[Mapping[str, Any]], prepared: Sequence[Mapping[str, Any]], model: ModelSettings
) -> Iterator[str]:
    from actors.vlm.chat import PromptText
    from actors.vlm.loading import load_processor
    from actors.vlm.model_inputs import from_bytes

    processor = load_processor(model.checkpoint, revision=model.revision)
    for item, row in zip(items, prepared, strict=True):
        if row["status"] != Status.OK.value:
            yield f"item {item['item_id']}: no prompt, status {row['status']} ({row['error_message']})"
            continue
        sent = f"columns sent: {', '.join(_sent_columns(item)) or 'none'}"
        text = PromptText(processor, _sizes(item["pictures"]))
        ids = from_bytes(row["inputs"])["input_ids"][0].tolist()
        if "suffixes" not in row:
            yield f"item {item['item_id']}: {len(ids):,} tokens; {sent}"
            yield indented(text(ids))
            continue
        shared, ends = row["shared"], row["suffixes"]
        prompts = f"{quantity(len(ends), 'prompt')}, which share their first {shared:,} tokens"
        yield f"item {item['item_id']}: {prompts}; {sent}"
        yield indented(text(ids[:shared]))
        for number, end in enumerate(ends[:ENDS_SHOWN], 1):
            yield f"  end of prompt {number}: {len(end):,} tokens"
            yield indented(text(end))
        if len(ends) > ENDS_SHOWN:
            yield f"  … and {len(ends) - ENDS_SHOWN:,} more"


def _sent_columns(item: Mapping[str, Any]) -> list[str]:
    """Return the context fields of which an item has a text."""
    others = {*schemas.ITEMS.names, TARGETS, QUESTIONS, EMPTY_CONTEXT, exclusions.SHOWN}
    return [name for name, value in item.items() if name not in others and value]


def _sizes(pictures: Sequence[bytes | None]) -> list[tuple[int, int]]:
    from PIL import Image

    sizes = []
    for data in pictures:
        with Image.open(io.BytesIO(data or b"")) as picture:
            sizes.append(picture.size)
    return sizes


def indented(text: str) -> str:
    return "\n".join(INDENT + line for line in text.split("\n"))


def _answer_line(row: Mapping[str, Any]) -> str:
    """Return a row of `ratings` or `responses` as a line."""
    if "text" in row:
        return f"{row['item_id']} sample {row['sample']}: {row['status']} {row['text']!r:.80}"
    target = f" of {row['target']}" if row["target"] else ""
    if row["value"] is None:
        return f"{row['item_id']} {row['question']}{target}: {row['status']}"
    probabilities = row["probabilities"] or ()
    options = ", ".join(f"{a} {p:.2f}" for a, p in zip(row["answers"] or (), probabilities, strict=True))
    return f"{row['item_id']} {row['question']}{target}: {row['value']} ({options})"


class StandIn:
    """A `SpanModel` that quotes the first words of each text, gives all codes the same share, and records the requests.

    Attributes:
        asked: each request with its answer.
    """

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self._kinds = {kind.name: kind for kind in kinds}
        self.asked: list[tuple[Request, str]] = []

    def write(self, requests: Sequence[Request]) -> list[str | ScoringError]:
        """Return the first words of the text that each request asks about; if it asks about several, after a label."""
        answers = [self._answer(request) for request in requests]
        self.asked += zip(requests, answers, strict=True)
        return list(answers)

    def score(self, requests: Sequence[Request]) -> list[tuple[float, ...] | ScoringError]:
        """Return the same probability for each code."""
        self.asked += [(request, f"one of {', '.join(request.codes)}") for request in requests]
        return [(1 / len(request.codes),) * len(request.codes) for request in requests]

    def _answer(self, request: Request) -> str:
        name = next((name for name in (MISTAKES, OMISSIONS) if request.step.name.startswith(name)), None)
        text = request.words["text" if name is None else "generated" if name == MISTAKES else "correct"]
        labels = list(self._kinds[name].labels) if name else []
        words = _FIRST_WORDS.match(text)
        return (f"{labels[0]}: " if len(labels) > 1 else "") + (words[1] if words else "NONE")


def marking_lines(
    cfg: ModelRunConfig,
    units: Iterable[Unit],
    reader: ItemReader,
    *,
    settings: MarkingSettings,
    model: ModelSettings,
) -> Iterator[str]:
    """Yield the prompts about the first `show_prompts` items.

    Args:
        reader: returns the items of a unit, with pictures and texts.
        settings: method, prompts and labels.
        model: the model whose processor renders the prompts, or the tiny model's if it is not on this machine.
    """
    items = yield from items_to_show(cfg, units, reader)
    if items is None:
        return
    shown = yield from model_to_show(model)
    from actors.vlm.loading import load_processor

    processor = load_processor(shown.checkpoint, revision=shown.revision, variables=shown.template)
    yield "prompts, with the first words of each text in place of the model's answers:"
    read = PictureReader()
    for item in items.to_pylist():
        description = describe(item, settings.kinds, shows_picture=settings.shows_picture, read=read)
        if isinstance(description, Marks):
            reason = description.reason.message if description.reason else ""
            yield f"item {item['item_id']}: no prompt, status {description.status.value} ({reason})"
            continue
        stand_in = StandIn(settings.kinds)
        settings.marking.mark(stand_in, [description])
        yield f"item {item['item_id']}: {quantity(len(stand_in.asked), 'prompt')}"
        yield from _lines(stand_in.asked, description, processor, shown)


def _lines(
    asked: Sequence[tuple[Request, str]], description: Description, processor: Any, model: ModelSettings
) -> Iterator[str]:
    from actors.vlm.chat import ChatEncoder, PromptText

    chat = ChatEncoder(processor, bounds=model.bounds)
    for request, answer in asked:
        words = {name: chat.as_data(text) for name, text in request.words.items()}
        pictures = list(description.pictures) if request.step.shows_picture else []
        ids = chat.encode(_turn(request, words), pictures, system=request.step.system)["input_ids"][0].tolist()
        yield f"  step {request.step.name}: {len(ids):,} tokens"
        yield indented(PromptText(processor, [picture.size for picture in pictures])(ids))
        yield f"  taken as its answer: {answer}"


def _turn(request: Request, words: Mapping[str, str]) -> list[Piece]:
    """Return the user's turn; a scored prompt is its shared pieces and the text after them."""
    if not request.codes:
        return request.step.turn(words)
    prompt = request.step.prompt(words)
    turn: list[Piece] = []
    for piece in (*prompt.shared, prompt.suffix):
        if isinstance(piece, str) and turn and isinstance(turn[-1], str):
            turn[-1] += piece
        else:
            turn.append(piece)
    return turn
