"""Match the names that a vision-language model gives to a picture to a knowledge base -> table `links`, method `named`.

    remine generate input=R/images model=qwen2.5-vl-7b prompt=name_entity temperature=0 samples=1 out=R/names
    remine link names responses=R/names kb.path=R/kb out=R/links/named
    remine link evaluate ranked=R/links/named gold=gold.csv unlisted=wrong out=R/metrics/named

The baseline of CAIRE's entity linking (appendix A.1). A name is matched to lemmas and titles of all languages by its
words, ignoring case, accents and punctuation. Of a name that the knowledge base lacks, the longest parts are matched.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa

from actors import schemas
from actors.settings import RuntimeOnly
from actors.status import Status
from jobs.errors import check_least
from jobs.retrieval.lemma_index import LemmaIndex, phrase_hashes
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config import Writing
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.job_tables import plan_table
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.planning import summary
from jobs.runtime.process.console import say
from jobs.runtime.selection import exclusions
from jobs.store.files import locations
from jobs.store.object_rows import distinct_values, first_values, read_unit
from jobs.store.reading import TableSource, open_table
from jobs.store.runs.table_run import check_place, open_run
from jobs.store.table_plan import limited
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter
from jobs.tables import TABLES

METHOD = "named"
READ = (Status.OK, Status.TRUNCATED)  # statuses of responses with names
NOT_NAMED, NO_RESPONSE = "no name is in the knowledge base", "no response"  # filtered


@dataclass
class NamedKb:
    """The knowledge base."""

    path: str = MISSING  # the folder that remine kb wrote


@dataclass
class LinkNamesConfig(Writing):
    """Keys of `link names`."""

    responses: str = MISSING  # a table of responses about pictures (remine generate prompt=name_entity)
    kb: NamedKb = field(default_factory=NamedKb)
    k: int = 20  # nodes per picture
    names: int = 5  # number of lines of a response that are read as names
    longest: int = 6  # number of words of the longest name
    # the names of the first pictures only, for a trial run in a separate table; null: all
    limit: RuntimeOnly[int | None] = None


def execute(cfg: LinkNamesConfig) -> Plan | Manifest:
    """Run the job and return the manifest, or the plan with plan=true; see the module's docstring.

    Raises:
        InputError: a value is not allowed, or a table does not fit; nothing was written.
    """
    for name in ("k", "names", "longest"):
        check_least(name, getattr(cfg, name), 1)
    responses = open_table(cfg.responses, "responses", key="responses")
    nodes = open_table(locations.join(cfg.kb.path, "nodes"), "nodes", key="kb.path")
    excluded = exclusions.read_exclusions(cfg.exclusions)
    plan = plan_table(
        cfg,
        "links",
        [Unit(unit.name, (*unit.inputs, nodes.whole()), rows=unit.rows) for unit in responses.units()],
        {"responses": responses.identity, "nodes": nodes.identity},
        instead_of=["kb"],
        excluded=excluded,
        metadata={"method": METHOD, "model": responses.metadata.get("remine.model", "")},
    )
    plan = limited(plan, cfg.limit, noun="pictures", count=lambda unit: distinct_values(unit.inputs[0].uri, "item_id"))
    if cfg.plan:
        return summary.plan_of("link names", plan)
    check_place(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
    index = _index(cfg, islice(responses.by_object(["text"]), len(plan.units)), nodes)
    run = open_run(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
    exclusion_filter = exclusions.ExclusionFilter(excluded.marks)
    for task in run.todo:
        texts, answers = _answers(task.unit, exclusion_filter)
        links = {image: _links(image, parts, index, cfg) for image, parts in texts.items()}
        rows = [row for image in links for row in links[image]]
        with UnitWriter(run.target, task) as writer:
            # Answers become links: rows in and out are counted by picture, as in `link`.
            writer.counts.filtered = Counter(answers) + Counter({NOT_NAMED: sum(not rows for rows in links.values())})
            writer.counts.rows_in = len(rows) + writer.counts.filtered.total()
            writer.write(schemas.to_table(rows, TABLES["links"].schema()))
    return summary.closed("link names", run, excluded, exclusion_filter.matched)


def _index(cfg: LinkNamesConfig, responses: Iterable[pa.Table], nodes: TableSource) -> LemmaIndex:
    """Return the nodes that the responses name."""
    texts = (text for rows in responses for text in rows["text"].to_pylist() if text)
    index = LemmaIndex(nodes, phrase_hashes(texts, lines=cfg.names, longest=cfg.longest))
    hint = "" if index else f"; did {cfg.responses} come from prompt=name_entity, and do its languages fit?"
    say(f"link names: {len(index):,} names of the responses are lemmas or titles of kb.path={cfg.kb.path}{hint}")
    return index


def _answers(unit: Unit, exclusion_filter: exclusions.ExclusionFilter) -> tuple[dict[str, list[str]], Counter[str]]:
    """Return the texts of each picture's samples by image_id, and the numbers of pictures that are left out."""
    responses = read_unit(unit.inputs[0].uri, columns=["item_id", "sample", "text", "status"])
    rows = first_values(responses, "item_id", unit.limit).to_pylist()
    texts: dict[str, list[str]] = {row["item_id"]: [] for row in rows}
    for row in sorted(rows, key=lambda row: row["sample"]):
        if row["status"] in READ and row["text"]:
            texts[row["item_id"]].append(row["text"])
    excluded = {image for image in texts if exclusion_filter.hit(image)}
    named = {image: parts for image, parts in texts.items() if parts and image not in excluded}
    left_out = {"excluded": len(excluded), NO_RESPONSE: len(texts) - len(named) - len(excluded)}
    return named, Counter({reason: n for reason, n in left_out.items() if n})


def _links(image: str, texts: list[str], index: LemmaIndex, cfg: LinkNamesConfig) -> list[dict[str, Any]]:
    """Return the rows of a picture: the nodes in its first sample, then those only in later samples."""
    best: dict[str, Any] = {}
    for text in texts:
        for match in index.matches(text, lines=cfg.names, longest=cfg.longest):
            best.setdefault(match.node_id, match)
    return [
        {
            "image_id": image,
            "method": METHOD,
            "rank": rank,
            "node_id": match.node_id,
            "lemma": match.lemma,
            "score": match.share,
        }
        for rank, match in enumerate(list(best.values())[: cfg.k], 1)
    ]


JOB = cli.Job("link names", LinkNamesConfig, execute)
