"""Files of plots for papers and slides: each drawing as SVG, all of a figure as PDF, and their numbers as CSV."""

import csv
import io
from collections.abc import Mapping, Sequence

from jobs.corpora.cell_texts import csv_file
from jobs.html.formats import writable
from jobs.plots.figures import Drawing, as_pdf
from jobs.plots.svg import standalone
from jobs.store.files import locations

ENDINGS = (".csv", ".pdf", ".svg")
CAPTIONS = "captions.csv"


def drawing_files(name: str, drawings: Sequence[Drawing], caption: str, *, numbers: bool = True) -> dict[str, bytes]:
    """Return the files of a figure by name: NAME.pdf with a page per drawing, NAME.csv, and NAME.svg or NAME-1.svg, ….

    Args:
        caption: what the figure shows, which its SVG and PDF files contain.
        numbers: whether to add NAME.csv, what the drawings show.
    """
    names = [name] if len(drawings) == 1 else [f"{name}-{number}" for number in range(1, len(drawings) + 1)]
    files = {
        f"{file}.svg": writable(standalone(drawn, caption=caption)).encode()
        for file, drawn in zip(names, drawings, strict=True)
    }
    files[f"{name}.pdf"] = as_pdf(drawings, caption=caption)
    return files | ({f"{name}.csv": _csv(drawings)} if numbers else {})


def _csv(drawings: Sequence[Drawing]) -> bytes:
    """Return the numbers of all panels; the column `plot` has the title of the panel, or that of its drawing."""
    tables = [(title or drawn.name, *panel.numbers()) for drawn in drawings for title, panel in drawn.panels]
    columns = list(dict.fromkeys(column for _, names, _ in tables for column in names))
    rows = [[title, *map(dict(zip(names, row, strict=True)).get, columns)]
            for title, names, lines in tables for row in lines]  # fmt: skip
    return csv_file(["plot", *columns], rows)


def captions_file(captions: Mapping[str, tuple[str, str]]) -> dict[str, bytes]:
    """Return `CAPTIONS` by its name, with the title and the caption of each figure; nothing without figures."""
    rows = [(name, title, caption) for name, (title, caption) in captions.items()]
    return {CAPTIONS: csv_file(("figure", "title", "caption"), rows)} if rows else {}


def replace_files(folder: str, files: Mapping[str, bytes]) -> None:
    """Write the plots of a report and their `CAPTIONS`, and remove those that an earlier report left in the folder.

    An earlier report's plots are those that its captions name; other files are the user's and stay.
    """
    earlier = _named(folder)
    for name, data in files.items():
        locations.replace(locations.join(folder, name), data)
    locations.remove([uri for uri in earlier if uri.rsplit("/", 1)[-1] not in files])


def _named(folder: str) -> list[str]:
    """Return the URIs of the captions in a folder and of the plots that they name; empty without captions."""
    uris = [file.uri for file in locations.listing(folder)]
    captions = locations.join(folder, CAPTIONS)
    if not any(uri.endswith(f"/{CAPTIONS}") for uri in uris):
        return []
    lines = csv.reader(io.StringIO(locations.read_bytes(captions).decode(errors="replace")))
    figures = {line[0] for line in lines if line}
    return [captions, *(uri for uri in uris if uri.endswith(ENDINGS) and figures & _figures(uri.rsplit("/", 1)[-1]))]


def _figures(file: str) -> set[str]:
    """Return the figures that a file may belong to: NAME.svg to NAME, NAME-2.svg to NAME as well."""
    stem = file.rpartition(".")[0]
    name, _, number = stem.rpartition("-")
    return {stem, name} if number.isdigit() else {stem}
