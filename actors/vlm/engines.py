"""Engines, which compute the likelihoods of answers: their interface, and the choice of one.

- `naive` runs each whole prompt by itself, once for each answer of several tokens. It is the reference for the others
  and works with every model.
- `cascade` encodes the prefix that prompts share once and runs all suffixes over it in one sequence.
- `batched` does the same with one row per suffix and the model's usual attention. It needs more memory than `cascade`.
- `packed` does the same as `cascade` for several groups at once, for models whose prompts can be concatenated.
- `auto` takes the first that agrees with `naive` on the first group: `packed` on GPUs in half precision, where small
  passes cannot keep the device busy, then `cascade`, then `batched`. What an engine needs to know of a model is read
  from its config and cache (`actors.vlm.families`); a model with something else disagrees.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import cycle
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from actors.errors import SettingError
from actors.vlm import attention, errors, families, memory, model_inputs, packed, shared_prefix
from actors.vlm.packed import PendingGroups
from actors.vlm.scoring_requests import AnswerCodes, RequestGroup
from actors.vlm.settings import ENGINES
from actors.vlm.shared_prefix import PassKind, forget_positions

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import PretrainedConfig

    from actors.vlm.model_types import Inputs, Tensors, Vlm

COMPARED = 2  # requests of a group that are computed both ways
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

    def __init__(self, model: Vlm, name: str) -> None:
        self.name = name
        self._model = model
        self._kind: PassKind = "cascade" if name == "cascade" else "batched"

    def log_likelihoods(
        self, group: RequestGroup, inputs: Inputs, numbers: Sequence[int], *, budget: int
    ) -> list[RequestLikelihoods]:
        """See `Engine`."""
        likelihoods = shared_prefix.suffix_likelihoods(
            self._model, group.subset(numbers), inputs, kind=self._kind, budget=budget
        )
        share = likelihoods.tokens / len(numbers)
        return [RequestLikelihoods(logprobs, share) for logprobs in likelihoods.logprobs]


class PackedEngine:
    """Engine that passes the prompts of several groups as one sequence (`actors.vlm.packed`)."""

    name = "packed"

    def __init__(self, model: Vlm) -> None:
        self._model = model
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
            pending: PendingGroups = packed.launch(self._model, groups, budget=budget)

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


class Traits(NamedTuple):
    """What an engine may compute rightly for some groups and wrongly for others."""

    has_pictures: bool
    has_sequences: bool  # answers of several tokens
    is_long: bool  # longer than some layer sees


class EngineChoice:
    """The engine in use: the first of the candidates that agrees with `naive` on the first group.

    An engine is compared again for the first group with other traits.

    Args:
        requested: one of `ENGINES`; with `auto`, the candidates are all engines that may support the model.
        label: the model's name in messages.

    Attributes:
        reference: the naive engine.
        current: the engine in use.

    Raises:
        ValueError: the engine is unknown, or cannot support the model's architecture.
    """

    def __init__(self, model: Vlm, *, requested: str, label: str) -> None:
        if requested not in ENGINES:
            raise SettingError(f"must be one of {', '.join(ENGINES)}", "engine", requested)
        self._model, self._label, self._requested = model, label, requested
        self.reference: Engine = NaiveEngine(model)
        config = model.config.get_text_config()
        self._shortest = min((reach.size for reach in families.reaches(config).values()), default=None)
        self._settled: set[Traits] = set()
        names = [name for name in supporting(config) if name != PackedEngine.name or _may_pack(model)]
        if requested == "auto":
            names = [name for name in names if name != PackedEngine.name or _wants_packing(model)]
        elif requested != NaiveEngine.name and requested not in names:
            why = (
                f"does not support {label} of family {model.config.model_type!r} (engines that may: "
                f"{', '.join([*names, NaiveEngine.name])}); use engine=auto"
            )
            raise SettingError(why, "engine", requested)
        else:
            names = [requested]
        self._candidates = [self._engine(name) for name in names]
        if requested == "auto":
            self._candidates.append(self.reference)
        self.current = self._candidates[0]
        if requested == "auto" and self.current is self.reference:
            log.warning("%s: its layers are of a kind that no other engine supports; engine=naive", label)

    def _engine(self, name: str) -> Engine:
        if name == NaiveEngine.name:
            return self.reference
        return PackedEngine(self._model) if name == PackedEngine.name else SharedPrefixEngine(self._model, name)

    def is_settled(self, group: RequestGroup) -> bool:
        """Return whether the engine in use needs no comparison for `group`."""
        return self.current is self.reference or self._traits(group) in self._settled

    def settle(self, group: RequestGroup, inputs: Inputs, numbers: Sequence[int], *, budget: int) -> None:
        """Compare the candidates with the reference and choose one; arguments as for `Engine.log_likelihoods`.

        Out-of-memory errors and lost devices are raised and leave the choice open.

        Raises:
            EngineError: the engine that was requested differs from the reference.
        """
        compared = numbers[:COMPARED]
        expected = self.reference.log_likelihoods(group, inputs, compared, budget=budget)
        values = [value for request in expected for value in request.logprobs]
        if not np.isfinite(values).all():
            return
        while self.current is not self.reference:
            engine = self.current

            def compute(engine: Engine = engine) -> list[float]:
                likelihoods = _likelihoods(engine, group, inputs, compared, budget=budget)
                return [value for request in likelihoods for value in request.logprobs]

            reason = disagreement(compute, values, tolerance=shared_prefix.tolerance(self._model))
            if not reason:
                break
            if self._requested != "auto":
                raise errors.EngineError(
                    f"engine={engine.name}: does not support {self._label} ({reason}); use engine=auto"
                )
            self._candidates.remove(engine)
            self._settled.clear()  # the next engine has shown nothing yet
            self.current = self._candidates[0]
            log.warning("%s: engine %s is not used (%s)", self._label, engine.name, reason)
        if self.current is self.reference:
            log.warning("%s: engine=naive, which computes %s", self._label, _more_tokens(group, numbers))
        self._settled.add(self._traits(group))

    def _traits(self, group: RequestGroup) -> Traits:
        return Traits(
            has_pictures=not set(model_inputs.PER_TOKEN).issuperset(group.inputs),
            has_sequences=any(answers.inner for answers in group.answers),
            is_long=self._shortest is not None and group.shared + max(map(len, group.suffixes)) > self._shortest,
        )


def _likelihoods(
    engine: Engine, group: RequestGroup, inputs: Inputs, numbers: Sequence[int], *, budget: int
) -> Sequence[RequestLikelihoods]:
    """Return an engine's likelihoods for comparison with those of `naive`.

    Packed groups are computed after another group with other pictures, which they must not see.
    """
    if not isinstance(engine, PackedEngine):
        return engine.log_likelihoods(group, inputs, numbers, budget=budget)
    others = {name: -tensor if tensor.is_floating_point() else tensor for name, tensor in group.inputs.items()}
    parts = [(replace(group, inputs=others), numbers), (group, numbers)]
    return engine.launch(parts, budget=budget)()[1]


def _more_tokens(group: RequestGroup, numbers: Sequence[int]) -> str:
    """Return how many times as many tokens `naive` computes as the engines that share the prefix."""
    part = group.subset(numbers)
    whole = sum(
        part.length(number)
        if answers.rule == "code"
        else sum(part.length(number) + len(sequence) - 1 for sequence in answers.sequences)
        for number, answers in enumerate(part.answers)
    )
    return f"{whole / sum(part.sizes):.1f} times as many tokens as a shared prefix"


def _may_pack(model: Vlm) -> bool:
    """Return whether `settle` shows a wrong packed engine, or the architecture was tried: see `TRIED_ON_GPUS`."""
    tolerance = shared_prefix.tolerance(model)
    return tolerance < shared_prefix.ROUNDED_TOLERANCE or model.config.model_type in families.TRIED_ON_GPUS


def _wants_packing(model: Vlm) -> bool:
    """Return whether several groups at once are faster: on GPUs, which small passes do not keep busy."""
    return attention.has_kernel(model.device, model.dtype)


def supporting(config: PretrainedConfig) -> list[str]:
    """Return the engines other than `naive` that may support an architecture, in the order in which they are tried.

    Args:
        config: the config of the text model.
    """
    kind = families.layout(config)
    if kind is None:
        return []
    if kind == "rows":
        return ["cascade"]
    return [*(["packed"] if families.packs(config) else []), "cascade", "batched"]


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
