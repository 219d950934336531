"""source=urls: the records' pictures over HTTPS; one worker fetches and writes a unit."""

import re
from functools import partial

from actors.fetching import wikimedia
from actors.fetching.http_connection import Bounds, tls_context
from actors.fetching.net_safety import Rules
from actors.fetching.politeness import RequestSettings, user_agent
from actors.url_fetcher import UrlFetcherSettings
from jobs.corpora.records import RecordsInput, open_records
from jobs.errors import InputError, as_input_error
from jobs.sources.source_config import FetchConfig, SourcePlan, TestingConfig, required_input
from jobs.store.pieces import begun_cuts
from jobs.store.runs.table_run import TableRun
from jobs.workers import fetch_urls

_HOST = re.compile(r"(\*|(\*\.)?[\w-]+(\.[\w-]+)*|\d+(\.\d+){3})(:\d{1,5})?")
_RESOLVE = re.compile(r"([\w.-]+):([\d.]+|\[[\da-f:]+\]):(\d{1,5})")


def url_plan(cfg: FetchConfig) -> SourcePlan:
    """Return the records' units, fetched by `jobs.workers.fetch_urls`.

    Raises:
        InputError: a key is missing or out of range, or the table of records cannot be read.
    """
    uri = required_input(cfg)
    settings = fetcher_settings(cfg)
    records = open_records(uri, cfg.unit_rows, begun_cuts(cfg.out, overwrite=cfg.overwrite))
    return SourcePlan(
        units=records.units,
        # Rate limits and allow-lists do not affect content: retry=[blocked] may follow a longer list.
        identity={
            "form": cfg.source.form,
            "verify_only": cfg.verify_only,
            "credits": cfg.source.credits,
            "unit_rows": records.unit_rows,
        },
        note=records.note,
        streamed=False,
        fetch=partial(_fetch, cfg, settings, records),
        records=records.table,
    )


def _fetch(
    cfg: FetchConfig, settings: UrlFetcherSettings, records: RecordsInput, run: TableRun, excluded: str | None
) -> None:
    from jobs.runtime import stages
    from jobs.workers import cluster_limiter

    cluster_limiter.start()
    kwargs = {
        "settings": settings,
        "run_files": fetch_urls.RunFiles(run.target.out, excluded, records.keep_repeats(run)),
        "threads": cfg.resources.fetch.threads,
        "ca_file": cfg.source.ca_file,
    }
    stage = stages.Stage("fetch", fetch_urls.FetchUnit, kwargs)
    total = None if cfg.retry else sum(task.unit.rows or 0 for task in run.todo)
    stages.process(run, name="fetch", stage=stage, resources=cfg.resources, total=total, counted="pictures")


def fetcher_settings(cfg: FetchConfig) -> UrlFetcherSettings:
    """Return the fetcher's settings in the configuration.

    Raises:
        InputError: a key is missing or out of range; the message has the key.
    """
    source = cfg.source
    agent = _agent(source.contact)
    _check_hosts(source.allow_hosts)
    if cfg.width is not None and source.form == "served":
        try:
            wikimedia.served_width(cfg.width)
        except ValueError as error:
            raise as_input_error(error) from error
    if source.ca_file is not None:
        try:
            tls_context(source.ca_file)
        except OSError as error:
            raise InputError(f"source.ca_file={source.ca_file}: not a readable PEM file of certificates") from error
    rules = Rules(tuple(source.allow_hosts), frozenset(source.testing.allow_addresses), _resolved(source.testing))
    try:
        bounds = Bounds(source.max_bytes, source.connect_s, source.read_s, source.total_s)
    except ValueError as error:
        raise InputError(f"source.{error}") from error
    return UrlFetcherSettings(
        **vars(RequestSettings.part_of(source)),
        agent=agent,
        rules=rules,
        width=cfg.width,
        verify_only=cfg.verify_only,
        bounds=bounds,
    )


def _agent(contact: str | None) -> str:
    if not contact:
        raise InputError(
            "source.contact= is required: an e-mail address or web page at which the operators of the hosts can reach "
            "you, for example source.contact=ada@uni-somewhere.edu"
        )
    try:
        return user_agent(contact)
    except ValueError as error:
        raise InputError(
            f"source.contact={contact}: {error}; use an address at which the operators of the hosts can reach you"
        ) from error


def _check_hosts(hosts: list[str]) -> None:
    if not hosts:
        raise InputError("source.allow_hosts=[]: at least one host is required, for example [upload.wikimedia.org]")
    if invalid := [host for host in hosts if not _HOST.fullmatch(host)]:
        raise InputError(
            f"source.allow_hosts: {invalid[0]!r} must be a host name, *.name or *, each optionally with :port"
        )


def _resolved(testing: TestingConfig) -> tuple[tuple[str, str, int], ...]:
    matches = [_RESOLVE.fullmatch(text) for text in testing.resolve]
    if None in matches:
        raise InputError("source.testing.resolve: must be a list of name:address:port; set it in tests only")
    return tuple((match[1], match[2].strip("[]"), int(match[3])) for match in matches if match)
