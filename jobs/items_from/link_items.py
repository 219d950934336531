"""items links=LINKS: linked pictures with an article, titles of the best entities, the gold article, or nothing.

The rows of the links and the knowledge base that the run needs are copied to a spool once; each unit then reads only
the rows of its pictures.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.errors import InputError, check_choice, check_least
from jobs.items_from import link_contexts
from jobs.items_from.items_config import ItemsConfig, LinksKeys
from jobs.items_from.items_output import ITEMS, ItemsPlan, UnitRows, rows_of
from jobs.items_from.kept_rows import KeptRows, column_keys, value_keys
from jobs.items_from.link_contexts import CONTEXTS, NO_CONTEXT, NO_GOLD, NO_LINK, TALLY, Context
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import ExclusionFilter, Exclusions
from jobs.store.files import locations
from jobs.store.files.objects import CompactList, Object
from jobs.store.files.spool import Spool
from jobs.store.hashing import Hashes, hash_texts
from jobs.store.identity import identity_of
from jobs.store.object_rows import read_unit
from jobs.store.pieces import FROM, NUMBER, PIECES, TO, UNCUT, UnitPieces, begun_cuts, piece_of, ranges
from jobs.store.reading import TableSource, open_table
from jobs.store.units import Unit
from jobs.tables import TABLES


@contextmanager
def link_plan(cfg: ItemsConfig, excluded: Exclusions) -> Iterator[ItemsPlan]:
    """Check the keys and tables, copy what the units need, and yield what to write while the copy exists.

    Raises:
        InputError: a value is not allowed, a table is missing or does not fit, or the knowledge base has none of the
            linked entities.
    """
    _check(cfg)
    tables = _open(cfg)
    base = tables.get("items") or tables["links"]
    _check_texts(cfg, base)
    inputs = tuple(table.whole() for name, table in tables.items() if table is not base)
    entries: dict[str, Any] = {"unit_rows": cfg.unit_rows, **{name: table.identity for name, table in tables.items()}}
    if cfg.context != NO_CONTEXT:
        entries["language"] = cfg.kb.language
    if cfg.context == "titles":
        entries["k"] = cfg.k
    if cfg.context == "gold":
        entries["gold_node"] = cfg.gold_node
    begun = begun_cuts(locations.join(cfg.out, ITEMS), overwrite=cfg.overwrite)
    with Spool("items") as folder:
        reader = None if cfg.plan else _UnitReader(cfg, tables, base, folder.path, ExclusionFilter(excluded.marks))
        yield ItemsPlan(
            units=linked_units(base, inputs, cfg.unit_rows, begun),
            identity=identity_of(cfg, entries, base=LinksKeys, instead_of=["kb", "k", "gold_node"]),
            read=lambda unit: reader.read(unit) if reader else UnitRows({}, 0),
            derived=True,
            condition=cfg.condition or cfg.context,
        )


class _UnitReader:
    """Reader of units, which first copies the rows of links and knowledge base that all of them need.

    Raises:
        InputError: the knowledge base has no entity of the links, or of the items.
    """

    def __init__(
        self,
        cfg: ItemsConfig,
        tables: Mapping[str, TableSource],
        base: TableSource,
        folder: Path,
        exclusion_filter: ExclusionFilter,
    ) -> None:
        self._cfg, self._base, self._exclusion_filter = cfg, base, exclusion_filter
        self._links = self._nodes = self._articles = self._texts = None
        if "texts" in tables:
            all_columns = list(TABLES["texts"].columns)
            self._texts = KeptRows(
                folder / "texts.arrow", tables["texts"], all_columns, keys_of=[column_keys("text_id")]
            )
        if cfg.context == NO_CONTEXT:
            return
        links, best = tables["links"], cfg.k if cfg.context == "titles" else 1
        keys_of = [column_keys("node_id")]
        if cfg.context == "gold":
            wanted = _gold_names(base, cfg.gold_node)
            keys_of.append(value_keys("titles"))
        else:

            def is_best(rows: pa.Table) -> pa.Table:
                return rows.filter(pc.less_equal(rows["rank"], best))

            self._links = KeptRows(
                folder / "links.arrow",
                links,
                ["image_id", "rank", "node_id", "lemma"],
                keys_of=[column_keys("image_id")],
                choose=is_best,
            )
            wanted = _distinct(hash_texts(batch["node_id"]) for batch in self._links.batches())
        columns = ["node_id", "lemmas", "titles", "article_text_ids"]
        self._nodes = KeptRows(folder / "nodes.arrow", tables["nodes"], columns, keys_of=keys_of, wanted=wanted)
        if len(wanted) and next(self._nodes.batches(), None) is None:
            names = f"input_items={cfg.input_items}: gold_node={cfg.gold_node}" if cfg.context == "gold" else "links="
            raise InputError(f"{names}: no entity is in kb.path={cfg.kb.path}; use the knowledge base of the links")
        if "articles" in tables:
            text_ids = _distinct(hash_texts(self._article_ids(batch)) for batch in self._nodes.batches())
            self._articles = KeptRows(
                folder / "articles.arrow",
                tables["articles"],
                ["text_id", "text"],
                keys_of=[column_keys("text_id")],
                wanted=text_ids,
            )

    def _article_ids(self, nodes: pa.RecordBatch) -> list[str]:
        language = self._cfg.kb.language
        ids = (link_contexts.in_language(values, language) for values in nodes["article_text_ids"].to_pylist())
        return [text_id for text_id in ids if text_id]

    def read(self, unit: Unit) -> UnitRows:
        """Return the rows of a unit."""
        items, urls = linked_items(self._base, unit)
        rows_in = len(items)
        items = [
            item
            for item in items
            if not self._exclusion_filter.hit(*(name for i in item["image_ids"] or () for name in (i, urls.get(i))))
        ]
        matched = self._exclusion_filter.take_matched()
        texts = dict(self._texts.rows(t for item in items for t in item["text_ids"] or ())) if self._texts else {}
        contexts = self._contexts(items)
        language = self._cfg.kb.language
        pairs = [
            link_contexts.with_context(
                item, [texts[t] for t in item["text_ids"] or () if t in texts], context, language=language
            )
            for item, context in zip(items, contexts, strict=True)
        ]
        return UnitRows(
            {
                "texts": rows_of(
                    "texts",
                    list({text["text_id"]: text for _, texts_of_item in pairs for text in texts_of_item}.values()),
                ),
                ITEMS: rows_of(ITEMS, [item for item, _ in pairs]),
            },
            rows_in=rows_in,
            filtered=Counter({"excluded": rows_in - len(items)} if rows_in > len(items) else {}),
            tallies={
                TALLY: dict(Counter(context.outcome for context in contexts)),
                **({exclusions.TALLY: matched} if matched else {}),
            },
        )

    def _contexts(self, items: Sequence[Mapping[str, Any]]) -> list[Context]:
        if self._nodes is None:
            return [Context(NO_CONTEXT)] * len(items)
        language = self._cfg.kb.language
        if self._cfg.context == "gold":
            names = [dict(item["attributes"] or ()).get(self._cfg.gold_node) for item in items]
            nodes = _first_rows(self._nodes.rows(name for name in names if name))
            articles = self._texts_of(nodes)
            return [
                link_contexts.article_context(nodes.get(name), articles, language=language)
                if name
                else Context(NO_GOLD)
                for name in names
            ]
        links = self._links_of(items)
        nodes = _first_rows(self._nodes.rows(link["node_id"] for of_item in links for link in of_item))
        if self._cfg.context == "titles":
            return [link_contexts.titles_context(of_item, nodes, language=language) for of_item in links]
        articles = self._texts_of(nodes)
        return [
            link_contexts.article_context(
                nodes.get(of_item[0]["node_id"]), articles, language=language, lemma=of_item[0]["lemma"]
            )
            if of_item
            else Context(NO_LINK)
            for of_item in links
        ]

    def _links_of(self, items: Sequence[Mapping[str, Any]]) -> list[list[dict[str, Any]]]:
        """Return each item's links, best first, from the first of its pictures that has any."""
        assert self._links is not None
        by_picture: dict[str, list[dict[str, Any]]] = {}
        for image, link in self._links.rows(i for item in items for i in item["image_ids"] or ()):
            by_picture.setdefault(image, []).append(link)
        for links in by_picture.values():
            links.sort(key=lambda link: link["rank"])
        return [next((by_picture[i] for i in item["image_ids"] or () if i in by_picture), []) for item in items]

    def _texts_of(self, nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """Return the nodes' articles by text_id."""
        assert self._articles is not None
        ids = [
            link_contexts.in_language(node["article_text_ids"], self._cfg.kb.language) or "" for node in nodes.values()
        ]
        return {text_id: row["text"] for text_id, row in self._articles.rows(ids)}


def _check(cfg: ItemsConfig) -> None:
    check_choice("context", cfg.context, CONTEXTS)
    check_least("k", cfg.k, 1)
    if cfg.context != NO_CONTEXT and cfg.kb.path is None:
        raise InputError("kb.path= is required: the folder that remine kb wrote", key="context", value=cfg.context)
    if cfg.texts and not cfg.input_items:
        raise InputError("allowed only with input_items=, whose texts it has; omit it", key="texts", value=cfg.texts)
    if cfg.context == "gold" and not cfg.input_items:
        why = "input_items= is required: items with an attribute that names the right entity"
        raise InputError(why, key="context", value="gold")


def _open(cfg: ItemsConfig) -> dict[str, TableSource]:
    """Open the tables that the context needs; `items` is the table of `input_items=`, which may have images instead."""
    assert cfg.links is not None
    tables = {"links": open_table(cfg.links, "links", key="links")}
    if cfg.input_items:
        kinds = ("items",) if cfg.context == "gold" else ("items", "images")
        tables["items"] = open_table(cfg.input_items, *kinds, key="input_items")
    if cfg.texts:
        tables["texts"] = open_table(cfg.texts, "texts", key="texts")
    if cfg.kb.path is not None and cfg.context != NO_CONTEXT:
        tables["nodes"] = open_table(locations.join(cfg.kb.path, "nodes"), "nodes", key="kb.path")
        if cfg.context != "titles":
            tables["articles"] = open_table(locations.join(cfg.kb.path, "articles"), "texts", key="kb.path")
            if not tables["articles"].rows:
                why = f"has no articles, which context={cfg.context} needs"
                raise InputError(why, key="kb.path", remedy="run remine kb with knowledge_base.columns.article=")
    return tables


def _check_texts(cfg: ItemsConfig, base: TableSource) -> None:
    """Raise InputError if the items have texts but their table is not set, since they would be lost."""
    if base.name != "items" or cfg.texts:
        return
    if any(
        pc.any(pc.greater(pc.list_value_length(rows["text_ids"]), 0)).as_py() for rows in base.batches(["text_ids"])
    ):
        raise InputError("its items have texts; set texts= to their table", key="input_items", value=cfg.input_items)


def _gold_names(base: TableSource, attribute: str) -> Hashes:
    """Return hashes of the values of an attribute of the items.

    Raises:
        InputError: no item has the attribute.
    """
    names = (
        dict(row or ()).get(attribute)
        for rows in base.batches(["attributes"])
        for row in rows["attributes"].to_pylist()
    )
    distinct = sorted({name for name in names if name})
    if not distinct:
        why = (
            f"no item of {base.uri} has this attribute; name the one that has the node or the title of the "
            "right article"
        )
        raise InputError(why, key="gold_node", value=attribute)
    return hash_texts(distinct)


def _distinct(parts: Iterator[Hashes]) -> Hashes:
    distinct = np.empty(0, np.uint64)
    for hashes in parts:
        distinct = np.union1d(distinct, hashes)
    return distinct


def _first_rows(pairs: Sequence[tuple[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return the rows by key; if several have the same key, such as a title, the first one."""
    rows: dict[str, dict[str, Any]] = {}
    for key, row in pairs:
        rows.setdefault(key, row)
    return rows


def linked_units(
    base: TableSource, others: tuple[Object, ...], unit_rows: int, begun: Mapping[str, UnitPieces]
) -> CompactList[Unit]:
    """Return units of at most `unit_rows` items or distinct pictures; a whole unit of `base` keeps its name.

    Args:
        base: a table of items, images or links.
        others: other inputs of each unit; if one changes, the unit is written again.
        begun: how the units of `base` were cut in the table that is continued; its units keep their names.
    """
    return CompactList(_cut(base, others, unit_rows, begun))


def linked_items(base: TableSource, unit: Unit) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the rows of a unit as rows of `items`, and the URLs of the pictures by image_id, where known."""
    first, last = unit.extra[FROM], unit.extra[TO]
    if base.name == "items":
        return read_unit(unit.inputs[0].uri).slice(first, last - first).to_pylist(), {}
    columns = ["image_id", *(["source_url"] if base.name == "images" else [])]
    rows = read_unit(unit.inputs[0].uri, columns=columns).to_pylist()
    ids = [image_id for image_id, row in _first_places(rows).items() if first <= row < last]
    urls = {row["image_id"]: row["source_url"] for row in rows if row.get("source_url")}
    return [{"item_id": i, "kind": "image", "image_ids": [i], "text_ids": [], "attributes": []} for i in ids], urls


def _cut(
    base: TableSource, others: tuple[Object, ...], unit_rows: int, begun: Mapping[str, UnitPieces]
) -> Iterator[Unit]:
    for parent in base.units():
        rows, before = parent.rows or 0, begun.get(parent.name, UNCUT)
        pieces = before.kept_ranges(rows) or list(_ranges(base, parent, unit_rows, before))
        for number, (first, last) in enumerate(pieces):
            whole = (first, last) == (0, rows)
            yield replace(
                parent,
                name=before.name(number, parent.name if whole else f"{parent.name}-{first:09}", rows=last - first),
                inputs=(*parent.inputs, *others),
                piece=parent.piece if whole else piece_of(first, last),
                rows=last - first,
                extra={"parent": parent.name, FROM: first, TO: last, PIECES: len(pieces), NUMBER: number},
            )


def _ranges(base: TableSource, parent: Unit, unit_rows: int, begun: UnitPieces) -> Iterator[tuple[int, int]]:
    """Yield first row and end of each piece: of `unit_rows` items, or of the first rows of as many pictures.

    A picture has several renditions, and several links. It belongs to the piece that has its first row: all of its rows
    are removed together, so that a purge leaves it there.
    """
    rows = parent.rows or 0
    if base.name == "items":
        yield from ranges(rows, unit_rows, begun)
        return
    firsts = list(_first_places(read_unit(parent.inputs[0].uri, columns=["image_id"]).to_pylist()).values())
    ends = [*firsts[unit_rows::unit_rows], rows]
    yield from pairwise([0, *ends, *[rows] * (begun.count - len(ends))])


def _first_places(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the position of the first row of each picture, by image_id."""
    firsts: dict[str, int] = {}
    for position, row in enumerate(rows):
        firsts.setdefault(row["image_id"], position)
    return firsts
