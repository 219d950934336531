"""What users and other programs rely on, frozen; `test_public_surface` compares. A change is made on purpose."""

WRITING = """
    out: str
    resume: bool
    overwrite: bool
    retry: list[str]
    plan: bool | str
    exclusions: str | None
"""

COMMON = """
    writing
    log: str
    timings: bool
    ray.address: str | None
    ray.num_cpus: int | None
    ray.verbose: bool
    resources: resources
"""

KEYS = {
    "demo": """
        out: str
        rows: int
        pictures: int
        ray.address: str | None
        ray.num_cpus: int | None
        ray.verbose: bool
    """,
    "mark_spans": """
        common
        limit: int | None
        max_error_share: float
        input: str
        images: str | None
        texts: str | None
        model.checkpoint: str
        model.revision: str | None
        model.dtype: str
        model.device_map: str
        model.offload: bool
        model.max_pixels: int | None
        model.min_pixels: int | None
        model.name: str
        model.memory_gb: float | None
        model.licence: str | None
        models: list[str]
        condition: str
        memory_budget_gb: float | None
        method: str
        span_labels: dict[str, typing.Any]
        span_prompts: dict[str, typing.Any]
        threshold: float
        max_tokens: int
        group_rows: int | None
        draw.n: int | None
        draw.seed: int
        draw.by: str
        draw.complete: list[str]
        show_prompts: int
    """,
    "mine": """
        common
        limit: int | None
        corpus.name: str
        corpus.path: str
        corpus.language: str | None
        terms.path: Any
        terms.column: str | None
        terms.encoding: str | None
        terms.source: str | None
        match: str
        fold.case: str
        fold.compose: str | None
        fold.dashes: bool
    """,
    "terms": """
        common
        limit: int | None
        source.name: str
        source.path: str | None
        source.unit_mb: int
        concepts: dict[str, typing.Any]
        graph: dict[str, typing.Any]
        entities: str | None
        subclass_depth: int | None
        names: list[str]
        punctuation: str
        dates: str
        period.first: int
        period.last: int
        entities_per_concept: int | None
        responses: list[str]
        topics: dict[str, typing.Any]
        unknown: str
    """,
    "curate": """
        writing
        limit: int | None
        input: str
        unit_rows: int
        images: str | None
        thumbnails: str
        page_rule.by: str
        page_rule.methods: list[str] | None
        precedence: list[str]
        near_duplicates: str
        near_distance: int
        draw.n: int | None
        draw.seed: int
        draw.by: str
        downsample_from: str | None
        select: str
        ratings: list[str]
        starter.rubric: str | None
        starter.question: str
        starter.above: float
        starter.mean: str
        starter.region_question: str
        starter.region_by: list[str]
        starter.region_majority: str
        starter.unsure: str
        starter.unlabelled: str
        starter.per_region: int
    """,
    "fetch": """
        common
        limit: int | None
        max_error_share: float
        source.name: str
        source.path: str | None
        source.max_bytes: int
        source.bytes_column: str | None
        source.key_column: str | None
        source.contact: str | None
        source.allow_hosts: list[str]
        source.connections: int
        source.mbit_s: float | None
        source.form: str
        source.opt_out: list[str]
        source.attempts: int
        source.backoff_s: float
        source.max_timeouts: int
        source.max_wait_s: float
        source.connect_s: float
        source.read_s: float
        source.total_s: float
        source.credits: bool
        source.api: str
        source.ca_file: str | None
        source.testing.allow_addresses: list[str]
        source.testing.resolve: list[str]
        input: str | None
        width: int | None
        verify_only: bool
        unit_rows: int | None
    """,
    "embed": """
        common
        limit: int | None
        max_error_share: float
        input: str
        embedder.name: str
        embedder.checkpoint: str
        embedder.pretrained: str | None
        embedder.device: str
        embedder.dtype: str
    """,
    "kb": """
        common
        limit: int | None
        unit_rows: int
        knowledge_base.name: str
        knowledge_base.path: str
        knowledge_base.language: str
        knowledge_base.columns.node: str
        knowledge_base.columns.language: str | None
        knowledge_base.columns.lemmas: str | None
        knowledge_base.columns.title: str | None
        knowledge_base.columns.gloss: str | None
        knowledge_base.columns.article: str | None
        knowledge_base.columns.images: str | None
        knowledge_base.separator: str | None
        knowledge_base.encoding: str | None
        knowledge_base.window_words: int
        knowledge_base.overlap_words: int
        knowledge_base.windows: int | None
    """,
    "pairs": """
        writing
        input: str
        texts: str | None
        by: str
        orders: str
        unit_rows: int
    """,
    "prompts": """
        out: str
        template: str
        axes: dict[str, typing.Any]
        default_axes: dict[str, typing.Any]
        language: str
    """,
    "tric_captions": """
        split: str
        out: str
        templates: dict[str, str]
        language: str
        unit_rows: int
    """,
    "question_scores": """
        writing
        input: str
        questions: str
        questions_rubric: str
    """,
    "questions": """
        common
        limit: int | None
        input: str | None
        columns.set_id: str | None
        columns.about: str | None
        columns.id: str | None
        columns.question: str | None
        columns.tuple: str | None
        columns.category: str | None
        columns.parents: str | None
        columns.valid: str | None
        faults: str
        encoding: str | None
        delimiter: str | None
        texts: str | None
        role: str
        model.name: str
        model.checkpoint: str
        model.revision: str | None
        model.dtype: str
        model.device_map: str
        model.offload: bool
        model.memory_gb: float | None
        model.licence: str | None
        model.max_pixels: int | None
        model.min_pixels: int | None
        scene_graph: dict[str, typing.Any]
        unit_rows: int
        memory_budget_gb: float | None
        samples: int
        temperature: float
        top_p: float
        max_tokens: int
        seed: int
        group_rows: int | None
    """,
    "retrieve": """
        common
        limit: int | None
        queries: str
        corpus.name: str
        corpus.layout: str
        corpus.path: str
        corpus.array: str | None
        corpus.id: str | None
        corpus.embedder: jobs.models.encoder.EmbedderConfig | None
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
        faiss.nprobe: int
    """,
    "link": """
        common
        limit: int | None
        neighbors: str
        kb.path: str
        kb.vectors: str | None
        kb.images: str | None
        method: str
        pictures: str | None
        k: int
        nearest: int
        lemma_aggregation: str
        language: str
        contaminated: str
        images: str | None
    """,
    "review_links": """
        out: str
        links: list[str]
        kb.path: str
        kb.images: str | None
        ranks: int
        pictures: int
        language: str
        exclusions: str | None
    """,
    "candidates": """
        out: str
        neighbors: str
        corpus.path: str
        corpus.id: str
        corpus.url: str
        corpus.caption: str | None
        k: int | None
        exclusions: str | None
    """,
    "choose": """
        out: str
        neighbors: str | None
        prompts: str | None
        images: str | None
        chosen: str | None
        encoding: str | None
        exclusions: str | None
    """,
    "tric_rank": """
        split: str
        pictures: str
        captions: str
        vectors: str
        out: str
        answer: str
        exclusions: str | None
    """,
    "show_links": """
        out: str
        pictures: list[str]
        neighbors: list[str]
        links: list[str]
        kb.path: str
        kb.images: str | None
        images: str | None
        nearest: int
        k: int
        exclusions: str | None
    """,
    "tric_items": """
        split: str
        neighbors: str
        captions: str
        out: str
        k: int
        dates: str
        exclusions: str | None
        unit_rows: int
    """,
    "tric_rerank": """
        split: str
        neighbors: str
        captions: str
        ratings: list[str]
        out: str
        exclusions: str | None
    """,
    "tric_statistics": """
        path: str
        out: str
        splits: list[str] | None
        unions: dict[str, list[str]]
        bins.year: int
        bins.words: int
        bins.characters: int
    """,
    "judge": """
        common
        limit: int | None
        max_error_share: float
        input: str
        condition: str
        records: str | None
        show_prompts: int
        images: str | None
        texts: str | None
        rubric: dict[str, typing.Any]
        targets: Any
        questions: str | None
        questions_by: str
        model.name: str
        model.checkpoint: str
        model.revision: str | None
        model.dtype: str
        model.device_map: str
        model.offload: bool
        model.memory_gb: float | None
        model.licence: str | None
        model.max_pixels: int | None
        model.min_pixels: int | None
        models: list[str]
        layout: str | None
        max_context_tokens: int | None
        empty_context: str
        engine: str
        memory_budget_gb: float | None
        rescore_fraction: float
        method: str
        samples: int
        temperature: float
        top_p: float
        max_tokens: int
        seed: int
        group_rows: int | None
    """,
    "loglik": """
        common
        limit: int | None
        max_error_share: float
        input: str
        models: list[str]
        condition: str
        images: str | None
        texts: str | None
        records: str | None
        show_prompts: int
        model.name: str
        model.checkpoint: str
        model.revision: str | None
        model.dtype: str
        model.device_map: str
        model.offload: bool
        model.memory_gb: float | None
        model.licence: str | None
        model.max_pixels: int | None
        model.min_pixels: int | None
        prompt: dict[str, typing.Any]
        targets: Any
        lambdas: list[float]
        thresholds: list[float]
        reference: str | None
        max_context_tokens: int | None
        empty_context: str
    """,
    "zero_shot": """
        common
        limit: int | None
        max_error_share: float
        input: str
        embeddings: str | None
        condition: str
        embedder.name: str
        embedder.checkpoint: str
        embedder.pretrained: str | None
        embedder.device: str
        embedder.dtype: str
        template: str
        targets: Any
    """,
    "calibrate": """
        writing
        input: str
        items: list[str]
        criterion: str
        reference: str | None
        threshold: float | None
        choose_on: str
        cross: bool
        split_by: str | None
        seed: int
        rubric: dict[str, typing.Any]
        condition: str
    """,
    "concepts": """
        out: str
        lists: list[str]
        responses: str | None
        input_items: str | None
        kb.path: str | None
        kb.language: str
    """,
    "link_names": """
        writing
        responses: str
        kb.path: str
        k: int
        names: int
        longest: int
    """,
    "generate_images": """
        common
        limit: int | None
        max_error_share: float
        input: str
        texts: str | None
        prompt_role: str
        samples: int
        image_model.name: str
        image_model.checkpoint: str
        image_model.revision: str | None
        image_model.dtype: str
        image_model.device: str
        image_model.memory_gb: float | None
        image_model.licence: str | None
        image_models: list[str]
        width: int | None
        height: int | None
        steps: int | None
        guidance: float | None
        negative_prompt: str
        seed: int
    """,
    "generate": """
        common
        limit: int | None
        max_error_share: float
        input: str
        models: list[str]
        condition: str
        images: str | None
        texts: str | None
        records: str | None
        show_prompts: int
        model.name: str
        model.checkpoint: str
        model.revision: str | None
        model.dtype: str
        model.device_map: str
        model.offload: bool
        model.memory_gb: float | None
        model.licence: str | None
        model.max_pixels: int | None
        model.min_pixels: int | None
        prompt: dict[str, typing.Any]
        rubric: dict[str, typing.Any]
        draw.n: int | None
        draw.seed: int
        draw.by: str
        draw.complete: list[str]
        refusals: dict[str, typing.Any]
        engine: str
        samples: int
        temperature: float
        top_p: float
        max_tokens: int
        seed: int
        max_context_tokens: int | None
        empty_context: str
        memory_budget_gb: float | None
        group_rows: int | None
    """,
    "parse": """
        common
        limit: int | None
        input: str
        condition: str
        rubric: dict[str, typing.Any]
    """,
    "import_ratings": """
        writing
        limit: int | None
        input: str
        condition: str
        format: str | None
        table: str
        rubric: dict[str, typing.Any]
        span_labels: dict[str, typing.Any]
        name: str
        answers: list[str]
        scale: str
        columns.item_id: str | None
        columns.rater: str | None
        columns.value: str | None
        columns.question: str | None
        columns.questions: Any
        columns.remarks: Any
        columns.target: str | None
        columns.condition: str | None
        columns.order: str | None
        columns.sample: str | None
        columns.comment: str | None
        columns.seconds: str | None
        columns.time: str | None
        columns.skipped: str | None
        columns.reported: str | None
        columns.country: str | None
        columns.pool: str | None
        columns.experience: str | None
        columns.text_id: str | None
        columns.kind: str | None
        columns.start: str | None
        columns.end: str | None
        columns.category: str | None
        columns.score: str | None
        columns.probability: str | None
        question: str | None
        rater: str | None
        rater_kind: str
        rater_from: str
        method: str
        items: str
        encoding: str | None
        delimiter: str | None
        duplicates: str
        anonymise: bool
        key_file: str | None
        reports: str | None
        reports_min: int
    """,
    "items": """
        writing
        input: str | None
        limit: int | None
        columns.id: str | None
        columns.pictures: Any
        columns.texts: dict[str, typing.Any]
        columns.language: str | None
        columns.targets: Any
        columns.gold: Any
        columns.attributes: Any
        separators.pictures: str | None
        separators.texts: str | None
        separators.targets: str | None
        separators.gold: str | None
        pictures.path: str | None
        images: str | None
        kind: str | None
        item_per: str | None
        language: str
        encoding: str | None
        delimiter: str | None
        responses: list[str]
        labels: list[str]
        label_questions: list[str]
        labels_by: str
        role: str
        draw.n: int | None
        draw.seed: int
        draw.by: str
        draw.complete: list[str]
        links: str | None
        kb.path: str | None
        kb.language: str
        context: str
        k: int
        gold_node: str
        input_items: str | None
        texts: str | None
        topics: dict[str, typing.Any]
        unit_rows: int
        condition: str
    """,
    "annotate": """
        writing
        input: Any
        images: Any
        records: Any
        texts: Any
        responses: Any
        rubric: dict[str, typing.Any]
        questions: str | None
        questions_by: str
        only_questions: list[str]
        span_labels: dict[str, typing.Any]
        welfare.name: str
        welfare.blur: bool
        welfare.notice: str
        welfare.show: str
        welfare.report: str
        welfare.report_help: str
        welfare.issue: str
        welfare.issue_help: str
        welfare.comment: str
        welfare.skip_help: str
        welfare.links: list[dict[str, str]]
        show_columns: list[str]
        tool: str
        raters: str
        raters_encoding: str | None
        group: str | None
        per_item: int | None
        per_group: int | None
        quotas: Any
        target: str
        shared: int
        together: str | None
        per_rater: int | None
        audit: float
        auditor: str | None
        draw.n: int | None
        draw.seed: int
        draw.by: str
        draw.complete: list[str]
        seed: int
        files: str
        pictures: str
        picture_base: str
    """,
    "analyze": """
        input: str
        out: str
        task: str
        columns.item: str | None
        columns.rater: str | None
        columns.value: str | None
        columns.question: str | None
        columns.parents: str | None
        columns.valid: str | None
        encoding: str | None
        missing: list[str]
        scale: list[float]
        keep_rows: dict[str, str]
        separator: str | None
        annotations: list[str]
        empty: str | None
        people: str | None
        people_columns.item: str
        people_columns.value: str
        metrics.group_by: list[str]
        metrics.tolerance: float
        metrics.weights: dict[str, list[list[float]]]
        metrics.at_least: list[float]
        metrics.people: int | None
        metrics.ensembles: dict[str, list[str]]
        metrics.leave_out: list[str]
        metrics.inverted: list[str]
        metrics.gold: list[str]
        metrics.positive: float
        metrics.groups: list[str]
        metrics.disaggregate: list[str]
        metrics.minimum: int
        metrics.compare: list[str]
        metrics.contrast: list[str]
        metrics.baseline_condition: str | None
        metrics.reference_condition: str | None
        metrics.concept: str
        metrics.competitors: str
        metrics.crowdtruth: bool
        metrics.crowdtruth_raters: str
        metrics.stop: float
        metrics.overlap: float
        metrics.text_overlap: list[str]
        exclusions: str | None
        title: str
    """,
    "evaluate": """
        ranked: str
        gold: str
        out: str
        columns.query: str
        columns.answer: str
        encoding: str | None
        group_by: str | None
        k: list[int]
        unlisted: str
        exclusions: str | None
    """,
    "ls": """
        inputs: list[str]
        identity: bool
    """,
    "view": """
        inputs: list[str]
        rater: str | None
        out: str | None
        blur: bool
        exclusions: str | None
        port: int
    """,
    "rm": """
        inputs: list[str]
        yes: bool
        plan: bool
    """,
    "gc": """
        inputs: list[str]
        plan: bool
    """,
    "copy": """
        input: str
        out: str
        plan: bool
    """,
    "diff": """
        a: str
        b: str
        ignore: list[str]
        tolerance: float
        examples: int
        out: str | None
        overwrite: bool
        strict: bool
    """,
    "export": """
        out: str
        ratings: list[str]
        records: str | None
        images: str | None
        items: list[str]
        overwrite: bool
        exclusions: str | None
    """,
    "release": """
        out: str
        records: str
        starter: str | None
        images: str | None
        terms: list[str]
        ratings: list[str]
        items: list[str]
        responses: list[str]
        include: list[str]
        card.title: str
        card.description: str
        card.licence: str | None
        card.languages: list[str]
        card.creators: list[str]
        card.citation: str
        card.url: str | None
        card.version: str
        card.date: str | None
        card.tags: list[str]
        key_file: str | None
        push.repo: str | None
        push.private: bool
        push.revision: str | None
        overwrite: bool
        exclusions: str | None
    """,
    "report": """
        out: str
        ratings: list[str]
        images: str | None
        records: str | None
        terms: list[str]
        matches: str | None
        embeddings: str | None
        raters: list[str]
        items: list[str]
        responses: list[str]
        spans: list[str]
        remarks: list[str]
        texts: list[str]
        questions: str | None
        questions_rubric: str
        likert: str | None
        computed: list[str]
        metrics.group_by: list[str]
        metrics.tolerance: float
        metrics.weights: dict[str, list[list[float]]]
        metrics.at_least: list[float]
        metrics.people: int | None
        metrics.ensembles: dict[str, list[str]]
        metrics.leave_out: list[str]
        metrics.inverted: list[str]
        metrics.gold: list[str]
        metrics.positive: float
        metrics.groups: list[str]
        metrics.disaggregate: list[str]
        metrics.minimum: int
        metrics.compare: list[str]
        metrics.contrast: list[str]
        metrics.baseline_condition: str | None
        metrics.reference_condition: str | None
        metrics.concept: str
        metrics.competitors: str
        metrics.crowdtruth: bool
        metrics.crowdtruth_raters: str
        metrics.stop: float
        metrics.overlap: float
        metrics.text_overlap: list[str]
        paper.name: str | None
        paper.title: str
        paper.rubrics: dict[str, str]
        paper.groups: dict[str, str]
        paper.names: list[str]
        paper.condition: str | None
        paper.disaggregate: list[str]
        paper.compare: list[str]
        paper.contrast: list[str]
        paper.baseline_condition: str | None
        paper.reference_condition: str | None
        paper.options: dict[str, str]
        paper.printed: dict[str, jobs.papers.settings.PrintedTable]
        title: str
        gallery: int
        gallery_seed: int
        exclusions: str | None
    """,
    "purge": """
        input: str
        exclusions: str
        plan: bool
    """,
    "verify": """
        input: str
        exclusions: str | None
        repair: bool
    """,
    "run": """
        out: str
        log: str
        timings: bool
        limit: int | None
        pipeline.name: str
        pipeline.inputs: dict[str, typing.Any]
        pipeline.choices: dict[str, list[typing.Any]]
        pipeline.needs: dict[str, dict[str, typing.Any]]
        pipeline.steps: list[jobs.runtime.pipelines.Step]
        profile.name: str
        profile.set: dict[str, dict[str, typing.Any]]
        resources: resources
        plan: bool | str
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
    mine.row_timeout_s: float | None
    fetch.actors: int
    fetch.max_actors: int | None
    fetch.num_cpus: float
    fetch.num_gpus: float
    fetch.memory_gb: float | None
    fetch.batch_size: int
    fetch.max_in_flight: int
    fetch.threads: int | None
    fetch.row_timeout_s: float | None
    decode.actors: int
    decode.max_actors: int | None
    decode.num_cpus: float
    decode.num_gpus: float
    decode.memory_gb: float | None
    decode.batch_size: int
    decode.max_in_flight: int
    decode.threads: int | None
    decode.row_timeout_s: float | None
    embed.actors: int
    embed.max_actors: int | None
    embed.num_cpus: float
    embed.num_gpus: float
    embed.memory_gb: float | None
    embed.batch_size: int
    embed.max_in_flight: int
    embed.threads: int | None
    embed.row_timeout_s: float | None
    search.actors: int
    search.max_actors: int | None
    search.num_cpus: float
    search.num_gpus: float
    search.memory_gb: float | None
    search.batch_size: int
    search.max_in_flight: int
    search.threads: int | None
    search.row_timeout_s: float | None
    judge.actors: int
    judge.max_actors: int | None
    judge.num_cpus: float
    judge.num_gpus: float
    judge.memory_gb: float | None
    judge.batch_size: int
    judge.max_in_flight: int
    judge.threads: int | None
    judge.row_timeout_s: float | None
    kb.actors: int
    kb.max_actors: int | None
    kb.num_cpus: float
    kb.num_gpus: float
    kb.memory_gb: float | None
    kb.batch_size: int
    kb.max_in_flight: int
    kb.threads: int | None
    kb.row_timeout_s: float | None
    link.actors: int
    link.max_actors: int | None
    link.num_cpus: float
    link.num_gpus: float
    link.memory_gb: float | None
    link.batch_size: int
    link.max_in_flight: int
    link.threads: int | None
    link.row_timeout_s: float | None
    object_store_memory_gb: float | None
    wait_s: int
    autoscaling: bool
    prices: str | None
    measured: str | None
    node_types: list[jobs.runtime.resources.NodeType]
"""
COLUMNS = {
    "class_edges": """
        key entity_id, relation, value; version 1
        entity_id: string
        relation: string
        value: string
    """,
    "entities": """
        key entity_id; version 1
        entity_id: string
        label: string
        aliases: list<item: string>
        title: string
        entity_type: string
        entity_date: string
        first_year: int32
        last_year: int32
        links: list<item: string>
        neighbors: list<item: string>
        sites: int32
    """,
    "terms": """
        key term, source, concept, entity_id, response_id; version 2
        term: string
        source: string
        concept: string
        entity_id: string
        response_id: string
        theme: string
        name_kinds: list<item: string>
        linked_by: list<item: string>
        entity_type: string
        entity_date: string
        period: string
        model: string
        sample: int32
        sub_region: string
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
        key node_id; version 2
        node_id: string
        lemmas: map<string, list<item: string>>
        titles: map<string, string>
        glosses: map<string, string>
        article_text_ids: map<string, string>
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
        key response_id; version 4
        response_id: string
        item_id: string
        model: string
        prompt: string
        condition: string
        sample: int32
        seed: int64
        text: string
        finish_reason: string
        refusal_kind: string
        truncated: list<item: string>
        status: string
        error_kind: string
        error_message: string
    """,
    "questions": """
        key set_id, question_id; version 2
        set_id: string
        question_id: string
        text: string
        tuple: string
        category: string
        parents: list<item: string>
        valid: bool
        fault: string
        line: int32
        about: string
    """,
    "ratings": """
        key item_id, target, rubric, question, rater, condition, method, order, sample; version 2
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
        truncated: list<item: string>
        status: string
        error_kind: string
        error_message: string
        raw: string
        comment: string
        seconds: double
    """,
    "spans": """
        key item_id, rater, condition, method, text_id, kind, start, end; version 2
        item_id: string
        rater: string
        condition: string
        method: string
        text_id: string
        kind: string
        start: int32
        end: int32
        category: string
        score: double
        marked: bool
        probability: double
        status: string
        error_kind: string
        error_message: string
        raw: string
    """,
    "remarks": """
        key item_id, target, rubric, field, rater, condition, sample, number; version 1
        item_id: string
        target: string
        rubric: string
        field: string
        rater: string
        condition: string
        sample: int32
        number: int32
        question: string
        text: string
    """,
    "raters": """
        key rater; version 2
        rater: string
        kind: string
        model: string
        family: string
        revision: string
        dtype: string
        engine: string
        licence: string
        country: string
        pool: string
        experience: string
    """,
    "assignments": """
        key rater, place; version 1
        rater: string
        place: int32
        item_id: string
        target: string
        group: string
        role: string
        audited: bool
        file: string
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
