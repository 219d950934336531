"""Overlap of a generated with a correct description: BLEU, ROUGE-L and CIDEr by their own packages (extra `overlap`).

| measure | package | settings |
|---|---|---|
| bleu | sacrebleu | of one sentence, effective order, smoothing exp, tokenizer 13a, lower case; 0 to 1 |
| rouge_l | rouge-score | F measure, with the Porter stemmer; 0 to 1 |
| cider | pycocoevalcap | as in the COCO caption evaluation, document frequencies over the correct texts; 0 to 10 |

The COCO evaluation tokenises with the Stanford tokenizer, which needs Java. Here a token for CIDEr is a run of letters
and digits in lower case, so that its values differ slightly from that evaluation's.
"""

import importlib
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_WORD = re.compile(r"\w+")


def bleu(generated: Sequence[str], correct: Sequence[str]) -> Floats:
    """Return sentence BLEU of each pair, float64[n] from 0 to 1 (Papineni et al. 2002; Post 2018)."""
    from sacrebleu.metrics.bleu import BLEU

    scorer = BLEU(effective_order=True, lowercase=True)
    return np.array([scorer.sentence_score(g, [c]).score / 100 for g, c in zip(generated, correct, strict=True)])


def rouge_l(generated: Sequence[str], correct: Sequence[str]) -> Floats:
    """Return the F measure of ROUGE-L of each pair, float64[n] from 0 to 1 (Lin 2004)."""
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rougeL"], use_stemmer=True)
    return np.array([scorer.score(c, g)["rougeL"].fmeasure for g, c in zip(generated, correct, strict=True)])


def cider(generated: Sequence[str], correct: Sequence[str]) -> Floats:
    """Return CIDEr of each pair, float64[n] from 0 to 10 (Vedantam et al. 2015).

    NaN with fewer than two different correct descriptions: each n-gram would have an inverse document frequency of 0.
    """
    from pycocoevalcap.cider.cider import Cider

    if len(set(correct)) < 2:
        return np.full(len(generated), np.nan)
    references = {number: [_tokens(text)] for number, text in enumerate(correct)}
    candidates = {number: [_tokens(text)] for number, text in enumerate(generated)}
    _, scores = Cider().compute_score(references, candidates)
    return np.asarray(scores, np.float64)


def _tokens(text: str) -> str:
    return " ".join(_WORD.findall(text.lower()))


MEASURES: Mapping[str, Callable[[Sequence[str], Sequence[str]], Floats]] = {
    "bleu": bleu,
    "rouge_l": rouge_l,
    "cider": cider,
}
PACKAGES = {"bleu": "sacrebleu", "rouge_l": "rouge_score", "cider": "pycocoevalcap"}


def require(names: Sequence[str]) -> None:
    """Import the packages of some measures.

    Raises:
        ModuleNotFoundError: a package is not installed.
    """
    for name in names:
        importlib.import_module(PACKAGES[name])
