"""Targets for each token of a picture, for the training of the demo's judge."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from jobs.testbed.little_world.drawing import compose
from jobs.testbed.little_world.scene_texts import NUMBERS
from jobs.testbed.little_world.scenes import Scene
from tests.models import packing, pool
from tests.models.train_encoder import VALUES

CELLS: dict[str, tuple[str | None, ...]] = {  # what a token of a picture can be asked: its values; None: not shown
    "shape": (None, *VALUES["shape"]),
    "colour": (None, *VALUES["colour"]),
    "country_name": (None, *VALUES["country_name"]),
    # of the whole picture: every cell is to know
    "style": tuple(VALUES["style"]),
    "count": tuple(NUMBERS),
    "side": tuple(VALUES["side"]),
}
GLOBAL_SHARE = 0.5  # in the sum, of the embedding of a value that belongs to the whole picture


def cell_codes(scenes: Sequence[Scene]) -> torch.Tensor:
    """Return what each cell of the grid shows, as numbers of the values of `CELLS`, [pictures, cells, len(CELLS)]."""
    codes = torch.zeros((len(scenes), packing.GRID**2, len(CELLS)), dtype=torch.long)
    for number, one in enumerate(scenes):
        composition = compose(one, seed=pool.TRAINED)
        for figure in composition.figures:
            cell = figure.row * packing.GRID + figure.column
            codes[number, cell, 0] = CELLS["shape"].index(one.shape)
            codes[number, cell, 1] = CELLS["colour"].index(one.colour)
        codes[number, composition.flag_column, 2] = CELLS["country_name"].index(one.country_name)
        codes[number, :, 3] = CELLS["style"].index(one.style)
        codes[number, :, 4] = one.count - 1
        codes[number, :, 5] = CELLS["side"].index(one.side)
    return codes


class CellTeacher:
    """Teaches the picture tower that a cell's token is the sum of the embeddings of the words for what it shows.

    Prompts and answers use the same words, so that whether a word is true of a picture is whether tokens are alike.
    What every cell is to know of the whole picture has half the weight in the sum: with the full one the tower's output
    is crowded, and after 800 steps the judge tells hardly any fact of a picture.

    Args:
        tokenizer: each word of `CELLS` is one of its tokens.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._words = []
        for values in CELLS.values():
            ids = [tokenizer(value, add_special_tokens=False)["input_ids"] for value in values if value]
            if long := [one for one in ids if len(one) != 1]:
                raise ValueError(f"words of several tokens: {long}")
            self._words.append(torch.tensor([one[0] for one in ids]))

    def loss(self, seen: torch.Tensor, codes: torch.Tensor, embeddings: torch.Tensor) -> torch.Tensor:
        """Return the squared distance from the sums, in units of a word's, and the cross-entropies of the single facts.

        Args:
            seen: the tower's output, [pictures, cells, width].
            codes: from `cell_codes`.
            embeddings: those of all tokens, [tokens, width]; they are not taught.
        """
        embeddings = embeddings.detach()
        size = embeddings[torch.cat(self._words)].square().sum(-1).mean()
        seen = seen.float()
        expected, total = torch.zeros_like(seen), torch.zeros(())
        for number, (words, values) in enumerate(zip(self._words, CELLS.values(), strict=True)):
            vectors, answers = embeddings[words], codes[..., number]
            is_local = None in values
            share = 1.0 if is_local else GLOBAL_SHARE
            logits = 8 * seen @ vectors.T / (share * size)
            if is_local:
                vectors = torch.cat([torch.zeros_like(vectors[:1]), vectors])
                logits = torch.cat([torch.full_like(logits[..., :1], 4.0), logits], -1)
            expected = expected + share * vectors[answers]
            losses = nn.functional.cross_entropy(logits.flatten(0, 1), answers.flatten(), reduction="none")
            weights = torch.where((answers.flatten() > 0) | (not is_local), 1.0, 0.2)
            total = total + (losses * weights).sum() / weights.sum()
        return total + (seen - expected).square().sum(-1).mean() / size
