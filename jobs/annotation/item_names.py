"""Mapping of items' names in people's files to item_ids: `import_ratings items=TABLE`."""

import pyarrow as pa
import pyarrow.compute as pc

from actors.ids import content_id
from jobs.errors import InputError
from jobs.store.reading import TableSource, open_table
from jobs.store.writer import Reject, Rejects

SEVERAL = ""  # replaces the item of a picture that several items have


class ItemNames:
    """Finder of items by their id or by their picture: its image_id, path or URL. Holds all these ids in memory.

    Args:
        source: the table of items.
        private: whether rejects leave out the file's content.
    """

    def __init__(self, source: TableSource, *, private: bool) -> None:
        self.uri, self.identity, self._private = source.uri, source.identity, private
        self._items: set[str] = set()
        self._of_picture: dict[str, str] = {}  # item of each image_id, or `SEVERAL`
        for batch in source.batches(["item_id", "image_ids"]):
            for row in batch.to_pylist():
                self._items.add(row["item_id"])
                for image_id in row["image_ids"] or ():
                    other = self._of_picture.setdefault(image_id, row["item_id"])
                    if other != row["item_id"]:
                        self._of_picture[image_id] = SEVERAL

    def resolve(self, rows: pa.Table, *, file: str, reject: Rejects) -> pa.Table:
        """Return the rows with the ids of their items; rows without an item, or with several, are rejected."""
        names = rows["item_id"].combine_chunks().dictionary_encode()
        of_name = pa.array([self._item(name) for name in names.dictionary.to_pylist()], pa.string())
        items = of_name.take(names.indices)
        is_one = pc.fill_null(pc.not_equal(items, SEVERAL), False)
        for row, item in zip(
            rows.select(["item_id", "position"]).filter(pc.invert(is_one)).to_pylist(),
            items.filter(pc.invert(is_one)).to_pylist(),
            strict=True,
        ):
            kind, problem = ("unknown_item", "no") if item is None else ("several_items", "more than one")
            name = "the row's name" if self._private else repr(row["item_id"])
            message = f"{problem} item of items={self.uri} has {name} as its id, or the path or URL of its picture"
            reject(Reject(file, row["position"], kind, message, "" if self._private else str(row["item_id"])))
        rows = rows.set_column(rows.column_names.index("item_id"), "item_id", items)
        return rows.filter(is_one)

    def _item(self, name: str) -> str | None:
        if name in self._items:
            return name
        return self._of_picture.get(name, self._of_picture.get(content_id(name)))


def opened(setting: str, *, private: bool) -> ItemNames | None:
    """Return the names of the items in the table `items=`; None for id and url, which are not tables.

    Raises:
        InputError: there is no such table of items.
    """
    if setting in ("id", "url"):
        return None
    try:
        source = open_table(setting, "items")
    except InputError as error:
        raise InputError(f"items={setting}: must be id, url or a table of items; {error}") from error
    return ItemNames(source, private=private)
