"""The rules of curation in their order, each a pure function on arrays; none depends on the order of the rows.

Each method's records are filtered alone, as if it had been mined alone: a record found by two methods belongs to
both, and a rule that looks at several records (pages with several pictures) looks at that method's records only.
A record stays as long as one of its methods keeps it; `filtered` counts it under the rule that took it out of its
last one. Then the methods are put together: of the records of one image URL the one stays whose method stands
first in `precedence`, among these the smallest (page_title, page_url, record_id); from then on the record is
credited to that method alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from jobs.curation.rows import Rows

RULES = (  # the word under which a rule's losses are counted; Century, appendix E.1, then 3.2 and 5.1
    "is_main_image",
    "one_image_a_page",
    "picture_exists",
    "https",
    "thumbnail_form",
    "one_row_an_image",
    "excluded",
    "near_duplicate",
    "size",
    "starter_rated",
    "starter_mean",
    "starter_region",
    "starter_per_region",
)
NUMBER = {rule: number for number, rule in enumerate(RULES, 1)}  # 0: no rule, the record stays
ALONE = RULES[:5]  # what each method goes through alone
STAYS = 255
NO_METHOD = 255


@dataclass
class Decision:
    """What becomes of each row.

    `rule` uint8 [rows]: number of the rule that the row fell to, 0 if it stays. `reached` uint8 [methods, rows]: 0
    where the row is none of the method's, else the number of the rule at which the method lost it, STAYS if it
    kept it. `credit` uint8 [rows]: the method credited once duplicates are resolved, NO_METHOD before. `applied`:
    the rules that were asked for, in order.
    """

    rule: np.ndarray
    reached: np.ndarray
    credit: np.ndarray
    applied: tuple[str, ...]

    def left(self) -> np.ndarray:
        """int64: places of the rows that stay so far."""
        return np.flatnonzero(self.rule == 0)

    def drop(self, places: np.ndarray, rule: str) -> None:
        """Let the rows at `places` fall to `rule`."""
        self.rule[places] = NUMBER[rule]

    def apply(self, rule: str) -> None:
        """Note that `rule` was asked for, whether or not a row fell to it."""
        self.applied = (*self.applied, rule)


def each_method(rows: Rows, *, gone: np.ndarray | None = None, thumbnails: bool = True) -> Decision:
    """Filter each method's rows alone. `gone`: bool [pictures]; None leaves the rule out."""
    reached = np.zeros((len(rows.methods), len(rows)), np.uint8)
    for number, member in enumerate(rows.member):
        mine = reached[number]
        mine[member] = STAYS
        failing = {  # what a row fails; written last to first, so that the first one counts
            "thumbnail_form": ~rows.thumbnail if thumbnails else None,
            "https": ~rows.https,
            "picture_exists": gone[rows.image] if gone is not None else None,
            "one_image_a_page": crowded(rows, member & rows.main),
            "is_main_image": ~rows.main,
        }
        for name, fails in failing.items():
            if fails is not None:
                mine[member & fails] = NUMBER[name]
    furthest = reached.max(axis=0, initial=0)
    rule = np.where(furthest == STAYS, 0, furthest).astype(np.uint8)
    known = {"picture_exists": gone is not None, "thumbnail_form": thumbnails}
    credit = np.full(len(rows), NO_METHOD, np.uint8)
    return Decision(rule, reached, credit, tuple(name for name in ALONE if known.get(name, True)))


def crowded(rows: Rows, among: np.ndarray) -> np.ndarray:
    """bool [rows]: whether the row's page has more than one distinct image URL `among` (bool [rows]) these rows."""
    page, url = rows.page[among].astype(np.int64), rows.url[among].astype(np.int64)
    width = int(rows.url.max(initial=0)) + 1
    pairs = np.unique(page * width + url)
    several = np.bincount(pairs // width, minlength=int(rows.page.max(initial=-1)) + 1) > 1
    return several[rows.page]


def resolve(
    rows: Rows, decision: Decision, *, precedence: Sequence[str], ranks: Callable[[np.ndarray], np.ndarray]
) -> None:
    """Credit each row that is left to one method, and leave one row an image URL.

    `ranks` gives int64 ranks of the rows at given places; it is asked only about images with several rows.
    """
    decision.apply("one_row_an_image")
    left = decision.left()
    order = in_precedence(rows.methods, precedence)
    for method in reversed(order):
        decision.credit[left[decision.reached[method, left] == STAYS]] = method
    place = np.argsort(order)
    _, group, count = np.unique(rows.url[left], return_inverse=True, return_counts=True)
    several = left[count[group] > 1]
    if not len(several):
        return
    best_first = np.lexsort((ranks(several), place[decision.credit[several]], rows.url[several]))
    urls = rows.url[several][best_first]
    again = np.concatenate([[False], urls[1:] == urls[:-1]])
    decision.drop(several[best_first[again]], "one_row_an_image")


def in_precedence(methods: Sequence[str], precedence: Sequence[str]) -> list[int]:
    """Places of `methods` in order of `precedence`; those it does not name follow in alphabetical order."""
    named = {name: number for number, name in enumerate(precedence)}
    return sorted(range(len(methods)), key=lambda m: (named.get(methods[m], len(named)), methods[m]))
