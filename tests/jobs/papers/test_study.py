"""Values that tables and figures read from a study, with raters and metrics by hand."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.metrics.metric import Metric
from jobs.metrics.rated_question import MODELS, PEOPLE, MetricSettings
from jobs.papers import caire_tables
from jobs.papers.caire_tables import ShownRater
from jobs.papers.rome_ratings import SCORES, dims_of
from jobs.papers.rome_tables import figure_4
from jobs.papers.study import PAPERS, MetricIndex, PaperSettings, PrintedTable, Study
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config
from jobs.runtime.configuration.config_files import CONF

KINDS = {"p1": "human", "clip@1": "encoder", "gpt@1": "model", "open@1": "model"}


def study(*metrics: Metric, leave_out: list[str] | None = None, **options: str) -> Study:
    """Return a study: the raters of `KINDS` answered one question of each rubric, and one model that of scores."""
    answered = {("r", "q"): KINDS, ("scores", "q"): {"open@1": "model"}}
    reduction = SimpleNamespace(keys=list(answered), methods_of=lambda key: answered[key])
    unused: Any = None
    return Study(
        PaperSettings(options=options),
        MetricSettings(leave_out=leave_out or []),
        MetricIndex(metrics),
        tables=unused,
        summary=SimpleNamespace(raters=SimpleNamespace(kinds=KINDS)),  # type: ignore[arg-type]
        items=unused,
        reduction=reduction,  # type: ignore[arg-type]
        rubrics=unused,
        exclusion_filter=unused,
    )


def metric(name: str, value: float, n: int, **dims: str) -> Metric:
    return Metric(name=name, definition="n counts items", value=value, n=n, reason="few", coverage=1.0, dims=dims)


NAMES = {  # paper -> its name -> names of models that have it; None: the paper's numbers are not theirs
    "century": {
        "GPT-4 Turbo": ["gpt-4-turbo-2024-04-09", "GPT-4 Turbo", "gpt_4_turbo", "openai/gpt-4-turbo"],
        "GPT-4 Omni": ["gpt-4o-2024-05-13", "gpt-4o", "GPT-4o", "GPT-4 Omni", "GPT4-Omni", "gpt4o", "GPT4-o",
                       "gpt-4o@1"],
        "Gemini Pro": ["gemini-1.5-pro-001", "gemini-1.5-pro", "Gemini 1.5 Pro", "Gemini Pro 1.5", "gemini_pro",
                       "models/gemini-1.5-pro-001"],
        "Gemini Flash": ["gemini-1.5-flash-001", "gemini-1.5-flash", "Gemini Flash", "Gemini Flash 1.5"],
        "Claude Opus": ["claude-3-opus-20240229", "claude-3-opus", "Claude 3 Opus", "claude-opus",
                        "claude-3-opus@20240229"],
        "Claude Haiku": ["claude-3-haiku-20240307", "claude-3-haiku", "Claude Haiku", "anthropic/claude-3-haiku"],
        "Human eval": ["people"],
        "All labellers": ["models"],
        None: ["gpt-4o-mini", "gpt-4o-mini-2024-07-18", "gpt-4o-2024-11-20", "gpt-4-vision-preview", "gpt-4.1-nano",
               "gpt-oss-4o", "gpt-4-turbo-preview", "gpt-3.5-turbo", "ft:gpt-4o-2024-05-13:me::1", "gemini-2.5-pro",
               "gemini-1.5-pro-002", "gemini-3-flash", "gemini-1.5-flash-8b", "gemini-2.0-flash-lite",
               "claude-opus-4-1", "claude-opus-4-5-20251101", "claude-haiku-4-5", "claude-3-5-haiku-20241022",
               "claude-3-sonnet", "gpt", "local:qwen2.5-vl-tiny@gpt-4o", "my-gpt-4o", "a", ""],
    },
    "rome": {
        "GPT": ["gpt", "GPT", "gpt-4o", "gpt-4o-2024-05-13", "gpt-4o-2024-08-06", "openai/gpt-4o"],
        "Gemini": ["gemini", "gemini-1.5-pro", "gemini-1.5-pro-002", "Gemini 1.5 Pro"],
        "Claude": ["claude", "claude-3-5-sonnet-20240620", "claude-3.5-sonnet", "Claude 3.5 Sonnet"],
        None: ["gpt-4o-mini", "gpt-4.1", "gpt-4", "gpt-4-turbo", "gpt-oss-4o", "gpt-5", "gemini-2.5-pro",
               "gemini-1.5-flash", "gemini-1.5-pro-exp-0827", "claude-3-opus", "claude-sonnet-4-5", "claude-3-7-sonnet",
               "gemini-pro"],
    },
    "caire": {
        "CLIP": ["ViT-B-32-quickgelu@openai", "transformers:openai/clip-vit-base-patch32@3d74acf"],
        "mSigLIP": ["ViT-B-16-SigLIP-i18n-256@webli@ec35",
                    "transformers:google/siglip-base-patch16-256-multilingual@8"],
        "Llama-3.2-11B": ["meta-llama/Llama-3.2-11B-Vision-Instruct@9eb2"],
        "Qwen2.5-VL-7B": ["Qwen/Qwen2.5-VL-7B-Instruct@cc59", "/models/Qwen2.5-VL-7B-Instruct"],
        "Qwen2.5-7B": ["Qwen/Qwen2.5-7B-Instruct@main"],
        "Pangea-7B": ["neulab/Pangea-7B-hf@1", "neulab/Pangea-7B"],
        None: ["ViT-B-32-quickgelu@laion400m_e32", "ViT-B-32-SigLIP2-256@webli", "ViT-B-32-256@datacomp_s34b_b86k",
               "ViT-SO400M-16-SigLIP-i18n-256@webli", "meta-llama/Llama-3.2-11B-Vision", "Qwen/Qwen2.5-7B",
               "Qwen/Qwen2.5-7B-Instruct-1M", "Qwen/Qwen2.5-VL-7B-Instruct-AWQ", "x/my-Qwen2.5-VL-7B-Instruct",
               "Qwen/Qwen2.5-VL-72B-Instruct", "local:qwen2.5-vl-tiny@qwen2.5-vl-7b"],
    },
    "tric": {
        "transformer baseline": ["clip-b32"],
        "Kaszuba": ["eva02-e-plus"],
        None: ["clip-b32-laion", "clip-l14", "eva02-e-plus-tuned", "eva02-e"],
    },
}  # fmt: skip


def test_only_the_papers_models_have_its_numbers() -> None:
    for paper, expected in NAMES.items():
        loaded = config.load("report", cli.job("report").schema, ["out=x", f"paper={paper}"])
        named = replace(study(), settings=loaded.paper)
        actual = {name: named.name_in_paper(name) for names in expected.values() for name in names}
        assert actual == {name: printed for printed, names in expected.items() for name in names}, paper


def test_a_papers_numbers_are_shown_only_if_asked_for() -> None:
    table = PrintedTable("t", ["a"], {"r": [50]})
    for paper in PAPERS:
        settings = config.load("report", cli.job("report").schema, ["out=x", f"paper={paper}"]).paper
        assert not settings.show_printed, paper
        shown = [replace(settings, printed={"t": table}, show_printed=show) for show in (False, True)]
        assert [replace(study(), settings=one).printed("t").rows for one in shown] == [[], ["r"]]
    asking = [
        file.stem for file in (CONF / "pipeline").glob("*.yaml") if "show_printed: true" in file.read_text("utf-8")
    ]
    assert asking == ["century_released"]  # its ratings are the paper's


def test_a_glob_of_the_user_matches_with_or_without_owner_and_revision() -> None:
    named = replace(study(), settings=PaperSettings(names=["Own/My_GPT*=A", "*@2=B", "x.y=C"], groups={"models": "M"}))
    names = ["own/my-gpt 4@1", "my-gpt", "z@2", "folder/x_y@3", "models", "xzy"]
    assert [named.name_in_paper(name) for name in names] == ["A", None, "B", "C", "M", None]


def test_raters_of_a_rubric_by_kind_and_the_group_of_models() -> None:
    assert study().raters("r") == ["clip@1", "gpt@1", "open@1"]
    assert study().raters("r", kinds=("human",)) == ["p1"]
    assert study(leave_out=["gpt*", "p1"]).model_group("r") == ("clip@1", "open@1")


def test_groups_of_a_rubric_are_those_with_a_rater_of_it() -> None:
    ensembles = {"some": ["gpt*", "absent*"], "none": ["absent*"]}
    grouped = replace(study(), metric_settings=MetricSettings(ensembles=ensembles))
    assert grouped.groups("r", people="P", models="M") == [(PEOPLE, "P"), (MODELS, "M"), ("some", "some")]
    assert grouped.groups("scores", people="P", models="M") == [(MODELS, "M")]


def test_ratings_are_those_of_the_configured_condition_if_there_are_several() -> None:
    def rated(condition: str | None, *conditions: str) -> str | None:
        """Return the condition of the ratings that are read."""
        reduction: Any = SimpleNamespace(
            by=("condition",),
            keys=[("r", "q", name) for name in conditions],
            methods_of=lambda _: {"gpt@1": {"closed"}},
            question=lambda key, shared: SimpleNamespace(answers=key[2], item=None),
        )
        read = replace(study(), settings=PaperSettings(condition=condition), reduction=reduction).rated("r", "q")
        return None if read is None else str(read[0])

    assert rated("titles", "article", "titles") == "titles"
    assert rated("other", "article", "titles") is None
    assert rated(None, "article") == "article"
    assert rated(None) is None


@pytest.mark.parametrize(
    ("named", "best"),
    [("gpt@1", ("gpt@1", "none")), ("open@1", ("open@1", "titles")), ("", ("open@1", "titles"))],
)
def test_the_judge_of_table_17_has_a_linked_context_and_the_name_that_is_set(named: str, best: tuple[str, str]) -> None:
    judges = [ShownRater("gpt@1", "", "none"), ShownRater("open@1", "", "none"), ShownRater("open@1", "t", "titles")]
    judge = caire_tables._best(study(rater=named), judges)
    assert (judge.rater, judge.role) == best


def test_concepts_are_of_judges_that_were_shown_the_article_or_of_all_without_any() -> None:
    dims = {"attribute": caire_tables.CONCEPT, "part": "dance"}
    value = metric(caire_tables.BY_IMAGE, 0.5, 9, **dims)
    judges = [ShownRater("gpt@1", "", "none"), ShownRater("open@1", "", "titles")]

    def columns(*more: ShownRater) -> list[str]:
        table = caire_tables._by_concept(study(value), [*judges, *more])
        return [header[0] for header in table.columns]

    assert columns() == ["gpt@1, no context", "open@1, titles of linked articles"]
    assert columns(ShownRater("gpt@1", "", "article")) == ["gpt@1, linked article"]


def test_without_right_labels_there_is_no_f1() -> None:
    assert list(caire_tables.of_right_labels(study(), [ShownRater("gpt@1", "", "none")])) == []


def test_bars_count_whole_pictures() -> None:
    """A share of 1/49 times 49 is below 1 in floating point."""
    dims = dims_of(study(), SCORES) | {"rater": "open@1", "answer": "0.00"}
    (figure,) = figure_4(study(metric("share", 1 / 49, 49, **dims)))
    (row,) = figure.numbers.rows
    assert row.cells[0].metric is not None
    assert row.cells[0].metric.value == 1
