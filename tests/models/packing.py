"""Lessons as tensors: the beginning that an item's prompts share once, and behind it every question with its answer.

In one sequence each question sees the beginning and itself, as in `judge`'s shared-prefix engines; positions continue
from the end of the beginning.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch

from actors.vlm.chat import Chat
from tests.models.pool import SEEN
from tests.models.tasks import Lesson

PATCH = 16
GRID = SEEN // PATCH  # tokens per side of a picture
COPIED = 4.0
_MARK = "REMINE7SUFFIX"


class Packed(NamedTuple):
    """One lesson as tokens: ids, three-dimensional positions, part of each token (0: shared), and targets.

    A token's target is the id that should follow it, or -100; the weights of a lesson's answers are equal and
    have the sum 1, each shared by the answer's tokens. Of these, copied ones get several shares.
    """

    ids: list[int]
    positions: np.ndarray  # [3, tokens]
    parts: list[int]
    targets: list[int]
    weights: list[float]


class Packer:
    """Packs lessons with the tokens of one processor.

    Args:
        chat: the model's chat format.
        picture: id of the token that stands for a part of a picture.
        copied: ids of tokens that are to be copied from the prompt; they weigh `COPIED` times as much in an answer.
    """

    def __init__(self, chat: Chat, *, picture: int, copied: Collection[int] = ()) -> None:
        self.chat, self.picture, self.copied = chat, picture, copied
        self.ids = lru_cache(maxsize=20000)(chat.ids)
        self._answers = cache(lambda codes, start: chat.answers(codes, start=start))

    def pack(self, lesson: Lesson) -> Packed:
        """Return a lesson as tokens."""
        first = lesson.tasks[0].prompt
        share = 1 / len(lesson.tasks)
        shown: Any = list(lesson.scenes) or None
        if first.suffix:
            rendered = self.chat.rendered(replace(first, suffix=_MARK), shown)
        else:
            rendered = self.chat.rendered(first, shown) + _MARK
        head, _, end = rendered.rpartition(_MARK)
        ids, positions = self._shared(self.ids(head))
        parts, targets, weights = [0] * len(ids), [-100] * len(ids), [0.0] * len(ids)
        begin = int(positions.max()) + 1
        columns = [positions]
        for number, task in enumerate(lesson.tasks, 1):
            if task.codes:
                allowed = self._answers(task.codes, task.prompt.start)
                answer = [*allowed.sequences[task.codes.index(task.answer)]]
                asked = [*self.ids(task.prompt.suffix + end), *allowed.bridge]
            else:
                answer = [*self.ids(task.answer), self.chat.turn_end]
                asked = self.ids(task.prompt.suffix + end) if task.prompt.suffix + end else []
            suffix = [*asked, *answer]
            sizes = [COPIED if token in self.copied else 1.0 for token in answer]
            shares = [share * size / sum(sizes) for size in sizes]
            if not asked:  # the last shared token predicts the first of the answer
                targets[-1], weights[-1] = answer[0], shares[0]
                weighted = [*shares[1:], 0.0]
                next_tokens = [*answer[1:], -100]
            else:
                next_tokens = [*[-100] * (len(asked) - 1), *answer, -100]
                weighted = [*[0.0] * (len(asked) - 1), *shares, 0.0]
            ids += suffix[:-1]
            weights += weighted[:-1]
            targets += next_tokens[:-1]
            parts += [number] * (len(suffix) - 1)
            columns.append(np.tile(np.arange(begin, begin + len(suffix) - 1), (3, 1)))
        return Packed(ids, np.concatenate(columns, 1), parts, targets, weights)

    def _shared(self, ids: Sequence[int]) -> tuple[list[int], np.ndarray]:
        """Return ids with as many tokens as each picture has, and their positions."""
        expanded: list[int] = []
        columns: list[np.ndarray] = []
        begin = 0
        cells = np.arange(GRID * GRID)
        for token in ids:
            if token == self.picture:
                expanded += [token] * len(cells)
                columns.append(np.stack([np.zeros_like(cells), cells // GRID, cells % GRID]) + begin)
                begin += GRID
            else:
                expanded.append(token)
                columns.append(np.full((3, 1), begin))
                begin += 1
        return expanded, np.concatenate(columns, 1)


class Batch(NamedTuple):
    """Packed lessons, padded.

    Ids, targets and weights are [n, tokens], positions [3, n, tokens], the mask [n, 1, tokens, tokens].
    """

    ids: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor


def collate(packed: Sequence[Packed], *, pad: int) -> Batch:
    """Pad lessons to one length."""
    longest = max(len(one.ids) for one in packed)
    ids = torch.full((len(packed), longest), pad)
    targets = torch.full((len(packed), longest), -100)
    weights = torch.zeros((len(packed), longest))
    positions = torch.zeros((3, len(packed), longest), dtype=torch.long)
    parts = torch.full((len(packed), longest), -1)
    for row, one in enumerate(packed):
        length = len(one.ids)
        ids[row, :length] = torch.tensor(one.ids)
        targets[row, :length] = torch.tensor(one.targets)
        weights[row, :length] = torch.tensor(one.weights)
        positions[:, row, :length] = torch.from_numpy(one.positions)
        parts[row, :length] = torch.tensor(one.parts)
    sees = (parts[:, None, :] == 0) | (parts[:, None, :] == parts[:, :, None])
    sees &= torch.ones(longest, longest, dtype=torch.bool).tril()
    mask = torch.zeros(sees.shape).masked_fill_(~sees, torch.finfo(torch.float32).min)
    return Batch(ids, positions, mask[:, None], targets, weights)


def processed(processor: Any, pictures: np.ndarray) -> dict[str, torch.Tensor]:
    """Return the processor's tensors of pictures of `SEEN` pixels, [n, height, width, 3] uint8."""
    channels_first = torch.from_numpy(np.ascontiguousarray(pictures.transpose(0, 3, 1, 2)))
    return dict(processor.image_processor(images=list(channels_first), return_tensors="pt"))
