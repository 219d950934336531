"""Fixtures that tests share: real data if it exists, one Ray, one S3 server, one cache of local models."""

import functools
import gc
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

# Folders and files of tests/ that `make fast` leaves out, besides all tests with Ray or the S3 server: tests of whole
# commands, of models, servers, browsers and processes, of pages, random inputs, and those that resample for seconds.
# A name that ends in `_` stands for all files whose names begin with it.
SLOW = tuple(
    """
    actors/encoders actors/fetching/test_decoders actors/local_models actors/rubrics/test_prompts
    actors/test_devices actors/test_embedder actors/test_embedder_rows actors/test_folder_fetcher actors/test_generator
    actors/test_hostile_pipelines actors/test_judge actors/test_model_files actors/test_onednn
    actors/test_picture_reader actors/test_pinned_weights actors/test_reasoning_judge actors/test_searcher
    actors/test_two_pictures actors/test_uploads actors/test_url_fetcher actors/test_zero_shot_rater
    actors/vlm/test_attacks actors/vlm/test_decode_graph actors/vlm/test_engines actors/vlm/test_families
    actors/vlm/test_fused actors/vlm/test_generation actors/vlm/test_loading actors/vlm/test_loading_options
    actors/vlm/test_loglik actors/vlm/test_packed actors/vlm/test_picture_size actors/vlm/test_real_configs
    actors/vlm/test_scoring actors/vlm/test_system_turn actors/vlm/test_token_trees actors/vlm/test_vllm
    actors/vlm/test_vllm_
    jobs/annotation/test_century_annotations jobs/corpora/test_delimited jobs/corpora/test_embeddings
    jobs/items_from/test_response_items jobs/judging jobs/metrics/test_every_metric jobs/page/test_browser
    jobs/page/test_card_links jobs/page/test_page_figures jobs/page/test_render jobs/papers/test_
    jobs/runtime/cluster/test_cluster_of_nodes jobs/runtime/cluster/test_local_ray
    jobs/runtime/cluster/test_spot_machines jobs/runtime/command_line/test_cli
    jobs/runtime/command_line/test_help_text jobs/runtime/command_line/test_refusals
    jobs/runtime/configuration/test_config jobs/runtime/pipeline/test_pipelines jobs/runtime/planning/test_plans
    jobs/runtime/planning/test_requests jobs/runtime/test_lifecycle jobs/store/files/test_private_networks
    jobs/store/runs/test_two_runs jobs/store/test_damage jobs/store/test_memory jobs/test_ jobs/testbed jobs/viewer
    benchmarks gpu models supply_chain test_cluster test_fuzzing test_site test_types
    """.split()
)
# The files that take longest, by measured seconds of CPU. They start before others of their kind: a process of xdist
# that begins one of them when the others have nothing left would finish alone.
LONGEST = tuple(
    f"{name}.py"
    for name in """
    jobs/runtime/cluster/test_cluster_of_nodes test_types jobs/test_kills models/test_papers_on_the_little_world
    jobs/runtime/test_stage_faults jobs/test_fetch_urls jobs/test_century_pipeline test_site
    actors/vlm/test_fused jobs/page/test_browser jobs/test_caire_pipeline jobs/runtime/configuration/test_config
    jobs/test_run_pipeline actors/vlm/test_real_configs actors/vlm/test_attacks jobs/test_purge actors/vlm/test_vllm
    jobs/runtime/test_stages jobs/store/files/test_storage_faults jobs/test_rome jobs/test_caire_planted
    jobs/test_docent_pipeline jobs/test_rome_documents jobs/store/runs/test_two_runs jobs/test_commands
    jobs/runtime/command_line/test_refusals jobs/papers/test_caire jobs/test_corridors jobs/test_resume gpu/test_gpu
    """.split()
)
DATA = Path(os.environ.get("REMINE_DATA") or ROOT.parent / "shared" / "data")


def uses_ray(item: pytest.Item) -> bool:
    return "ray_session" in getattr(item, "fixturenames", ())


def uses_s3(item: pytest.Item) -> bool:
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    names = [value for value in parameters if isinstance(value, str)]  # an array cannot be compared with a name
    return "s3" in names or "s3" in getattr(item, "fixturenames", ())


@functools.cache
def is_slow_file(path: Path) -> bool:
    """Return whether `make fast` leaves out the file or folder `path` as a whole."""
    if not path.is_relative_to(ROOT / "tests"):
        return False
    name = path.relative_to(ROOT / "tests").as_posix().removesuffix(".py")
    return any(name.startswith(slow if slow.endswith("_") else f"{slow}/") or name == slow for slow in SLOW)


def is_slow(item: pytest.Item) -> bool:
    """Return whether `item` runs jobs, builds a model, or starts its own servers, browsers or commands."""
    runs_stages = uses_ray(item) or "in_process" in getattr(item, "fixturenames", ())
    is_long = item.get_closest_marker("long") is not None
    return runs_stages or uses_s3(item) or is_long or is_slow_file(item.path)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`make fast` does not import the files that it leaves out."""
    return True if "not slow" in (config.option.markexpr or "") and is_slow_file(collection_path) else None


@functools.cache
def place(path: Path) -> int:
    """Return the position of the file in `LONGEST`; `len(LONGEST)` if it is not there."""
    name = path.relative_to(ROOT / "tests").as_posix() if path.is_relative_to(ROOT / "tests") else ""
    return LONGEST.index(name) if name in LONGEST else len(LONGEST)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the two longest files first, then those with Ray, both kinds with their longest first; mark the slow tests.

    With `--dist loadfile` a file's tests run in one process of xdist. Each process starts its own Ray for its
    first file that needs one, so that files with Ray run in parallel, and ends it before the first that needs none.
    """
    with_ray = {item.path for item in items if uses_ray(item)}

    def order(item: pytest.Item) -> tuple[bool, bool, int, bool]:
        at = place(item.path)
        return at > 1, item.path not in with_ray, at, not is_slow(item)

    items.sort(key=order)
    for item in items:
        item.may_use_ray = item.path in with_ray  # type: ignore[attr-defined]
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
    from jobs.runtime.configuration.config import RayConfig
    from jobs.runtime.configuration.resources import Resources

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
        for name in ("family", "page"):
            patch.setattr(f"jobs.page.{name}_figures.plot", lambda *_, **__: "<svg></svg>")
        yield
