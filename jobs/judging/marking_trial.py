"""`mark_spans plan=true show_prompts=3`: the prompts of each step about the first items, as the model gets them.

Later prompts repeat the model's answers to earlier ones. No model is loaded: the first words of each text are used in
place of the answers, and each answer is printed after its prompt.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from actors.marking.model import Description, Kind, Marks, Request
from actors.marking.prompts import MISTAKES, OMISSIONS
from actors.picture_reader import PictureReader
from actors.quantities import quantity
from actors.rubrics.pieces import Piece
from actors.span_marker import MarkingSettings, describe
from actors.vlm.errors import ScoringError
from actors.vlm.settings import ModelSettings
from jobs.judging.prompt_trial import TriedKeys, indented, items_to_show, model_to_show
from jobs.runtime.process.console import say
from jobs.store.units import Unit
from jobs.store.writer import UnitTask

_FIRST_WORDS = re.compile(r"\s*(\S+(?:\s+\S+){0,2})")


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


def show(
    cfg: TriedKeys,
    units: Iterable[Unit],
    reader: Callable[[UnitTask], pa.Table],
    *,
    settings: MarkingSettings,
    model: ModelSettings,
) -> None:
    """Print the prompts about the first `show_prompts` items.

    Args:
        reader: returns the items of a unit, with pictures and texts.
        settings: method, prompts and labels.
        model: the model whose processor renders the prompts, or the tiny model's if it is not on this machine.
    """
    items = items_to_show(cfg, units, reader)
    if items is None:
        return
    shown = model_to_show(model)
    from actors.vlm.encoding import load_processor

    processor = load_processor(shown.checkpoint, revision=shown.revision)
    say("prompts, with the first words of each text in place of the model's answers:")
    read = PictureReader()
    for item in items.to_pylist():
        description = describe(item, settings.kinds, shows_picture=settings.shows_picture, read=read)
        if isinstance(description, Marks):
            reason = description.reason.message if description.reason else ""
            say(f"item {item['item_id']}: no prompt, status {description.status.value} ({reason})")
            continue
        stand_in = StandIn(settings.kinds)
        settings.marking.mark(stand_in, [description])
        say(f"item {item['item_id']}: {quantity(len(stand_in.asked), 'prompt')}")
        for line in _lines(stand_in.asked, description, processor, shown):
            say(line)


def _lines(
    asked: Sequence[tuple[Request, str]], description: Description, processor: Any, model: ModelSettings
) -> Iterator[str]:
    from actors.vlm.encoding import ChatEncoder
    from actors.vlm.shown_prompts import PromptText

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
