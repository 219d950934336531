"""Keys of `fetch`, and the interface between the sources of pictures and the command.

Each option in conf/source/ lists the `source.*` keys that it uses.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from actors.fetching.image_rows import DEFAULT_MAX_BYTES
from actors.fetching.politeness import RequestSettings
from actors.settings import RuntimeOnly
from jobs.errors import InputError
from jobs.runtime.configuration.config import FailingRows
from jobs.runtime.configuration.key_types import conf_group
from jobs.store.reading import TableSource
from jobs.store.runs.table_run import TableRun
from jobs.store.units import Unit


@dataclass
class TestingConfig:
    """Settings for tests against a server on this machine; never set these for real hosts."""

    allow_addresses: list[str] = field(default_factory=list)  # IP addresses that count as public, e.g. [127.0.0.1]
    resolve: list[str] = field(default_factory=list)  # name:address:port: connect there instead of to the name's host


@dataclass
class SourceConfig(RequestSettings):
    """Keys of all sources; `name` selects one."""

    name: str = "folder"
    path: str | None = None  # a folder, a glob or an s3:// prefix; not for urls
    max_bytes: int = DEFAULT_MAX_BYTES  # rarely: of one picture; a larger one becomes an error row
    # parquet
    # rarely: null: `image` or `bytes`, whichever exists (also a struct with a field `bytes`)
    bytes_column: str | None = None
    key_column: str | None = None  # rarely: identifies a picture; null: its file and row do
    # urls
    contact: RuntimeOnly[str | None] = None  # your e-mail address or web page, for the operators of the hosts; required
    # rarely: `name`, `*.name`, `*`; with `:port` for another than 443
    allow_hosts: RuntimeOnly[list[str]] = field(default_factory=list)
    connect_s: RuntimeOnly[float] = 10.0  # rarely: timeout of connecting to a host
    read_s: RuntimeOnly[float] = 30.0  # rarely: timeout between two pieces of a reply
    total_s: RuntimeOnly[float] = 180.0  # rarely: timeout of a whole reply
    # rarely: PEM file of a certificate authority to trust in addition to the system's
    ca_file: RuntimeOnly[str | None] = None
    testing: RuntimeOnly[TestingConfig] = field(default_factory=TestingConfig)  # rarely: for tests on one machine


@dataclass
class FetchConfig(FailingRows):
    """Keys of `fetch`."""

    source: SourceConfig = conf_group("folder", SourceConfig)
    input: str | None = None  # a table of records; null: all pictures of the folder or shards
    width: int | None = None  # pixels; null: not resized
    verify_only: bool = False  # rarely: only check that the picture exists, without its bytes (source=urls)
    # rarely: pictures of a unit, refetched after a kill; null: 256 of records (up to 1,440 of millions), 64 of a folder
    unit_rows: int | None = None


def required_path(cfg: FetchConfig) -> str:
    """Return the value of source.path.

    Raises:
        InputError: it is not set.
    """
    if cfg.source.path is None:
        why = f"required with source={cfg.source.name}: where the pictures are; source=urls fetches them"
        raise InputError(why, key="source.path", value="")
    return cfg.source.path


def required_input(cfg: FetchConfig) -> str:
    """Return the value of input.

    Raises:
        InputError: it is not set.
    """
    if cfg.input is None:
        why = f"required with source={cfg.source.name}: a table of records (remine curate writes one)"
        raise InputError(why, key="input", value="")
    return cfg.input


@dataclass(frozen=True, kw_only=True)
class SourcePlan:
    """The units of a source, and the function that fetches them.

    Attributes:
        units: work units of the table `images`.
        identity: settings of this source that the rows depend on, besides its name and `max_bytes`.
        note: a line of the printed plan.
        streamed: whether `fetch` uses `jobs.runtime.stages.stream`, which needs CPUs to read and write.
        fetch: fetches `run.todo`; its second argument is the URI of the list of exclusions, or None.
        records: the records whose pictures are fetched; None: all pictures of the source.
    """

    units: Sequence[Unit]
    identity: dict[str, Any]
    note: str
    streamed: bool
    fetch: Callable[[TableRun, str | None], None]
    records: TableSource | None = None
