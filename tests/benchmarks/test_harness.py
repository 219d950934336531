"""The harness: contenders are compared before they are timed, take turns, and are summed up as by hand."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.benchmarks import __main__ as command
from tests.benchmarks import harness, machine, measure, records
from tests.benchmarks.child import Result, SkippedError
from tests.benchmarks.harness import Benchmark, Contender, MismatchError, Outcome, Size, Spread, Target
from tests.benchmarks.measure import Measured
from tests.benchmarks.report import to_markdown
from tests.cases import check_cases


def prepare(workdir: Path, size: Size) -> None:
    (workdir / "input.txt").write_text("\n".join(map(str, range(100))))


def one(workdir: Path, size: Size) -> Result:
    return Result(rows=len((workdir / "input.txt").read_text().splitlines()), digest="same")


def other(workdir: Path, size: Size) -> Result:
    return one(workdir, size)


def wrong(workdir: Path, size: Size) -> Result:
    return Result(rows=99, digest="different")


def absent(workdir: Path, size: Size) -> Result:
    raise SkippedError("peer is not installed")


def broken(workdir: Path, size: Size) -> Result:
    raise OSError("the disk is gone")


def greedy(workdir: Path, size: Size) -> Result:
    """Holds 100 MB here and 100 MB in a child process, and works for half a second in each."""
    import subprocess
    import sys

    code = "import time; held = bytes(range(256)) * 400_000; until = time.process_time() + 0.5\n"
    code += "while time.process_time() < until: pass"
    child = subprocess.Popen([sys.executable, "-c", code])
    exec(code, {})
    child.wait()
    return Result(rows=0, digest="")


def benchmark(*functions: str, targets: tuple[Target, ...] = (), reference: str = "one") -> Benchmark:
    contenders = tuple(Contender(name=name, function=f"{__name__}:{name}") for name in functions)
    return Benchmark(
        name="toy",
        about="Counts lines.",
        bound="the start of a process",
        prepare=prepare,
        contenders=contenders,
        reference=reference,
        targets=targets,
        packages=("psutil", "no-such-package"),
    )


def measured(*, cpu: float, wall: float = 1.0, peak: float = 10.0) -> Measured:
    return Measured(rows=7, digest="d", cpu_s=cpu, wall_s=wall, peak_mb=peak)


def outcome(
    *, size: Size = "default", targets: tuple[Target, ...] = (), skipped: dict[str, str] | None = None
) -> Outcome:
    return Outcome(
        benchmark=benchmark("one", "other", *(skipped or {}), targets=targets),
        size=size,
        order=[["one", "other"]] * 3,
        rounds={
            "one": [measured(cpu=2.0), measured(cpu=4.0), measured(cpu=10.0)],
            "other": [measured(cpu=6.0), measured(cpu=6.0), measured(cpu=20.0)],
        },
        skipped=skipped or {},
    )


def run_command(monkeypatch: pytest.MonkeyPatch, out: Path, toy: Benchmark, *more: str) -> int:
    monkeypatch.setattr(harness, "benchmarks", lambda: {"toy": toy})
    return command.main(["toy", "smoke", "--out", str(out), *more])


def test_a_mismatch_is_an_error_and_shows_no_speed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(monkeypatch, tmp_path, benchmark("one", "wrong")) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "one: 100 rows, same" in shown.err
    assert "wrong: 99 rows, different" in shown.err
    assert "no speed is shown" in shown.err
    assert not list(tmp_path.glob("*.json")) + list(tmp_path.glob("*.md"))


def test_a_contender_that_differs_in_a_later_round_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digests = iter(["d", "d", "d", "e"])
    monkeypatch.setattr(
        measure,
        "in_child",
        lambda *a, **k: Measured(rows=1, digest=next(digests), cpu_s=1.0, wall_s=1.0, peak_mb=1.0),
    )
    with pytest.raises(MismatchError):
        harness.run(benchmark("one", "other"), "default", cache=tmp_path, repeats=2)


def test_contenders_take_turns_in_a_newly_drawn_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    def in_child(function: str, *, workdir: Path, size: str) -> Measured:
        ran.append(function.rsplit(":", 1)[1])
        return measured(cpu=1.0)

    monkeypatch.setattr(measure, "in_child", in_child)
    toy = benchmark("one", "other", "absent")
    result = harness.run(toy, "default", cache=tmp_path, repeats=6, seed=3)
    rounds = [ran[start : start + 3] for start in range(0, 18, 3)]
    assert rounds == result.order
    assert all(sorted(turn) == ["absent", "one", "other"] for turn in rounds)
    assert len({tuple(turn) for turn in rounds}) > 1
    assert harness.run(toy, "default", cache=tmp_path, repeats=6, seed=3).order == result.order


def test_medians_and_paired_ratios() -> None:
    measured = outcome()
    # one: 2, 4, 10; other: 6, 6, 20
    assert measured.spread("one", "cpu_s") == Spread(4.0, 2.0, 10.0)
    # 6/2 = 3, 6/4 = 1.5, 20/10 = 2: median 2, where the ratio of the medians would be 6/4 = 1.5
    assert measured.ratio("other", "one", "cpu_s") == Spread(2.0, 1.5, 3.0)
    # of an even number of values: (2 + 4) / 2
    assert Spread.of([4.0, 2.0]).median == 3.0


def test_targets() -> None:
    cases = [
        (Target(metric="cpu_s", contender="other", against="one", at_most=2.0), 2.0, "reached"),
        (Target(metric="cpu_s", contender="other", against="one", at_most=1.9), 2.0, "missed"),
        (Target(metric="cpu_s", contender="other", against="one", at_least=2.5), 2.0, "missed"),
        (Target(metric="peak_mb", contender="one", at_most=10.0), 10.0, "reached"),
        (Target(metric="rows_per_s", contender="one", at_least=7.5), 7.0, "missed"),
        (Target(metric="rows_per_s", contender="one", against="other", at_least=1.1, enough=7.5), 1.0, "missed"),
        (Target(metric="rows_per_s", contender="one", against="other", at_least=1.1, enough=6.5), 7.0, "reached"),
        (Target(metric="rows_per_s", contender="one", against="other", at_least=0.9, enough=7.5), 1.0, "reached"),
        (Target(metric="cpu_s", contender="absent", against="one", at_most=1.0), None, "skipped"),
    ]

    def check(target: Target, value: float | None, verdict: str) -> None:
        skipped = {"absent": "peer is not installed"}
        assert outcome(targets=(target,), skipped=skipped).verdict(target) == (value, verdict)
        if value is not None:
            assert outcome(targets=(target,), skipped=skipped, size="smoke").verdict(target) == (value, "not judged")

    check_cases(check, cases)


def test_figures_that_are_reported_separately() -> None:
    measured = outcome()
    measured.rounds["other"] = [
        replace(one, apart={"CPU seconds of the server": n}) for n, one in enumerate(measured.rounds["other"])
    ]
    assert "Apart from these, medians: other: CPU seconds of the server 1.00." in to_markdown(measured, {})
    assert "Apart" not in to_markdown(outcome(), {})


def test_wrong_declarations_are_refused() -> None:
    with pytest.raises(ValueError, match="metric 'speed'"):
        Target(metric="speed", contender="one", at_most=1.0)
    with pytest.raises(ValueError, match="either at_most or at_least"):
        Target(metric="cpu_s", contender="one")
    with pytest.raises(ValueError, match="instead of a ratio"):
        Target(metric="cpu_s", contender="one", at_least=1.0, enough=2.0)
    with pytest.raises(ValueError, match="no contender stranger"):
        benchmark("one", reference="stranger")
    with pytest.raises(ValueError, match="two contenders of one name"):
        benchmark("one", "one")


def test_the_command_end_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = Target(metric="cpu_s", contender="other", against="one", at_most=100.0)
    toy = benchmark("one", "other", "absent", targets=(target,))
    assert run_command(monkeypatch, tmp_path, toy, "--repeats", "2") == 0
    shown = capsys.readouterr().out
    assert shown == (tmp_path / "toy-smoke.md").read_text()
    assert "| absent | skipped: peer is not installed |" in shown
    assert "| one | 100 |" in shown
    assert "| CPU seconds of other / one: at most 100 |" in shown
    assert "not judged" in shown
    content = json.loads((tmp_path / "toy-smoke.json").read_text())
    assert [len(content["contenders"][name]["rounds"]) for name in ("one", "other")] == [2, 2]
    assert content["contenders"]["one"]["ratio"]["cpu_s"]["median"] == 1.0
    assert content["contenders"]["one"]["median"]["cpu_s"]["low"] > 0
    assert content["skipped"] == {"absent": "peer is not installed"}
    assert content["machine"]["no-such-package"] == "not installed"
    widths = {line.count("|") for line in shown.splitlines() if line.startswith("|") and "target" not in line}
    assert widths >= {9}


def test_the_input_is_made_once_and_never_half(tmp_path: Path) -> None:
    created = []

    def fails_once(workdir: Path, size: Size) -> None:
        created.append(size)
        (workdir / "input.txt").write_text("x")
        if len(created) == 1:
            raise OSError("disk full")

    toy = Benchmark(
        name="toy",
        about="",
        bound="",
        prepare=fails_once,
        contenders=(Contender(name="one", function="x:y"),),
        reference="one",
    )
    with pytest.raises(OSError, match="disk full"):
        harness.prepared(toy, "smoke", cache=tmp_path)
    assert not list(tmp_path.iterdir())
    first = harness.prepared(toy, "smoke", cache=tmp_path)
    assert harness.prepared(toy, "smoke", cache=tmp_path) == first
    assert harness.prepared(toy, "full", cache=tmp_path) != first
    assert created == ["smoke", "smoke", "full"]


def test_the_whole_process_tree_is_measured(tmp_path: Path) -> None:
    measured = measure.in_child(f"{__name__}:greedy", workdir=tmp_path, size="smoke")
    assert measured.cpu_s >= 1.0
    assert measured.peak_mb >= 200
    assert measured.wall_s >= 0.5


def test_a_failure_says_which_contender_and_why(tmp_path: Path) -> None:
    with pytest.raises(harness.BenchmarkError, match=r"(?s)contender broken failed: exit status 1.*the disk is gone"):
        harness.run(benchmark("one", "broken"), "smoke", cache=tmp_path)


def test_nothing_left_to_compare_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(harness.BenchmarkError, match="fewer than two"):
        harness.run(benchmark("one", "absent"), "smoke", cache=tmp_path)


def test_the_machine_is_described_without_its_name() -> None:
    import platform

    facts = machine.describe(["pyarrow"])
    assert {"CPU", "cores", "load", "memory", "system", "Python", "pyarrow"} == set(facts)
    assert platform.node() not in " ".join(facts.values()).split()


def test_only_some_contenders() -> None:
    ratio = Target(metric="cpu_s", contender="other", against="one", at_most=2)
    targets = (ratio, Target(metric="cpu_s", contender="wrong", at_most=2))
    whole = benchmark("one", "other", "wrong", targets=targets)
    some = harness.only(whole, "o*")
    assert [one.name for one in some.contenders] == ["one", "other"]
    assert (some.reference, some.targets) == ("one", targets[:1])
    alone = harness.only(whole, "wrong")
    assert (alone.reference, alone.targets) == ("wrong", targets[1:])
    with pytest.raises(harness.BenchmarkError, match="there are one, other, wrong"):
        harness.only(whole, "none")


def test_the_list_and_wrong_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([]) == 0
    assert "\nmine " in "\n" + capsys.readouterr().out
    with pytest.raises(SystemExit):
        command.main(["no-such"])
    assert "no benchmark 'no-such'" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command.main(["mine", "smoke", "--repeats", "0"])


@pytest.mark.long
def test_wit_like_is_wit_like(tmp_path: Path) -> None:
    pytest.importorskip("wordfreq")
    import csv
    import gzip

    from tests.benchmarks.wit_like import make_terms, write_wit_like

    terms = make_terms(200)
    facts = write_wit_like(tmp_path / "a.tsv.gz", rows=3000, terms=terms)
    with gzip.open(tmp_path / "a.tsv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    folded = [term.lower() for term in terms]
    english = [row for row in rows if row["language"] == "en"]
    matched = [row for row in english if any(term in row["page_title"].lower() for term in folded)]
    assert len(terms) == len(set(folded)) == 200
    assert len(rows) == facts.rows == 3000
    assert 0.11 < len(english) / len(rows) < 0.18
    assert len(matched) == facts.planted > 0
    assert any("\nen\t" in cell for row in rows for cell in row.values())
    assert 2.3 < facts.raw_bytes / facts.gz_bytes < 3.5
    assert 1200 < facts.raw_bytes / facts.rows < 2500


MACHINE = {"CPU": "AMD EPYC(TM) 9B14 Processor @ 2.6GHz", "cores": "2 usable of 2", "load": "0.1"}


def test_the_page_shows_what_the_records_say() -> None:
    page = records.PAGE.read_text(encoding="utf-8")
    assert page == records.with_tables(page, records.load()), "run python -m tests.benchmarks --tables"


def test_a_record_is_kept_and_shown(tmp_path: Path) -> None:
    targets = (
        Target(metric="cpu_s", contender="other", against="one", at_most=1.5),
        Target(metric="peak_mb", contender="absent", at_most=9),
    )
    kept = outcome(targets=targets, skipped={"absent": "peer is not installed"})
    path = records.save(kept, MACHINE, "python -m tests.benchmarks toy", folder=tmp_path)
    assert path.name == "toy-default-amd-epyc-9b14.json"
    assert records.save(kept, MACHINE, "again", folder=tmp_path) == path
    [record] = records.load(tmp_path)
    assert record["command"] == "again"
    shown = records.tables([record])
    assert "| `toy`, default | CPU seconds of `other` / `one` | 2.00 | at most 1.5 | missed |" in shown
    assert "absent" not in shown
    assert "`toy`, default: 3 rounds, AMD EPYC" in shown
    assert "Bounded by the start of a process." in shown


def test_a_smoke_run_is_compared_with_the_record_of_its_size(tmp_path: Path) -> None:
    kept = outcome(size="smoke")
    records.save(kept, MACHINE, "", folder=tmp_path)
    assert records.drifts(kept, records.load(tmp_path)) == []
    slower = outcome(size="smoke")
    slower.rounds["other"] = [measured(cpu=14.0), measured(cpu=32.0), measured(cpu=90.0)]
    [line] = records.drifts(slower, records.load(tmp_path))
    assert line == "other: 8.00 times the CPU seconds of one; recorded 2.00"
    assert records.drifts(outcome(), records.load(tmp_path)) == []  # of another size
    path = tmp_path / "toy-smoke-b.json"
    path.write_text(json.dumps(json.loads(next(tmp_path.glob("*.json")).read_text())).replace("2.0", "7.0"))
    assert records.drifts(slower, records.load(tmp_path)) == []  # another processor's agrees
