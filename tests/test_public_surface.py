"""What users and other programs rely on, frozen: jobs, their keys, the tables, the status words.

A change here is a change for them: make it on purpose, raise the table's version where its columns change, and
update the literal below.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

import pytest

from actors.status import STATUSES
from jobs import cli
from jobs.resources import Resources
from jobs.tables import TABLES

KEYS = {
    "demo": """
        out: str
        rows: int
        pictures: int
        ray.address: str | None
        ray.num_cpus: int | None
        ray.verbose: bool
    """,
    "mine": """
        out: str
        resume: bool
        overwrite: bool
        retry: list[str]
        plan: bool
        exclusions: str | None
        ray.address: str | None
        ray.num_cpus: int | None
        ray.verbose: bool
        resources: resources
        corpus.name: str
        corpus.path: str
        corpus.language: str | None
        terms.path: str
        terms.column: str | None
        terms.source: str | None
    """,
    "curate": """
        out: str
        resume: bool
        overwrite: bool
        retry: list[str]
        plan: bool
        exclusions: str | None
        ray.address: str | None
        ray.num_cpus: int | None
        ray.verbose: bool
        resources: resources
        input: str
        unit_rows: int
    """,
    "fetch": """
        out: str
        resume: bool
        overwrite: bool
        retry: list[str]
        plan: bool
        exclusions: str | None
        ray.address: str | None
        ray.num_cpus: int | None
        ray.verbose: bool
        resources: resources
        source.name: str
        source.path: str
        source.max_bytes: int
        input: str | None
        unit_rows: int
    """,
    "embed": """
        out: str
        resume: bool
        overwrite: bool
        retry: list[str]
        plan: bool
        exclusions: str | None
        ray.address: str | None
        ray.num_cpus: int | None
        ray.verbose: bool
        resources: resources
        input: str
        embedder.name: str
        embedder.model: str
        embedder.pretrained: str | None
        embedder.device: str
        embedder.dtype: str
    """,
    "retrieve": """
        out: str
        resume: bool
        overwrite: bool
        retry: list[str]
        plan: bool
        exclusions: str | None
        ray.address: str | None
        ray.num_cpus: int | None
        ray.verbose: bool
        resources: resources
        queries: str
        corpus.name: str
        corpus.layout: str
        corpus.path: str
        corpus.array: str | None
        corpus.id: str | None
        corpus.embedder: jobs.embed.EmbedderConfig | None
        corpus.where: str | None
        corpus.unit_mb: int
        k: int
        score: str
        logit_scale: float | None
        logit_bias: float | None
        resident: str
        device: str
        faiss.out: str | None
        faiss.factory: str
        faiss.probe: int
    """,
    "judge": """
        out: str
        resume: bool
        overwrite: bool
        retry: list[str]
        plan: bool
        exclusions: str | None
        ray.address: str | None
        ray.num_cpus: int | None
        ray.verbose: bool
        resources: resources
        input: str
        records: str | None
        rubric: dict[str, typing.Any]
        judge.name: str
        judge.model: str
        judge.revision: str | None
        judge.dtype: str
        judge.device_map: str
        judge.memory_gb: float | None
        judge.licence: str | None
        layout: str | None
        max_context_tokens: int
    """,
    "report": """
        out: str
        ratings: list[str]
        images: str | None
        records: str | None
        matches: str | None
        embeddings: str | None
        title: str
        gallery: int
        exclusions: str | None
        rubric_dir: str | None
    """,
    "verify": """
        input: str
    """,
    "run": """
        out: str
        pipeline.name: str
        pipeline.inputs: dict[str, typing.Any]
        pipeline.steps: list[jobs.run.Step]
        profile.name: str
        profile.set: dict[str, dict[str, typing.Any]]
        resources: resources
        resume: bool
        overwrite: bool
        ray.address: str | None
        ray.num_cpus: int | None
        ray.verbose: bool
    """,
}
RESOURCES = """
    read.num_cpus: float
    write.num_cpus: float
    mine.actors: int
    mine.max_actors: int | None
    mine.num_cpus: float
    mine.num_gpus: float
    mine.memory_gb: float | None
    mine.batch_size: int
    mine.max_in_flight: int
    mine.threads: int | None
    fetch.actors: int
    fetch.max_actors: int | None
    fetch.num_cpus: float
    fetch.num_gpus: float
    fetch.memory_gb: float | None
    fetch.batch_size: int
    fetch.max_in_flight: int
    fetch.threads: int | None
    decode.actors: int
    decode.max_actors: int | None
    decode.num_cpus: float
    decode.num_gpus: float
    decode.memory_gb: float | None
    decode.batch_size: int
    decode.max_in_flight: int
    decode.threads: int | None
    embed.actors: int
    embed.max_actors: int | None
    embed.num_cpus: float
    embed.num_gpus: float
    embed.memory_gb: float | None
    embed.batch_size: int
    embed.max_in_flight: int
    embed.threads: int | None
    search.actors: int
    search.max_actors: int | None
    search.num_cpus: float
    search.num_gpus: float
    search.memory_gb: float | None
    search.batch_size: int
    search.max_in_flight: int
    search.threads: int | None
    judge.actors: int
    judge.max_actors: int | None
    judge.num_cpus: float
    judge.num_gpus: float
    judge.memory_gb: float | None
    judge.batch_size: int
    judge.max_in_flight: int
    judge.threads: int | None
    object_store_memory_gb: float | None
    wait_s: int
    autoscaling: bool
"""
COLUMNS = {
    "terms": """
        key term, source, concept, entity_id; version 1
        term: string
        source: string
        concept: string
        entity_id: string
        theme: string
        entity_type: string
        entity_date: string
        model: string
        sample: int32
        sub_region: string
        topic: string
    """,
    "records": """
        key record_id; version 1
        record_id: string
        image_id: string
        language: string
        page_url: string
        image_url: string
        page_title: string
        section_title: string
        hierarchical_section_title: string
        caption_reference_description: string
        caption_attribution_description: string
        caption_alt_text_description: string
        mime_type: string
        original_height: string
        original_width: string
        is_main_image: string
        attribution_passes_lang_id: string
        page_changed_recently: string
        context_page_description: string
        context_section_description: string
        split: string
        terms: list<item: string>
        methods: list<item: string>
    """,
    "images": """
        key image_id, rendition; version 1
        image_id: string
        rendition: string
        bytes: large_binary
        format: string
        width: int32
        height: int32
        sha256: string
        phash: string
        source_url: string
        final_url: string
        author: string
        licence: string
        http_status: int32
        attempts: int32
        status: string
        error_kind: string
        error_message: string
    """,
    "texts": """
        key text_id; version 1
        text_id: string
        role: string
        language: string
        date: string
        source: string
        revision: string
        text: string
    """,
    "nodes": """
        key node_id; version 1
        node_id: string
        lemmas: map<string, list<item: string>>
        glosses: map<string, string>
        article_text_id: string
    """,
    "node_images": """
        key node_id, image_id; version 1
        node_id: string
        image_id: string
    """,
    "items": """
        key item_id; version 1
        item_id: string
        kind: string
        image_ids: list<item: string>
        text_ids: list<item: string>
        response_id: string
        targets: list<item: string>
        gold: list<item: string>
        attributes: map<string, string>
    """,
    "embeddings": """
        key item_id, kind; version 1
        item_id: string
        kind: string
        embedding: fixed_size_list<item: halffloat>[768]
        status: string
        error_kind: string
        error_message: string
    """,
    "neighbors": """
        key query_id, rank; version 1
        query_id: string
        rank: int32
        item_id: string
        score: double
        probability: double
    """,
    "links": """
        key image_id, method, rank; version 1
        image_id: string
        method: string
        rank: int32
        node_id: string
        lemma: string
        score: double
    """,
    "responses": """
        key response_id; version 1
        response_id: string
        item_id: string
        model: string
        prompt: string
        sample: int32
        seed: int64
        text: string
        finish_reason: string
        refusal_kind: string
        status: string
    """,
    "questions": """
        key set_id, question_id; version 1
        set_id: string
        question_id: string
        text: string
        tuple: string
        category: string
        parents: list<item: string>
        valid: bool
    """,
    "ratings": """
        key item_id, target, rubric, question, rater, condition, method, order, sample; version 1
        item_id: string
        target: string
        rubric: string
        question: string
        rater: string
        condition: string
        method: string
        order: string
        sample: int32
        value: string
        score: double
        expected: double
        answers: list<item: string>
        probabilities: list<item: double>
        outside_mass: double
        status: string
        error_kind: string
        error_message: string
        raw: string
        comment: string
        seconds: double
    """,
    "spans": """
        key item_id, rater, text_id, kind, start, end; version 1
        item_id: string
        rater: string
        text_id: string
        kind: string
        start: int32
        end: int32
        category: string
        score: double
        status: string
    """,
    "raters": """
        key rater; version 1
        rater: string
        kind: string
        family: string
        revision: string
        dtype: string
        engine: string
        country: string
        pool: string
        experience: string
    """,
    "metrics": """
        key metric, dims; version 1
        metric: string
        dims: string
        definition: string
        value: double
        low: double
        high: double
        interval_method: string
        n: int64
        coverage: double
        status: string
        reason: string
    """,
}
STATUS_WORDS = "ok refused unparsed out_of_range truncated missing_input skipped reported missing blocked error"


def dotted(schema: type, prefix: str = "") -> Iterator[str]:
    """`key: type` of each key; `resources` is the same everywhere and stands once, in RESOURCES."""
    hints = get_type_hints(schema)
    for field in fields(schema):
        kind: Any = hints[field.name]
        name = f"{prefix}{field.name}"
        if kind is Resources:
            yield f"{name}: resources"
        elif is_dataclass(kind):
            yield from dotted(kind, f"{name}.")  # type: ignore[arg-type]
        else:
            yield f"{name}: {kind.__name__ if isinstance(kind, type) and '[' not in str(kind) else kind}"


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


def changes(now: list[str], frozen: list[str]) -> list[str]:
    """What is new (+) and what is gone (-), for a message that names it."""
    return [f"+ {x}" for x in now if x not in frozen] + [f"- {x}" for x in frozen if x not in now]


def test_the_jobs() -> None:
    assert changes(list(cli.JOBS), list(KEYS)) == []


@pytest.mark.parametrize("name", cli.JOBS)
def test_the_keys_of_a_job(name: str) -> None:
    assert changes(list(dotted(cli.job(name).schema)), lines(KEYS[name])) == []


def test_the_keys_of_resources() -> None:
    assert changes(list(dotted(Resources)), lines(RESOURCES)) == []


def test_the_tables() -> None:
    assert changes(list(TABLES), list(COLUMNS)) == []


@pytest.mark.parametrize("name", TABLES)
def test_the_columns_of_a_table(name: str) -> None:
    table = TABLES[name]
    now = [f"key {', '.join(table.key)}; version {table.version}"]
    now += [f"{column}: {kind}" for column, (kind, _) in table.columns.items()]
    assert changes(now, lines(COLUMNS[name])) == []
    assert now == lines(COLUMNS[name]), "the order of the columns"


def test_the_status_words() -> None:
    assert changes(list(STATUSES), STATUS_WORDS.split()) == []
