"""The public interface, frozen; `test_public_surface` compares it with the code, so that no change is accidental."""

WRITING = """
    out: str
    resume: bool = True
    overwrite: bool = False
    retry: list[str] = []
    plan: bool | str = False
    exclusions: str | None = None
"""

COMMON = """
    writing
    log: str = 'text'
    timings: bool = False
    ray.address: str | None = None
    ray.num_cpus: int | None = None
    ray.verbose: bool = False
    resources: resources
"""

KEYS = {
    "demo": """
        out: str = 'demo-out'
        rows: int = 6000
        pictures: int = 80
        ray.address: str | None = None
        ray.num_cpus: int | None = None
        ray.verbose: bool = False
    """,
    "mark_spans": """
        common
        limit: int | None = None
        max_error_share: float = 0.01
        input: str
        images: str | None = None
        texts: str | None = None
        model.checkpoint: str
        model.revision: str | None = None
        model.dtype: str = 'auto'
        model.device_map: str = 'auto'
        model.offload: bool = False
        model.max_pixels: int | None = 1003520
        model.min_pixels: int | None = None
        model.name: str
        model.memory_gb: float | None = None
        model.licence: str | None = None
        models: list[typing.Any] = []
        condition: str = ''
        memory_budget_gb: float | None = None
        method: str = 'direct'
        span_labels: dict[str, typing.Any] = {}
        span_prompts: dict[str, typing.Any] = {}
        threshold: float = 0.5
        max_tokens: int = 512
        group_rows: int | None = None
        draw.n: int | None = None
        draw.seed: int = 0
        draw.by: str = 'picture'
        draw.complete: list[str] = []
        show_prompts: int = 0
    """,
    "mine": """
        common
        limit: int | None = None
        corpus.name: str = 'wit'
        corpus.path: str
        corpus.language: str | None = 'en'
        terms.path: Any
        terms.column: str | None = None
        terms.encoding: str | None = None
        terms.source: str | None = None
        match: str = 'substring'
        fold.case: str = 'lower'
        fold.compose: str | None = None
        fold.dashes: bool = False
    """,
    "terms": """
        common
        limit: int | None = None
        source.name: str
        source.path: str | None = None
        source.unit_mb: int = 64
        concepts: dict[str, typing.Any] = {}
        graph: dict[str, typing.Any] = {}
        entities: str | None = None
        subclass_depth: int | None = None
        names: list[str] = ['label', 'title']
        punctuation: str = 'keep'
        dates: str = 'prefer'
        period.first: int = 1901
        period.last: int = 2100
        entities_per_concept: int | None = None
        responses: list[str] = []
        topics: dict[str, typing.Any] = {}
        unknown: str = 'drop'
    """,
    "curate": """
        writing
        limit: int | None = None
        input: str
        unit_rows: int = 256
        images: str | None = None
        thumbnails: str = 'wikimedia'
        page_rule.by: str = 'page_url'
        page_rule.methods: list[str] | None = None
        precedence: list[str] = ['knowledge_graph', 'language_model', 'manual']
        near_duplicates: str = 'keep'
        near_distance: int = 4
        draw.n: int | None = None
        draw.seed: int = 0
        draw.by: str = 'picture'
        downsample_from: str | None = None
        select: str = 'all'
        ratings: list[str] = []
        starter.rubric: str | None = 'century_labels'
        starter.question: str = 'sensitive'
        starter.above: float = 3.0
        starter.mean: str = 'pooled'
        starter.region_question: str = 'sub_region'
        starter.region_by: list[str] = ['everyone']
        starter.region_majority: str = 'half'
        starter.unsure: str = 'abstain'
        starter.unlabelled: str = 'drop'
        starter.per_region: int = 6
    """,
    "fetch": """
        common
        limit: int | None = None
        max_error_share: float = 0.01
        source.name: str = 'folder'
        source.path: str | None = None
        source.max_bytes: int = 67108864
        source.bytes_column: str | None = None
        source.key_column: str | None = None
        source.contact: str | None = None
        source.allow_hosts: list[str] = []
        source.connections: int = 2
        source.mbit_s: float | None = 25.0
        source.form: str = 'served'
        source.opt_out: list[str] = ['noai', 'noimageai']
        source.attempts: int = 5
        source.backoff_s: float = 1.0
        source.max_timeouts: int = 10
        source.max_wait_s: float = 900.0
        source.connect_s: float = 10.0
        source.read_s: float = 30.0
        source.total_s: float = 180.0
        source.credits: bool = True
        source.api: str = 'https://{host}/w/api.php'
        source.ca_file: str | None = None
        source.testing.allow_addresses: list[str] = []
        source.testing.resolve: list[str] = []
        input: str | None = None
        width: int | None = None
        verify_only: bool = False
        unit_rows: int | None = None
    """,
    "embed": """
        common
        limit: int | None = None
        max_error_share: float = 0.01
        input: str
        embedder.name: str
        embedder.checkpoint: str
        embedder.pretrained: str | None = None
        embedder.device: str = 'auto'
        embedder.dtype: str = 'auto'
    """,
    "kb": """
        common
        limit: int | None = None
        unit_rows: int = 20000
        knowledge_base.name: str
        knowledge_base.path: str
        knowledge_base.language: str = ''
        knowledge_base.columns.node: str = 'node'
        knowledge_base.columns.language: str | None = None
        knowledge_base.columns.lemmas: str | None = None
        knowledge_base.columns.title: str | None = None
        knowledge_base.columns.gloss: str | None = None
        knowledge_base.columns.article: str | None = None
        knowledge_base.columns.images: str | None = None
        knowledge_base.separator: str | None = None
        knowledge_base.encoding: str | None = None
        knowledge_base.window_words: int = 40
        knowledge_base.overlap_words: int = 10
        knowledge_base.windows: int | None = None
    """,
    "pairs": """
        writing
        input: str
        texts: str | None = None
        by: str = 'prompt'
        orders: str = 'both'
        unit_rows: int = 256
        limit: int | None = None
    """,
    "prompts": """
        out: str
        template: str
        axes: dict[str, typing.Any] = {}
        default_axes: dict[str, typing.Any] = {}
        language: str = 'en'
    """,
    "tric_captions": """
        split: str
        out: str
        templates: dict[str, str] = {}
        language: str = 'en'
        unit_rows: int = 4096
    """,
    "question_scores": """
        writing
        input: str
        questions: str
        questions_rubric: str = 'dsg'
        convention: str = 'answered'
        limit: int | None = None
    """,
    "questions": """
        common
        limit: int | None = None
        input: str | None = None
        columns.set_id: str | None = None
        columns.about: str | None = None
        columns.id: str | None = None
        columns.question: str | None = None
        columns.tuple: str | None = None
        columns.category: str | None = None
        columns.parents: str | None = None
        columns.valid: str | None = None
        faults: str = 'refuse'
        encoding: str | None = None
        delimiter: str | None = None
        texts: str | None = None
        role: str = 'prompt'
        model.name: str
        model.checkpoint: str
        model.revision: str | None = None
        model.dtype: str = 'auto'
        model.device_map: str = 'auto'
        model.offload: bool = False
        model.memory_gb: float | None = None
        model.licence: str | None = None
        model.max_pixels: int | None = 1003520
        model.min_pixels: int | None = None
        scene_graph: dict[str, typing.Any] = {}
        unit_rows: int = 64
        memory_budget_gb: float | None = None
        samples: int = 1
        temperature: float = 1.0
        top_p: float = 1.0
        max_tokens: int = 1024
        seed: int = 0
        group_rows: int | None = None
    """,
    "retrieve": """
        common
        limit: int | None = None
        queries: str
        corpus.name: str = 'embeddings'
        corpus.layout: str = 'table'
        corpus.path: str
        corpus.array: str | None = None
        corpus.id: str | None = None
        corpus.embedder: jobs.models.encoder.EmbedderConfig | None = None
        corpus.where: str | None = None
        corpus.unit_mb: int = 256
        k: int = 10
        score: str = 'inner_product'
        logit_scale: float | None = None
        logit_bias: float | None = None
        resident: str = 'auto'
        device: str = 'auto'
        faiss.out: str | None = None
        faiss.factory: str = 'IVF1024,SQfp16'
        faiss.nprobe: int = 16
    """,
    "link": """
        common
        limit: int | None = None
        neighbors: str
        kb.path: str
        kb.vectors: str | None = None
        kb.images: str | None = None
        method: str = 'lemma_vision'
        pictures: str | None = None
        k: int = 20
        nearest: int = 20
        lemma_aggregation: str = 'max'
        language: str = 'en'
        contaminated: str = 'keep'
        images: str | None = None
    """,
    "review_links": """
        out: str
        links: list[str] = []
        kb.path: str
        kb.images: str | None = None
        ranks: int = 1
        pictures: int = 3
        language: str = 'en'
        exclusions: str | None = None
        limit: int | None = None
    """,
    "candidates": """
        out: str
        neighbors: str
        corpus.path: str
        corpus.id: str = 'uid'
        corpus.url: str = 'url'
        corpus.caption: str | None = 'text'
        k: int | None = None
        exclusions: str | None = None
        limit: int | None = None
    """,
    "choose": """
        out: str
        neighbors: str | None = None
        prompts: str | None = None
        images: str | None = None
        chosen: str | None = None
        encoding: str | None = None
        exclusions: str | None = None
    """,
    "tric_rank": """
        split: str
        pictures: str
        captions: str
        vectors: str
        out: str
        answer: str = 'none'
        exclusions: str | None = None
    """,
    "show_links": """
        out: str
        pictures: list[str] = []
        neighbors: list[str] = []
        links: list[str] = []
        kb.path: str
        kb.images: str | None = None
        images: str | None = None
        nearest: int = 20
        k: int = 5
        exclusions: str | None = None
    """,
    "tric_items": """
        split: str
        neighbors: str
        captions: str
        out: str
        k: int = 50
        dates: str = 'day'
        exclusions: str | None = None
        unit_rows: int = 64
    """,
    "tric_rerank": """
        split: str
        neighbors: str
        captions: str
        ratings: list[str] = []
        out: str
        exclusions: str | None = None
    """,
    "tric_statistics": """
        path: str
        out: str
        splits: list[str] | None = None
        unions: dict[str, list[str]] = {}
        bins.year: int = 1
        bins.words: int = 1
        bins.characters: int = 10
    """,
    "judge": """
        common
        limit: int | None = None
        max_error_share: float = 0.01
        input: str
        condition: str = ''
        records: str | None = None
        show_prompts: int = 0
        images: str | None = None
        texts: str | None = None
        rubric: dict[str, typing.Any] = {}
        targets: Any = None
        questions: str | None = None
        questions_by: str = 'prompt'
        model.name: str
        model.checkpoint: str
        model.revision: str | None = None
        model.dtype: str = 'auto'
        model.device_map: str = 'auto'
        model.offload: bool = False
        model.memory_gb: float | None = None
        model.licence: str | None = None
        model.max_pixels: int | None = 1003520
        model.min_pixels: int | None = None
        models: list[typing.Any] = []
        layout: str | None = None
        max_context_tokens: int | None = None
        empty_context: str = 'answer'
        engine: str = 'auto'
        memory_budget_gb: float | None = None
        rescore_fraction: float = 0.0
        method: str = 'closed'
        samples: int = 1
        temperature: float = 1.0
        top_p: float = 1.0
        max_tokens: int = 1024
        seed: int = 0
        group_rows: int | None = None
    """,
    "loglik": """
        common
        limit: int | None = None
        max_error_share: float = 0.01
        input: str
        models: list[typing.Any] = []
        condition: str = ''
        images: str | None = None
        texts: str | None = None
        records: str | None = None
        show_prompts: int = 0
        model.name: str
        model.checkpoint: str
        model.revision: str | None = None
        model.dtype: str = 'auto'
        model.device_map: str = 'auto'
        model.offload: bool = False
        model.memory_gb: float | None = None
        model.licence: str | None = None
        model.max_pixels: int | None = 1003520
        model.min_pixels: int | None = None
        prompt: dict[str, typing.Any] = {}
        targets: Any = None
        lambdas: list[float] = [0.0, 0.25, 0.5, 0.75, 1.0]
        thresholds: list[float] = [-inf]
        reference: str | None = None
        max_context_tokens: int | None = None
        empty_context: str = 'answer'
    """,
    "zero_shot": """
        common
        limit: int | None = None
        max_error_share: float = 0.01
        input: str
        embeddings: str | None = None
        condition: str = ''
        embedder.name: str
        embedder.checkpoint: str
        embedder.pretrained: str | None = None
        embedder.device: str = 'auto'
        embedder.dtype: str = 'auto'
        template: str = 'cultural_relevance'
        targets: Any = None
    """,
    "calibrate": """
        writing
        input: str
        items: list[str] = []
        criterion: str = 'f1'
        reference: str | None = None
        threshold: float | None = None
        choose_on: str = 'a'
        cross: bool = False
        split_by: str | None = None
        seed: int = 0
        rubric: dict[str, typing.Any] = {}
        condition: str = ''
    """,
    "concepts": """
        out: str
        lists: list[str] = []
        responses: str | None = None
        input_items: str | None = None
        kb.path: str | None = None
        kb.language: str = 'en'
    """,
    "link_names": """
        writing
        responses: str
        kb.path: str
        k: int = 20
        names: int = 5
        longest: int = 6
        limit: int | None = None
    """,
    "generate_images": """
        common
        limit: int | None = None
        max_error_share: float = 0.01
        input: str
        texts: str | None = None
        prompt_role: str = 'prompt'
        samples: int = 1
        image_model.name: str
        image_model.checkpoint: str
        image_model.revision: str | None = None
        image_model.dtype: str = 'auto'
        image_model.device: str = 'auto'
        image_model.memory_gb: float | None = None
        image_model.licence: str | None = None
        image_models: list[typing.Any] = []
        width: int | None = None
        height: int | None = None
        steps: int | None = None
        guidance: float | None = None
        negative_prompt: str = ''
        seed: int = 0
    """,
    "generate": """
        common
        limit: int | None = None
        max_error_share: float = 0.01
        input: str
        models: list[typing.Any] = []
        condition: str = ''
        images: str | None = None
        texts: str | None = None
        records: str | None = None
        show_prompts: int = 0
        model.name: str
        model.checkpoint: str
        model.revision: str | None = None
        model.dtype: str = 'auto'
        model.device_map: str = 'auto'
        model.offload: bool = False
        model.memory_gb: float | None = None
        model.licence: str | None = None
        model.max_pixels: int | None = 1003520
        model.min_pixels: int | None = None
        prompt: dict[str, typing.Any] = {}
        rubric: dict[str, typing.Any] = {}
        draw.n: int | None = None
        draw.seed: int = 0
        draw.by: str = 'picture'
        draw.complete: list[str] = []
        refusals: dict[str, typing.Any] = {}
        engine: str = 'auto'
        samples: int = 3
        temperature: float = 1.0
        top_p: float = 1.0
        max_tokens: int = 1024
        seed: int = 0
        max_context_tokens: int | None = None
        empty_context: str = 'answer'
        memory_budget_gb: float | None = None
        group_rows: int | None = None
    """,
    "parse": """
        common
        limit: int | None = None
        input: str
        condition: str = ''
        rubric: dict[str, typing.Any] = {}
    """,
    "import_ratings": """
        writing
        limit: int | None = None
        input: str
        condition: str = ''
        format: str | None = None
        table: str = 'ratings'
        rubric: dict[str, typing.Any] = {}
        span_labels: dict[str, typing.Any] = {}
        name: str = 'people'
        answers: list[str] = []
        scale: str = 'ordinal'
        columns.item_id: str | None = None
        columns.rater: str | None = None
        columns.value: str | None = None
        columns.question: str | None = None
        columns.questions: Any = None
        columns.remarks: Any = None
        columns.target: str | None = None
        columns.condition: str | None = None
        columns.order: str | None = None
        columns.sample: str | None = None
        columns.comment: str | None = None
        columns.seconds: str | None = None
        columns.time: str | None = None
        columns.skipped: str | None = None
        columns.reported: str | None = None
        columns.country: str | None = None
        columns.pool: str | None = None
        columns.experience: str | None = None
        columns.text_id: str | None = None
        columns.kind: str | None = None
        columns.start: str | None = None
        columns.end: str | None = None
        columns.category: str | None = None
        columns.score: str | None = None
        columns.probability: str | None = None
        question: str | None = None
        rater: str | None = None
        rater_kind: str = 'human'
        rater_from: str = 'annotator'
        method: str = 'human'
        items: str = 'id'
        encoding: str | None = None
        delimiter: str | None = None
        duplicates: str = 'last'
        anonymise: bool = False
        key_file: str | None = None
        reports: str | None = None
        reports_min: int = 1
    """,
    "items": """
        writing
        input: str | None = None
        limit: int | None = None
        columns.id: str | None = None
        columns.pictures: Any = None
        columns.texts: dict[str, typing.Any] = {}
        columns.language: str | None = None
        columns.targets: Any = None
        columns.gold: Any = None
        columns.attributes: Any = None
        separators.pictures: str | None = None
        separators.texts: str | None = None
        separators.targets: str | None = ';'
        separators.gold: str | None = ';'
        pictures.path: str | None = None
        images: str | None = None
        kind: str | None = None
        item_per: str | None = None
        language: str = ''
        encoding: str | None = None
        delimiter: str | None = None
        responses: list[str] = []
        labels: list[str] = []
        label_questions: list[str] = []
        labels_by: str = 'everyone'
        role: str = 'generated'
        draw.n: int | None = None
        draw.seed: int = 0
        draw.by: str = 'picture'
        draw.complete: list[str] = []
        links: str | None = None
        kb.path: str | None = None
        kb.language: str = 'en'
        context: str = 'article'
        k: int = 20
        gold_node: str = 'gold_node'
        input_items: str | None = None
        texts: str | None = None
        topics: dict[str, typing.Any] = {}
        unit_rows: int = 256
        condition: str = ''
    """,
    "annotate": """
        writing
        input: Any
        images: Any = None
        records: Any = None
        texts: Any = None
        responses: Any = None
        rubric: dict[str, typing.Any] = {}
        questions: str | None = None
        questions_by: str = 'prompt'
        only_questions: list[str] = []
        span_labels: dict[str, typing.Any] = {}
        welfare.name: str = 'none'
        welfare.blur: bool = True
        welfare.notice: str = ''
        welfare.show: str = 'Show the picture'
        welfare.report: str = 'Report this picture'
        welfare.report_help: str = ''
        welfare.issue: str = 'Something is wrong with this response'
        welfare.issue_help: str = ''
        welfare.comment: str = 'Comment'
        welfare.skip_help: str = ''
        welfare.links: list[dict[str, str]] = []
        show_columns: list[str] = ['page_title']
        tool: str = 'label_studio'
        raters: str
        raters_encoding: str | None = None
        group: str | None = None
        per_item: int | None = None
        per_group: int | None = None
        quotas: Any = None
        target: str = 'rubric'
        shared: int = 0
        together: str | None = None
        per_rater: int | None = None
        audit: float = 0.0
        auditor: str | None = None
        draw.n: int | None = None
        draw.seed: int = 0
        draw.by: str = 'picture'
        draw.complete: list[str] = []
        seed: int = 0
        files: str = 'rater'
        pictures: str = 'url'
        picture_base: str = 'pictures/'
        limit: int | None = None
    """,
    "analyze": """
        input: str
        out: str
        task: str = 'agreement'
        columns.item: str | None = None
        columns.rater: str | None = None
        columns.value: str | None = None
        columns.question: str | None = None
        columns.parents: str | None = None
        columns.valid: str | None = None
        encoding: str | None = None
        missing: list[str] = []
        scale: list[float] = []
        keep_rows: dict[str, str] = {}
        separator: str | None = None
        annotations: list[str] = []
        empty: str | None = None
        people: str | None = None
        people_columns.item: str = 't2i_model,item_id'
        people_columns.value: str = 'answer'
        metrics.group_by: list[str] = []
        metrics.tolerance: float = 1
        metrics.weights: dict[str, list[list[float]]] = {}
        metrics.at_least: list[float] = [3.0, 4.0]
        metrics.people: int | None = None
        metrics.ensembles: dict[str, typing.Any] = {}
        metrics.leave_out: Any = None
        metrics.inverted: list[str] = ['factual_errors']
        metrics.gold: list[str] = []
        metrics.positive: float = 4
        metrics.groups: list[str] = []
        metrics.disaggregate: list[str] = []
        metrics.minimum: int = 30
        metrics.unit: str | None = None
        metrics.compare: list[str] = []
        metrics.contrast: list[str] = []
        metrics.baseline_condition: str | None = None
        metrics.reference_condition: str | None = None
        metrics.concept: str = 'concept'
        metrics.competitors: str = 'model'
        metrics.crowdtruth: bool = False
        metrics.crowdtruth_raters: str = 'people'
        metrics.stop: float = 0.001
        metrics.overlap: float = 0.5
        metrics.text_overlap: list[str] = []
        exclusions: str | None = None
        title: str = 'Metrics'
    """,
    "evaluate": """
        ranked: str
        gold: str
        out: str
        columns.query: str = 'image_id'
        columns.answer: str = 'node_id'
        encoding: str | None = None
        group_by: str | None = None
        k: list[int] = [1, 5, 10, 20]
        unlisted: str = 'left_out'
        exclusions: str | None = None
    """,
    "ls": """
        inputs: list[str] = []
        identity: bool = False
    """,
    "view": """
        inputs: list[str] = []
        rater: str | None = None
        out: str | None = None
        blur: bool = True
        exclusions: str | None = None
        port: int = 0
    """,
    "rm": """
        inputs: list[str] = []
        yes: bool = False
        plan: bool = False
    """,
    "gc": """
        inputs: list[str] = []
        plan: bool = False
    """,
    "copy": """
        input: str
        out: str
        plan: bool = False
    """,
    "diff": """
        a: str
        b: str
        ignore: list[str] = []
        tolerance: float = 0.0
        examples: int = 10
        out: str | None = None
        overwrite: bool = False
        strict: bool = False
    """,
    "export": """
        out: str
        ratings: list[str] = []
        records: str | None = None
        images: str | None = None
        items: list[str] = []
        overwrite: bool = False
        exclusions: str | None = None
    """,
    "release": """
        out: str
        records: str
        starter: str | None = None
        images: str | None = None
        terms: list[str] = []
        ratings: list[str] = []
        items: list[str] = []
        responses: list[str] = []
        include: list[str] = []
        card.title: str = 'Pictures with annotations'
        card.description: str = ''
        card.licence: str | None = None
        card.languages: list[str] = ['en']
        card.creators: list[str] = []
        card.citation: str = ''
        card.url: str | None = None
        card.version: str = '1.0.0'
        card.date: str | None = None
        card.tags: list[str] = []
        key_file: str | None = None
        push.repo: str | None = None
        push.private: bool = True
        push.revision: str | None = None
        overwrite: bool = False
        exclusions: str | None = None
    """,
    "report": """
        out: str
        ratings: list[str] = []
        images: str | None = None
        records: str | None = None
        terms: list[str] = []
        matches: str | None = None
        embeddings: str | None = None
        raters: list[str] = []
        items: list[str] = []
        responses: list[str] = []
        spans: list[str] = []
        remarks: list[str] = []
        texts: list[str] = []
        questions: str | None = None
        questions_rubric: str = 'dsg'
        likert: str | None = None
        computed: list[str] = []
        metrics.group_by: list[str] = []
        metrics.tolerance: float = 1
        metrics.weights: dict[str, list[list[float]]] = {}
        metrics.at_least: list[float] = [3.0, 4.0]
        metrics.people: int | None = None
        metrics.ensembles: dict[str, typing.Any] = {}
        metrics.leave_out: Any = None
        metrics.inverted: list[str] = ['factual_errors']
        metrics.gold: list[str] = []
        metrics.positive: float = 4
        metrics.groups: list[str] = ['country']
        metrics.disaggregate: list[str] = []
        metrics.minimum: int = 30
        metrics.unit: str | None = None
        metrics.compare: list[str] = []
        metrics.contrast: list[str] = []
        metrics.baseline_condition: str | None = None
        metrics.reference_condition: str | None = None
        metrics.concept: str = 'concept'
        metrics.competitors: str = 'model'
        metrics.crowdtruth: bool = False
        metrics.crowdtruth_raters: str = 'people'
        metrics.stop: float = 0.001
        metrics.overlap: float = 0.5
        metrics.text_overlap: list[str] = []
        paper.name: str | None = None
        paper.title: str = ''
        paper.rubrics: dict[str, str] = {}
        paper.groups: dict[str, str] = {}
        paper.names: list[str] = []
        paper.condition: str | None = None
        paper.disaggregate: list[str] = []
        paper.compare: list[str] = []
        paper.contrast: list[str] = []
        paper.baseline_condition: str | None = None
        paper.reference_condition: str | None = None
        paper.options: dict[str, str] = {}
        paper.printed: dict[str, jobs.papers.settings.PrintedTable] = {}
        title: str = ''
        gallery: int = 48
        gallery_seed: int = 0
        exclusions: str | None = None
    """,
    "purge": """
        input: str
        exclusions: str
        plan: bool = False
    """,
    "verify": """
        input: str
        exclusions: str | None = None
        repair: bool = False
    """,
    "run": """
        out: str
        log: str = 'text'
        timings: bool = False
        exclusions: str | None = None
        limit: int | None = None
        pipeline.name: str
        pipeline.inputs: dict[str, typing.Any] = {}
        pipeline.choices: dict[str, list[typing.Any]] = {}
        pipeline.needs: dict[str, dict[str, typing.Any]] = {}
        pipeline.steps: list[jobs.runtime.pipeline.pipelines.Step] = []
        profile.name: str
        profile.set: dict[str, dict[str, typing.Any]] = {}
        resources: resources
        plan: bool | str = False
        resume: bool = True
        overwrite: bool = False
        ray.address: str | None = None
        ray.num_cpus: int | None = None
        ray.verbose: bool = False
    """,
}
RESOURCES = """
    read.num_cpus: float = 0.25
    write.num_cpus: float = 0.25
    mine.actors: int = 1
    mine.max_actors: int | None = None
    mine.num_cpus: float = 0.3
    mine.num_gpus: float = 0.0
    mine.memory_gb: float | None = None
    mine.batch_size: int = 64
    mine.max_in_flight: int = 2
    mine.threads: int | None = None
    mine.row_timeout_s: float | None = 3600.0
    fetch.actors: int = 1
    fetch.max_actors: int | None = None
    fetch.num_cpus: float = 0.3
    fetch.num_gpus: float = 0.0
    fetch.memory_gb: float | None = None
    fetch.batch_size: int = 64
    fetch.max_in_flight: int = 2
    fetch.threads: int | None = None
    fetch.row_timeout_s: float | None = 3600.0
    decode.actors: int = 1
    decode.max_actors: int | None = None
    decode.num_cpus: float = 0.3
    decode.num_gpus: float = 0.0
    decode.memory_gb: float | None = None
    decode.batch_size: int = 64
    decode.max_in_flight: int = 2
    decode.threads: int | None = None
    decode.row_timeout_s: float | None = 3600.0
    embed.actors: int = 1
    embed.max_actors: int | None = None
    embed.num_cpus: float = 0.3
    embed.num_gpus: float = 0.0
    embed.memory_gb: float | None = None
    embed.batch_size: int = 64
    embed.max_in_flight: int = 2
    embed.threads: int | None = None
    embed.row_timeout_s: float | None = 3600.0
    search.actors: int = 1
    search.max_actors: int | None = None
    search.num_cpus: float = 0.3
    search.num_gpus: float = 0.0
    search.memory_gb: float | None = None
    search.batch_size: int = 64
    search.max_in_flight: int = 2
    search.threads: int | None = None
    search.row_timeout_s: float | None = 3600.0
    judge.actors: int = 1
    judge.max_actors: int | None = None
    judge.num_cpus: float = 0.3
    judge.num_gpus: float = 0.0
    judge.memory_gb: float | None = None
    judge.batch_size: int = 64
    judge.max_in_flight: int = 2
    judge.threads: int | None = None
    judge.row_timeout_s: float | None = 3600.0
    kb.actors: int = 1
    kb.max_actors: int | None = None
    kb.num_cpus: float = 0.3
    kb.num_gpus: float = 0.0
    kb.memory_gb: float | None = None
    kb.batch_size: int = 64
    kb.max_in_flight: int = 2
    kb.threads: int | None = None
    kb.row_timeout_s: float | None = 3600.0
    link.actors: int = 1
    link.max_actors: int | None = None
    link.num_cpus: float = 0.3
    link.num_gpus: float = 0.0
    link.memory_gb: float | None = None
    link.batch_size: int = 64
    link.max_in_flight: int = 2
    link.threads: int | None = None
    link.row_timeout_s: float | None = 3600.0
    object_store_memory_gb: float | None = 1.0
    wait_s: int = 60
    autoscaling: bool = False
    prices: str | None = None
    measured: str | None = 'rates'
    gpu: str | None = None
    node_types: list[jobs.runtime.configuration.resources.NodeType] = []
"""
COLUMNS = {
    "class_edges": """
        key entity_id, relation, value; version 1
        entity_id: string
        relation: string
        value: string
    """,
    "entities": """
        key entity_id; version 2
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
        key record_id; version 2
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
        credited_method: string
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
        key response_id; version 5
        response_id: string
        item_id: string
        model: string
        prompt: string
        condition: string
        sample: int32
        seed: int64
        text: string
        thought: string
        finish_reason: string
        refusal_kind: string
        truncated: list<item: string>
        empty_context: string
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
        key item_id, target, rubric, question, rater, condition, method, order, sample; version 3
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
        empty_context: string
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
        units: int64
        coverage: double
        status: string
        reason: string
    """,
}
STATUS_WORDS = "ok refused unparsed out_of_range truncated missing_input skipped reported missing blocked error"
