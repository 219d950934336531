"""Read a knowledge base -> tables `nodes`, `texts` (three of them) and `node_images` below one folder.

    python -m jobs.kb knowledge_base=wordnet knowledge_base.path=wordnet.parquet out=R/kb
    python -m jobs.kb knowledge_base=babelnet knowledge_base.path='babelnet/*.tsv' out=R/kb

Writes R/kb/nodes, R/kb/lemmas, R/kb/glosses, R/kb/articles and R/kb/node_images. Each of the three tables of texts
is embedded (jobs.embed) and searched (jobs.retrieve) by itself: CAIRE's three indices (A.3). Articles are cut into
windows that a text tower can read. The column `source` of a text is its node.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from actors.ids import content_id
from jobs.corpora.knowledge_base import (
    Bad,
    KnowledgeBaseConfig,
    NodeEntry,
    entries,
    find_files,
    image_id,
    text_id,
    windows,
)
from jobs.runtime import cli, lifecycle, summary
from jobs.runtime.config import Common, plain
from jobs.runtime.console import say
from jobs.runtime.progress import Reporter
from jobs.runtime.resources import demands
from jobs.store import locations
from jobs.store.run import TablePlan, open_run
from jobs.store.units import unit_of_file
from jobs.store.writer import Reject, UnitTask, UnitWriter
from jobs.tables import TABLES

ROWS_AT_A_TIME = 10_000
PARTS = {"nodes": "nodes", "lemmas": "texts", "glosses": "texts", "articles": "texts", "node_images": "node_images"}


@dataclass
class KbConfig(Common):
    """Keys of `kb`."""

    knowledge_base: KnowledgeBaseConfig = field(default_factory=KnowledgeBaseConfig)


def execute(cfg: KbConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the manifests by part, None with plan=true."""
    files = find_files(cfg.knowledge_base)
    source = plain(cfg.knowledge_base)
    plans = {
        part: TablePlan(
            out=locations.join(locations.absolute(cfg.out), part),
            table=table,
            identity={"part": part, "knowledge_base": {k: v for k, v in source.items() if k != "path"}},
            units=[unit_of_file(f) for f in files],
            config=plain(cfg),
            metadata={"knowledge_base": cfg.knowledge_base.name},
            derived=False,
        )
        for part, table in PARTS.items()
    }
    needs = demands(cfg.resources, ["kb"], streamed=False)
    if cfg.plan:
        for plan in plans.values():
            summary.show_plan("kb", plan, needs)
        return None
    lifecycle.ready(cfg, list(plans.values()), needs)
    from jobs.runtime import stages

    manifests = {}
    for part, plan in plans.items():
        run = open_run(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
        stage = stages.Stage("kb", ReadUnit, {"part": part, "config": cfg.knowledge_base})
        stages.process(run, name=f"kb {part}", stage=stage, resources=cfg.resources, total=None, counted="rows")
        manifests[part] = run.finish()
        summary.show_result(f"kb {part}", manifests[part], run)
    _say_what_is_there(manifests)
    return manifests


def _say_what_is_there(manifests: dict[str, Any]) -> None:
    made = {part: manifest["counts"]["rows_out"] for part, manifest in manifests.items()}
    say("kb: " + ", ".join(f"{n:,} {part.replace('_', ' ')}" for part, n in made.items()))


class ReadUnit:
    """Reads one file of a knowledge base and writes one part of it."""

    def __init__(self, *, part: str, config: KnowledgeBaseConfig) -> None:
        self._part, self._config = part, config
        self._schema = TABLES[PARTS[part]].schema()

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        uri = task.unit.inputs[0].uri

        def whole() -> Iterator[NodeEntry]:
            for entry in entries(uri, self._config):
                if isinstance(entry, Bad):
                    writer.reject(Reject(uri, entry.row, entry.reason, entry.message))
                else:
                    yield entry

        made = self._nodes(whole(), writer) if self._part == "nodes" else self._rows(whole(), writer)
        held: list[dict[str, Any]] = []
        for row in made:
            held.append(row)
            if len(held) == ROWS_AT_A_TIME:
                self._write(writer, held)
                report.add(len(held))
                held.clear()
        self._write(writer, held)
        report.add(len(held))
        counts = writer.counts  # what came in: rows for nodes; the texts or pictures that the rows name for the others
        counts.rows_in = counts.rows_out + sum(counts.filtered.values()) + sum(counts.rejected.values())

    def _write(self, writer: UnitWriter, rows: list[dict[str, Any]]) -> None:
        if rows:
            writer.write(pa.Table.from_pylist(rows, schema=self._schema))

    def _nodes(self, of: Iterator[NodeEntry], writer: UnitWriter) -> Iterator[dict[str, Any]]:
        rows = 0

        def counted() -> Iterator[NodeEntry]:
            nonlocal rows
            for entry in of:
                rows += 1
                yield entry

        made = nodes(counted(), self._config)
        writer.counts.filtered["same_node"] = rows - len(made)
        return iter(made)

    def _rows(self, of: Iterator[NodeEntry], writer: UnitWriter) -> Iterator[dict[str, Any]]:
        """Each row of the part once, in order of appearance."""
        key = "text_id" if PARTS[self._part] == "texts" else None
        make: Callable[[NodeEntry, KnowledgeBaseConfig], Iterator[dict[str, Any]]] = _MAKERS[self._part]
        seen: set[bytes] = set()  # 16 bytes a row, that a node named in two rows does not write a text twice
        for entry in of:
            for row in make(entry, self._config):
                name = bytes.fromhex(row[key] if key else content_id(row["node_id"], row["image_id"]))
                if name in seen:
                    writer.counts.filtered["named_before"] += 1
                else:
                    seen.add(name)
                    yield row


def nodes(of: Iterator[NodeEntry], config: KnowledgeBaseConfig) -> list[dict[str, Any]]:
    """Rows of the table `nodes`: the rows of one node in a file put together, in order of first appearance."""
    lemmas: dict[str, dict[str, dict[str, None]]] = {}
    glosses: dict[str, dict[str, str]] = {}
    article: dict[str, str] = {}
    for entry in of:
        names = lemmas.setdefault(entry.node_id, {})
        if entry.lemmas:
            names.setdefault(entry.language, {}).update(dict.fromkeys(entry.lemmas))
        if entry.gloss:
            glosses.setdefault(entry.node_id, {}).setdefault(entry.language, entry.gloss)
        if entry.article:
            first = windows(entry.article, config)[0]
            article.setdefault(entry.node_id, text_id("article", entry.node_id, entry.language, first))
    return [
        {
            "node_id": node,
            "lemmas": [(language, list(of_language)) for language, of_language in names.items()],
            "glosses": list(glosses.get(node, {}).items()),
            "article_text_id": article.get(node),
        }
        for node, names in lemmas.items()
    ]


def _lemmas(entry: NodeEntry, _: KnowledgeBaseConfig) -> Iterator[dict[str, Any]]:
    for lemma in entry.lemmas:
        yield _text("lemma", entry, lemma)


def _glosses(entry: NodeEntry, _: KnowledgeBaseConfig) -> Iterator[dict[str, Any]]:
    if entry.gloss:
        yield _text("gloss", entry, entry.gloss)


def _articles(entry: NodeEntry, config: KnowledgeBaseConfig) -> Iterator[dict[str, Any]]:
    for window in windows(entry.article, config):
        yield _text("article", entry, window)


def _node_images(entry: NodeEntry, _: KnowledgeBaseConfig) -> Iterator[dict[str, Any]]:
    for name in entry.images:
        yield {"node_id": entry.node_id, "image_id": image_id(name)}


def _text(role: str, entry: NodeEntry, text: str) -> dict[str, Any]:
    return {
        "text_id": text_id(role, entry.node_id, entry.language, text),
        "role": role,
        "language": entry.language,
        "date": None,
        "source": entry.node_id,
        "revision": None,
        "text": text,
    }


_MAKERS = {"lemmas": _lemmas, "glosses": _glosses, "articles": _articles, "node_images": _node_images}
JOB = cli.Job("kb", KbConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("kb"))
