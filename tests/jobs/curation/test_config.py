"""Keys of `curate` that are refused before a table is read, with their bounds."""

from typing import Any

import pytest

from jobs.curation.config import CurationRules, PageRule
from jobs.curation.near import MAX_DISTANCE
from jobs.curation.starter import StarterConfig
from jobs.errors import InputError
from jobs.runtime.selection.draws import DrawConfig
from tests.cases import check_cases


def test_values_at_their_bounds_are_allowed() -> None:
    for near in (0, MAX_DISTANCE):
        CurationRules(near_distance=near).check()
    CurationRules(downsample_from="manual", draw=DrawConfig(n=1), precedence=["a", "b"], select="starter").check()
    CurationRules(precedence=[], near_duplicates="drop", thumbnails="all", page_rule=PageRule("page_title")).check()


def test_other_values_are_refused_by_their_key() -> None:
    def check(keys: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            CurationRules(**keys).check()

    check_cases(check, [
        ({"near_distance": -1}, f"^near_distance=-1: must be from 0 to {MAX_DISTANCE}"),
        ({"near_distance": MAX_DISTANCE + 1}, "^near_distance="),
        ({"downsample_from": "manual"}, r"^downsample_from=manual: only read with draw\.n="),
        ({"draw": DrawConfig(n=0)}, r"^draw\.n=0"),
        ({"thumbnails": "some"}, "^thumbnails=some: must be one of any, wikimedia, all$"),
        ({"page_rule": PageRule("url")}, r"^page_rule\.by=url: must be one of page_url, page_title$"),
        ({"near_duplicates": "x"}, "^near_duplicates=x: must be one of keep, report, drop$"),
        ({"starter": StarterConfig(per_region=0)}, r"^starter\.per_region=0"),
        ({"select": "some"}, "^select=some: must be one of all, starter$"),
        ({"precedence": ["a", "b", "a"]}, r"^precedence=\[a,b,a\]: duplicate a$"),
    ])  # fmt: skip
