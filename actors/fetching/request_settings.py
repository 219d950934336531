"""Settings of requests to pictures' hosts, which the configuration of `fetch` extends."""

from dataclasses import dataclass, field
from typing import get_args

from actors.fetching.wikimedia import Form
from actors.settings import Settings, check_positive


@dataclass(kw_only=True)
class RequestSettings(Settings):
    """Settings of requests for pictures by URL."""

    connections: int = 2  # rarely: concurrent, per host, all workers together; Wikimedia's hosts count as one
    mbit_s: float | None = 25.0  # rarely: per host, all workers together; null: not limited
    form: str = "served"  # of Wikimedia's thumbnail URLs: served (in 2026), or paper (Century's, any width)
    opt_out: list[str] = field(
        default_factory=lambda: ["noai", "noimageai"]
    )  # rarely: words of X-Robots-Tag that block a picture
    attempts: int = 5  # rarely: requests for a picture before 429, 503, lost connections and the like become an error
    backoff_s: float = 1.0  # rarely: first pause of a host that does not specify one; doubles each time
    max_timeouts: int = (
        10  # rarely: of requests to a host in a row; the unit's other pictures of the host then become error rows
    )
    max_wait_s: float = 900.0  # rarely: a host that demands a longer pause gives error rows instead
    credits: bool = True  # rarely: author and licence from the files' pages (Wikimedia)
    api: str = "https://{host}/w/api.php"  # rarely: where author and licence are requested

    def __post_init__(self) -> None:
        numbers = ("connections", "mbit_s", "attempts", "backoff_s", "max_timeouts", "max_wait_s")
        check_positive(**{f"source.{name}": getattr(self, name) for name in numbers})
        if self.form not in get_args(Form):
            raise ValueError(f"source.form={self.form}: must be one of {', '.join(get_args(Form))}")
        try:
            api = self.api.format(host="wiki.example")
        except (KeyError, IndexError, ValueError):
            api = ""
        if not api.startswith("https://"):
            raise ValueError(
                f"source.api={self.api}: must be an https:// URL, with {{host}} in place of the wiki's host"
            )
        super().__post_init__()
