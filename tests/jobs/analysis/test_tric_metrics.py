"""Captions of TRIC ranked by vectors and by a judge, on four pictures by hand."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np
import pytest

from actors.ids import content_id
from jobs.analysis import tric_metrics
from jobs.analysis.tric_metrics import Judgement, Reranking, WordedCaptions, columns, statistics
from jobs.corpora.tric import Split
from jobs.errors import InputError
from jobs.metrics.metric import Metric
from tests.factories import TableInMemory, embedding_rows

CAPTIONS = {"1": "one", "2": "two", "3": "three"}
DAYS = (date(1894, 7, 13), date(1899, 1, 1), date(1900, 1, 1), date(1901, 1, 1))
SPLIT = Split(("a.png", "b.png", "c.png", "d.png"), DAYS, CAPTIONS, ("1", "2", "3", "1"))
A, B, C, D = (content_id(name) for name in SPLIT.pictures)
WORDED = [
    *((f"n{index}", "none", None, index) for index in "312"),
    *((f"{day}-{index}", "decade", day, index) for day in ("1890", "1900") for index in "231"),
]
BINS = {"year": 10, "words": 1, "characters": 5}


def by_dims(metrics: list[Metric]) -> dict[tuple[str, ...], tuple[Any, ...]]:
    return {(m.name, *m.dims.values()): (m.value, m.n, m.coverage) for m in metrics}


def worded(*vectors: tuple[float, float]) -> WordedCaptions:
    return WordedCaptions(["t1", "t2", "t3"], list(CAPTIONS), np.array(vectors, np.float16))


def test_captions_are_ranked_by_inner_product_and_ties_by_the_file() -> None:
    ranking = tric_metrics.rank(np.array([1, 0], np.float16), worded((0.5, 1), (1, 0), (0.5, -1)))
    assert ranking.positions.tolist() == [1, 0, 2]
    assert ranking.scores.tolist() == [1.0, 0.5, 0.5]


def test_pictures_without_a_vector_are_not_ranked_and_dates_choose_the_wording() -> None:
    vectors = {name: np.array([1, 0], np.float16) for name in (A, C)}
    captions = {
        ("none", ""): worded((1, 0), (0, 1), (0.5, 0)),
        ("decade", "1890"): worded((0, 1), (1, 0), (0.5, 0)),
        ("decade", "1900"): worded((0, 0), (0.5, 0), (1, 0)),
    }
    rankings = tric_metrics.rank_all(SPLIT, vectors, captions)
    ranked = {
        name: {p: of_item.positions.tolist() for p, of_item in by_picture.items()}
        for name, by_picture in rankings.items()
    }
    assert ranked == {"none": {0: [0, 2, 1], 2: [0, 2, 1]}, "decade": {0: [1, 2, 0], 2: [2, 1, 0]}}
    # right are the captions 1 and 3: of rank 1 and 2 without a date, of rank 3 and 1 with the decade
    metrics = by_dims(list(tric_metrics.ranking_metrics(SPLIT, captions, rankings)))
    assert metrics["random_mrr",] == (pytest.approx((1 + 1 / 2 + 1 / 3) / 3), 3, 1.0)
    assert metrics["mrr", "none"] == (pytest.approx(3 / 4), 2, 0.5)
    assert metrics["mrr@100", "decade"] == (pytest.approx(2 / 3), 2, 0.5)
    assert metrics["mrr", "none", "1890s"] == (1.0, 1, 0.5)
    assert metrics["mrr", "decade", "1890s"] == (pytest.approx(1 / 3), 1, 0.5)
    changes = [values for name, values in metrics.items() if name[1:] == ("none", "decade")]
    assert changes == [(pytest.approx(2 / 3 - 3 / 4), 2, 0.5)] * 2
    assert not [name for name in metrics if name[1:] == ("none", "none")], "no change from the first to itself"
    hidden = Split(SPLIT.pictures, DAYS, CAPTIONS, None)
    assert len(list(tric_metrics.ranking_metrics(hidden, captions, rankings))) == 2


def test_vectors_are_those_of_the_rows_although_failed_rows_have_none() -> None:
    rows = embedding_rows(["x", "y", "z"], "text", np.eye(3, 768, dtype=np.float32))
    rows.insert(1, {"item_id": "failed", "kind": "text", "embedding": None, "status": "error"})
    vectors = tric_metrics.read_vectors(TableInMemory("embeddings", rows), {"x", "z", "failed"})  # type: ignore[arg-type]
    assert {name: int(vector.argmax()) for name, vector in vectors.items()} == {"x": 0, "z": 2}


def captions_and_vectors(
    rows: Sequence[tuple[str, str, str | None, str]], *, without: str = ""
) -> tuple[TableInMemory, TableInMemory]:
    """Return the tables of captions (id, template, date, index), and of vectors, each along the axis of its number."""
    texts = [
        {"text_id": text, "role": "caption", "revision": template, "date": day, "source": index}
        for text, template, day, index in rows
    ]
    ids = [text for text, *_ in rows]
    vectors = embedding_rows(ids, "text", np.eye(len(ids), 768, dtype=np.float32))
    kept = [row for row in vectors if row["item_id"] != without]
    return TableInMemory("texts", texts), TableInMemory("embeddings", kept)


def test_captions_are_read_by_their_wording_in_the_order_of_the_split() -> None:
    read = tric_metrics.read_captions(SPLIT, *captions_and_vectors(WORDED))  # type: ignore[arg-type]
    ids = [text for text, *_ in WORDED]
    assert {wording: captions.text_ids for wording, captions in read.items()} == {
        ("none", ""): ["n1", "n2", "n3"],
        ("decade", "1890"): ["1890-1", "1890-2", "1890-3"],
        ("decade", "1900"): ["1900-1", "1900-2", "1900-3"],
    }
    for captions in read.values():
        assert captions.indices == ["1", "2", "3"]
        assert captions.vectors.argmax(axis=1).tolist() == [ids.index(name) for name in captions.text_ids]


def test_captions_that_do_not_fit_the_split_are_refused() -> None:
    more = [*WORDED, ("n9", "none", None, "9")]
    for tables, message in (
        (captions_and_vectors(WORDED[:-3]), r"^memory/texts: no captions worded for 1900 \(decade\)"),
        (captions_and_vectors(WORDED[:-1]), "^memory/texts: not the captions of this split"),
        (captions_and_vectors(more), "^memory/texts: not the captions of this split"),
        (captions_and_vectors(WORDED, without="n2"), "^memory/embeddings: 1 captions have no vector; .* memory/texts$"),
    ):
        with pytest.raises(InputError, match=message):
            tric_metrics.read_captions(SPLIT, *tables)  # type: ignore[arg-type]


def ratings(*rows: tuple[str, str, str, float | None], **columns: str) -> Any:
    """Return rows of (item, caption, condition, expected score)."""
    key = {"rubric": "caption_match", "question": "match", "rater": "m", "method": "closed", "order": ""}
    return TableInMemory("ratings", [
        {**key, "item_id": item, "target": target, "condition": condition, "expected": expected, "sample": number,
         "status": "ok", **columns}
        for number, (item, target, condition, expected) in enumerate(rows)
    ])  # fmt: skip


def test_samples_are_averaged_and_conditions_are_in_the_order_of_dates() -> None:
    source = ratings((A, "one", "other", 1), (A, "one", "day", 2), (A, "one", "none", 4), (A, "one", "none", 1))
    failed = ratings((A, "two", "none", None), status="refused")
    judgements = tric_metrics.read_judgements([source, failed])
    assert list(judgements) == [("m", "none"), ("m", "day"), ("m", "other")]
    assert judgements["m", "none"].scores == {A: {"one": 2.5}}
    assert judgements["m", "none"].asked == {A: {"one", "two"}}
    with pytest.raises(InputError, match="a rating without expected score"):
        tric_metrics.read_judgements([ratings((A, "one", "none", None))])


def judged(scores: Mapping[str, Mapping[str, float]], asked: Mapping[str, set[str]]) -> Judgement:
    return Judgement({name: dict(of_item) for name, of_item in scores.items()}, dict(asked))


def test_a_judges_order_is_before_the_others_and_needs_all_scores() -> None:
    ranked = {position: ["1", "2", "3"] for position in range(4)}
    judgement = judged(
        {A: {"two": 1.0, "three": 5.0}, B: {"one": 2.0, "three": 2.0}, C: {"three": 5.0}},
        {A: {"two", "three"}, B: {"one", "three"}, C: {"two", "three"}},
    )
    reranking = tric_metrics.rerank(SPLIT, ranked, judgement)
    assert reranking.ranked == {0: ["3", "2", "1"], 1: ["1", "3", "2"], 2: ["1", "2", "3"], 3: ["1", "2", "3"]}
    assert reranking.kept == {2, 3}


def test_changes_from_the_encoder_and_between_the_conditions_of_one_judge() -> None:
    before = {0: ["1", "2"], 1: ["1", "2"], 2: ["1", "2"]}  # of the right captions 1, 2, 3: ranks 1, 2 and none
    none, day = ({**before, 1: ["2", "1"]}, frozenset({0})), ({**before, 0: ["2", "1"]}, frozenset[int]())
    after = {
        ("m", "none"): Reranking(*none),
        ("m", "day"): Reranking(*day),
        ("other", "none"): Reranking(before, frozenset({0, 1, 2})),
    }
    metrics = by_dims(list(tric_metrics.reranking_metrics(SPLIT, before, after)))
    assert tric_metrics.ranks_of(SPLIT, before, [0, 1, 2]).tolist() == [1, 2, 0]
    assert metrics["mrr@100", "encoder"] == (pytest.approx(1.5 / 3), 3, 0.75)
    assert metrics["mrr@100", "judge", "m", "none"] == (pytest.approx(2 / 3), 3, 0.5)
    assert metrics["mrr@100", "judge", "m", "day"] == (pytest.approx(1 / 3), 3, 0.75)
    assert metrics["mrr@100", "judge", "other", "none"] == (pytest.approx(1.5 / 3), 3, 0.0)
    assert metrics["mrr@100", "1890s", "encoder"] == (0.75, 2, None)
    changes = {name[1:]: values[0] for name, values in metrics.items() if name[0] != "mrr@100"}
    assert changes == {
        ("m", "encoder", "none"): pytest.approx(0.5 / 3),
        ("m", "encoder", "day"): pytest.approx(-0.5 / 3),
        ("other", "encoder", "none"): 0.0,
        ("m", "none", "day"): pytest.approx(-1 / 3),
    }
    assert {values[1:] for name, values in metrics.items() if name[0] != "mrr@100"} == {(3, 0.75)}
    hidden = Split(SPLIT.pictures, DAYS, CAPTIONS, None)
    assert not list(tric_metrics.reranking_metrics(hidden, before, after))


def neighbors(*rows: tuple[str, int, str]) -> Any:
    return TableInMemory("neighbors", [{"query_id": q, "rank": rank, "item_id": item} for q, rank, item in rows])


def test_the_encoders_ranking_is_read_in_order_of_rank() -> None:
    texts: Any = TableInMemory("texts", [{"text_id": f"t{n}", "role": "caption", "source": str(n)} for n in (1, 2, 9)])
    source = neighbors((B, 2, "t1"), (A, 1, "t1"), (B, 1, "t2"))
    assert tric_metrics.best_captions(SPLIT, source, texts) == {0: ["1"], 1: ["2", "1"]}
    for row, message in ((("x", 1, "t1"), "x is not a picture of this split"), ((A, 1, "t9"), "t9 is not in memory")):
        with pytest.raises(InputError, match=message):
            tric_metrics.best_captions(SPLIT, neighbors(row), texts)
    with pytest.raises(InputError, match="no ranked picture"):
        tric_metrics.best_captions(SPLIT, neighbors(), texts)


def test_equal_scores_keep_the_order_of_the_file() -> None:
    vectors = np.array([[n % 3 / 4, 0.5] for n in range(60)], np.float16)
    names = [str(n) for n in range(60)]
    ranking = tric_metrics.rank(np.array([1, 0], np.float16), WordedCaptions(names, names, vectors))
    assert ranking.positions.tolist() == [*range(2, 60, 3), *range(1, 60, 3), *range(0, 60, 3)]
    assert ranking.scores.tolist() == [0.5] * 20 + [0.25] * 20 + [0] * 20


def split(*captions: str, pictures: int = 1) -> Split:
    names = tuple(f"{number}.jpg" for number in range(pictures))
    days = tuple(date(1900 + number, 5, 1) for number in range(pictures))
    return Split(names, days, {str(number): text for number, text in enumerate(captions)}, None)


FIRST, SECOND = split(" two  words\n", "", pictures=2), split("a\tb\nc")


def test_every_character_of_a_caption_counts() -> None:
    assert columns([FIRST, SECOND]) == {"year": [1900, 1901, 1900], "words": [2, 0, 3], "characters": [12, 0, 5]}


def test_shares_are_of_all_splits_and_unions_pool_their_numbers() -> None:
    metrics = list(statistics({"a": FIRST, "b": SECOND}, {"both": ["a", "b"]}, BINS))
    shares = {metric.dims["split"]: (metric.value, metric.n) for metric in metrics if metric.name == "share"}
    assert shares == {"a": (2 / 3, 2), "b": (1 / 3, 1), "both": (1.0, 3)}
    means = {(metric.dims["split"], metric.dims["column"]): metric.value for metric in metrics if metric.name == "mean"}
    assert (means["a", "words"], means["b", "words"], means["both", "words"]) == (1, 3, 5 / 3)
