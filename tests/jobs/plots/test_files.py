import csv
import io
from xml.etree import ElementTree

from jobs.plots.figures import plot
from jobs.plots.files import drawing_files, replace_files
from jobs.plots.panels import Estimate, HeatMap, Intervals


def drawings():
    scores = Intervals([Estimate("=calm", 3.5, 3.0, 4.0, series="m"), Estimate("grim", None, None, None, series="m")])
    kappas = HeatMap([[1.0, None]], ["a"], ["a", "b"])
    return [plot(scores, title="Scores", description="d"), plot(kappas, title="Kappas", description="d", heading="q")]


def test_a_figure_is_saved_as_svg_pdf_and_its_numbers():
    files = drawing_files("scores", drawings(), "Means <of> m & n; 95% intervals.")
    assert set(files) == {"scores-1.svg", "scores-2.svg", "scores.pdf", "scores.csv"}
    (description,) = ElementTree.fromstring(files["scores-1.svg"]).findall("{*}desc")
    assert description.text == "Means <of> m & n; 95% intervals."
    assert b"var(" not in files["scores-1.svg"]
    assert files["scores.pdf"].startswith(b"%PDF-")
    assert files["scores.pdf"].count(b"/Type /Page\n") + files["scores.pdf"].count(b"/Type /Page ") == 2
    first, second, *cells = csv.DictReader(io.StringIO(files["scores.csv"].decode()))
    assert (first["plot"], first["label"], first["value"], first["low"], first["high"]) == (
        "Scores", "'=calm", "3.5", "3.0", "4.0"
    )  # fmt: skip
    assert (second["label"], second["value"]) == ("grim", "")
    assert [(c["plot"], c["row"], c["column"], c["value"]) for c in cells] == [
        ("q", "a", "a", "1.0"), ("q", "a", "b", "")
    ]  # fmt: skip


def test_one_drawing_has_no_number_and_gives_the_same_bytes_again():
    first, second = (drawing_files("kappas", drawings()[1:], "Kappas.", numbers=False) for _ in range(2))
    assert set(first) == {"kappas.svg", "kappas.pdf"}
    assert first == second


def test_plots_of_an_earlier_report_are_removed_and_other_files_kept(tmp_path):
    """A folder may have plots of the user, whose names no captions have."""
    replace_files(str(tmp_path / "none"), {})
    for name in ("mine.svg", "old-map.pdf", "notes.txt"):
        (tmp_path / name).write_text("x")
    captions = b'figure,title,caption\r\nold,t,"c\r\nd"\r\n'
    earlier = {"old.pdf": b"", "old-1.svg": b"", "old-12.svg": b"", "old.csv": b"", "captions.csv": captions}
    replace_files(str(tmp_path), earlier)
    replace_files(str(tmp_path), {"new.svg": b"<svg/>", "captions.csv": b"figure,title,caption\r\nnew,t,c\r\n"})
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["captions.csv", "mine.svg", "new.svg", "notes.txt", "old-map.pdf"]
