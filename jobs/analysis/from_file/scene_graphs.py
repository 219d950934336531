"""Scene graphs (DSG): a model's answers in one file, people's ratings of the pictures in another."""

from collections import defaultdict

import numpy as np
import pyarrow.compute as pc

from jobs.analysis.from_file.columns import as_numbers, check_named, named_columns, read_rows, without_excluded
from jobs.analysis.from_file.config import AnalyzeConfig
from jobs.analysis.from_file.file_analysis import FileAnalysis
from jobs.corpora.ratings_file import batches, column_names, select_columns
from jobs.errors import InputError
from jobs.metrics import dsg
from jobs.runtime.process.console import say
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.files import locations


def scene_graphs(
    cfg: AnalyzeConfig, uri: str, columns: dict[str, list[str]], exclusion_filter: ExclusionFilter
) -> FileAnalysis:
    """Return DSG metrics of the answers in the file, and their correlation with people's ratings if there are any."""
    pictures: dict[str, dict[str, dsg.DsgQuestion]] = defaultdict(dict)
    for batch in read_rows(cfg, uri, columns, exclusion_filter):
        check_named(uri, batch, ("item", "question"))
        for line in batch.to_pylist():
            name = dsg.id_of(line["question"])
            if name in pictures[line["item"]]:
                raise InputError(
                    f"duplicate question {name!r} of picture {line['item']!r}; "
                    "select one model's rows with keep_rows.COLUMN=, or name more columns with columns.item=",
                    place=uri,
                )
            pictures[line["item"]][name] = dsg.DsgQuestion(
                question=name,
                parents=dsg.parents_of(line.get("parents")),
                valid=_is_valid(uri, line.get("valid")),
                answer=line["value"],
            )
    if not pictures:
        raise InputError(f"{uri}: the file has no questions" + (" that keep_rows= keeps" if cfg.keep_rows else ""))
    graphs = pictures.values()
    unknown = sorted({p for graph in graphs for q in graph.values() for p in q.parents if p not in graph})
    if unknown:
        say(f"{len(unknown)} parents are ignored: they are not questions of their picture, such as {unknown[0]!r}")
    people = _people(cfg, exclusion_filter) if cfg.people else {}
    if people:
        if not people.keys() & pictures.keys():
            example = next(iter(people)), next(iter(pictures))
            raise InputError(
                f"people= and input= have no picture in common: people= has {example[0]!r}, input= has {example[1]!r}"
            )
        pictures = {name: graph for name, graph in pictures.items() if name in people}
    graphs_of = {name: list(graph.values()) for name, graph in pictures.items()}
    return FileAnalysis(list(dsg.dsg_metrics(graphs_of, people)))


def _is_valid(uri: str, word: str | None) -> bool:
    plain = dsg.id_of((word or "yes").casefold())
    if plain in dsg.YES | {"valid", "t"}:
        return True
    if plain in dsg.NO | {"invalid", "f"}:
        return False
    raise InputError(f"columns.valid has the text {word!r}; must be yes or no", place=uri)


def _people(cfg: AnalyzeConfig, exclusion_filter: ExclusionFilter) -> dict[str, float]:
    """Return people's mean rating of each picture."""
    uri = locations.find(cfg.people or "")[0].uri
    scores_of: dict[str, list[float]] = defaultdict(list)
    available = column_names(uri, encoding=cfg.encoding)
    names = {key: named_columns(getattr(cfg.people_columns, key), available) for key in ("item", "value")}
    for batch in batches(uri, [*names["item"], *names["value"]], encoding=cfg.encoding):
        rows = select_columns(uri, without_excluded(batch, names["item"], exclusion_filter), names, {})
        scores = as_numbers(rows["value"])
        words = rows["value"].filter(pc.and_(pc.is_valid(rows["value"]), pc.is_null(scores)))
        if len(words):
            raise InputError(f"people_columns.value has the text {words[0].as_py()!r}; must be numbers", place=uri)
        for item, score in zip(rows["item"].to_pylist(), scores.to_pylist(), strict=True):
            if item is not None and score is not None:
                scores_of[item].append(score)
    return {item: float(np.mean(scores)) for item, scores in scores_of.items()}
