"""Mode `topics=` of `items`: one item that asks a model for page titles (Century, appendix G)."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from actors.ids import content_id
from jobs.errors import InputError
from jobs.items_from.config import ItemsConfig
from jobs.items_from.output import ITEMS, ItemsPlan, UnitRows, rows_of
from jobs.runtime.selection.exclusions import Exclusions
from jobs.store.units import Unit
from jobs.terms_from.descriptions import TopicList

KIND = "description"


@contextmanager
def read_plan(cfg: ItemsConfig, excluded: Exclusions) -> Iterator[ItemsPlan]:
    """Yield the plan of one item without pictures or texts, whose attributes are the lists that a prompt shows.

    Raises:
        InputError: the list of topics is invalid, or there is a list of exclusions, which would have no effect.
    """
    if excluded:
        raise InputError(f"exclusions={cfg.exclusions}: topics= makes an item without pictures; omit it")
    try:
        topics = TopicList.from_dict(cfg.topics)
    except ValueError as error:
        raise InputError(f"items: {error}") from error
    item_id = content_id(ITEMS, json.dumps(asdict(topics), sort_keys=True, ensure_ascii=False))
    item = {
        "item_id": item_id,
        "kind": KIND,
        "image_ids": [],
        "text_ids": [],
        "targets": [],
        "gold": None,
        "attributes": list({"topics": topics.name, **topics.attributes}.items()),
    }
    yield ItemsPlan(
        units=[Unit(item_id, (), rows=1)],
        identity={"topics": item_id},
        read=lambda unit: UnitRows({ITEMS: rows_of(ITEMS, [item]), "texts": rows_of("texts", [])}, rows_in=1),
        condition=cfg.condition,
        lines=[f"asks for {topics.titles} titles about {sum(map(len, topics.categories.values()))} topics"],
    )
