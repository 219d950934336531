"""Files of plots for papers and slides: each drawing as SVG, all of a figure as PDF, and their numbers as CSV."""

from collections.abc import Mapping, Sequence

from jobs.corpora.cell_texts import csv_file
from jobs.html.formats import writable
from jobs.plots.figures import Drawing, as_pdf
from jobs.plots.svg import standalone
from jobs.store.files import locations

ENDINGS = (".csv", ".pdf", ".svg")


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


def replace_files(folder: str, files: Mapping[str, bytes]) -> None:
    """Write files to a folder, and remove its other files of tables and plots, which an earlier report left."""
    for name, data in files.items():
        locations.replace(locations.join(folder, name), data)
    earlier = (file.uri for file in locations.listing(folder))
    locations.remove([uri for uri in earlier if uri.rsplit("/", 1)[-1] not in files and uri.endswith(ENDINGS)])
