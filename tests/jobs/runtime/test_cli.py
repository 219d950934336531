"""Exit codes, and one sentence for a person where something is wrong; nothing is written then."""

import errno
import gzip
import os
import platform
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.errors import InputError, RunError
from jobs.runtime import cli, commands, help_text, signals
from jobs.runtime.console import say
from jobs.runtime.key_types import UNKNOWN, type_of
from jobs.store import lease, locations, lock, s3
from jobs.verify import VerifyConfig
from tests.factories import FIVE, picture, rating, record, write_records, write_table

ROOT = Path(__file__).resolve().parents[3]


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
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "index.html").write_text("my thesis")
    (tmp_path / "raters.csv").write_text("rater,item,value\nada,x,1\n")
    (tmp_path / "binary").write_bytes(bytes(range(128, 256)))
    write_records(str(tmp_path / "matches"), [[record("a")]])
    write_table(tmp_path / "pictures", "images", [picture(1)])
    write_table(tmp_path / "ratings", "ratings", [rating("a", "m", "q", "1")], rubric=FIVE)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "rows.parquet")
    (tmp_path / "mood.yaml").write_text("name: mood\nquestions: [{name: a, answers: [1, 2]}, {name: b, text: B?}]\n")
    return tmp_path


MINE = ["mine", "terms.path={f}/terms.csv", "out={f}/out"]
JUDGE = ["judge", "input={f}/pictures", "model=local-tiny", "out={f}/out"]
# What users have tried: the arguments, and parts of the message. The first of several begins it: the key and its value;
# the others say what is allowed, and what to do.
BAD: dict[str, tuple[list[str], str | tuple[str, ...]]] = {
    "missing file": (
        [*MINE, "corpus.path={f}/none.tsv"],
        ("corpus.path={f}/none.tsv: does not exist", "{f} has bare, "),
    ),
    "empty glob": ([*MINE, "corpus.path={f}/*.nope"], ("corpus.path={f}/*.nope: no file matches", "{f} has bare, ")),
    "empty folder": ([*MINE, "corpus.path={f}/bare"], "{f}/bare: no file matches; the folder has no files"),
    "no such column": (
        [*MINE, "corpus.path={f}/narrow.tsv.gz"],
        ("corpus.path={f}/narrow.tsv.gz: no column image_url, page_title", "remine items"),
    ),
    "empty file": ([*MINE, "corpus.path={f}/empty.tsv"], "{f}/empty.tsv: empty"),
    "truncated header": ([*MINE, "corpus.path={f}/cut.tsv.gz"], "{f}/cut.tsv.gz: the compressed file ends"),
    "no terms": (
        ["mine", "terms.path={f}/none.csv", "corpus.path={f}/good.tsv", "out={f}/out"],
        ("terms.path={f}/none.csv: does not exist", "{f} has"),
    ),
    "no scheme": ([*MINE, "corpus.path=gs://b/x"], "gs://b/x"),
    "unknown key": ([*MINE, "corpus.path={f}/good.tsv", "nokey=1"], ("nokey: no such key", "allowed: corpus, ")),
    "unknown option": (
        [*MINE, "corpus.path={f}/good.tsv", "resources=x"],
        ("resources=x: no such option", "must be one of cluster, ", "or your own .yaml file"),
    ),
    "mistyped": ([*MINE, "corpus.path={f}/good.tsv", "resume=maybe"], ("resume=maybe: ", "must be true or false")),
    "misspelt key": (
        [*MINE, "corpus.pth=x"],
        ("corpus.pth: no such key", "did you mean corpus.path?", "allowed in corpus: "),
    ),
    "letters swapped": (
        [*MINE, "corpus=wti", "corpus.path={f}/good.tsv"],
        ("corpus=wti: no such option", "did you mean wit?", "must be one of wit, wit_base"),
    ),
    "misspelt model": (
        ["judge", "input={f}/matches", "model=local-tinny", "out={f}/out"],
        ("model=local-tinny: no such option", "did you mean local-tiny?", "must be one of "),
    ),
    "misspelt rule": (
        [*MINE, "corpus.path={f}/good.tsv", "match=words"],
        ("match=words: must be one of substring, word, exact", "did you mean word?"),
    ),
    "no such local model": (
        ["judge", "input={f}/pictures", "model.checkpoint=local:nosuch", "out={f}/out"],
        ("model.checkpoint=local:nosuch: no such local model", "must be one of demo-encoder"),
    ),
    "a key of another job": (
        ["judge", "input={f}/matches", "--corpus.language", "en"],
        "corpus.language: no such key; allowed: ",
    ),
    "not given": (["mine"], ("required: corpus.path=, out=, terms.path=", "--help")),
    "unknown option with dashes": (["mine", "--verbose"], "verbose: no such key"),
    "option without a value": ([*MINE, "--corpus.path"], "--corpus.path: a value is missing"),
    "a glob that the shell expanded": (
        [*MINE, "--corpus.path", "{f}/good.tsv", "{f}/empty.tsv"],
        "the shell made several words of corpus.path=: quote it, as in 'corpus.path={f}/*.tsv'",
    ),
    "a list for a path": (
        [*MINE, "corpus.path=[a,b]"],
        ("corpus.path={cwd}/[a,b]: no file matches", "not a list", "give a glob"),
    ),
    "a number in words": ([*MINE, "ray.num_cpus=two"], ("ray.num_cpus=two: must be a whole number",)),
    "a Boolean without a value": ([*MINE, "overwrite"], "use overwrite=true or --overwrite"),
    "a key without its group": (
        [*MINE, "lang=en"],
        ("lang: no such key", "did you mean corpus.language?", "allowed: "),
    ),
    "a misspelt file": (
        [*MINE, "corpus.path={f}/god.tsv"],
        ("corpus.path={f}/god.tsv: does not exist", "did you mean {f}/good.tsv?"),
    ),
    "a model of the hub": (
        ["judge", "input={f}/matches", "model=Qwen/Qwen2.5-VL-7B", "out={f}/out"],
        "no such option (a model of the hub or a folder is model.checkpoint=Qwen/Qwen2.5-VL-7B); ",
    ),
    "no such rubric": (
        ["judge", "input={f}/matches", "rubric={f}/none.yaml", "out={f}/out"],
        ("rubric={f}/none.yaml: does not exist", "{f} has "),
    ),
    "a rubric of a similar name": (
        [*JUDGE, "rubric=culture"],
        ("rubric=culture: no such option", "did you mean cultural_relevance?", "or your own .yaml file"),
    ),
    "all mistakes of a rubric": (
        [*JUDGE, "rubric={f}/mood.yaml"],
        ("rubric 'mood', question 'a'", "missing key 'text'", "required are ", "also: rubric 'mood', question 'b'"),
    ),
    "a label for a list": (
        ["judge", "input={f}/matches", "rubric=cultural_relevance", "targets=Peru", "out={f}/out"],
        ("targets=Peru: no such file, and no such list", "world_religions", "as a list, targets=[Peru]"),
    ),
    "no table": (
        ["curate", "input={f}/bare", "out={f}/out"],
        ("input={f}/bare: no table here", "expected records (written by: records: mine, "),
    ),
    "no place": (
        ["curate", "input={f}/none", "out={f}/out"],
        ("input={f}/none: no table here", "expected records (written by", "{f} has "),
    ),
    "foreign table": (["curate", "input={f}/foreign", "out={f}/out"], "not a table of remine; expected records"),
    "broken table": (["curate", "input={f}/broken", "out={f}/out"], "x.parquet: not a readable Parquet file"),
    "wrong table": (
        ["embed", "input={f}/matches", "embedder=local-tiny", "out={f}/out"],
        ("input={f}/matches: is a table 'records', expected images or texts", "(written by: images: fetch, "),
    ),
    "wrong table for a list": (
        ["report", "ratings={f}/matches", "out={f}/out"],
        ("ratings={f}/matches: is a table 'records', expected ratings", "(written by: ratings: judge, "),
    ),
    "wrong table for a model": (
        ["judge", "input={f}/matches", "model=local-tiny", "out={f}/out"],
        ("input={f}/matches: is a table 'records', expected images or items", "(written by: images: fetch, "),
    ),
    "foreign out": (["curate", "input={f}/matches", "out={f}/foreign"], "{f}/foreign: not empty"),
    "out in a file": (["curate", "input={f}/matches", "out={f}/good.tsv/x"], "{f}/good.tsv/x: "),
    "out is the input": (["curate", "input={f}/matches", "out={f}/matches"], "out={f}/matches: contains the input"),
    "out inside a table": (
        ["curate", "input={f}/matches", "out={f}/matches/chosen"],
        "out={f}/matches/chosen: inside table {f}/matches",
    ),
    "another table": (
        ["import_ratings", "input={f}/raters.csv", "table=raters", "out={f}/matches"],
        ("out={f}/matches: a table 'records' exists", "this job writes 'raters'", "use another out="),
    ),
    "another configuration": (
        [*MINE, "corpus.path={f}/good.tsv", "out={f}/matches"],
        (
            "out={f}/matches: written with another configuration: ",
            "was not set, now ",
            "use another out= or overwrite=",
        ),
    ),
    "no such column of terms": (
        [*MINE, "corpus.path={f}/good.tsv", "terms.column=word"],
        ("terms.path={f}/terms.csv: no column word", "there are term", "choose one with terms.column="),
    ),
    "Parquet as TSV": (
        [*MINE, "corpus.path={f}/rows.parquet"],
        ("corpus.path={f}/rows.parquet: the format is Parquet", "corpus=wit reads .tsv", "corpus=wit_base reads "),
    ),
    "TSV as Parquet": (
        [*MINE, "corpus=wit_base", "corpus.path={f}/good.tsv"],
        ("corpus.path={f}/good.tsv: ", "none of them .parquet", "corpus=wit reads TSV"),
    ),
    "the size of a draw": (
        ["curate", "input={f}/matches", "out={f}/out", "size=5"],
        ("size: no such key", "did you mean draw.n?", "allowed: "),
    ),
    "no credentials": (
        [*MINE, "corpus.path=s3://bucket/x.tsv"],
        ("corpus.path=s3://bucket/x.tsv: no AWS credentials", "set AWS_ACCESS_KEY_ID and ", "AWS_PROFILE="),
    ),
    "no contact": (
        ["fetch", "source=urls", "input={f}/matches", "out={f}/out"],
        ("source.contact= is required", "an e-mail address or web page", "for example source.contact="),
    ),
    "an invented contact": (
        ["fetch", "source=urls", "source.contact=you@example.com", "input={f}/matches", "out={f}/out"],
        ("source.contact=you@example.com: a placeholder", "use an address "),
    ),
    "no folder of pictures": (
        ["fetch", "source=folder", "input={f}/matches", "out={f}/out"],
        ("source.path= is required with source=folder", "where the pictures are", "source=urls"),
    ),
    "a folder without pictures": (
        ["fetch", "source=folder", "source.path={f}/bare", "input={f}/matches", "out={f}/out"],
        ("source.path={f}/bare: no file matches", "the folder has no files"),
    ),
    "an attribute that no item has": (
        ["report", "ratings={f}/ratings", "metrics.disaggregate=[region]", "out={f}/out"],
        (
            "metrics.disaggregate=region: no item has this attribute",
            "must be one of target",
            "add its table with items=",
        ),
    ),
    "a folder of tables": (["curate", "input={f}", "out={f}/out"], "{f}: a folder of several tables: matches"),
    "no value": (["fetch", "source.path={f}", "input=", "out={f}/out"], "input=: empty value"),
    "plan for a foreign out": (
        ["curate", "input={f}/matches", "out={f}/foreign", "plan=true"],
        "{f}/foreign: not empty",
    ),
    "a file for a folder": (
        ["fetch", "source.path={f}/terms.csv", "input={f}/matches", "out={f}/out"],
        "source.path={f}/terms.csv: ",
    ),
    "a page of others": (
        ["analyze", "input={f}/raters.csv", "out={f}/page"],
        "out={f}/page: this job did not write its index.html",
    ),
    "a page of others, report": (["report", "ratings=[{f}/matches]", "out={f}/page"], "records', expected ratings"),
    "labels that are no text": (
        ["judge", "input={f}/matches", "model=local-tiny", "targets={f}/binary", "out={f}/out"],
        "targets={f}/binary: ",
    ),
    "empty out": (["curate", "input={f}/matches", "out="], "empty path"),
    "unknown status": (["curate", "input={f}/matches", "out={f}/out", "retry=[bad]"], "retry=bad: no such status"),
    "no pictures": (
        ["fetch", "source.path={f}/none", "out={f}/out"],
        ("source.path={f}/none: does not exist", "{f} has "),
    ),
    "no times": (["verify", "-v"], "verify: -v: only for jobs that use Ray"),
    "verify nothing": (["verify", "input={f}/bare"], "{f}/bare: no table here"),
    "report nothing": (["report", "out={f}/out"], "give ratings="),
    "no pipeline": (
        ["run", "pipeline=x", "out={f}/out"],
        ("pipeline=x: no such option", "must be one of caire, century"),
    ),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_bad_input_is_one_sentence_exit_code_2_and_nothing_written(
    case: tuple[list[str], str | tuple[str, ...]],
    files: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable in [variable for variable in os.environ if variable.startswith("AWS_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    s3.forget_settings()
    (name, *arguments), parts = case
    before = {p: p.stat().st_mtime_ns for p in files.rglob("*")}
    assert cli.main(name, [a.replace("{f}", str(files)) for a in arguments]) == 2
    printed = capsys.readouterr()
    fragments = [part.format(f=files, cwd=Path.cwd()) for part in ([parts] if isinstance(parts, str) else parts)]
    assert [part for part in fragments if part not in printed.err] == []
    if not isinstance(parts, str):
        assert printed.err.removeprefix("error: ").removeprefix(f"{name}: ").startswith(fragments[0])
    assert re.fullmatch(r"error: [^\n]+\n", printed.err)
    assert printed.out == ""
    assert {p: p.stat().st_mtime_ns for p in files.rglob("*")} == before


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (None, 0, ""),
        (RunError("it broke"), 1, "error: it broke\n"),
        (InputError("no input"), 2, "error: no input\n"),
        (KeyboardInterrupt(), 130, "interrupted: completed units are kept; run the same command again to resume\n"),
        (
            OSError(errno.ENOSPC, "No space left on device", "/full/x"),
            1,
            "error: /full/x: No space left on device; free space there. "
            "Completed units are kept; run the same command again to resume.\n",
        ),
        (signals.Terminated(), 143, "interrupted: completed units are kept; run the same command again to resume\n"),
    ],
)
def test_exit_codes(
    raised: BaseException | None,
    code: int,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def execute(name: str, overrides: list[str]) -> None:
        if raised is not None:
            raise raised

    monkeypatch.setattr(cli, "execute", execute)
    monkeypatch.setattr(signals, "settle", lambda: None)  # it would leave this process deaf to Ctrl-C
    assert cli.main("curate", ["input=x"]) == code
    assert capsys.readouterr().err == message


def test_a_job_that_cannot_resume_does_not_promise_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def execute(name: str, overrides: list[str]) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "execute", execute)
    monkeypatch.setattr(signals, "settle", lambda: None)
    assert cli.main("view", ["R"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_a_bug_is_not_dressed_up_as_bad_input(monkeypatch: pytest.MonkeyPatch) -> None:
    def execute(name: str, overrides: list[str]) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(cli, "execute", execute)
    with pytest.raises(ZeroDivisionError):
        cli.main("verify", [])


@pytest.mark.parametrize("name", commands.JOBS)
def test_help_and_cfg_of_every_job(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(name, ["--help"]) == 0
    printed = capsys.readouterr().out
    assert re.search(rf"(python -m jobs\.|remine ){name}\b", printed)
    for key in help_text.keys(name, cli.job(name).schema):
        assert f"  {key.name}" in printed
    assert [line for line in printed.splitlines() if len(line) > help_text.WIDEST] == []
    schema = cli.job(name).schema
    place = next(key for key in ("out", "input", "inputs", "a") if type_of(schema, key) is not UNKNOWN)
    assert cli.main(name, ["--cfg", f"--{place}", "somewhere"]) == 0
    assert "somewhere" in capsys.readouterr().out


def test_the_module_lists_all_jobs_and_exits_as_main_says(tmp_path: Path) -> None:
    def python(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)

    listed = python("jobs")
    assert listed.returncode == 0
    assert re.findall(r"^  (\w+) +\S", listed.stdout, re.M) == list(commands.JOBS)
    for unknown in (["jobs.verfy"], ["jobs", "verfy"]):
        refused = python(*unknown)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr.startswith("error: verfy: no such job (did you mean verify?)")
    for module in (["jobs.verify"], ["jobs", "verify"]):
        failed = python(*module, f"input={tmp_path}")
        assert (failed.returncode, failed.stdout) == (2, "")
        assert failed.stderr.startswith(f"error: input={tmp_path}: no table here (no .parquet objects)")


def test_a_misspelt_job_is_pointed_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run_command(["jugde", "input=x"]) == 2
    assert capsys.readouterr().err.startswith(
        "error: jugde: no such job (did you mean judge?); must be one of analyze, "
    )


def test_the_version_is_the_installed_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run_command(["--version"]) == 0
    assert cli.main("verify", ["--version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second == f"remine {metadata.version('remine')}, Python {platform.python_version()}"


IMPORTED = """
import sys
from jobs.runtime import commands

code = commands.run_command({arguments!r})
print(*sorted(sys.modules))
sys.exit(code)
"""
MODELS = {"ray", "torch", "transformers", "open_clip"}
DRAWING = {"matplotlib", "scipy", "pandas"}


def test_lists_help_and_refusals_import_little() -> None:
    # Each takes seconds to import, and a folder that does not exist is refused before a model is built.
    cases: dict[tuple[str, ...], tuple[int, set[str]]] = {
        (): (0, MODELS | DRAWING | {"hydra", "omegaconf", "pyarrow", "numpy"}),
        ("completion", "bash"): (0, MODELS | DRAWING | {"hydra", "omegaconf", "pyarrow", "numpy"}),
        ("judge", "--help"): (0, MODELS | DRAWING),
        ("report", "--help"): (0, MODELS | DRAWING),
        ("embed", "nokey=1"): (2, MODELS | DRAWING),
        ("run",): (2, MODELS | DRAWING),
        ("judge", "input=nothing", "model=local-tiny", "rubric=dsg", "out=o"): (2, MODELS | DRAWING),
        ("zero_shot", "input=nothing", "embedder=local-tiny", "targets=[a,b]", "out=o"): (2, MODELS | DRAWING),
        ("generate_images", "input=nothing", "out=o"): (2, MODELS | DRAWING),
    }
    for arguments, (code, banned) in cases.items():
        process = subprocess.run(
            [sys.executable, "-c", IMPORTED.format(arguments=list(arguments))],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (process.returncode, process.stderr[:7]) == (code, "error: "[: 7 * (code > 0)]), arguments
        assert banned & set(process.stdout.splitlines()[-1].split()) == set(), arguments


def test_a_reader_that_goes_away_ends_no_run() -> None:
    talkative = "from jobs.runtime.console import say; [say('x' * 100_000) for _ in range(20)]; say('done', err=True)"
    with subprocess.Popen(
        [sys.executable, "-c", talkative], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.close()
        assert process.stderr.read() == "done\n"
    assert process.returncode == 0


def test_a_terminal_without_the_letters_gets_a_mark_instead() -> None:
    process = subprocess.run(
        [sys.executable, "-c", "from jobs.runtime.console import say; say('Łódź')"],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert process.stdout == b"??d?\n"


def test_names_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say("title\x1b]0;mine\x07, clear\x9b2J, back\r\b, reversed\u202eflow, tab\tline\nŁódź 写真")
    assert capsys.readouterr().out == (
        r"title\x1b]0;mine\x07, clear\x9b2J, back\r\x08, reversed\u202eflow, tab" "\tline\nŁódź 写真\n"
    )


INTERRUPTED = """
import os, signal, sys, time
from jobs.runtime import cli

def run(name, overrides):
    os.kill(os.getpid(), signal.{first})
    time.sleep(10)

cli.execute = run
code = cli.main("curate", [])
os.kill(os.getpid(), signal.SIGINT)  # a second Ctrl-C, while the process is ending
os.kill(os.getpid(), signal.SIGTERM)
sys.exit(code)
"""


@pytest.mark.parametrize(("first", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_ends_a_run_with_one_line_and_a_second_one_disturbs_nothing(first: str, code: int) -> None:
    program = INTERRUPTED.format(first=first)
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == code
    assert ended.stderr == "interrupted: completed units are kept; run the same command again to resume\n"


def test_a_run_that_is_interrupted_releases_its_table_at_once(
    tmp_path: Path, s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [write_table(place, "images", []) for place in (tmp_path / "local", locations.join(s3, "interrupted"))]

    def execute(_: object) -> None:
        assert all(lock.acquire(place) for place in places)
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "job", lambda name: cli.Job(name, VerifyConfig, execute))
    lock.release_all()
    with pytest.raises(KeyboardInterrupt) as caught:  # which holds the frames of the run
        cli.execute("verify", ["input=x"])
    assert all(lock.acquire(place) for place in places)
    for place in places:
        lock.release(place)
    assert not locations.exists(locations.join(places[1], "_run", lease.NAME))
    assert caught.value.__traceback__ is not None
