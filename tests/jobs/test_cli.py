"""Exit codes, and one sentence for a person where something is wrong; nothing is written then."""

import gzip
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs import cli
from jobs.errors import InputError, RunError
from tests.jobs.records import record, write_records

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with inputs of several kinds, right and wrong."""
    header = "language\tpage_url\timage_url\tpage_title\tis_main_image\n"
    (tmp_path / "good.tsv").write_text(header)
    (tmp_path / "terms.csv").write_text("term\nwar\n")
    (tmp_path / "narrow.tsv.gz").write_bytes(gzip.compress(b"language\tpage_url\n"))
    (tmp_path / "empty.tsv").write_text("")
    (tmp_path / "cut.tsv.gz").write_bytes(gzip.compress(header.encode())[:12])
    (tmp_path / "foreign").mkdir()
    pq.write_table(pa.table({"x": [1]}), tmp_path / "foreign" / "x.parquet")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "x.parquet").write_bytes(b"half a file")
    (tmp_path / "bare").mkdir()
    write_records(str(tmp_path / "matches"), [[record("a")]])
    return tmp_path


MINE = ["mine", "terms.path={f}/terms.csv", "out={f}/out"]
BAD = {
    "missing file": ([*MINE, "corpus.path={f}/none.tsv"], "{f}/none.tsv: does not exist"),
    "empty glob": ([*MINE, "corpus.path={f}/*.nope"], "{f}/*.nope: no file matches"),
    "empty folder": ([*MINE, "corpus.path={f}/bare"], "{f}/bare: no file matches"),
    "no such column": ([*MINE, "corpus.path={f}/narrow.tsv.gz"], "narrow.tsv.gz: no column image_url, page_title"),
    "empty file": ([*MINE, "corpus.path={f}/empty.tsv"], "{f}/empty.tsv: empty"),
    "truncated header": ([*MINE, "corpus.path={f}/cut.tsv.gz"], "{f}/cut.tsv.gz: the compressed file ends"),
    "no terms": (["mine", "terms.path={f}/none.csv", "corpus.path={f}/good.tsv", "out={f}/out"], "none.csv"),
    "no scheme": ([*MINE, "corpus.path=gs://b/x"], "gs://b/x"),
    "unknown key": ([*MINE, "corpus.path={f}/good.tsv", "nokey=1"], "nokey: no such key; allowed"),
    "unknown option": ([*MINE, "corpus.path={f}/good.tsv", "resources=x"], "resources=x: no such option; there are"),
    "mistyped": ([*MINE, "corpus.path={f}/good.tsv", "resume=maybe"], "resume: Value 'maybe'"),
    "not given": (["mine"], "required and not given: corpus.path=, out=, terms.path="),
    "dashes": (["mine", "--verbose"], "--verbose is not key=value"),
    "no table": (["curate", "input={f}/bare", "out={f}/out"], "{f}/bare: no table here"),
    "no place": (["curate", "input={f}/none", "out={f}/out"], "{f}/none: no table here"),
    "foreign table": (["curate", "input={f}/foreign", "out={f}/out"], "not a table of remine; expected records"),
    "broken table": (["curate", "input={f}/broken", "out={f}/out"], "x.parquet: not a readable Parquet file"),
    "wrong table": (
        ["embed", "input={f}/matches", "embedder=local-tiny", "out={f}/out"],
        "is a table 'records', expected images",
    ),
    "foreign out": (["curate", "input={f}/matches", "out={f}/foreign"], "{f}/foreign: not empty"),
    "out in a file": (["curate", "input={f}/matches", "out={f}/good.tsv/x"], "{f}/good.tsv/x: "),
    "empty out": (["curate", "input={f}/matches", "out="], "a path is empty"),
    "unknown status": (["curate", "input={f}/matches", "out={f}/out", "retry=[bad]"], "retry=bad: no such status"),
    "no pictures": (["fetch", "source.path={f}/none", "out={f}/out"], "{f}/none: does not exist"),
    "verify nothing": (["verify", "input={f}/bare"], "{f}/bare: no table here"),
    "report nothing": (["report", "out={f}/out"], "nothing to report on"),
    "no pipeline": (["run", "pipeline=x", "out={f}/out"], "pipeline=x: no such option; there are century"),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_bad_input_is_one_sentence_exit_code_2_and_nothing_written(
    case: tuple[list[str], str], files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (name, *arguments), said = case
    before = {p: p.stat().st_mtime_ns for p in files.rglob("*")}
    assert cli.main(name, [a.replace("{f}", str(files)) for a in arguments]) == 2
    printed = capsys.readouterr()
    assert said.replace("{f}", str(files)) in printed.err
    assert re.fullmatch(r"error: [^\n]+\n", printed.err)
    assert printed.out == ""
    assert {p: p.stat().st_mtime_ns for p in files.rglob("*")} == before


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        (None, 0, ""),
        (RunError("it broke"), 1, "error: it broke\n"),
        (InputError("no input"), 2, "error: no input\n"),
        (KeyboardInterrupt(), 130, "interrupted; what is done stays done, the same command goes on from there\n"),
    ],
)
def test_exit_codes(
    raised: BaseException | None,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def execute(name: str, overrides: list[str]) -> None:
        if raised is not None:
            raise raised

    monkeypatch.setattr(cli, "execute", execute)
    assert cli.main("verify", ["input=x"]) == code
    assert capsys.readouterr().err == said


def test_a_bug_is_not_dressed_up_as_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def execute(name: str, overrides: list[str]) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(cli, "execute", execute)
    with pytest.raises(ZeroDivisionError):
        cli.main("verify", [])


@pytest.mark.parametrize("name", cli.JOBS)
def test_help_and_cfg_of_every_job(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(name, ["--help"]) == 0
    told = capsys.readouterr().out
    assert f"python -m jobs.{name}" in told
    assert "Keys and their defaults" in told
    assert cli.main(name, ["--cfg", "out=somewhere" if name != "verify" else "input=somewhere"]) == 0
    assert "somewhere" in capsys.readouterr().out


def test_the_module_lists_all_jobs_and_exits_as_main_says(tmp_path: Path) -> None:
    def python(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)

    listed = python("jobs")
    assert listed.returncode == 0
    assert re.findall(r"^  (\w+) +\S", listed.stdout, re.M) == list(cli.JOBS)
    failed = python("jobs.verify", f"input={tmp_path}")
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr == f"error: {tmp_path}: no table here (no .parquet objects)\n"
