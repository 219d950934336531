"""Closed-set scoring: the likelihood of each allowed answer, not a text that has to be parsed.

What prompts about one picture share is encoded once, and what differs passes behind it in packed groups
(`actors.vlm.forward`). An answer's probability is its share of what all allowed answers got, and what they did not
get is reported as `outside_mass`. `naive`, one pass over each whole prompt, is what the others are measured by, and
what a model of an unknown family gets.
"""

import copy
import inspect
import logging
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

from actors.vlm import errors, families, memory, shared_prefix
from actors.vlm.answers import AnswerCodes
from actors.vlm.chat import Chat
from actors.vlm.errors import EngineError, ScoringError
from actors.vlm.picture_size import NO_BOUNDS, PixelBounds
from actors.vlm.prefix import forget_positions
from actors.vlm.prompts import Prompt

Engine = Literal["auto", "cascade", "batched", "naive"]
ENGINES: tuple[Engine, ...] = ("auto", "cascade", "batched", "naive")
MOST_ANSWERS = 1000  # allowed answers whose tokens are kept
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScoringRequest:
    """One prompt to be answered with one of `codes`, about a picture: PIL image, RGB; a tuple of several; None: none.

    Requests share what is encoded once if they have the same picture object.
    """

    prompt: Prompt
    picture: Any
    codes: tuple[str, ...]


class Scores(NamedTuple):
    """What a model makes of one request; sequences are in the order of the request's codes."""

    probabilities: tuple[float, ...]  # of the codes among themselves, float64, summing to 1
    logprobs: tuple[float, ...]  # natural logarithm of the probability over the full vocabulary
    outside_mass: float  # probability of anything else, 0 to 1
    prompt_tokens: int  # the picture's included
    rule: str = "code"  # how answers are read off the tokens: code or sequence (`actors.vlm.answers`)
    passed_tokens: float = 0.0  # tokens that went through the model for it: its share of what is shared, and its tail


@dataclass
class RequestGroup:
    """Requests about one picture, ready for the device: what `ClosedSetScorer.prepare` makes of them."""

    requests: Sequence[ScoringRequest]
    places: list[int]  # in the list that was prepared
    inputs: dict[str, Any] = field(default_factory=dict)
    tails: list[list[int]] = field(default_factory=list)
    shared: int = 0
    answers: list[AnswerCodes] = field(default_factory=list)
    error: ScoringError | None = None  # of all of them: the picture or the template cannot be used

    def length(self, place: int) -> int:
        """Tokens of one whole prompt."""
        return self.shared + len(self.tails[place])

    def subset(self, chosen: Sequence[int]) -> "RequestGroup":
        """Some of its requests, by their number in it, as a group of their own."""
        return replace(
            self,
            requests=[self.requests[i] for i in chosen],
            places=[self.places[i] for i in chosen],
            tails=[self.tails[i] for i in chosen],
            answers=[self.answers[i] for i in chosen],
        )

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt with its longest answer; 0 where nothing could be prepared."""
        extra = (max(map(len, a.sequences)) - 1 for a in self.answers)
        return max((self.length(i) + more for i, more in enumerate(extra)), default=0)


class ClosedSetScorer:
    """Scores closed answers with a model and processor from `actors.vlm.loading.load_vlm`.

    Args:
        engine: cascade, batched, naive; `auto` takes the first of them that gives what `naive` gives.
        memory_budget_gb: memory for what passes at once; half of what is free if None.
        bounds: of the pixels of a picture as the model sees it; the processor's own where not given.

    Raises:
        ValueError: an unknown engine, or one that this model's family does not have.
    """

    def __init__(
        self,
        model: Any,
        processor: Any,
        *,
        engine: str = "auto",
        memory_budget_gb: float | None = None,
        bounds: PixelBounds = NO_BOUNDS,
    ) -> None:
        if engine not in ENGINES:
            raise ValueError(f"engine {engine!r} is not one of {', '.join(ENGINES)}")
        self.model, self.processor = model, processor
        self.family = families.family_of(model)
        text_config = model.config.get_text_config()
        self.max_tokens: int | None = getattr(text_config, "max_position_embeddings", None)
        self.chat = Chat(processor, name=self._name(), bounds=bounds, config=model.config)
        self.sees_pictures = self.chat.sees_pictures
        self._chats = threading.local()
        self._chats.mine = self.chat
        self.engine = self._first_engine(engine)
        self._proven = engine != "auto"
        self.budget = int((memory_budget_gb or 0) * 1e9) or int(memory.SHARE * memory.free_bytes(model.device))
        self._halved = False
        self._answers: dict[tuple[tuple[str, ...], str], AnswerCodes] = {}

    def check_codes(self, codes: Sequence[str]) -> list[int]:
        """Token ids of `codes` at the start of the model's turn, as its chat template writes it.

        Raises:
            ValueError: a code that is not exactly one token there, or is the same token as another.
        """
        made = self.answers(codes)
        if made.rule != "code" or made.bridge:
            long = next((c for c, s in zip(codes, made.sequences, strict=True) if len(s) > 2), codes[0])
            raise ValueError(f"{self._name()} does not write the answer code {long!r} as one token; use other codes")
        return [sequence[0] for sequence in made.sequences]

    def answers(self, codes: Sequence[str], *, start: str = "") -> AnswerCodes:
        """`codes` as tokens, and the rule by which they are scored.

        Raises:
            ValueError: no codes, an empty one, or two that are the same tokens.
        """
        key = (tuple(codes), start)
        if key not in self._answers:
            if len(self._answers) >= MOST_ANSWERS:  # a thought before each answer is a start of its own
                self._answers.clear()
            self._answers[key] = self.chat.answers(codes, start=start)
        return self._answers[key]

    def score(self, requests: Sequence[ScoringRequest]) -> list[Scores | ScoringError]:
        """Scores of `requests`, in their order; a request that fails does not touch the others.

        Raises:
            ValueError: codes that cannot be told apart (`answers`).
            EngineError: the device failed.
        """
        found: dict[int, Scores | ScoringError] = {}
        for numbers in _by_picture(requests):
            found |= self.run(self.prepare([requests[i] for i in numbers], places=numbers))
        return [found[place] for place in range(len(requests))]

    def prepare(self, requests: Sequence[ScoringRequest], *, places: Sequence[int] | None = None) -> RequestGroup:
        """Tokens and pixels of `requests` about one picture; needs no device and may run in another thread.

        Raises:
            ValueError: codes that cannot be told apart.
        """
        group = RequestGroup(requests, list(places if places is not None else range(len(requests))))
        group.answers = [self.answers(r.codes, start=r.prompt.start) for r in requests]
        try:
            tokens = self._own_chat().tokens([r.prompt for r in requests], requests[0].picture)
        except Exception as error:
            group.error, group.answers = errors.reason(error), []
            return group
        group.inputs, group.shared = tokens.inputs, tokens.shared
        group.tails = [[*t, *a.bridge] for t, a in zip(tokens.tails, group.answers, strict=True)]
        return group

    def run(self, group: RequestGroup) -> dict[int, Scores | ScoringError]:
        """Scores of a prepared group by the places of its requests.

        Raises:
            EngineError: the device failed.
        """
        if group.error:
            return dict.fromkeys(group.places, group.error)
        found: dict[int, Scores | ScoringError] = {}
        fitting = []
        for i, place in enumerate(group.places):
            if self.max_tokens is not None and group.length(i) > self.max_tokens:
                message = f"{group.length(i)} tokens, the model takes {self.max_tokens}"
                found[place] = ScoringError("prompt_too_long", message)
            else:
                fitting.append(i)
        if not fitting:
            return found
        inputs = families.on_device(self.model, group.inputs)
        try:
            scored = self._scored(group, inputs, fitting)
        except Exception as error:
            if errors.is_fatal(error):
                raise EngineError(f"{self._name()}: {error}") from error
            scored = [errors.reason(error)] * len(fitting)
        return found | {group.places[i]: one for i, one in zip(fitting, scored, strict=True)}

    def token_starts(self, text: str) -> list[int]:
        """For each token of `text` on its own, the character at which it begins."""
        return self._own_chat().token_starts(text)

    def as_data(self, text: str) -> str:
        """`text` with a space inside whatever the model would read as a special token (a turn's end, a picture)."""
        return self.chat.as_data(text)

    def picture_tokens(self, group: RequestGroup) -> int | None:
        """Tokens of the pictures that a prepared group shows (`actors.vlm.families.picture_tokens`)."""
        return self.chat.picture_tokens(group.inputs) if group.inputs else None

    def room(self) -> int | None:
        """The longest prompt in tokens: what the model has positions for and the memory budget allows."""
        fits = memory.prefix_tokens(self.model, budget=self.budget)
        return fits if self.max_tokens is None else min(fits, self.max_tokens)

    def _scored(self, group: RequestGroup, inputs: dict[str, Any], chosen: list[int]) -> list[Scores | ScoringError]:
        while True:
            try:
                if not self._proven:
                    self._prove(group, inputs, chosen)
                return self._likelihoods(group, inputs, chosen, self.engine)
            except Exception as error:
                if self._halved or not errors.is_out_of_memory(error):
                    raise
            self._halve()  # outside of the clause, whose traceback would keep the failed pass's memory

    def _likelihoods(
        self, group: RequestGroup, inputs: dict[str, Any], chosen: list[int], engine: str
    ) -> list[Scores | ScoringError]:
        if engine == "naive":
            return [self._whole(group, i) for i in chosen]
        assert self.family is not None
        made = shared_prefix.log_likelihoods(
            self.model,
            self.family,
            inputs,
            [group.tails[i] for i in chosen],
            [group.answers[i] for i in chosen],
            shared=group.shared,
            engine=engine,
            budget=self.budget,
        )
        passed = made.tokens / len(chosen)
        return [_scores(values, group, i, passed) for values, i in zip(made.logprobs, chosen, strict=True)]

    def _whole(self, group: RequestGroup, place: int) -> Scores | ScoringError:
        """One request by whole passes: the prompt, tokenised and with its picture anew, and each answer behind it."""
        request, made = group.requests[place], group.answers[place]
        chat = self._own_chat()
        inputs = families.on_device(
            self.model, chat.encode(chat.rendered(request.prompt, request.picture), request.picture)
        )
        inputs = families.extended(inputs, list(made.bridge))
        length = int(inputs["input_ids"].shape[1])
        logprobs, passed = [], 0
        for sequence in made.sequences if made.rule == "sequence" else made.sequences[:1]:
            given = families.extended(inputs, list(sequence[:-1]))
            logits = self._logits(given, last=len(sequence))
            passed += length + len(sequence) - 1
            if made.rule == "code":
                logprobs = logits[0, [s[0] for s in made.sequences]].tolist()
            else:
                logprobs.append(float(logits[range(len(sequence)), list(sequence)].sum()))
        return _scores(logprobs, group, place, passed)

    def _logits(self, inputs: dict[str, Any], *, last: int) -> Any:
        """Log-probabilities [last, vocabulary] float64 after the last tokens of a whole pass."""
        import torch

        accepted = inspect.signature(self.model.forward).parameters
        fewer = {"logits_to_keep": last} if "logits_to_keep" in accepted else {}
        forget_positions(self.model)
        with torch.inference_mode():
            logits = self.model(**inputs, use_cache=False, **fewer).logits[0, -last:]
            return logits.float().log_softmax(-1).double()

    def _prove(self, group: RequestGroup, inputs: dict[str, Any], chosen: list[int]) -> None:
        """On the first group, give up engines that do not give what a whole pass gives: a release of transformers
        or torch that this was not tried with, a device whose kernels differ."""
        self._proven = self.engine == "naive"
        expected = None if self._proven else self._whole(group, chosen[0])
        if not isinstance(expected, Scores):
            return
        for engine in ("cascade", "batched"):
            try:
                found = self._likelihoods(group, inputs, chosen[:2], engine)[0]
            except Exception as error:
                if errors.is_fatal(error) or errors.is_out_of_memory(error):
                    raise
                reason = f"{type(error).__name__}: {error}"
            else:
                far = _difference(found, expected)
                if far <= shared_prefix.tolerance(self.model):
                    self.engine, self._proven = engine, True
                    return
                reason = f"its log-likelihoods are {far:.2g} from those of a whole pass"
            log.warning("%s: engine %s is not used (%s)", self._name(), engine, reason)
        self.engine, self._proven = "naive", True

    def _halve(self) -> None:
        import torch

        self._halved = True
        self.budget //= 2
        log.warning("%s: out of memory; groups are half as large from here on", self._name())
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _first_engine(self, engine: str) -> str:
        if engine == "naive" or self.family is not None:
            return "cascade" if engine == "auto" else engine
        if engine != "auto":
            raise ValueError(
                f"{self._name()} is of family {self.model.config.model_type!r}, which engine={engine} does not know "
                f"(it knows {', '.join(families.FAMILIES)}); engine=naive takes any"
            )
        log.warning(
            "%s: family %r is not known, so each prompt passes as a whole, which is slower",
            self._name(),
            self.model.config.model_type,
        )
        return "naive"

    def _own_chat(self) -> Chat:
        """This thread's: fast tokenizers refuse to serve two threads at once."""
        if not hasattr(self._chats, "mine"):
            self._chats.mine = copy.deepcopy(self.chat)
        mine: Chat = self._chats.mine
        return mine

    def _name(self) -> str:
        return f"model {getattr(self.model.config, '_name_or_path', '') or self.model.config.model_type!r}"


def _by_picture(requests: Sequence[ScoringRequest]) -> list[list[int]]:
    """Numbers of the requests that can share a prefix: all but the tail is the same."""
    groups: dict[tuple[int, str, str, str], list[int]] = {}
    for number, request in enumerate(requests):
        prompt = request.prompt
        groups.setdefault((id(request.picture), prompt.before, prompt.after, prompt.start), []).append(number)
    return list(groups.values())


def _scores(logprobs: Sequence[float], group: RequestGroup, place: int, passed: float) -> Scores | ScoringError:
    if not all(map(math.isfinite, logprobs)):
        return ScoringError("not_finite", "the model's likelihoods are not finite numbers")
    top = max(logprobs)
    shares = [math.exp(value - top) for value in logprobs]
    inside = math.fsum(math.exp(value) for value in logprobs)
    return Scores(
        probabilities=tuple(share / math.fsum(shares) for share in shares),
        logprobs=tuple(logprobs),
        outside_mass=min(1.0, max(0.0, 1.0 - inside)),
        prompt_tokens=group.length(place) if group.tails else 0,
        rule=group.answers[place].rule,
        passed_tokens=passed,
    )


def _difference(found: Scores | ScoringError, expected: Scores) -> float:
    if isinstance(found, ScoringError):
        return float("inf")
    return max(abs(a - b) for a, b in zip(found.logprobs, expected.logprobs, strict=True))
