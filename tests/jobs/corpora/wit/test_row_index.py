"""The extension module gives the index that NumPy gives, is optional, and checks its arguments."""

import os
import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from jobs.corpora.wit import row_index
from jobs.corpora.wit.row_index import Index, NumpyIndex
from tests.cluster_files import SCAN_MODULE

ROOT = Path(__file__).parents[4]
WIDTH = 3
needs_module = pytest.mark.skipif(row_index.SCAN is None, reason="_remine_byte_index is not installed")


def plain(index: Index | int) -> Any:
    """Return an index as plain values, None for a fault; of several faults the two may report different ones.

    `titles` is left out: only the extension module copies them.
    """
    return None if isinstance(index, int) else (index.rows, index.end, index.picks.tolist())


@needs_module
@pytest.mark.parametrize("wanted", [b"en", b"", None])
def test_it_gives_the_index_of_numpy(wanted: bytes | None) -> None:
    rng = random.Random(5)
    assert row_index.SCAN is not None
    outcomes = set()
    for _ in range(4000):
        cells = [rng.choice([b"en", b"de", b'"en"', b"", b"x" * rng.randrange(90)]) for _ in range(rng.randrange(60))]
        ends = [(b"\t", b"\t", b"\n")[n % WIDTH] for n in range(len(cells))]
        data = b"".join(cell + end for cell, end in zip(cells, ends, strict=True))
        if data and rng.random() < 0.3:
            at = rng.randrange(len(data))
            data = data[:at] + rng.choice([b'"', b"\r", b"\t", b"\n", b"\r\n"]) + data[at:]
        around = np.frombuffer(bytearray(b"\n" + data + b"\0"), np.uint8)
        arguments = (len(data), WIDTH, rng.randrange(WIDTH), rng.randrange(WIDTH), wanted)
        expected = NumpyIndex(around)(*arguments)
        index = row_index.CompiledIndex(row_index.SCAN, around)(*arguments)
        assert plain(index) == plain(expected), data
        outcomes.add(index if isinstance(index, int) else "rows")
    assert outcomes == {"rows", -1, -2, -3}


@needs_module
def test_it_copies_the_titles_of_the_picks() -> None:
    assert row_index.SCAN is not None
    around = np.frombuffer(bytearray(b'\nen\tone\tx\nde\ttwo\tx\nen\tthree\tx\nen\t"four"\tx\n\0'), np.uint8)
    index = row_index.CompiledIndex(row_index.SCAN, around)
    first = index(31, WIDTH, 0, 1, b"en")
    assert isinstance(first, Index)
    assert first.titles is not None
    assert bytes(first.titles) == b"one\0three\0"
    with_quoted = index(len(around) - 2, WIDTH, 0, 1, b"en")
    assert isinstance(with_quoted, Index)
    assert (len(with_quoted.picks), with_quoted.titles) == (3, None)


@needs_module
def test_buffers_that_are_too_small_are_refused() -> None:
    assert row_index.SCAN is not None
    data, picks, titles = b"\na\tb\tc\n", np.empty((3, 4), np.int64), np.empty(7, np.uint8)
    assert row_index.SCAN(data, 6, WIDTH, 0, 1, None, picks, titles) == (1, 1, 6, 2, 0)
    bad: list[tuple[Any, ...]] = [
        (data, 7, WIDTH, 0, 1, None, picks, np.empty(8, np.uint8)),
        (data, -1, WIDTH, 0, 1, None, picks, titles),
        (data, 6, 0, 0, 0, None, picks, titles),
        (data, 6, WIDTH, WIDTH, 1, None, picks, titles),
        (data, 6, WIDTH, 0, -1, None, picks, titles),
        (data, 6, WIDTH, 0, 1, None, picks[:2], titles),
        (data, 6, WIDTH, 0, 1, None, picks, titles[:6]),
    ]
    for arguments in bad:
        with pytest.raises(ValueError, match="scan"):
            row_index.SCAN(*arguments)


def test_a_missing_module_and_one_of_another_interface_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("_remine_byte_index")
    module.scan = lambda *_: 0  # type: ignore[attr-defined]
    for interface, expected in ((row_index.INTERFACE, module.scan), (row_index.INTERFACE + 1, None)):
        module.INTERFACE = interface  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "_remine_byte_index", module)
        assert row_index.installed_scan() is expected
    monkeypatch.setitem(sys.modules, "_remine_byte_index", None)
    assert row_index.installed_scan() is None


@pytest.mark.parametrize(("compiler", "builds"), [("cc", True), ("false", False), ("no-such-compiler", False)])
def test_the_package_builds_without_a_compiler(tmp_path: Path, compiler: str, builds: bool) -> None:
    source = tmp_path / "jobs/corpora/wit/byte_index.c"
    source.parent.mkdir(parents=True)
    source.write_bytes((ROOT / "jobs/corpora/wit/byte_index.c").read_bytes())
    (tmp_path / "setup.py").write_bytes((ROOT / "setup.py").read_bytes())
    if builds and subprocess.run(["/bin/sh", "-c", "command -v cc"], capture_output=True, check=False).returncode:
        pytest.skip("no C compiler")
    subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=tmp_path,
        env={**os.environ, "CC": compiler, "CFLAGS": "-Werror" * builds, "PYTHONPATH": ""},
        check=True,
        capture_output=True,
    )
    assert (tmp_path / SCAN_MODULE).exists() is builds
    if builds:  # and the file alone, as in a pod, is loaded
        loaded = [sys.executable, "-c", "from jobs.corpora.wit.row_index import SCAN; print(SCAN.__module__)"]
        path = f"{tmp_path}:{ROOT}"
        run = subprocess.run(loaded, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True)
        assert run.stdout == "_remine_byte_index\n"
