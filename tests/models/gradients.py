"""Gradients of a training step in two halves, by one process or by two, with the same bits."""

from collections.abc import Callable, Iterable

import torch

HALVES = 2


class Gradients:
    """The gradients of a step, whose halves are computed one after the other, or each by a process.

    Both ways give the same bits: two halves are added, in an order that does not matter.

    Args:
        weights: of the model.
        rank: number of this process of two, or None for one process that computes both halves.
    """

    def __init__(self, weights: Iterable[torch.Tensor], rank: int | None) -> None:
        self._weights = list(weights)
        self._rank = rank

    def compute(self, half_step: Callable[[int], tuple[float, float]]) -> tuple[float, float]:
        """Call `half_step` for each half; returns the sums of what it returns, and leaves the sums of gradients."""
        self._clear()
        if self._rank is not None:
            losses = torch.tensor(half_step(self._rank))
            flat = torch.cat([losses, *(self._gradient(weight).flatten() for weight in self._weights)])
            torch.distributed.all_reduce(flat)
            sums, *gradients = flat.split([2, *(weight.numel() for weight in self._weights)])
        else:
            sums, gradients = torch.zeros(2), [torch.zeros_like(weight) for weight in self._weights]
            for half in range(HALVES):
                sums = sums + torch.tensor(half_step(half))
                gradients = [g + self._gradient(weight) for g, weight in zip(gradients, self._weights, strict=True)]
                self._clear()
        for weight, gradient in zip(self._weights, gradients, strict=True):
            weight.grad = gradient.view_as(weight)
        answered, seen = sums.tolist()
        return answered, seen

    def _clear(self) -> None:
        for weight in self._weights:
            weight.grad = None

    @staticmethod
    def _gradient(weight: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(weight) if weight.grad is None else weight.grad
