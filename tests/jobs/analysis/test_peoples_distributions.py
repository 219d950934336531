"""Answers of people in a file, of each person or of all together."""

import pyarrow as pa
import pytest

from jobs.analysis.from_file.peoples_distributions import PeoplesDistributions
from jobs.analysis.report_tables import ALL_PEOPLE, MAX_PEOPLE_SHOWN


@pytest.mark.parametrize(("people", "shown"), [(MAX_PEOPLE_SHOWN, MAX_PEOPLE_SHOWN), (MAX_PEOPLE_SHOWN + 1, 1)])
def test_answers_are_in_the_order_of_their_numbers_and_all_allowed(people: int, shown: int) -> None:
    distributions = PeoplesDistributions()
    for person in range(people):
        answers = ["10", "9", "unsure"] if person else ["9", "9", "10"]
        rows = {"rater": [f"p{person:02}"] * 3, "rubric": ["r"] * 3, "question": ["q"] * 3, "value": answers}
        scores = [None if answer == "unsure" else float(answer) for answer in answers]
        status = pa.array(["ok"] * 3, pa.string())
        distributions.add(pa.table({**rows, "score": pa.array(scores, pa.float64()), "status": status}))
    shown_distributions = distributions.shown()
    assert len(shown_distributions) == shown
    first = shown_distributions[0]
    nines, tens, unsure = (2, 1, 0) if shown > 1 else (people + 1, people, people - 1)
    expected = {"9": nines, "10": tens, "unsure": unsure}
    assert {share.answer: share.count for share in first.answers if share.count} == {
        answer: n for answer, n in expected.items() if n
    }
    assert [share.answer for share in first.answers] == [a for a in expected if a in [s.answer for s in first.answers]]
    assert all(share.listed for share in first.answers)
    assert first.rater == ("p00" if shown > 1 else ALL_PEOPLE)
