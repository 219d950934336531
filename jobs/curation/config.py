"""The keys of `curate` that its rules depend on."""

from collections import Counter
from dataclasses import dataclass, field

from jobs.curation.near import DISTANCE, MAX_DISTANCE
from jobs.curation.rows import PAGE_URL, PAGES, THUMBNAILS
from jobs.curation.starter import StarterConfig
from jobs.errors import InputError
from jobs.runtime.selection.draws import DrawConfig

KNOWLEDGE_GRAPH, LANGUAGE_MODEL, MANUAL = "knowledge_graph", "language_model", "manual"
NEAR_MODES = ("keep", "report", "drop")
SELECTIONS = ("all", "starter")
NEAR_FILE = "near_duplicates.jsonl"  # in _run/: the groups of near-duplicates


@dataclass
class PageRule:
    """The rule that a page must have only one image (`one_image_a_page`)."""

    by: str = PAGE_URL  # what identifies a page: page_url, or page_title (with the language)
    methods: list[str] | None = None  # methods whose records the rule applies to; null: every method


@dataclass
class CurationRules:
    """The rules to apply, and their limits."""

    thumbnails: str = "wikimedia"  # URLs that must have a resized form: any (none must), wikimedia (Wikimedia's), all
    page_rule: PageRule = field(default_factory=PageRule)
    precedence: list[str] = field(  # of an image's methods the first is credited; others follow by name
        default_factory=lambda: [KNOWLEDGE_GRAPH, LANGUAGE_MODEL, MANUAL]
    )
    near_duplicates: str = "keep"  # keep, report (list them next to the manifest) or drop; needs images=
    near_distance: int = DISTANCE  # bits of 64 in which the perceptual hashes of near-duplicates may differ
    draw: DrawConfig = field(
        default_factory=DrawConfig
    )  # which of the records to draw; its seed: of the starter set too
    downsample_from: str | None = None  # the only method whose records draw.n removes; null: any method
    select: str = "all"  # all, or starter: sensitive on average, few of each sub-region (section 5.1); needs ratings=
    starter: StarterConfig = field(default_factory=StarterConfig)

    def check(self) -> None:
        """Raise InputError for a value that is not allowed; no table is read."""
        self.draw.check()
        if self.downsample_from is not None and self.draw.n is None:
            raise InputError(f"downsample_from={self.downsample_from}: only read with draw.n=; set draw.n=, or omit it")
        if not 0 <= self.near_distance <= MAX_DISTANCE:
            raise InputError(f"near_distance={self.near_distance}: must be from 0 to {MAX_DISTANCE} of the 64 bits")
        for key, value, allowed in (
            ("thumbnails", self.thumbnails, THUMBNAILS),
            ("page_rule.by", self.page_rule.by, tuple(PAGES)),
            ("near_duplicates", self.near_duplicates, NEAR_MODES),
            ("select", self.select, SELECTIONS),
        ):
            if value not in allowed:
                raise InputError(f"{key}={value}: must be one of {', '.join(allowed)}")
        if repeated := [name for name, n in Counter(self.precedence).items() if n > 1]:
            raise InputError(f"precedence=[{','.join(self.precedence)}]: duplicate {repeated[0]}")
        self.starter.check()
