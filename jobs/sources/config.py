"""Keys of `source.*`; each option in conf/source/ says which of them it uses."""

from dataclasses import dataclass, field
from typing import Any

from actors.folder_fetcher import DEFAULT_MAX_BYTES


@dataclass
class TestingConfig:
    """For tests against a server on this machine, and for nothing else."""

    allow_addresses: list[str] = field(default_factory=list)  # IP addresses that count as public, e.g. [127.0.0.1]
    resolve: list[str] = field(default_factory=list)  # name:address:port, where a name is to be found instead


@dataclass
class SourceConfig:
    """Of all sources; `name` says which one it is."""

    name: str = "folder"
    path: str | None = None  # folder, tar, parquet: where; a folder, a glob or an s3:// prefix
    max_bytes: int = DEFAULT_MAX_BYTES  # of one picture; a larger one becomes an error row
    # parquet
    bytes_column: str | None = None  # null: `image` or `bytes`, whichever is there (a struct's field `bytes`)
    key_column: str | None = None  # names a picture; null: its file and row do
    # urls
    contact: str | None = None  # an e-mail address or page at which whoever is asked can reach you; required
    allow_hosts: list[str] = field(default_factory=list)  # `name`, `*.name`, `*`; with `:port` for another than 443
    connections: int = 2  # at once to a host, all workers together; Wikimedia's hosts count as one
    mbit_s: float | None = 25.0  # from a host, all workers together; null: no bound
    form: str = "served"  # of Wikimedia's thumbnail URLs: served (in 2026), or paper (Century's, any width)
    opt_out: list[str] = field(default_factory=lambda: ["noai", "noimageai"])  # words of X-Robots-Tag
    attempts: int = 5  # requests for a picture, until 429, 503, lost connections and the like become an error
    backoff_s: float = 1.0  # the first pause of a host that does not say how long; doubles each time
    max_wait_s: float = 900.0  # a host that asks for a longer pause than this gives error rows instead
    connect_s: float = 10.0  # to a host
    read_s: float = 30.0  # between two pieces of an answer
    total_s: float = 180.0  # of an answer
    credits: bool = True  # author and licence from the files' pages (Wikimedia)
    api: str = "https://{host}/w/api.php"  # where they are asked
    ca_file: str | None = None  # PEM file of an authority to trust besides the system's
    testing: TestingConfig = field(default_factory=TestingConfig)


def identity_of(source: SourceConfig, **more: Any) -> dict[str, Any]:
    """What the rows of every source depend on."""
    return {"name": source.name, "max_bytes": source.max_bytes, **more}
