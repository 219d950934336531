"""Questions about targets on a form, with a rubric of which only some questions are about targets."""

import pytest

from actors.rubrics.rubric import Rubric
from jobs.annotation.annotate_config import AnnotateConfig
from jobs.annotation.study_form import asks_targets
from jobs.errors import InputError

SHORT = {
    "name": "mood",
    "targets": ["joy", "fear"],
    "questions": [
        {"name": "shown", "text": "How strongly?", "answers": [1, 2, 3]},
        {"name": "people", "text": "Are there people?", "answers": ["yes", "no"], "targets": False},
    ],
}


def test_a_study_asks_about_targets_or_without():
    rubric = Rubric.from_dict(SHORT)
    assert asks_targets(AnnotateConfig(only_questions=["shown"]), rubric)
    assert not asks_targets(AnnotateConfig(only_questions=["people"]), rubric)
    with pytest.raises(InputError, match=r"only_questions=\[shown\] and only_questions=\[people\]"):
        asks_targets(AnnotateConfig(), rubric)
    assert not asks_targets(AnnotateConfig(), Rubric.from_dict({**SHORT, "targets": []}))
