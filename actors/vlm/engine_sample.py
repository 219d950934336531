"""What an engine answers about a sample of the items, and how fast, for a comparison of engines."""

from typing import Any, NamedTuple


class EngineSample(NamedTuple):
    """Answers of one engine.

    Attributes:
        texts: the tokens or words of each text, without its end token.
        reasons: why each text ended, `stop` or `length`; of a rating, its status.
        logprobs: natural logarithms of the probabilities of each text's tokens, or of a rating's answers.
        dtype: dtype of the weights.
        engine: libraries with their versions, and the kind of device.
        seconds: what the items of the second part of the sample took, all at once; 0 if there are none.
    """

    texts: list[list[Any]]
    reasons: list[str]
    logprobs: list[list[float]]
    dtype: str
    engine: str
    seconds: float = 0.0
