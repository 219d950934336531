"""Opening a viewer of the tables at given places, and its server on the loopback interface."""

import contextlib
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from actors.quantities import quantity
from jobs.errors import InputError
from jobs.judging.kept_rubric import read_rubrics
from jobs.judging.sent_prompts import PromptTexts
from jobs.runtime.process.console import say
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.files import locations
from jobs.viewer.application import Shown, Viewer
from jobs.viewer.corrections import Corrections
from jobs.viewer.loading import ViewedTables, load, load_map, open_places, without_pictures
from jobs.viewer.picture_details import PictureBytes, PicturePlace, Texts
from jobs.viewer.queries import fetch
from jobs.viewer.saved import Saved, folder_of
from jobs.viewer.similar_pictures import SimilarPictures

PLACES_NAMED = 3  # most places named in the page's title


def open_viewer(
    places: Sequence[str],
    folder: Path,
    *,
    rater: str | None,
    out: str | None,
    exclusion_filter: ExclusionFilter,
    blur: bool | None,
    saved: str | None = None,
) -> Viewer:
    """Read the tables at or below each place into a database in `folder`, and return a viewer of them.

    Args:
        rater, out: the person who corrects labels, and the place for the ratings; None: no label can be corrected.
        blur: whether pictures are blurred until the reader shows them; None: as the rubrics say.
        saved: the folder of saved views and tags; None: below the first place or, if that is a table, next to it.

    Raises:
        InputError: there is nothing to view, or `out` or `rater` is used by other ratings.
    """
    import duckdb

    tables = open_places(places)
    rubrics = read_rubrics(tables.of("ratings"))
    corrections = Corrections(out, rater, rubrics) if rater and out else None
    if corrections:
        corrections.check()
        viewed = {source.uri for name in tables.by_name for source in tables.of(name)}
        if further := [place for place in corrections.tables() if place not in viewed]:
            tables = open_places([*places, *further])
        rubrics = read_rubrics(tables.of("ratings"))
    connection = duckdb.connect(str(folder / "tables.duckdb"))
    connection.execute("SET preserve_insertion_order = true")
    files = load(connection, tables, exclusion_filter)
    if corrections:
        _refuse_other_ratings(tables, corrections)
    similar = SimilarPictures(tables.of("embeddings"), folder)
    if (mapped := similar.places()) is not None:
        load_map(connection, mapped)
    _show(tables, similar)
    for sentence in without_pictures(connection):
        say(f"  {sentence}")

    def place_of(image_id: str) -> PicturePlace | None:
        with connection.cursor() as cursor:
            rows = fetch(
                cursor, "SELECT file, row_group, row FROM pictures WHERE image_id = ? AND status = 'ok'", [image_id]
            )
        return PicturePlace(**rows[0]) if rows else None

    return Viewer(
        Shown(
            connection=connection,
            pictures=PictureBytes(files, place_of),
            similar=similar,
            texts=Texts(tables.of("texts")),
            prompts=PromptTexts(rubrics, tables.of("records")),
            rubrics=rubrics,
            saved=Saved(locations.absolute(saved) if saved else folder_of(places[0])),
            corrections=corrections,
            blur=rubrics.blur if blur is None else blur,
            title=_title(places),
        )
    )


def _title(places: Sequence[str]) -> str:
    names = [locations.absolute(place).rsplit("/", 1)[-1] for place in places]
    return ", ".join([*names[:PLACES_NAMED], *(["…"] if len(names) > PLACES_NAMED else [])])


def _refuse_other_ratings(tables: ViewedTables, corrections: Corrections) -> None:
    """Check that no other table has ratings by the person: two tables would hold the same rating."""
    written = set(corrections.tables())
    for source in tables.of("ratings"):
        if source.uri in written:
            continue
        for batch in source.batches(["rater"], dictionaries=["rater"]):
            if any(corrections.rater in chunk.dictionary.to_pylist() for chunk in batch["rater"].chunks):
                why = f"{source.uri} has ratings by this rater"
                raise InputError(why, key="rater", value=corrections.rater, remedy="choose another name")


def _show(tables: ViewedTables, similar: SimilarPictures) -> None:
    for name, sources in tables.by_name.items():
        if sources:
            rows, count = sum(source.rows for source in sources), len(sources)
            say(f"  {name}: {quantity(rows, 'row')} of {quantity(count, 'table')}")
    for place, run in tables.runs.items():
        say(f"  run {run}: {place}")
    for reason in tables.left_out.values():
        say(f"  left out: {reason}")
    for place in similar.others:
        say(f"  left out of searches: {place}: its vectors are from another encoder")


ADDRESS = "127.0.0.1"


@contextlib.contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    """Yield a socket that listens on the loopback interface.

    Args:
        port: 0 for any free one.

    Raises:
        InputError: the port is not allowed or in use.
    """
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((ADDRESS, port))
            listener.listen()  # already now, so that a browser faster than the server waits instead of failing
        except (OSError, OverflowError) as error:
            why = f"cannot listen there ({error})"
            raise InputError(why, key="port", value=port, remedy="use another one, or 0 for any") from error
        yield listener


def server(application: Any) -> Any:
    """Return a uvicorn server, which logs no addresses: they contain the token."""
    import uvicorn

    config = uvicorn.Config(
        application,
        access_log=False,
        log_level="warning",
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    return uvicorn.Server(config)
