"""The rules of curation, as pure functions on arrays, and their keys; results do not depend on the order of rows.

Each method's records are filtered as if the method had been mined alone: a record of two methods belongs to both, and a
rule about several records (pages with several pictures) considers only that method's records. A record is kept while
one of its methods keeps it; `filtered` counts it under the rule that removed it from the last method. Then the methods
are combined: of the records of one image URL, the one whose method is first in `precedence` is kept and, of several of
that method, the one with the smallest (page_title, page_url, record_id); from then on the record is credited to that
method only.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from jobs.curation.near_hashes import DISTANCE, MAX_DISTANCE
from jobs.curation.record_arrays import PAGE_URL, PAGES, THUMBNAILS, Rows
from jobs.curation.starter import StarterConfig
from jobs.errors import InputError, check_choice
from jobs.runtime.selection.draws import DrawConfig

EXCLUDED = "excluded"
RULES = (  # the names under which dropped rows are counted; Century, appendix E.1, then 3.2 and 5.1
    "is_main_image",
    "one_image_a_page",
    "picture_exists",
    "https",
    "thumbnail_form",
    "one_row_an_image",
    EXCLUDED,
    "near_duplicate",
    "draw",
    "starter_rated",
    "starter_mean",
    "starter_region",
    "starter_per_region",
)
NUMBER = {rule: number for number, rule in enumerate(RULES, 1)}  # 0: no rule dropped the record
ALONE = RULES[:5]  # applied to each method alone
KEPT = 255
NO_METHOD = 255


@dataclass
class Decision:
    """The decision about each row.

    Attributes:
        rule: uint8 [rows], number of the rule that dropped the row, 0 if it is kept.
        reached: uint8 [methods, rows], 0 if the row does not belong to the method, else the number of the rule that
            dropped it for the method, KEPT if the method keeps it.
        credit: uint8 [rows], the credited method once duplicates are resolved, NO_METHOD before.
        applied: the rules that were applied, in order.
    """

    rule: np.ndarray
    reached: np.ndarray
    credit: np.ndarray
    applied: tuple[str, ...]

    def remaining(self) -> np.ndarray:
        """Return int64 indices of the rows that no rule has dropped yet."""
        return np.flatnonzero(self.rule == 0)

    def drop(self, indices: np.ndarray, rule: str) -> None:
        """Drop the rows at `indices` by `rule`."""
        self.rule[indices] = NUMBER[rule]

    def apply(self, rule: str) -> None:
        """Record that `rule` was applied, whether or not it dropped a row."""
        self.applied = (*self.applied, rule)


def filter_each_method(
    rows: Rows,
    *,
    gone: np.ndarray | None = None,
    thumbnails: bool = True,
    one_image_methods: Collection[str] | None = None,
) -> Decision:
    """Filter each method's rows alone.

    Args:
        gone: bool [pictures]; None: do not apply that rule.
        thumbnails: apply the rule about resized forms.
        one_image_methods: methods to which the rule about pages with several images applies; None: all.
    """

    def is_wanted(method: str) -> bool:
        return one_image_methods is None or method in one_image_methods

    reached = np.zeros((len(rows.methods), len(rows)), np.uint8)
    for number, member in enumerate(rows.member):
        of_method = reached[number]
        of_method[member] = KEPT
        failing = {  # assigned from the last rule to the first, so that the first one counts
            "thumbnail_form": ~rows.thumbnail if thumbnails else None,
            "https": ~rows.https,
            "picture_exists": gone[rows.image] if gone is not None else None,
            "one_image_a_page": shares_page(rows, member & rows.main) if is_wanted(rows.methods[number]) else None,
            "is_main_image": ~rows.main,
        }
        for name, fails in failing.items():
            if fails is not None:
                of_method[member & fails] = NUMBER[name]
    furthest = reached.max(axis=0, initial=0)
    rule = np.where(furthest == KEPT, 0, furthest).astype(np.uint8)
    optional = {
        "one_image_a_page": any(map(is_wanted, rows.methods)),
        "picture_exists": gone is not None,
        "thumbnail_form": thumbnails,
    }
    credit = np.full(len(rows), NO_METHOD, np.uint8)
    return Decision(rule, reached, credit, tuple(name for name in ALONE if optional.get(name, True)))


def shares_page(rows: Rows, among: np.ndarray) -> np.ndarray:
    """Return bool [rows]: whether the row's page has several distinct image URLs in the rows `among` (bool [rows])."""
    page, url = rows.page[among].astype(np.int64), rows.url[among].astype(np.int64)
    width = int(rows.url.max(initial=0)) + 1
    pairs = np.unique(page * width + url)
    is_shared = np.bincount(pairs // width, minlength=int(rows.page.max(initial=-1)) + 1) > 1
    return is_shared[rows.page]


def resolve_duplicates(
    rows: Rows, decision: Decision, *, precedence: Sequence[str], ranks: Callable[[np.ndarray], np.ndarray]
) -> None:
    """Credit each remaining row to one method, and keep one row per image URL.

    `ranks` returns int64 ranks of the rows at the given indices; it is only called for images with several rows.
    """
    decision.apply("one_row_an_image")
    remaining = decision.remaining()
    order = order_by_precedence(rows.methods, precedence)
    for method in reversed(order):
        decision.credit[remaining[decision.reached[method, remaining] == KEPT]] = method
    precedence_rank = np.argsort(order)
    _, group, count = np.unique(rows.url[remaining], return_inverse=True, return_counts=True)
    duplicates = remaining[count[group] > 1]
    if not len(duplicates):
        return
    by_url = np.lexsort((ranks(duplicates), precedence_rank[decision.credit[duplicates]], rows.url[duplicates]))
    urls = rows.url[duplicates][by_url]
    is_repeat = np.concatenate([[False], urls[1:] == urls[:-1]])
    decision.drop(duplicates[by_url[is_repeat]], "one_row_an_image")


def order_by_precedence(methods: Sequence[str], precedence: Sequence[str]) -> list[int]:
    """Return indices of `methods` in order of `precedence`; other methods follow in alphabetical order."""
    position = {name: number for number, name in enumerate(precedence)}
    return sorted(range(len(methods)), key=lambda m: (position.get(methods[m], len(position)), methods[m]))


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
    # which of the records to draw; its seed: of the starter set too
    draw: DrawConfig = field(default_factory=DrawConfig)
    downsample_from: str | None = None  # the only method whose records draw.n removes; null: any method
    select: str = "all"  # all, or starter: sensitive on average, few of each sub-region (section 5.1); needs ratings=
    starter: StarterConfig = field(default_factory=StarterConfig)

    def check(self) -> None:
        """Raise InputError for a value that is not allowed; no table is read."""
        self.draw.check()
        if self.downsample_from is not None and self.draw.n is None:
            why = "only read with draw.n="
            raise InputError(why, key="downsample_from", value=self.downsample_from, remedy="set draw.n=, or omit it")
        if not 0 <= self.near_distance <= MAX_DISTANCE:
            why = f"must be from 0 to {MAX_DISTANCE} of the 64 bits"
            raise InputError(why, key="near_distance", value=self.near_distance)
        check_choice("thumbnails", self.thumbnails, THUMBNAILS)
        check_choice("page_rule.by", self.page_rule.by, PAGES)
        check_choice("near_duplicates", self.near_duplicates, NEAR_MODES)
        check_choice("select", self.select, SELECTIONS)
        if repeated := [name for name, n in Counter(self.precedence).items() if n > 1]:
            raise InputError(f"duplicate {repeated[0]}", key="precedence", value=self.precedence)
        self.starter.check()
