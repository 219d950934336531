"""The tables and figures of TRIC, from the metrics that tric_statistics, tric_rank and tric_rerank computed."""

from collections.abc import Iterator

from jobs.papers.model import PaperPart
from jobs.papers.study import Study
from jobs.papers.tric import rankings, splits


def arrange(study: Study) -> Iterator[PaperPart]:
    """Yield the tables and figures that the computed metrics allow, in the order of the paper."""
    if study.computed.find("instances"):
        yield splits.table_1(study)
        yield splits.statistics(study)
        yield from splits.figures(study)
    if study.computed.find("mrr@100", ranking="encoder") or study.computed.find("mrr"):
        yield rankings.table_2(study)
    if study.computed.find("mrr@100", ranking="encoder"):
        yield rankings.reranking(study)
