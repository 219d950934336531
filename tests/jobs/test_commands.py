"""Every command line in a docstring, a comment of conf/ or a page of docs/ is one that its job takes."""

import importlib
import re
import shlex
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import yaml

from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.runtime.command_line.cli import to_overrides
from jobs.runtime.command_line.job_names import COMMANDS, JOBS, module_of, with_step
from jobs.runtime.configuration import config
from jobs.runtime.configuration import resources as res
from tests.cases import check_cases

ROOT = Path(__file__).resolve().parents[2]
WIDEST = 120
COMMAND = re.compile(r"^(?:# )? *(?:python -m jobs\.|remine )(\w+)((?: .*)?)$")
NO_JOBS = {"completion"}  # other words after `remine`


def commands(text: str) -> list[tuple[str, list[str]]]:
    """Return the job and the arguments of each command line in `text`; a line that ends with a backslash continues.

    Of alternatives (`profile=debug|full`) the first is taken, and `…` stands for anything.
    """
    joined = re.sub(r"\\\n#?\s*", " ", text.replace(" -- \\\n", "\n"))  # what is submitted is on the next line
    results = []
    for line in joined.splitlines():
        if (match := COMMAND.match(line.rstrip())) and match[1] not in NO_JOBS:
            arguments = [a for a in shlex.split(match[2], comments=True) if a not in ("…", "\\")]
            job, arguments = with_step(match[1], arguments) if match[1] in COMMANDS else (match[1], arguments)
            results.append((job, [re.sub(r"(=[\w.-]+)\|.*$", r"\1", a) for a in arguments]))
    return results


def blocks_of(page: Path) -> str:
    """Return the code blocks of a page of the documentation."""
    return "\n".join(re.findall(r"^```\w*\n(.*?)^```", page.read_text("utf-8"), re.M | re.S))


def compose(job: str, arguments: list[str]) -> None:
    schema = cli.job(job).schema
    assert isinstance(config.load(job, schema, arguments), schema), job


def look_up(job: str, arguments: list[str]) -> None:
    """Keys and names of files alone; files of readers do not exist."""
    checked = [argument for argument in arguments if not argument.endswith((".yaml", "=FILL-ME"))]
    config.compose(job, cli.job(job).schema, checked)


def problems(texts: dict[str, str], check: Callable[[str, list[str]], None]) -> list[str]:
    results = []
    for place, text in texts.items():
        for job, arguments in commands(text):
            try:
                if not {"--help", "--cfg", "--version"} & set(arguments):
                    loaded = cli.job(job)
                    words = [re.sub(r"^pipeline=.*\.yaml$", "pipeline=study", word) for word in arguments]
                    check(job, to_overrides(job, loaded.schema, words, positional=loaded.positional))
            except InputError as error:
                results.append(f"{place}: {job} {' '.join(arguments)}: {error}")
    return results


DOCSTRINGS = {name: importlib.import_module(module_of(name)).__doc__ or "" for name in JOBS}


def test_commands_in_docstrings_compose() -> None:
    """Each job has one, hence the defaults of every job compose into its dataclass."""
    assert [name for name, text in DOCSTRINGS.items() if not commands(text)] == []
    assert problems(DOCSTRINGS, compose) == []


def test_commands_in_configuration_files_have_keys_and_options_that_exist() -> None:
    files = [*sorted((ROOT / "conf").rglob("*.yaml")), *sorted((ROOT / "deploy").rglob("*.yaml"))]
    assert problems({str(path.relative_to(ROOT)): path.read_text("utf-8") for path in files}, look_up) == []


def test_commands_in_documentation_have_keys_and_options_that_exist() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    blocks = {page.name: blocks_of(page) for page in pages}
    assert sum(len(commands(block)) for block in blocks.values()) > 30
    assert problems(blocks, look_up) == []


def cluster_texts() -> dict[str, str]:
    """Files and pages with commands for a cluster, which begin with `python -m jobs.`."""
    places = ("cluster", "deploy/cluster/gcp", "deploy/cluster/on-premises", "deploy/kubernetes/raycluster")
    texts = {f"{name}.yaml": (ROOT / f"{name}.yaml").read_text("utf-8") for name in places}
    texts["docs/cluster.md"] = re.sub(r"^remine .*", "", blocks_of(ROOT / "docs/cluster.md"), flags=re.M)
    job = yaml.safe_load((ROOT / "deploy/kubernetes/rayjob.yaml").read_text("utf-8"))
    return texts | {"deploy/kubernetes/rayjob.yaml": " ".join(job["spec"]["entrypoint"].split())}


def test_commands_for_a_cluster_start_when_it_has_no_worker_yet() -> None:
    """The head has no CPUs, and a cluster that grows has no other machine until a run asks for one."""
    pools = [name for name, pool in vars(res.Resources()).items() if isinstance(pool, res.StageResources)]
    for place, text in cluster_texts().items():
        lines = commands(text.replace("FILL-ME", "2"))
        assert len(lines) == len(re.findall(r"^[# ]*python -m jobs\.\w", text, re.M)) > 0, place
        for job, words in lines:
            schema = cli.job(job).schema
            look_up(job, words)
            resources = config.built(res.Resources, config.compose(job, schema, words)["resources"])
            assert isinstance(resources, res.Resources)
            clouds = {"deploy/cluster/gcp.yaml": "gcp-us-central1", "deploy/cluster/on-premises.yaml": None}
            expected = (clouds.get(place, "aws-us-east-1"), "PATH")  # the reader's own file
            assert resources.prices in expected or not resources.autoscaling
            needs = res.demands(resources, pools, streamed=True)
            available = {"CPU": 0.0} if resources.autoscaling else {"CPU": 400.0, "GPU": 400.0}
            res.preflight(needs, available, autoscaling=resources.autoscaling)
            res.check_machines(needs, [res.bundle(k.num_cpus, k.num_gpus, k.memory_gb) for k in resources.node_types])


def test_docstrings_keep_their_continued_lines() -> None:
    def check(name: str) -> None:
        lines = DOCSTRINGS[name].splitlines()
        assert [line for line in lines if len(line) > WIDEST] == []
        for line, following in pairwise(lines):
            continued = re.match(" +(python -m jobs\\.|remine )", line) and following.startswith(" " * 8)
            assert line.endswith(" \\") or not (continued or " " * 8 in line.strip()), line

    check_cases(check, JOBS)


def test_lines_that_a_backslash_continues_are_one_command() -> None:
    text = "    python -m jobs.fetch source=folder \\\n        source.path='a b' out=R  # words\nA `python -m`.\n"
    assert commands(text) == [("fetch", ["source=folder", "source.path=a b", "out=R"])]
    assert commands("# python -m jobs.run profile=debug|full … \\\n#   out=R\n") == [
        ("run", ["profile=debug", "out=R"])
    ]
