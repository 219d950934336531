"""Have a language model propose rare concepts of sets of labels, and match them to articles -> `items`; then a CSV.

    remine concepts 'lists=[states_of_india,world_religions]' out=R/proxies
    remine generate input=R/proxies/items texts=R/proxies/texts model=qwen2.5-7b-text \\
        prompt=rare_concepts out=R/proposed
    remine concepts responses=R/proposed input_items=R/proxies/items kb.path=R/kb out=R/concepts

The specific set of CAIRE (section 4.1). The first command writes an item per set of labels, about which the second asks
the model. The third writes OUT/concepts.csv: one row per concept whose name is a lemma or title of an entity with an
article. Its columns are the labels of the set, the labels that the model assigns to the concept (`gold`), the entity
(`gold_node`), and an empty column `picture`. A person checks the labels and enters the file name of a picture in each
row that is to be used; remine items input=concepts.csv then makes the items to be judged.
"""

import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from actors.ids import content_id
from actors.quantities import quantity
from actors.status import Status
from jobs.errors import InputError
from jobs.items_from import concepts
from jobs.judging.targets import read_targets
from jobs.retrieval.lemma_index import LemmaIndex, words_of
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.job_tables import write_rows
from jobs.runtime.outcomes import Manifest
from jobs.store.files import locations
from jobs.store.hashing import hash_texts
from jobs.store.reading import TableSource, open_table

SHEET = "concepts.csv"
READ = (Status.OK, Status.TRUNCATED)  # statuses of responses with concepts


@dataclass
class ConceptsKb:
    """The knowledge base whose entities are concepts."""

    path: str | None = None  # the folder that remine kb wrote
    language: str = "en"  # preferred language of the titles


@dataclass
class ConceptsConfig:
    """Keys of `concepts`."""

    out: str = MISSING  # a folder: for the tables items and texts, or for concepts.csv
    lists: list[str] = field(default_factory=list)  # sets of labels: names of conf/target_lists, or files
    responses: str | None = None  # the model's proposals (remine generate prompt=rare_concepts)
    input_items: str | None = None  # the items that it was asked about
    kb: ConceptsKb = field(default_factory=ConceptsKb)


def execute(cfg: ConceptsConfig) -> Manifest:
    """Run the job and return the manifests by table, none for the CSV; see the module's docstring.

    Raises:
        InputError: a key is missing or a value is not allowed; nothing was written.
    """
    if cfg.lists:
        if cfg.responses or cfg.input_items:
            raise InputError("lists= writes what a model is asked about; leave out responses= and input_items=")
        return write_proxies(cfg)
    if cfg.responses is None or cfg.input_items is None or cfg.kb.path is None:
        why = "required; or responses=, input_items= and kb.path= to read a model's proposals"
        raise InputError(why, key="lists", value="")
    responses, items = (
        open_table(cfg.responses, "responses", key="responses"),
        open_table(cfg.input_items, "items", key="input_items"),
    )
    return write_sheet(
        cfg, responses, items, nodes=open_table(locations.join(cfg.kb.path, "nodes"), "nodes", key="kb.path")
    )


def write_proxies(cfg: ConceptsConfig) -> Manifest:
    """Write an item with its texts for each set of labels; return the manifests."""
    labels = {name.rsplit("/", 1)[-1].removesuffix(".txt"): list(read_targets(name) or ()) for name in cfg.lists}
    if len(labels) < len(cfg.lists):
        raise InputError("two lists have the same name; list each once", key="lists", value=",".join(cfg.lists))
    rows = [concepts.proxy_item(name, entries) for name, entries in labels.items()]
    tables = {"texts": [text for _, texts in rows for text in texts], "items": [item for item, _ in rows]}
    identity = {"lists": content_id(*(f"{name}:{','.join(entries)}" for name, entries in labels.items()))}
    manifests = {name: write_rows(cfg, name, of_table, identity, below=name) for name, of_table in tables.items()}
    of_labels = quantity(sum(map(len, labels.values())), "label")
    line = f"concepts: {locations.absolute(cfg.out)}\n  {quantity(len(rows), 'set')} of {of_labels}"
    return Manifest(manifests, [line])


def write_sheet(cfg: ConceptsConfig, responses: TableSource, items: TableSource, *, nodes: TableSource) -> Manifest:
    """Write the CSV of concepts.

    Raises:
        InputError: a person has edited the CSV, or no proposal has an article.
    """
    sheet = locations.join(locations.absolute(cfg.out), SHEET)
    concepts.check_not_completed(sheet)
    texts = _texts_by_item(responses)
    names = {
        " ".join(words_of(proposal.concept))
        for of_item in texts.values()
        for text in of_item
        for proposal in concepts.proposals(text)
        if proposal
    }
    index = LemmaIndex(nodes, hash_texts(sorted(names)))
    entities = {name: index.nodes(name) for name in names}
    titles = _titles(nodes, {entry.node_id for of_name in entities.values() for entry in of_name}, cfg.kb.language)
    rows, left_out = [], Counter[str]()
    for item in (row for batch in items.batches(["item_id", "targets", "attributes"]) for row in batch.to_pylist()):
        labels = item["targets"] or ()
        proxy = dict(item["attributes"] or ()).get(concepts.PROXY, "")
        kept, others = concepts.concepts_of(texts.get(item["item_id"], ()), labels, entities, titles)
        rows += [concepts.sheet_row(concept, proxy, labels) for concept in kept]
        left_out += others
    reasons = [f"{n:,} {reason}" for reason, n in sorted(left_out.items())]
    if not rows:
        raise InputError(f"no concept can be used ({', '.join(reasons) or 'no responses'})", key="responses")
    locations.replace(sheet, concepts.as_csv(rows))
    without = ", ".join(reasons) or "none"
    line = f"concepts: {sheet}\n  {quantity(len(rows), 'concept')} with an article; left out: {without}"
    return Manifest({}, [line])


def _texts_by_item(responses: TableSource) -> dict[str, list[str]]:
    texts: dict[str, list[str]] = defaultdict(list)
    for batch in responses.batches(["item_id", "sample", "text", "status"]):
        for row in sorted(batch.to_pylist(), key=lambda row: (row["item_id"], row["sample"])):
            if row["status"] in READ and row["text"]:
                texts[row["item_id"]].append(row["text"])
    return texts


def _titles(nodes: TableSource, wanted: set[str], language: str) -> dict[str, str]:
    """Return the titles of the nodes' articles, by node; nodes without an article are left out."""
    titles = {}
    for batch in nodes.batches(["node_id", "titles", "lemmas", "article_text_ids"]):
        for row in batch.to_pylist():
            if row["node_id"] in wanted and (row["titles"] or row["article_text_ids"]):
                by_language = dict(row["titles"] or ())
                lemmas = [name for _, names in row["lemmas"] or () for name in names or ()]
                title = by_language.get(language) or next(iter(by_language.values()), None)
                titles[row["node_id"]] = title or (lemmas[0] if lemmas else row["node_id"])
    return titles


JOB = cli.Job("concepts", ConceptsConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("concepts"))
