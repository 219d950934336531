"""How uncertain judges are about each item: by what the draw of items for people can be steered (`draw.method`)."""

from collections import defaultdict
from collections.abc import Collection, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from actors.status import Status
from jobs.errors import InputError
from jobs.store.hashing import Hashes, hash_texts, places_in
from jobs.store.reading import TableSource
from jobs.tables import HUMAN

Floats = NDArray[np.float64]
COLUMNS = ("item_id", "target", "rubric", "question", "method", "status", "value", "answers", "probabilities")
_TARGETS = np.uint64(0x9E3779B97F4A7C15)  # spreads the hashes of targets over those of items


class JudgeUncertainty:
    """The uncertainty of judges about each item, by the hash of its id.

    The distributions of all judges over the answers to a question are averaged, so that judges who disagree count as
    uncertain. The uncertainty is the standard deviation of the average as a share of the scale or, without a scale, the
    root of the probability that two answers differ; of several questions and targets, the mean.

    Attributes:
        hashes: uint64[items], ascending; `values`: float64[items], in [0, 1].
    """

    def __init__(self, hashes: Hashes, values: Floats) -> None:
        self.hashes, self.values = hashes, values

    def of(self, items: Hashes) -> Floats:
        """Return float64[items], the mean of all items for those that no judge rated."""
        place = places_in(self.hashes, items)
        return np.where(place >= 0, self.values[place], self.values.mean())


def read_uncertainty(ratings: Sequence[TableSource], *, rubric: str, questions: Collection[str]) -> JudgeUncertainty:
    """Return the uncertainty of the judges, in memory that grows by 20 bytes per probability of a rating.

    Args:
        rubric: name of the rubric whose ratings count; `questions`: its questions, all if empty.

    Raises:
        InputError: no judge has rated an item by this rubric.
    """
    parts: dict[str, list[tuple[Hashes, Hashes, list[str], NDArray[np.int64], Floats]]] = defaultdict(list)
    for source in ratings:
        for batch in source.batches(COLUMNS):
            is_judge = pc.and_(pc.equal(batch["rubric"], rubric), pc.not_equal(batch["method"], HUMAN))
            ok = batch.filter(pc.and_(is_judge, pc.equal(batch["status"], Status.OK.value)))
            for question in pc.unique(ok["question"]).to_pylist():
                if not questions or question in questions:
                    parts[question].append(_answers(ok.filter(pc.equal(ok["question"], question))))
    if not parts:
        raise InputError(
            f"no judge has rated an item by rubric {rubric}; name tables that `judge` wrote", key="ratings"
        )
    pairs = [_of_question(of_question) for of_question in parts.values()]
    items, place = np.unique(np.concatenate([item for item, _ in pairs]), return_inverse=True)
    sums = np.bincount(place, np.concatenate([deviation for _, deviation in pairs]))
    return JudgeUncertainty(items, sums / np.bincount(place))


def _answers(rows: pa.Table) -> tuple[Hashes, Hashes, list[str], NDArray[np.int64], Floats]:
    """Return per probability of an answer: item, item and target, all answers, the answer's code, the probability.

    A rating without probabilities gives its value the probability 1.
    """
    plain = pc.fill_null(pc.equal(pc.list_value_length(rows["probabilities"]), 0), True)
    weighted = rows.filter(pc.invert(plain)).combine_chunks()
    single = rows.filter(pc.and_(plain, pc.is_valid(rows["value"])))
    n = pc.list_value_length(weighted["probabilities"]).to_numpy(zero_copy_only=False).astype(np.int64)
    item = np.concatenate([np.repeat(hash_texts(weighted["item_id"]), n), hash_texts(single["item_id"])])
    target = np.concatenate([np.repeat(hash_texts(weighted["target"]), n), hash_texts(single["target"])])
    texts = pa.chunked_array([*pc.list_flatten(weighted["answers"]).cast(pa.string()).chunks,
                              *single["value"].cast(pa.string()).chunks], pa.string())  # fmt: skip
    encoded = texts.combine_chunks().dictionary_encode()
    share = pc.list_flatten(weighted["probabilities"]).to_numpy(zero_copy_only=False)
    code = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return item, item + target * _TARGETS, encoded.dictionary.to_pylist(), code, np.append(share, np.ones(len(single)))


def _of_question(
    parts: Sequence[tuple[Hashes, Hashes, list[str], NDArray[np.int64], Floats]],
) -> tuple[Hashes, Floats]:
    """Return uint64[pairs], the item of each pair of item and target, and float64[pairs], the judges' uncertainty."""
    answers = sorted({answer for _, _, names, _, _ in parts for answer in names})
    recoded = [np.array([answers.index(name) for name in names], np.int64)[code] for _, _, names, code, _ in parts]
    item, pair, share = (np.concatenate([part[place] for part in parts]) for place in (0, 1, 4))
    _, first, place = np.unique(pair, return_index=True, return_inverse=True)
    table = np.bincount(place * len(answers) + np.concatenate(recoded), share, len(first) * len(answers))
    table = table.reshape(len(first), len(answers))
    table = table / table.sum(1, keepdims=True)
    scores = _numbers(answers)
    if scores is None:
        return item[first], np.sqrt(np.maximum(1 - (table**2).sum(1), 0))
    scores = (scores - scores.min()) / max(float(np.ptp(scores)), 1e-12)
    return item[first], np.sqrt(np.maximum(table @ scores**2 - (table @ scores) ** 2, 0))


def _numbers(answers: Sequence[str]) -> Floats | None:
    """Return the answers as numbers; None if one is not a number."""
    try:
        return np.array([float(answer) for answer in answers])
    except ValueError:
        return None
