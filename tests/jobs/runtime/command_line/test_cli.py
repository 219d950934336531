"""Exit codes, help, what a command imports, and how signals end it."""

import errno
import os
import platform
import re
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import InputError, RunError
from jobs.runtime.command_line import cli, commands, help_text, job_names
from jobs.runtime.command_line.cli import complete_error, to_overrides
from jobs.runtime.configuration.config import Common
from jobs.runtime.configuration.key_types import UNKNOWN, type_of
from jobs.runtime.process import signals
from jobs.runtime.process.console import say
from jobs.store.files import locations
from jobs.store.runs import lock
from jobs.verify import VerifyConfig
from tests.cases import check_cases
from tests.factories import write_table

ROOT = Path(__file__).resolve().parents[4]


def test_exit_codes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [
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
    ]

    def check(raised: BaseException | None, code: int, message: str) -> None:
        def execute(name: str, overrides: list[str]) -> None:
            if raised is not None:
                raise raised

        monkeypatch.setattr(cli, "execute", execute)
        monkeypatch.setattr(signals, "settle", lambda: None)  # it would leave this process deaf to Ctrl-C
        assert cli.main("curate", ["input=x"]) == code
        assert capsys.readouterr().err == message

    check_cases(check, cases)


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


def test_help_and_cfg_of_every_job(capsys: pytest.CaptureFixture[str]) -> None:
    def check(name: str) -> None:
        assert cli.main(name, ["--help"]) == 0
        printed = capsys.readouterr().out
        assert re.search(rf"(python -m jobs\.|remine ){name}\b", printed)
        for key in help_text.keys(name, cli.job(name).schema):
            assert f"  {key.name}" in printed
        assert [line for line in printed.splitlines() if len(line) > help_text.WIDEST] == []
        schema = cli.job(name).schema
        places = [key for key in ("out", "input", "inputs", "a") if type_of(schema, key) is not UNKNOWN]
        assert places or name == "models"  # which reads conf/
        assert cli.main(name, ["--cfg", *(["--" + places[0], "somewhere"] if places else [])]) == 0
        assert ("somewhere" if places else "gated") in capsys.readouterr().out

    check_cases(check, job_names.JOBS)


def test_the_module_lists_all_jobs_and_exits_as_main_says(tmp_path: Path) -> None:
    def python(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)

    listed = python("jobs")
    assert listed.returncode == 0
    assert set(re.findall(r"^  (\w+) +\S", listed.stdout, re.M)) == set(job_names.COMMANDS)
    assert [step for job in job_names.STEPS if f" {(step := job.split()[1])}" not in listed.stdout] == []
    for unknown in (["jobs.verfy"], ["jobs", "verfy"]):
        refused = python(*unknown)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr.startswith("error: verfy: no such job (did you mean verify?)")
    for module in (["jobs.verify"], ["jobs", "verify"]):
        failed = python(*module, f"input={tmp_path}")
        assert (failed.returncode, failed.stdout) == (2, "")
        assert failed.stderr.startswith(f"error: input={tmp_path}: no table here (no .parquet objects)")


def test_a_misspelt_job_is_pointed_out(capsys: pytest.CaptureFixture[str]) -> None:
    """Also one in other words, in another order, or a step without its command."""
    cases = [
        ("jugde", "judge"),
        ("analyse", "report input=FILE"),
        ("delete", "rm"),
        ("gc", "rm interrupted=true"),
        ("show-links", "link show"),
        ("rerank", "tric rerank"),
        ("import_csv", "import_ratings"),
        ("Judge", "judge"),
    ]

    def check(typed: str, meant: str) -> None:
        assert commands.run_command([typed, "input=x"]) == 2
        assert f"no such job (did you mean {meant}?); a study of your own uses init, items, " in capsys.readouterr().err

    check_cases(check, cases)
    assert commands.run_command(["xyzzy"]) == 2
    assert capsys.readouterr().err.startswith("error: xyzzy: no such job; a study of your own uses init, items, ")
    assert commands.run_command(["judge model=local-tiny"]) == 2
    quoted = "error: 'judge model=local-tiny': no such job; the quotes make one word of it: "
    assert capsys.readouterr().err.startswith(quoted)


def test_steps_are_jobs_of_their_command(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["tric"], ["tric", "--help"], ["help", "tric"]):
        assert commands.run_command(words) == 0
        assert re.findall(r"^  (\w+) ", capsys.readouterr().out, re.M) == job_names.steps_of("tric")
    for words in (["link", "show", "--help"], ["help", "link", "show"]):
        assert commands.run_command(words) == 0
        assert "remine link show " in capsys.readouterr().out
    for words, why in (
        (["tric", "rnak", "split=x"], "tric rnak: no such step (did you mean rank?); must be one of captions, "),
        (["tric", "split=x"], "tric needs a step; must be one of captions, "),
        (["link", "shwo", "k=1"], "link shwo: no such step (did you mean show?); must be one of evaluate, "),
        (["link", "show", "k=1"], "out=: required; remine link show --help"),
        (["link", "k=1"], "neighbors=, out=: required; remine link --help"),
    ):
        assert commands.run_command(words) == 2
        assert why in capsys.readouterr().err


def test_hyphens_are_accepted_for_underscores(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["zero-shot", "--help"],
        ["help", "zero-shot"],
    ):
        assert commands.run_command(words) == 0
    assert commands.run_command(["items", "--cfg", "unit-rows=7", "--pictures.on-error=x"]) == 2
    capsys.readouterr()
    assert commands.run_command(["items", "--cfg", "unit-rows=7"]) == 0
    assert "unit_rows: 7" in capsys.readouterr().out


def test_an_option_before_the_job_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run_command(["--overwrite", "mine"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: --overwrite: no such option")
    for asked in ([], ["--help"], ["help"]):
        assert commands.run_command(asked) == 0
        assert "mine" in capsys.readouterr().out


def test_help_may_be_asked_for_before_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run_command(["help", "ls"]) == 0
    assert "inputs" in capsys.readouterr().out
    assert commands.run_command(["help", "jugde"]) == 2
    assert capsys.readouterr().err.startswith("error: jugde: no such job (did you mean judge?)")


def test_the_version_is_the_installed_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.run_command(["--version"]) == 0
    assert cli.main("verify", ["--version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second == f"remine {metadata.version('remine')}, Python {platform.python_version()}"


IMPORTED = """
import sys
from jobs.runtime.command_line import commands, job_names

code = commands.run_command({arguments!r})
print(*sorted(sys.modules))
sys.exit(code)
"""
MODELS = {"ray", "torch", "transformers", "open_clip"}
DRAWING = {"matplotlib", "scipy", "pandas"}


def test_lists_help_and_refusals_import_little() -> None:
    # Each takes seconds to import, and a folder that does not exist is refused before a model is built.
    cases: dict[tuple[str, ...], tuple[int, set[str]]] = {
        (): (0, MODELS | DRAWING | {"omegaconf", "yaml", "pyarrow", "numpy"}),
        ("completion", "bash"): (0, MODELS | DRAWING | {"omegaconf", "yaml", "pyarrow", "numpy"}),
        ("judge", "--help"): (0, MODELS | DRAWING | {"jinja2", "pyarrow.compute"}),
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


def test_a_closed_pipe_does_not_end_a_run() -> None:
    talkative = (
        "from jobs.runtime.process.console import say; [say('x' * 100_000) for _ in range(20)]; say('done', err=True)"
    )
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
        [sys.executable, "-c", "from jobs.runtime.process.console import say; say('Łódź')"],
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
from jobs.runtime.command_line import cli, job_names

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
    assert not locations.exists(locations.join(places[1], "_run", lock.LEASE))
    assert caught.value.__traceback__ is not None


@dataclass
class Inner:
    name: str = ""


@dataclass
class Keys(Common):
    input: str | None = None
    near_distance: int = 4
    ratings: list[str] = field(default_factory=list)
    counts: list[int] | None = None
    targets: Any = None
    columns: dict[str, Any] = field(default_factory=dict)
    inner: Inner = field(default_factory=Inner)


def test_forms() -> None:
    cases = [
        ("input=a", "input=a"),
        ("--input a", "input=a"),
        ("--input=a", "input=a"),
        ("--input a=b", "input=a=b"),
        ("--inner.name x --columns.item id", "inner.name=x columns.item=id"),
        ("--near-distance -1", "near_distance=-1"),
        ("--overwrite", "overwrite=true"),
        ("--overwrite input=a", "overwrite=true input=a"),
        ("--resume false --input a", "resume=false input=a"),
        ("--ratings a", "ratings=[a]"),
        ("--ratings a b", "ratings=[a,b]"),
        ("--ratings a --input x --ratings b", "ratings=[a,b] input=x"),
        ("ratings=a input=x ratings=b", "ratings=[a,b] input=x"),
        ("--ratings a b out=x", "ratings=[a,b] out=x"),
        ("--ratings a input b", "ratings=[a,input,b]"),  # a value may be named like a key
        ("--ratings a year=2020/x", "ratings=[a,'year=2020/x']"),
        ("--ratings a,b", "ratings=['a,b']"),
        ("ratings=[a,b]", "ratings=[a,b]"),
        ("--ratings [a,b]", "ratings=[a,b]"),
        ("ratings=[a] ratings=[b]", "ratings=[a] ratings=[b]"),
        ("ratings=${a}", "ratings=${a}"),
        ("++ratings=a ++ratings=b", "++ratings=[a,b]"),
        ("++targets=a ++targets=b", "++targets=[a,b]"),
        ("input=a input=b", "input=a input=b"),
        ("--columns.my-key x", "columns.my-key=x"),
        ("--counts 1 2", "counts=[1,2]"),
        ("--counts 1 -2 -0.5", "counts=[1,-2,-0.5]"),
        ("--input out=x out=y", "input=out=x out=y"),  # the first value is one, whatever it looks like
        ("--ratings out=x out=y", "ratings=['out=x'] out=y"),
        ("--ratings a inner.name=x", "ratings=[a] inner.name=x"),
        ("--ratings a --resume input=b", "ratings=[a] resume=true input=b"),
        ("--ratings a ++columns.x=b", "ratings=[a] ++columns.x=b"),
        ("counts=null", "counts=null"),
        ("--targets Japan", "targets=Japan"),
        ("--targets Japan Brazil", "targets=[Japan,Brazil]"),
        ("--nosuch 3", "--nosuch=3"),
        ("--nosuch", "--nosuch="),
        ("++columns.a=b", "++columns.a=b"),
    ]

    def check(arguments: str, overrides: str) -> None:
        assert to_overrides("job", Keys, arguments.split(" ")) == overrides.split(" ")

    check_cases(check, cases)


def test_what_is_refused() -> None:
    cases = [
        ("--input", "--input: a value is missing"),
        ("--input --overwrite", "--input: a value is missing"),
        ("--ratings --overwrite", "--ratings: a value is missing"),
        ("--input a b", "'b' is not key=value"),
        ("overwrite", "'overwrite' is not key=value"),
        ("-x", "'-x' is not key=value"),
        ("--overwrite yes", "'yes' is not key=value"),
        ("ratings=[a] ratings=b", "given both as a list and as single values"),
    ]

    def check(arguments: str, message: str) -> None:
        with pytest.raises(InputError, match=f"^job: .*{message.replace('[', '.')}"):
            to_overrides("job", Keys, arguments.split(" "))

    check_cases(check, cases)


def test_values_alone_belong_to_positional_keys() -> None:
    for arguments, positional, overrides in (
        ("a", ("input",), ["input=a"]),
        ("a b", ("ratings",), ["ratings=[a,b]"]),
        ("a --overwrite b c", ("input", "ratings"), ["input=a", "overwrite=true", "ratings=[b,c]"]),
        ("near_distance=3 s3://b/x", ("input",), ["near_distance=3", "input=s3://b/x"]),
        ("a b c", ("ratings", "input"), ["ratings=[a,b]", "input=c"]),
        ("a b --inner.name c", ("ratings", "input"), ["ratings=[a]", "input=b", "inner.name=c"]),
        ("ratings=[a,b] c", ("ratings", "input"), ["ratings=[a,b]", "input=c"]),
        ("a input=b", ("ratings", "input"), ["ratings=[a]", "input=b"]),
        ("a --input b", ("ratings", "input"), ["ratings=[a]", "input=b"]),
        ("a b out=x", ("ratings", "input"), ["ratings=[a]", "input=b", "out=x"]),
        ("ratings=a b c", ("ratings", "input"), ["ratings=[a,b]", "input=c"]),
        ("a", ("input", "ratings"), ["input=a"]),
        ("input", ("input",), ["input=input"]),
    ):
        assert to_overrides("job", Keys, arguments.split(" "), positional=positional) == overrides
    for arguments, refused in (("a b", "'b'"), ("-x", "'-x'"), ("overwrite", "'overwrite'")):
        with pytest.raises(InputError, match=f"{refused} is not key=value"):
            to_overrides("job", Keys, arguments.split(" "), positional=("input",))


def test_a_file_may_be_named_like_a_switch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "overwrite").touch()
    assert to_overrides("job", Keys, ["overwrite"], positional=("input",)) == ["input=overwrite"]


def test_what_to_write_instead_of_a_value_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.csv", "b.csv.gz"):
        (tmp_path / name).touch()
    cases = [
        ("overwrite", "use overwrite=true or --overwrite"),
        ("input=a overwrite", "use overwrite=true or --overwrite"),
        ("input", "use input=VALUE or --input VALUE"),
        ("input= a.csv", "input= has no value: remove the space after =, as in input=a.csv"),
        ("input=a.csv b.csv.gz", "the shell made several words of input=: quote it, as in 'input=*.csv'"),
        ("--input b.csv.gz a.csv", "the shell made several words of input=: quote it, as in 'input=*.csv.gz'"),
        ("input=a nosuch", "name the key of each value; did you mean out=nosuch?"),
        ("a.csv", "name the key of each value; did you mean input=a.csv?"),
        ("out=o a.csv", "name the key of each value; did you mean input=a.csv?"),
        ("input=a out=o a.csv", "use key=value or --key value"),
        ("input:a", "use input=a"),
        ("-input a.csv", "use input=a.csv or --input a.csv"),
        ("-o a.csv", "options are written in full, as in out=VALUE"),
        ("ratings=[a, b]", "the shell divided the list of ratings= at a space: quote it, as in 'ratings=[a,b]'"),
    ]

    def check(arguments: str, remedy: str) -> None:
        last = arguments.partition(" ")[0] if arguments.startswith("-") and "--" not in arguments else ""
        last = last or arguments.rpartition(" ")[2]
        with pytest.raises(InputError, match=re.escape(f"job: '{last}' is not key=value; {remedy}")):
            to_overrides("job", Keys, arguments.split(" "))

    check_cases(check, cases)


def test_v_is_for_jobs_that_use_ray() -> None:
    assert cli._overrides("embed", ["out=o", "-v"]) == ["out=o", "timings=true"]
    assert cli._overrides("verify", ["input=T"]) == ["input=T"]
    with pytest.raises(InputError, match=r"^verify: -v: only for jobs that use Ray; omit it$"):
        cli._overrides("verify", ["input=T", "-v"])


@dataclass
class NamedCorpus:
    path: str = "/c/*.tsv"


@dataclass
class NamedKeys:
    input: str = "/r/a"
    out: str = "/r"
    model: str = "local:tiny"
    ratings: list[str] = field(default_factory=lambda: ["/r/x", "s3://b/y"])
    corpus: NamedCorpus = field(default_factory=NamedCorpus)
    columns: Any = None


def completed_text(error: InputError, values: Any = None, **chosen: str) -> str:
    complete_error(error, asdict(NamedKeys()) if values is None else values, chosen)
    return str(error)


def test_the_key_that_names_a_place_is_found() -> None:
    expected = {
        "/r/a": "input=/r/a: no table",
        "/r/a/x.parquet": "input=/r/a: /r/a/x.parquet: no table",
        "/r/b": "out=/r: /r/b: no table",
        "s3://b/y": "ratings=s3://b/y: no table",
        "/c/1.tsv": "corpus.path=/c/*.tsv: /c/1.tsv: no table",
        "local:tiny": "model=local:tiny: no table",
        "/r2/a": "/r2/a: no table",
    }
    assert {place: completed_text(InputError("no table", place=place)) for place in expected} == expected


def test_a_key_that_is_known_is_not_looked_for() -> None:
    """Two keys may have the same path."""
    values = {"input": "/r/a", "records": "/r/a", "ratings": ["/r/x", "/r/y"]}
    for key, place, expected in (
        ("records", "/r/a", "records=/r/a: odd"),
        ("records", "/r/a/x", "records=/r/a: /r/a/x: odd"),
        ("records", "/r/z", "records=/r/a: /r/z: odd"),
        ("ratings", "/r/y", "ratings=/r/y: odd"),
    ):
        assert completed_text(InputError("odd", key=key, place=place), values) == expected


def test_a_key_gets_its_value() -> None:
    values: dict[str, Any] = {"ratings": ["a", "b"], "many": ["a", "b", "c", "d"], "source": {"path": "/x"}, "by": None}
    values |= {"axes": {}, "three": [1, True, 0.5], "size": 2.0, "plan": True}
    for key, expected in (
        ("ratings", "ratings=[a,b]: odd"),
        ("many", "many=[a,b,c,…]: odd"),
        ("three", "three=[1,true,0.5]: odd"),
        ("size", "size=2: odd"),
        ("plan", "plan=true: odd"),
        ("by", "by=null: odd"),
        ("axes", "axes: odd"),
        ("source", "source: odd"),
        ("source.path", "source.path=/x: odd"),
        ("rubric", "rubric=mood.yaml: odd"),
        ("other", "other: odd"),
    ):
        assert completed_text(InputError("odd", key=key), values, rubric="mood.yaml") == expected
    assert completed_text(InputError("odd", key="size", value=3), values) == "size=3: odd"


def test_relative_paths_are_recognised_as_they_were_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    values = {"input": "r/a"}
    assert completed_text(InputError("no table", place=f"{tmp_path}/r/a"), values) == f"input={tmp_path}/r/a: no table"
    assert completed_text(InputError("no table", place="r/a"), values) == "input=r/a: no table"
    below = f"{tmp_path}/r/a/x.parquet"
    assert completed_text(InputError("damaged", place=below), values) == f"input=r/a: {below}: damaged"
    with pytest.raises(InputError, match=f"^input={tmp_path}/r: no table here"):
        cli.execute("verify", ["input=r"])
