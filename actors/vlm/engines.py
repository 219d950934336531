"""Engines, which compute the likelihoods of answers: their interface, and the choice of one.

- `naive` runs each whole prompt by itself, once for each answer of several tokens. It is the reference for the others
  and works with every model.
- `cascade` encodes the prefix that prompts share once and runs all suffixes over it in one sequence.
- `batched` does the same with one row per suffix and the model's usual attention. It needs more memory than `cascade`.
- `packed` does the same as `cascade` for several groups at once, for families whose prompts can be concatenated.
- `auto` compares the others with `naive` on the first group and takes the first that agrees: `packed` on GPUs in half
  precision, where small passes cannot keep the device busy, then `cascade`, then `batched`.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, get_args

import numpy as np

from actors.vlm import attention, errors, families, memory, model_inputs, packed, shared_prefix
from actors.vlm.packed import PendingGroups
from actors.vlm.scoring_requests import AnswerCodes, RequestGroup
from actors.vlm.shared_prefix import PassKind, forget_positions

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from actors.vlm.model_types import Inputs, Tensors, Vlm

EngineName = Literal["auto", "packed", "cascade", "batched", "naive"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)
log = logging.getLogger(__name__)


class RequestLikelihoods(NamedTuple):
    """The result of one request.

    Attributes:
        logprobs: natural logarithm of each answer's probability over the full vocabulary.
        tokens: tokens that passed through the model for this request.
    """

    logprobs: list[float]
    tokens: float


class Engine(Protocol):
    """A way to compute likelihoods."""

    name: str

    def log_likelihoods(
        self, group: RequestGroup, inputs: Inputs, numbers: Sequence[int], *, budget: int
    ) -> list[RequestLikelihoods]:
        """Return the likelihoods of some of a group's requests.

        Args:
            inputs: the group's inputs on the model's device.
            numbers: the requests' numbers in the group.
            budget: bytes that one forward pass may take.
        """


class NaiveEngine:
    """Engine that runs each prompt with each answer in a separate forward pass."""

    name = "naive"

    def __init__(self, model: Vlm) -> None:
        self._model = model

    def log_likelihoods(
        self, group: RequestGroup, inputs: Inputs, numbers: Sequence[int], *, budget: int
    ) -> list[RequestLikelihoods]:
        """See `Engine`; `budget` is not used."""
        prefix = model_inputs.cut(inputs, group.shared)
        return [
            self._request(model_inputs.extended(prefix, group.suffixes[number]), group.answers[number])
            for number in numbers
        ]

    def _request(self, prompt: Tensors, codes: AnswerCodes) -> RequestLikelihoods:
        length = int(prompt["input_ids"].shape[1])
        if codes.rule == "code":
            logits = self.log_probabilities(prompt, last=1)
            return RequestLikelihoods(logits[0, [sequence[0] for sequence in codes.sequences]].tolist(), length)
        logprobs, tokens = [], 0
        for sequence in codes.sequences:
            logits = self.log_probabilities(model_inputs.extended(prompt, list(sequence[:-1])), last=len(sequence))
            logprobs.append(float(logits[range(len(sequence)), list(sequence)].sum()))
            tokens += length + len(sequence) - 1
        return RequestLikelihoods(logprobs, tokens)

    def log_probabilities(self, inputs: Tensors, *, last: int) -> Tensor:
        """Return log-probabilities [last, vocabulary], float64, after the last tokens of a forward pass."""
        import torch

        accepted = inspect.signature(self._model.forward).parameters
        fewer = {"logits_to_keep": last} if "logits_to_keep" in accepted else {}
        forget_positions(self._model)
        with torch.inference_mode():
            logits = self._model(**inputs, use_cache=False, **fewer).logits[0, -last:]
            return logits.float().log_softmax(-1).double()


class SharedPrefixEngine:
    """Engine that encodes the shared prefix once and runs the suffixes over it (`actors.vlm.shared_prefix`)."""

    def __init__(self, model: Vlm, family: families.Family, name: PassKind) -> None:
        self.name: str = name
        self._model, self._family, self._kind = model, family, name

    def log_likelihoods(
        self, group: RequestGroup, inputs: Inputs, numbers: Sequence[int], *, budget: int
    ) -> list[RequestLikelihoods]:
        """See `Engine`."""
        likelihoods = shared_prefix.suffix_likelihoods(
            self._model, self._family, group.subset(numbers), inputs, kind=self._kind, budget=budget
        )
        share = likelihoods.tokens / len(numbers)
        return [RequestLikelihoods(logprobs, share) for logprobs in likelihoods.logprobs]


class PackedEngine:
    """Engine that passes the prompts of several groups as one sequence (`actors.vlm.packed`)."""

    name = "packed"

    def __init__(self, model: Vlm, family: families.Family) -> None:
        self._model, self._family = model, family
        # Two passes are in flight: while the host waits for one of them, the device works on the other.
        self._streams = cycle([_stream(model.device) for _ in range(2)])

    def log_likelihoods(
        self, group: RequestGroup, inputs: Inputs, numbers: Sequence[int], *, budget: int
    ) -> list[RequestLikelihoods]:
        """See `Engine`."""
        (values,) = self.launch([(group, numbers)], budget=budget)()
        return values

    def launch(
        self, parts: Sequence[tuple[RequestGroup, Sequence[int]]], *, budget: int
    ) -> Callable[[], list[list[RequestLikelihoods]]]:
        """Start the forward passes of several groups; return a function that waits for their likelihoods.

        Args:
            parts: each group with the numbers of its requests.
            budget: bytes that one forward pass may take.
        """
        import torch

        groups = [group.subset(numbers) for group, numbers in parts]
        if (stream := next(self._streams)) is not None:
            stream.wait_stream(torch.cuda.current_stream(self._model.device))
        with torch.cuda.stream(stream):
            pending: PendingGroups = packed.launch(self._model, self._family, groups, budget=budget)

        def result() -> list[list[RequestLikelihoods]]:
            return [
                [RequestLikelihoods(logprobs, request.tokens / len(request.logprobs)) for logprobs in request.logprobs]
                for request in pending.result()
            ]

        return result

    def chunks(
        self, parts: Sequence[tuple[RequestGroup, Sequence[int]]], *, budget: int
    ) -> Iterator[list[tuple[RequestGroup, Sequence[int]]]]:
        """Yield lists of consecutive parts, each of which fits one forward pass; arguments as for `launch`."""
        most = memory.packed_tokens(self._model, budget=budget)
        for places in packed.chunks([group.subset(numbers) for group, numbers in parts], most=most):
            yield [parts[place] for place in places]


def _stream(device: torch.device) -> torch.cuda.Stream | None:
    """Return a stream of a GPU; None for other devices."""
    import torch

    return torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]


class EngineChoice:
    """The engine in use; with `auto`, the first that agrees with `naive` on the first group.

    Args:
        requested: one of `ENGINES`.
        label: the model's name in messages.

    Attributes:
        reference: the naive engine.
        current: the engine in use.
        is_settled: whether no comparison is pending.

    Raises:
        ValueError: the engine is unknown, or does not support the model's family.
    """

    def __init__(self, model: Vlm, *, requested: str, label: str) -> None:
        if requested not in ENGINES:
            raise ValueError(f"engine={requested}: must be one of {', '.join(ENGINES)}")
        self._model, self._label = model, label
        self.reference: Engine = NaiveEngine(model)
        self.current: Engine = self.reference
        family = families.family_of(model)
        engines: list[Engine] = []
        if family:
            engines = [SharedPrefixEngine(model, family, kind) for kind in get_args(PassKind)]
        if family and families.packs(model) and (requested == PackedEngine.name or _wants_packing(model)):
            engines.insert(0, PackedEngine(model, family))
        self._candidates = engines if requested == "auto" else [e for e in engines if e.name == requested]
        self.is_settled = requested != "auto" or not engines
        if self._candidates:
            self.current = self._candidates[0]
        elif requested not in ("auto", "naive"):
            raise ValueError(
                f"engine={requested}: does not support {label} of family {model.config.model_type!r} "
                f"(supported families: {', '.join(supported_families(requested))}); use engine=auto or engine=naive"
            )
        elif requested == "auto":
            log.warning(
                "%s: unknown family %r; each prompt takes a separate forward pass, which is slower",
                label,
                model.config.model_type,
            )

    def settle(self, group: RequestGroup, inputs: Inputs, numbers: Sequence[int], *, budget: int) -> None:
        """Compare the candidates with the reference and choose one; arguments as for `Engine.log_likelihoods`.

        Engines may disagree in a release of transformers or torch that they were not tested with, or on a device with
        other kernels. Out-of-memory errors and lost devices are raised and leave the choice open.
        """
        (expected,) = self.reference.log_likelihoods(group, inputs, numbers[:1], budget=budget)
        if not np.isfinite(expected.logprobs).all():
            return
        for engine in self._candidates:

            def compute(engine: Engine = engine) -> list[float]:
                if isinstance(engine, PackedEngine):  # as the second of two groups: it must not see the first
                    return engine.launch([(group, numbers[:2])] * 2, budget=budget)()[1][0].logprobs
                return engine.log_likelihoods(group, inputs, numbers[:2], budget=budget)[0].logprobs

            reason = disagreement(compute, expected.logprobs, tolerance=shared_prefix.tolerance(self._model))
            if not reason:
                self.current, self.is_settled = engine, True
                return
            log.warning("%s: engine %s is not used (%s)", self._label, engine.name, reason)
        self.current, self.is_settled = self.reference, True


def _wants_packing(model: Vlm) -> bool:
    """Return whether several groups at once are faster: on GPUs, which small passes do not keep busy."""
    return attention.has_kernel(model.device, model.dtype)


def supported_families(engine: str) -> list[str]:
    """Return the architectures (`config.model_type`) that `engine`, other than `naive`, supports."""
    return [name for name, family in families.FAMILIES.items() if family.packs or engine != PackedEngine.name]


def disagreement(compute: Callable[[], Sequence[float]], expected: Sequence[float], *, tolerance: float) -> str:
    """Return why an engine must not be used; empty if it computes the expected values.

    Args:
        compute: returns the engine's log-likelihoods, in the order of `expected`.
        tolerance: largest difference allowed.

    Raises:
        Exception: `compute` ran out of memory or lost its device, which says nothing about the engine.
    """
    try:
        values = compute()
    except Exception as error:
        if errors.is_fatal(error) or errors.is_out_of_memory(error):
            raise
        return f"{type(error).__name__}: {error}"
    distance = float(np.abs(np.array(values) - np.array(expected)).max())
    return "" if distance <= tolerance else f"its log-likelihoods differ by {distance:.2g}"
