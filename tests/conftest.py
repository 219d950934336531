"""Fixtures that tests share: real data if it exists, one Ray, one S3 server, one cache of local models."""

import functools
import gc
import json
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.in_process import stages_in_process

# Before torch and NumPy are imported. The models of the tests are too small to gain from a second thread, and threads
# that wait for each other on a busy machine cost a multiple of what they compute.
os.environ["OMP_NUM_THREADS"] = "1"

# A session holds about a million objects: with the default of 700 a tenth of its time is spent on looking for garbage.
gc.set_threshold(20_000, 20, 20)

# No deadline: how long an example takes depends on what else the machine does. The same examples in each run: a test
# must not fail by chance. `make torture` draws new ones (--hypothesis-profile=random).
settings.register_profile("remine", deadline=None, derandomize=True)
settings.register_profile("random", deadline=None, max_examples=1000, print_blob=True)
settings.register_profile("million", deadline=None, max_examples=17_000, print_blob=True)  # six tests of ten cases
settings.load_profile("remine")

ROOT = Path(__file__).resolve().parents[1]

# For each file of tests/ the seconds that its tests took in the last run with `--record-durations`, and those of its
# tests without Ray, stages, the S3 server and the marker `long`; files that take less than half a second are absent.
DURATIONS = Path(__file__).with_name("durations.json")
SLOW_S = 2.0  # `make fast` leaves out files whose tests without Ray and so on take longer
DATA = Path(os.environ.get("REMINE_DATA") or ROOT.parent / "shared" / "data")


def uses_ray(item: pytest.Item) -> bool:
    return "ray_session" in getattr(item, "fixturenames", ())


def uses_s3(item: pytest.Item) -> bool:
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    names = [value for value in parameters if isinstance(value, str)]  # an array cannot be compared with a name
    return "s3" in names or "s3" in getattr(item, "fixturenames", ())


@functools.cache
def durations() -> dict[str, tuple[float, float]]:
    """Return the recorded seconds of each file of tests/, of all its tests and of its quick kinds."""
    return {name: (both[0], both[1]) for name, both in json.loads(DURATIONS.read_text("utf-8")).items()}


def seconds_of(path: Path) -> tuple[float, float]:
    """Return the recorded seconds of a file of tests; zeros for one that is new or quick, and for a folder."""
    tests = ROOT / "tests"
    return durations().get(path.relative_to(tests).as_posix() if path.is_relative_to(tests) else "", (0.0, 0.0))


def is_slow_kind(item: pytest.Item) -> bool:
    """Return whether `item` runs jobs, or starts its own servers, browsers or commands."""
    runs_stages = uses_ray(item) or "in_process" in getattr(item, "fixturenames", ())
    return runs_stages or uses_s3(item) or item.get_closest_marker("long") is not None


def is_slow(item: pytest.Item) -> bool:
    """Return whether `make fast` leaves `item` out."""
    return is_slow_kind(item) or seconds_of(item.path)[1] > SLOW_S


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that record anew what tests compare with, or are ordered by."""
    parser.addoption("--update", action="store_true", help="record the public interface anew")
    parser.addoption("--record-durations", action="store_true", help="record the seconds of the files that are run")


_taken: dict[str, list[float]] = {}  # file of tests/ -> seconds of its tests in this run, of all and of the quick kinds


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add the seconds of a phase of a test to those of its file."""
    seconds = _taken.setdefault(report.location[0].removeprefix("tests/"), [0.0, 0.0])
    seconds[0] += report.duration
    seconds[1] += 0.0 if ("slow_kind", True) in map(tuple, report.user_properties) else report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the recorded seconds: those of this run, and of files that were not part of it."""
    if session.config.option.record_durations and "PYTEST_XDIST_WORKER" not in os.environ:
        recorded = {name: list(both) for name, both in durations().items() if (ROOT / "tests" / name).exists()}
        recorded |= _taken
        lines = [
            f"{json.dumps(name)}: [{both[0]:.1f}, {both[1]:.1f}]"
            for name, both in sorted(recorded.items())
            if both[0] >= 0.5
        ]
        DURATIONS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`make fast` does not import the files that it leaves out."""
    return True if "not slow" in (config.option.markexpr or "") and seconds_of(collection_path)[1] > SLOW_S else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the two longest files first, then those with Ray, both kinds with their longest first; mark the slow tests.

    With `--dist loadfile` a file's tests run in one process of xdist. Each process starts its own Ray for its
    first file that needs one, so that files with Ray run in parallel, and ends it before the first that needs none.
    """
    with_ray = {item.path for item in items if uses_ray(item)}

    longest = sorted({item.path for item in items}, key=lambda path: (seconds_of(path), path))[-2:]

    def order(item: pytest.Item) -> tuple[bool, bool, float, str, bool]:
        others = item.path not in longest
        return others, item.path not in with_ray, -seconds_of(item.path)[0], str(item.path), not is_slow(item)

    items.sort(key=order)
    for item in items:
        item.may_use_ray = item.path in with_ray  # type: ignore[attr-defined]
        item.user_properties.append(("slow_kind", is_slow_kind(item)))
        if is_slow(item):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """Leave what the collection made, which stays to the end, out of searches for garbage: half of their time."""
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Compute with one thread and heed Ctrl-C, whatever the tests before did.

    Ctrl-C is tested: a shell that started pytest in the background has its children ignore it, as does a job that a
    test interrupted in this process.

    Also end the process's Ray before the files that need none: its own processes take an eighth of a processor.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)
    if not getattr(item, "may_use_ray", True) and (ray := sys.modules.get("ray")) is not None and ray.is_initialized():
        ray.shutdown()


@pytest.fixture
def temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


@pytest.fixture(scope="session", autouse=True)
def model_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Local models are built once for all processes of a session, away from the user's cache."""
    if os.environ.get("REMINE_CACHE"):
        yield
        return
    session = tmp_path_factory.getbasetemp()  # with xdist the folder of one process, next to those of the others
    session = session.parent if "PYTEST_XDIST_WORKER" in os.environ else session
    os.environ["REMINE_CACHE"] = str(session / "models")
    yield
    del os.environ["REMINE_CACHE"]


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data; the test is skipped where it is absent."""
    if not DATA.is_dir():
        pytest.skip(f"no real data at {DATA} (REMINE_DATA names another place)")
    return DATA


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real S3 server in the environment of this process and of what it starts; the uri of an empty bucket."""
    from jobs.testbed import loopback_s3
    from jobs.testbed.loopback_s3 import LoopbackS3

    with LoopbackS3(tmp_path_factory.mktemp("s3")) as server, loopback_s3.temporary_environment(server.environment()):
        server.create_bucket("remine-tests")
        yield "s3://remine-tests"


@pytest.fixture(params=["local", "s3"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for tables on disk, and one on S3."""
    if request.param == "local":
        return str(tmp_path / "out")
    return f"{request.getfixturevalue('s3')}/{tmp_path.name}/out"


@pytest.fixture(scope="session")
def ray_session(s3: str) -> Iterator[None]:
    """One Ray for the process, started after the S3 server so that its workers have the credentials."""
    # By default Ray's workers have niceness 15: next to any other load their tests take ten times as long.
    os.environ.setdefault("RAY_worker_niceness", "0")
    import ray

    from jobs.runtime.cluster import ray_session
    from jobs.runtime.configuration.resources import RayConfig, Resources

    ray_session.start(RayConfig(num_cpus=2), Resources())
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def in_process() -> Iterator[None]:
    """Jobs run their stages in the process of the test, without Ray, while the tests of this module run."""
    with stages_in_process():
        yield


@pytest.fixture(scope="module")
def without_plots() -> Iterator[None]:
    """The pages of a module have empty plots: each takes a tenth of a second, and the tests read numbers only."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("topic", "page"):
            patch.setattr(f"jobs.page.{name}_figures.plot", lambda *_, **__: "<svg></svg>")
        patch.setattr("jobs.page.page_figures.drawing_files", lambda *_, **__: {})
        yield
