"""Conversion of a user file's rows to rows of `items`, `texts` and `records`."""

import json
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actors.ids import content_id
from jobs.corpora.records import record_columns
from jobs.errors import InputError, check_choice
from jobs.items_from.input_rows import PICTURE, Cell, Row, UnusableRowError, UserFile, entries, text_of
from jobs.items_from.items_config import KINDS, ItemsConfig
from jobs.items_from.named_pictures import NamedPicture, Pictures
from jobs.store.files import locations
from jobs.store.writer import RAW_KEPT, Reject
from jobs.tables import WIT_COLUMNS

SET, TEXT_COLUMN = "set", "text_column"  # attributes that item_per= adds


@dataclass(frozen=True)
class Roles:
    """The roles of a file's columns; `id` and `language` have at most one."""

    id: str | None
    language: str | None
    pictures: tuple[str, ...]
    texts: Mapping[str, tuple[str, ...]]
    targets: tuple[str, ...]
    gold: tuple[str, ...]
    attributes: tuple[str, ...] | None  # None: all columns without another role

    @property
    def named(self) -> dict[str, str]:
        """Return the configuration key of each column that has a role."""
        keys = {name: f"columns.{role}" for role in ("id", "language") if (name := getattr(self, role))}
        for role in ("pictures", "targets", "gold", "attributes"):
            keys |= dict.fromkeys(getattr(self, role) or (), f"columns.{role}")
        for role, columns in self.texts.items():
            keys |= dict.fromkeys(columns, f"columns.texts.{role}")
        return keys


def roles_of(cfg: ItemsConfig, file: UserFile) -> Roles:
    """Return the roles of the columns in `columns=`.

    Raises:
        InputError: a column that the file lacks, no pictures and no texts, or `kind=` or `item_per=` that does not fit.
    """
    columns = cfg.columns
    pictures = _names("pictures", columns.pictures)
    if file.columns == (PICTURE,) and not pictures:
        pictures = (PICTURE,)
    texts = {str(role): _names(f"texts.{role}", value) for role, value in columns.texts.items()}
    attributes = None if columns.attributes is None else _names("attributes", columns.attributes)
    targets, gold = _names("targets", columns.targets), _names("gold", columns.gold)
    roles = Roles(columns.id, columns.language, pictures, texts, targets, gold, attributes)
    if missing := [f"{name} ({key}=)" for name, key in roles.named.items() if name not in file.columns]:
        raise InputError(f"no column {', '.join(missing)}; {file.available}", place=file.object.uri)
    if not pictures and not any(texts.values()):
        available = ", ".join(file.columns) or "none"
        raise InputError(
            f"columns.pictures= or columns.texts.ROLE= is required; the columns of the file are {available}"
        )
    if empty := [f"separators.{key}" for key, value in vars(cfg.separators).items() if value == ""]:
        raise InputError("empty; set it to the text between entries, or null if a cell is one value", key=empty[0])
    if cfg.kind is not None:
        check_choice("kind", cfg.kind, KINDS)
    if cfg.item_per is not None and cfg.item_per not in texts:
        allowed = ", ".join(texts) or "none; set columns.texts.ROLE="
        raise InputError(f"no role of columns.texts; must be one of {allowed}", key="item_per", value=cfg.item_per)
    taken = [name for name in (SET, TEXT_COLUMN) if name in (file.columns if attributes is None else attributes)]
    if cfg.item_per and taken:
        why = f"writes the attribute {taken[0]}, which is also a column"
        raise InputError(why, key="item_per", remedy="rename the column, or omit it from columns.attributes=")
    return roles


def _names(key: str, value: Any) -> tuple[str, ...]:
    names = () if value is None else value if isinstance(value, list) else [value]
    # The command line reads the name 3 as a number.
    if not all(isinstance(name, str | int | float) and name != "" and not isinstance(name, bool) for name in names):
        raise InputError("must be the name of a column, or a list of names", key=f"columns.{key}", value=value)
    return tuple(map(str, names))


@dataclass(frozen=True)
class ItemRow:
    """An item with its texts (rows of `texts`) and pictures."""

    item: dict[str, Any]
    texts: list[dict[str, Any]]
    pictures: list[NamedPicture]


@dataclass(frozen=True)
class _Text:
    role: str
    column: str  # with "/2" for the second text of a cell
    text: str


class ItemRowReader:
    """Converter of rows to items.

    Args:
        cfg: the configuration.
        file: the user's file, for messages.
        roles: the roles of the columns.
        pictures: finder of a row's pictures.
    """

    def __init__(self, cfg: ItemsConfig, file: UserFile, roles: Roles, pictures: Pictures) -> None:
        self._cfg, self._file, self._roles, self._pictures = cfg, file, roles, pictures
        self._named = roles.named
        # Absolute paths become relative to one of these, so that no table names the user's folders.
        self._folders = [folder for folder in (pictures.folder, posixpath.dirname(file.object.uri)) if folder]
        self._lists = {
            key: ListColumn(f"separators.{key}", getattr(cfg.separators, key)) for key in ("targets", "gold")
        }

    def items(self, line: int, row: Row) -> list[ItemRow] | Reject:
        """Return the items of a row, several with item_per=; a Reject if it cannot become an item."""
        try:
            return self._items(line, row)
        except UnusableRowError as error:
            return self._reject(line, error.reason, str(error), row)

    def _items(self, line: int, row: Row) -> list[ItemRow]:
        roles, per = self._roles, self._cfg.item_per
        if roles.id and not row.get(roles.id):
            raise UnusableRowError("no_id", f"column {roles.id} is empty")
        pictures = list(self._found(row))
        if roles.pictures and not pictures:
            raise UnusableRowError("no_picture", f"no picture in {', '.join(roles.pictures)}")
        texts = list(self._texts(row))
        if (per or not pictures) and not any(per in (None, text.role) for text in texts):
            raise UnusableRowError("no_text", f"no text{f' of role {per}' if per else ''}")
        given_id = row.get(roles.id) if roles.id else None
        language = str(row.get(roles.language) or "") if roles.language else self._cfg.language
        row_id = self._id(str(given_id), pictures) if given_id else _content(pictures, texts, language)
        shared = self._shared(line, row, pictures)
        if per is None:
            return [self._item(row_id, shared, pictures, texts, language)]
        others = [text for text in texts if text.role != per]
        return [
            self._item(
                content_id("item", row_id, text.column),
                shared | {"attributes": [*shared["attributes"], (SET, row_id), (TEXT_COLUMN, text.column)]},
                pictures,
                [*others, text],
                language,
            )
            for text in texts
            if text.role == per
        ]

    def finish(self) -> None:
        """Make the checks that need all rows; raises InputError."""
        for column in self._lists.values():
            column.check(self._file)

    def _found(self, row: Row) -> Iterator[NamedPicture]:
        for column in self._roles.pictures:
            for name in entries([row.get(column)], self._cfg.separators.pictures):
                try:
                    yield self._pictures.find(name)
                except UnusableRowError as error:
                    raise UnusableRowError(error.reason, f"column {column}: {error}") from error

    def _id(self, written: str, pictures: Sequence[NamedPicture]) -> str:
        """Return an id; an absolute path below a known folder, or of the item's picture, becomes relative to it."""
        name = locations.without_disk(written, self._folders)
        if not locations.is_on_disk(name):
            return name
        ends = [locations.without_disk(picture.name, self._folders) for picture in pictures]
        relative = next((end for end in ends if name.replace("\\", "/").endswith(f"/{end}")), "")
        if not relative:
            raise UnusableRowError(
                "absolute_path",
                f"column {self._roles.id}: {_last_part(name)!r} is given by an absolute path, which tables and pages "
                "would show; write it relative to the folder of the pictures, or name another column as columns.id=",
            )
        return relative

    def _without_disk(self, value: Cell) -> str:
        """Return a cell as one text; an absolute path becomes relative, or its last part."""
        name = locations.without_disk(_joined(value), self._folders)
        return _last_part(name) if locations.is_on_disk(name) else name

    def _texts(self, row: Row) -> Iterator[_Text]:
        for role, columns in self._roles.texts.items():
            for column in columns:
                for number, text in enumerate(entries([row.get(column)], self._cfg.separators.texts), start=1):
                    yield _Text(role, column if number == 1 else f"{column}/{number}", text)

    def _shared(self, line: int, row: Row, pictures: Sequence[NamedPicture]) -> dict[str, Any]:
        """Return the columns that all items of a row share."""
        roles = self._roles
        targets = self._lists["targets"].read([row.get(name) for name in roles.targets], line)
        gold = self._lists["gold"].read([row.get(name) for name in roles.gold], line)
        if targets and (outside := [label for label in gold or () if label not in targets]):
            raise UnusableRowError(
                "gold_not_a_target",
                f"gold {outside[0]!r} is not among the targets {', '.join(targets)}; correct it, or set "
                "separators.gold= and separators.targets= to the file's separators",
            )
        names = roles.attributes
        if names is None:
            names = tuple(name for name in row if name not in self._named)
        attributes = [(name, self._without_disk(value)) for name in names if (value := row.get(name))]
        by_count = {0: "description", 1: "image"}.get(len(pictures), "pair")
        return {
            "kind": self._cfg.kind or by_count,
            "image_ids": [picture.image_id for picture in pictures],
            "targets": targets or None,
            "gold": gold,
            "attributes": attributes,
        }

    def _item(
        self,
        item_id: str,
        shared: Mapping[str, Any],
        pictures: list[NamedPicture],
        texts: Sequence[_Text],
        language: str,
    ) -> ItemRow:
        # A text's id contains its item: units must share no rows, so that joins stay local to a unit.
        rows = [
            {
                "text_id": content_id("item", item_id, text.role, text.column, text.text),
                "role": text.role,
                "language": language,
                "source": item_id,
                "text": text.text,
            }
            for text in texts
        ]
        item = {"item_id": item_id, **shared, "text_ids": [row["text_id"] for row in rows]}
        return ItemRow(item, rows, pictures)

    def repeated(self, line: int, row: Row, first: int) -> Reject:
        """Return the reject of a row with the same id as the row in line `first`."""
        earlier = f"as {self._file.counted} {first:,}"
        message = f"has the same pictures and texts {earlier}; set columns.id= if each is an item"
        if self._roles.id:
            message = f"has the same columns.id={self._roles.id} {earlier}"
        return self._reject(line, "repeated_id", message, row)

    def _reject(self, line: int, reason: str, message: str, row: Row) -> Reject:
        raw = " ".join(f"{name}={self._without_disk(value)}" for name, value in row.items() if value)
        return Reject(self._file.object.uri, line, reason, message, raw[:RAW_KEPT])


class ListColumn:
    """The cells with one list, such as the targets; notes signs of a wrong separator.

    Args:
        key: the key of the separator, for messages.
        separator: the text between entries; None: a cell is one entry.
    """

    def __init__(self, key: str, separator: str | None) -> None:
        self._key, self._separator = key, separator
        self._is_divided, self._suspect, self._printed = False, (0, ""), (0, "")

    def read(self, cells: Sequence[Cell], line: int) -> list[str] | None:
        """Return the distinct entries of the cells; None if all are empty, which is not the same as an empty list.

        A text that is a list in JSON, such as `[]`, is read as that list.
        """
        cells = [_listed(cell) for cell in cells]
        printed = next((cell for cell in cells if isinstance(cell, str) and cell.startswith("['")), "")
        self._printed = self._printed if self._printed[0] or not printed else (line, printed)
        for cell in cells if self._separator else ():
            if isinstance(cell, str):
                self._is_divided |= str(self._separator) in cell
                if not self._suspect[0] and (mark := next((mark for mark in ";|,\t" if mark in cell), "")):
                    self._suspect = line, mark
        distinct = list(dict.fromkeys(entries(cells, self._separator)))
        return distinct or ([] if [] in cells else None)

    def check(self, file: UserFile) -> None:
        """Raise InputError if no cell has the separator and some have another one, or if a cell is a printed list."""
        line, printed = self._printed
        if line:
            raise InputError(
                f"{printed!r} is a list as Python prints it; write it as JSON, as in "
                f'["a", "b"], or with {self._key}={self._separator!r} between the entries',
                place=file.at(line),
            )
        line, mark = self._suspect
        if line and not self._is_divided:
            raise InputError(
                f"a cell has {mark!r}, and no cell of the file has {self._key}={self._separator!r}; "
                f"set {self._key}={mark!r}, or {self._key}=null if a cell is one value",
                place=file.at(line),
            )


def _listed(cell: Cell) -> Cell:
    """Return the entries of a text that is a list in JSON; any other cell as it is."""
    if not (isinstance(cell, str) and cell.startswith("[") and cell.endswith("]")):
        return cell
    try:
        values = json.loads(cell)
    except (ValueError, RecursionError):
        return cell
    return cell if any(isinstance(value, list | dict) for value in values) else text_of(values)


def record_of(picture: NamedPicture, item_id: str, attributes: Mapping[str, str]) -> dict[str, Any]:
    """Return the row of `records` of a picture given by URL; columns named as WIT's or as Century's are taken over."""
    return {
        **{name: attributes.get(name) for name in WIT_COLUMNS},
        "record_id": content_id("item", item_id, picture.image_id),
        "image_id": picture.image_id,
        "image_url": picture.name,
        "split": "",
        "terms": [],
        "methods": [],
        **record_columns(attributes),
    }


def _content(pictures: Sequence[NamedPicture], texts: Sequence[_Text], language: str) -> str:
    """Return the item's id: for a single picture the picture's, so that its ratings as an image have the same id."""
    if len(pictures) == 1 and not texts:
        return pictures[0].image_id
    ids = [picture.image_id for picture in pictures]
    parts = (part for text in texts for part in (text.role, text.text))
    return content_id("item", str(len(ids)), *ids, language, *parts)


def _last_part(path: str) -> str:
    return re.split(r"[\\/]", path.rstrip("\\/"))[-1]


def _joined(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else str(value)
