"""Ten labels with suffixes of 250 tokens behind a prefix of 1,200: packed against one pass, and 64 tokens, a label."""

from pathlib import Path

from tests.benchmarks import judging
from tests.benchmarks.child import Result
from tests.benchmarks.harness import Benchmark, Contender, Size, Target
from tests.benchmarks.suites.judge import prepare

SHAPE = judging.Shape(labels=10, suffix=250)
SMOKE = judging.Shape(labels=2, suffix=250)
WHOLE = {"smoke": 1, "default": 3, "full": 10}


def shape(size: Size) -> judging.Shape:
    """Return the measured shape; two labels in a smoke run."""
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


def generate(workdir: Path, size: Size) -> Result:
    """64 tokens a label."""
    return judging.generate_a_label(shape(size), labels=WHOLE[size])


def vllm(workdir: Path, size: Size) -> Result:
    """vLLM's CPU build as it is installed, if it is."""
    return judging.vllm(shape(size), workdir)


def vllm_32(workdir: Path, size: Size) -> Result:
    """The same with the smallest blocks that it takes, so that next to nothing of the prefix is computed again."""
    return judging.vllm(shape(size), workdir, block=32)


def floor(workdir: Path, size: Size) -> Result:
    """Matrix products alone."""
    return judging.floor(shape(size))


BENCHMARK = Benchmark(
    name="judge_long",
    about=__doc__,
    bound="the model's matrix products: `floor` has the same products without anything around them",
    prepare=prepare,
    contenders=(
        Contender(name="cascade", function=f"{__name__}:cascade", about="packed suffixes"),
        Contender(name="batched", function=f"{__name__}:batched", about="a row a suffix"),
        Contender(name="naive", function=f"{__name__}:naive", compared=False, about="one pass a label"),
        Contender(name="generate", function=f"{__name__}:generate", compared=False, about="64 tokens a label"),
        Contender(name="vllm", function=f"{__name__}:vllm", compared=False, about="its CPU build, prefix caching"),
        Contender(name="vllm_32", function=f"{__name__}:vllm_32", compared=False, about="in blocks of 32 tokens"),
        Contender(name="floor", function=f"{__name__}:floor", compared=False, about="matrix products alone"),
    ),
    reference="cascade",
    targets=(
        Target(metric="cpu_s", contender="naive", against="cascade", at_least=3.5),
        Target(metric="cpu_s", contender="vllm", against="cascade", at_least=1.3),
        Target(metric="cpu_s", contender="vllm_32", against="cascade", at_least=1.3),
        Target(metric="cpu_s", contender="floor", against="cascade", at_least=0.85),
        Target(metric="cpu_s", contender="generate", against="cascade", at_least=6),
    ),
    packages=("torch", "transformers"),
)
