"""The keys of `items`, and the mode that they select."""

from dataclasses import dataclass, field, fields
from typing import Any

from actors.settings import Location, RuntimeOnly, check_condition
from jobs.errors import InputError, check_choice, check_least
from jobs.runtime.configuration.config import Writing
from jobs.runtime.configuration.key_types import conf_group
from jobs.runtime.selection.draws import CompleteDrawConfig

UNIT_ROWS = 256  # as many as `fetch` and `curate` write
ON_ERROR = STOP, REJECT = "stop", "reject"
KINDS = ("image", "pair", "description", "caption")  # kinds of items from a file


@dataclass
class ItemColumns:
    """The roles of the file's columns."""

    id: str | None = None  # item_ids; null: a hash of the pictures and texts
    pictures: Any = None  # a column or a list of columns: paths, URLs or image_ids
    texts: dict[str, Any] = field(default_factory=dict)  # role -> its column or columns, as in {prompt: caption}
    language: str | None = None  # BCP 47 tags of the texts; null: language= for all
    targets: Any = None  # a column or a list of columns: the labels that an item is rated against
    gold: Any = None  # a column or a list of columns: the correct labels or answers
    attributes: Any = None  # a column or a list of columns; null: all columns without another role


@dataclass
class ListSeparators:
    """The text between the entries of a cell; null: a cell has one entry."""

    pictures: str | None = None  # separates pictures in a cell; null: one per cell
    texts: str | None = None  # separates texts in a cell; null: one per cell
    targets: str | None = ";"  # separates targets in a cell
    gold: str | None = ";"  # separates correct answers in a cell


@dataclass
class FolderConfig:
    """The folder of pictures that are given by path."""

    path: str | None = None  # the folder or prefix that paths are relative to, as in fetch source.path=


@dataclass
class LimitKeys:
    """The key of inputs that are read row by row."""

    # read only the first rows or responses, for a trial run in separate tables; null: all
    limit: RuntimeOnly[int | None] = None


@dataclass
class FileKeys(LimitKeys):
    """Keys of items from a user's file (`input=`)."""

    input: str | None = None  # CSV, TSV, JSON lines or Parquet; or .txt with one picture per line
    columns: ItemColumns = field(default_factory=ItemColumns)
    # rarely: characters that separate the entries of a cell with several
    separators: ListSeparators = field(default_factory=ListSeparators)
    pictures: FolderConfig = field(default_factory=FolderConfig)
    images: Location[str | None] = None  # a table of images, for pictures that are given by image_id
    # rows without an existing picture, an id, …: stop lists them and writes nothing; reject leaves them out, and writes
    # them to OUT/rejects.csv
    on_error: RuntimeOnly[str] = "stop"
    kind: str | None = None  # column `kind`: image, pair, description or caption; null: by the number of pictures
    item_per: str | None = None  # the role of columns.texts whose texts become an item each
    language: str = ""  # BCP 47 tag of the texts, for a file without columns.language
    encoding: str | None = None  # rarely: of CSV; null: by its byte-order mark, else UTF-8
    delimiter: str | None = None  # rarely: of CSV; null: comma, semicolon, tab or bar, whichever fits


@dataclass
class InputKeys:
    """The items that responses or links are about."""

    # items models were asked about, or items or images that were linked; null: images
    input_items: Location[str | None] = None
    texts: Location[str | None] = None  # the texts of input_items, which are kept


@dataclass
class ResponseKeys(LimitKeys, InputKeys):
    """Keys of items made from responses (`responses=`)."""

    responses: list[str] = field(default_factory=list)  # tables of responses, or globs of tables
    # tables of the pictures' ratings, or globs: their majority labels
    labels: Location[list[str]] = field(default_factory=list)
    label_questions: list[str] = field(default_factory=list)  # questions of labels= that become attributes; empty: all
    labels_by: str = "everyone"  # whose majority: everyone, people, models, or a glob of raters
    draw: CompleteDrawConfig = field(default_factory=CompleteDrawConfig)  # which of the responses to take
    role: str = "generated"  # role of the responses' texts; prompt if they are prompts for pictures


@dataclass
class ItemsKb:
    """The knowledge base of the links."""

    path: str | None = None  # the folder that remine kb wrote
    language: str = "en"  # of titles and articles, if the entity has them in it


@dataclass
class LinksKeys(InputKeys):
    """Keys of items from links (`links=`)."""

    links: str | None = None  # a table of links (remine link), of one method
    kb: ItemsKb = field(default_factory=ItemsKb)
    context: str = "article"  # article of the best entity, titles of the k best, article of the gold entity, or none
    k: int = 20  # titles, with context=titles (CAIRE: 20)
    gold_node: str = "gold_node"  # attribute with node_id or title of the right entity, for context=gold


@dataclass
class TopicsKeys:
    """Keys of the item that asks for page titles (`topics=`)."""

    topics: dict[str, Any] = conf_group(None)  # the categories, topics and regions to ask about


@dataclass
class ItemsConfig(FileKeys, ResponseKeys, LinksKeys, TopicsKeys, Writing):
    """Keys of `items`."""

    unit_rows: int = UNIT_ROWS  # rarely: items per unit, the granularity of resuming in the jobs that follow
    condition: str = ""  # the default condition of the ratings that jobs make of these items

    def __post_init__(self) -> None:
        check_condition(self.condition)


KEYS: dict[str, type] = {
    "input": FileKeys,
    "responses": ResponseKeys,
    "links": LinksKeys,
    "topics": TopicsKeys,
}  # the keys of each mode, by the key that selects it


def mode_of(cfg: ItemsConfig) -> str:
    """Return the one of `input`, `responses`, `links` and `topics` that has a value.

    Raises:
        InputError: none or several of them have a value, a key of another mode is set, or a value is not allowed.
    """
    given_modes = [mode for mode in KEYS if getattr(cfg, mode)]
    if len(given_modes) != 1:
        allowed = ", ".join(f"{mode}=" for mode in KEYS)
        if not given_modes:
            raise InputError(f"{allowed}: exactly one of them is required; remine items --help explains every key")
        keys = ", ".join(f"{mode}=" for mode in given_modes)
        raise InputError(f"{keys}: cannot be set together; set exactly one of {allowed}")
    check_least("unit_rows", cfg.unit_rows, 1)
    check_choice("on_error", cfg.on_error, ON_ERROR)
    mode, defaults = given_modes[0], ItemsConfig()
    names = {key.name for keys in KEYS.values() for key in fields(keys)} - {key.name for key in fields(KEYS[mode])}
    for name in sorted(name for name in names if getattr(cfg, name) != getattr(defaults, name)):
        modes = " or ".join(f"{other}=" for other, keys in KEYS.items() if name in {key.name for key in fields(keys)})
        raise InputError(f"a key of items from {modes}, and {mode}= is given", key=name, remedy="omit it")
    return mode
