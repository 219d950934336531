"""Fifty labels with suffixes of 20 tokens behind a prefix of 1,200: packed against one pass a label."""

from pathlib import Path

from tests.benchmarks import judging
from tests.benchmarks.child import Result
from tests.benchmarks.harness import Benchmark, Contender, Size, Target

SHAPE = judging.Shape(labels=50, suffix=20)
WHOLE = {"smoke": 1, "default": 4, "full": 50}  # labels that are passed whole; the seconds are scaled to all
SMOKE = judging.Shape(labels=4, suffix=20)


def prepare(workdir: Path, size: Size) -> None:
    """Build the checkpoint where the contenders find it."""
    from actors import local_models

    local_models.resolve(judging.MODEL)


def shape(size: Size) -> judging.Shape:
    """Return the measured shape; a few labels in a smoke run."""
    return SMOKE if size == "smoke" else SHAPE


def cascade(workdir: Path, size: Size) -> Result:
    """The engine as used."""
    return judging.score(shape(size), "cascade", repeats=2)


def batched(workdir: Path, size: Size) -> Result:
    """The portable engine."""
    return judging.score(shape(size), "batched")


def naive(workdir: Path, size: Size) -> Result:
    """One pass a label."""
    return judging.one_pass_a_label(shape(size), labels=WHOLE[size])


def vllm(workdir: Path, size: Size) -> Result:
    """vLLM's CPU build as it is installed, if it is."""
    return judging.vllm(shape(size), workdir)


def vllm_32(workdir: Path, size: Size) -> Result:
    """The same with the smallest blocks that it takes, so that next to nothing of the prefix is computed again."""
    return judging.vllm(shape(size), workdir, block=32)


def floor(workdir: Path, size: Size) -> Result:
    """Matrix products alone."""
    return judging.floor(shape(size))


def labels_10(workdir: Path, size: Size) -> Result:
    """The engine on ten labels, for its memory."""
    return judging.score(judging.Shape(10, 20), "cascade")


def labels_200(workdir: Path, size: Size) -> Result:
    """The engine on two hundred."""
    return judging.score(judging.Shape(200, 20), "cascade")


BENCHMARK = Benchmark(
    name="judge",
    about=__doc__,
    bound="the model's matrix products: `floor` has the same products without anything around them",
    prepare=prepare,
    contenders=(
        Contender(name="cascade", function=f"{__name__}:cascade", about="packed suffixes"),
        Contender(name="batched", function=f"{__name__}:batched", about="a row a suffix"),
        Contender(name="naive", function=f"{__name__}:naive", compared=False, about="one pass a label"),
        Contender(name="vllm", function=f"{__name__}:vllm", compared=False, about="its CPU build, prefix caching"),
        Contender(name="vllm_32", function=f"{__name__}:vllm_32", compared=False, about="in blocks of 32 tokens"),
        Contender(name="floor", function=f"{__name__}:floor", compared=False, about="matrix products alone"),
        Contender(name="labels_10", function=f"{__name__}:labels_10", compared=False, about="10 labels"),
        Contender(name="labels_200", function=f"{__name__}:labels_200", compared=False, about="200 labels"),
    ),
    reference="cascade",
    targets=(
        Target(metric="cpu_s", contender="naive", against="cascade", at_least=22),
        Target(metric="cpu_s", contender="vllm", against="cascade", at_least=1.3),
        Target(metric="cpu_s", contender="vllm_32", against="cascade", at_least=1.3),
        Target(metric="cpu_s", contender="floor", against="cascade", at_least=0.85),
        Target(metric="peak_mb", contender="labels_200", against="labels_10", at_most=1.3),
    ),
    packages=("torch", "transformers"),
)
