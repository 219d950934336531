"""Mean reciprocal ranks: of encoders (table II) and before and after re-ranking by a judge (ours)."""

from jobs.analysis.metric_tables import TABLE
from jobs.metrics.metric import Metric
from jobs.papers.model import PaperCell, PaperRow, PaperTable
from jobs.papers.study import Study

WORDINGS = {"none": "no date", "year": "year", "decade": "decade", "day": "day"}


def table_2(study: Study) -> PaperTable:
    """Return the MRR by encoder and wording of the date, next to the paper's MRR on test-A and test-B."""
    printed = study.printed("table_2")
    rows, used = [], set()
    for metric in study.computed.find("mrr"):
        if "template" not in metric.dims or "decade" in metric.dims:
            continue
        encoder, template = metric.dims[TABLE], metric.dims["template"]
        name = study.name_in_paper(encoder) or encoder
        used.add(name)
        change = _one(study, "mrr_change", **{TABLE: encoder, "second": template})
        in_paper = [printed.at(name, split) if template == "none" else None for split in ("test-A", "test-B")]
        rows.append(
            PaperRow((encoder, WORDINGS.get(template, template)), (
                PaperCell(metric, unit="number"),
                PaperCell(change, unit="number"),
                *(PaperCell(printed=number, unit="number") for number in in_paper),
            ))
        )  # fmt: skip
    random = study.computed.find("random_mrr")
    if random:
        used.add("random baseline")
        cells = [
            PaperCell(printed=printed.at("random baseline", split), unit="number") for split in ("test-A", "test-B")
        ]
        rows.append(PaperRow(("random order", ""), (PaperCell(random[0], unit="number"), PaperCell(), *cells)))
    for name in printed.rows:
        if name not in used:
            cells = [PaperCell(printed=printed.at(name, split), unit="number") for split in ("test-A", "test-B")]
            rows.append(PaperRow((name, ""), (PaperCell(), PaperCell(), *cells)))
    return PaperTable(
        name="table_2",
        title="Mean reciprocal rank of encoders",
        citation="TRIC, table II",
        row_headers=("Encoder", "Date in the caption"),
        columns=(("This split", "MRR"), ("This split", "change from no date"), ("test-A", "MRR"), ("test-B", "MRR")),
        rows=tuple(rows),
        notes=(
            "n counts ranked pictures. Pictures without a vector, such as unreadable ones, are left out (coverage); "
            "for them, out.tsv has the captions in the order of the file, which the challenge counts.",
            "The paper's numbers are for other splits; its encoders see no date.",
        ),
    )


def reranking(study: Study) -> PaperTable:
    """Return the MRR cut at 100 of the encoder's ranking and of each judge's, by wording of the date."""
    rows = [
        PaperRow(("encoder", "", ""), (PaperCell(metric, unit="number"), PaperCell(), PaperCell()))
        for metric in study.computed.find("mrr@100", ranking="encoder")
        if "decade" not in metric.dims
    ]
    for metric in study.computed.find("mrr@100", ranking="judge"):
        if "decade" in metric.dims:
            continue
        rater, condition, table = metric.dims["rater"], metric.dims["condition"], metric.dims[TABLE]
        at = {TABLE: table, "rater": rater, "second": condition}
        cells = (
            PaperCell(metric, unit="number"),
            PaperCell(_one(study, "mrr_change@100", first="encoder", **at), unit="number"),
            PaperCell(_one(study, "mrr_change@100", first="none", **at), unit="number"),
        )
        rows.append(PaperRow((table, rater, WORDINGS.get(condition, condition)), cells))
    return PaperTable(
        name="reranking",
        title="Mean reciprocal rank, cut at 100, before and after re-ranking by a judge",
        citation="not in the paper",
        row_headers=("Ranking", "Judge", "Date in the prompt"),
        columns=(("MRR",), ("change from the encoder",), ("change from no date",)),
        rows=tuple(rows),
        notes=("Changes are paired by picture; n counts pictures.",),
    )


def _one(study: Study, name: str, **dims: str) -> Metric | None:
    metrics = [metric for metric in study.computed.find(name, **dims) if "decade" not in metric.dims]
    return metrics[0] if metrics else None
