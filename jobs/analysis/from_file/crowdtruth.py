"""CrowdTruth 2.0 of the judgements of a file."""

from collections import Counter

import numpy as np

from jobs.analysis.from_file.columns import check_named, read_rows
from jobs.analysis.from_file.config import AnalyzeConfig
from jobs.analysis.from_file.file_analysis import FileAnalysis
from jobs.errors import InputError
from jobs.metrics.crowdtruth import CrowdTruthTask
from jobs.metrics.question import MAX_LINES
from jobs.runtime.process.console import say
from jobs.runtime.selection.exclusions import ExclusionFilter


def crowdtruth(
    cfg: AnalyzeConfig, uri: str, columns: dict[str, list[str]], exclusion_filter: ExclusionFilter
) -> FileAnalysis:
    """Return CrowdTruth metrics, by the last judgement if a worker judged a unit several times (as in the
    reference)."""
    judgements: dict[tuple[str, str], frozenset[str]] = {}
    asked_of_unit, asked_of_worker = Counter[str](), Counter[str]()
    for batch in read_rows(cfg, uri, columns, exclusion_filter):
        check_named(uri, batch, ("item", "rater"))
        cells = zip(batch["item"].to_pylist(), batch["rater"].to_pylist(), batch["value"].to_pylist(), strict=True)
        for unit, worker, cell in cells:
            asked_of_unit[unit] += 1
            asked_of_worker[worker] += 1
            parts = cell.split(cfg.separator) if cell and cfg.separator else [cell or ""]
            picked = frozenset(part.strip() for part in parts if part.strip())
            if picked or cfg.empty:
                judgements[unit, worker] = picked or frozenset([cfg.empty or ""])
    occur = sorted({annotation for picked in judgements.values() for annotation in picked})
    closed = cfg.annotations or occur
    if unexpected := [annotation for annotation in occur if annotation not in closed]:
        raise InputError(f"annotation {unexpected[0]!r} is not in annotations={list(closed)}; add it there", place=uri)
    if len(occur) > MAX_LINES:
        raise InputError(f"{len(occur)} different annotations, more than {MAX_LINES}: not a closed task", place=uri)
    asked = asked_of_worker.total()
    if left := asked - len(judgements):
        say(f"{left} of {asked} judgements do not count: they are empty or repeated by the same worker")
    units, workers = sorted(asked_of_unit), sorted(asked_of_worker)
    of_unit, of_worker, position_of = (
        {name: code for code, name in enumerate(names)} for names in (units, workers, closed)
    )
    vectors = np.zeros((len(judgements), len(closed)))
    for line, picked in enumerate(judgements.values()):
        vectors[line, [position_of[annotation] for annotation in picked]] = 1
    task = CrowdTruthTask(
        unit=np.array([of_unit[u] for u, _ in judgements], np.int64),
        worker=np.array([of_worker[w] for _, w in judgements], np.int64),
        vectors=vectors,
        units=units,
        workers=workers,
        annotations=closed,
        asked_of_unit=np.array([asked_of_unit[u] for u in units], np.int64),
        asked_of_worker=np.array([asked_of_worker[w] for w in workers], np.int64),
    )
    return FileAnalysis(list(task.metrics(stop=cfg.metrics.stop)))
