"""Plain English: phrases that no text may use; `python -m tests.test_language` lists where they are.

CONTRIBUTING.md says what to write instead.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SUFFIXES = {".py", ".yaml", ".md", ".j2", ".css"}
# Texts of others: what a model may answer, a paper's wording.
QUOTED = ("conf/refusals/",)

PHRASES = [
    r"\b(is|are|was|be) told\b",
    r"\btells? (it|them|so|which|how)\b",
    r"\bstands? (in|there|twice|beside|under)\b",
    r"(?<!there )\bis no (?!longer\b|more than\b)[a-z]+",
    r"\bthat is none\b",
    r"\bare had\b",
    r"\bcan be had\b",
    r"\bgoes on\b",
    r"\bat its end\b",
    r"\bthe whole way\b",
    r"\bin other company\b",
    r"\bas it comes\b",
    r"\bbit by bit\b",
    r"\breckon",
    r"\b(a|an) (file|rater|unit|page|actor) a ",
]
DIALECT = re.compile("|".join(PHRASES), re.IGNORECASE)

# Files that still use such phrases. The list may only become shorter.
STILL_FAILING: set[str] = set(
    """
    actors/embedder.py
    actors/encoders/facts.py
    actors/fetching/http_connection.py
    actors/fetching/net_safety.py
    actors/fetching/wikimedia.py
    actors/fetching/wikimedia_credits.py
    actors/generator.py
    actors/items.py
    actors/judge.py
    actors/local_models/others.py
    actors/search/queries.py
    actors/search/top_k.py
    actors/titles.py
    actors/vlm/chat.py
    actors/vlm/chat_format.py
    actors/vlm/encoding.py
    actors/vlm/errors.py
    actors/vlm/families.py
    actors/vlm/generation.py
    actors/vlm/instructions.py
    actors/vlm/loading.py
    actors/vlm/loglik.py
    actors/vlm/parsing.py
    actors/vlm/refusals.py
    actors/vlm/scoring.py
    actors/zero_shot_rater.py
    conf/kubernetes/raycluster.yaml
    conf/kubernetes/rayjob.yaml
    conf/span_labels/mistakes_omissions.yaml
    jobs/analysis/attributes.py
    jobs/analysis/compute.py
    jobs/analysis/from_file/agreement.py
    jobs/analysis/from_file/scene_graphs.py
    jobs/analysis/rating_codes.py
    jobs/analyze.py
    jobs/annotate.py
    jobs/annotation/__init__.py
    jobs/annotation/form.py
    jobs/annotation/importing.py
    jobs/annotation/json_files.py
    jobs/annotation/label_studio.py
    jobs/annotation/label_studio_form.py
    jobs/annotation/model.py
    jobs/annotation/participants.py
    jobs/annotation/prodigy.py
    jobs/annotation/repeats.py
    jobs/annotation/reports.py
    jobs/annotation/shown_items.py
    jobs/annotation/tabular.py
    jobs/choose.py
    jobs/corpora/arrays.py
    jobs/corpora/delimited.py
    jobs/corpora/knowledge_base.py
    jobs/corpora/ratings_file.py
    jobs/corpora/terms.py
    jobs/corpora/tric.py
    jobs/corpora/vectors.py
    jobs/corpora/wit/byte_scan.py
    jobs/corpora/wit/csv_rows.py
    jobs/corpora/wit/reader.py
    jobs/corpora/wit/streams.py
    jobs/corpora/wit/wit_base.py
    jobs/curate.py
    jobs/curation/apply_rules.py
    jobs/demo.py
    jobs/evaluate.py
    jobs/generate.py
    jobs/judge.py
    jobs/judging/kept_rubric.py
    jobs/judging/rubric_job.py
    jobs/judging/settings.py
    jobs/judging/targets.py
    jobs/loglik.py
    jobs/metrics/agreement.py
    jobs/metrics/crowdtruth.py
    jobs/metrics/dsg.py
    jobs/metrics/gold.py
    jobs/metrics/intervals.py
    jobs/metrics/ranking.py
    jobs/metrics/reliability.py
    jobs/metrics/suite.py
    jobs/mine.py
    jobs/models/devices.py
    jobs/page/metric_families.py
    jobs/prompts.py
    jobs/retrieve.py
    jobs/run.py
    jobs/runtime/cli.py
    jobs/runtime/config.py
    jobs/runtime/exclusions.py
    jobs/runtime/help_text.py
    jobs/runtime/progress.py
    jobs/runtime/summary.py
    jobs/store/locations.py
    jobs/store/reading.py
    jobs/store/single_unit.py
    jobs/store/units.py
    jobs/store/writer.py
    jobs/tables.py
    jobs/testbed/loopback_s3.py
    jobs/tric_rank.py
    jobs/workers/fetch_shards.py
    """.split()
)


def files() -> Iterator[Path]:
    """All texts that are checked."""
    for folder in ("jobs", "actors", "conf", "docs"):
        yield from (path for path in sorted((ROOT / folder).rglob("*")) if path.suffix in SUFFIXES)
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))


def phrases() -> Iterator[tuple[str, int, str]]:
    """(file, line number, phrase) of everything that must be rewritten."""
    for path in files():
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(QUOTED):
            continue
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            yield from ((name, number, match.group()) for match in DIALECT.finditer(line))


def refused() -> list[str]:
    """Phrases outside the files that are still to be rewritten, as `file:line: phrase`."""
    return [f"{name}:{number}: {phrase!r}" for name, number, phrase in phrases() if name not in STILL_FAILING]


def test_texts_use_no_phrase_of_the_dialect() -> None:
    assert refused() == []


def test_files_that_may_still_fail_exist() -> None:
    assert {name for name in STILL_FAILING if not (ROOT / name).exists()} == set()


if __name__ == "__main__":
    lines = refused()
    print("\n".join(lines))
    sys.exit(bool(lines))
