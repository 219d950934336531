"""Groups of requests: the tokens of each prompt, and parts of a group."""

from actors.vlm.answers import AnswerCodes
from actors.vlm.requests import RequestGroup

PLAIN = AnswerCodes("code", (), ((1,), (2,)))
BRIDGED = AnswerCodes("code", (8, 9), ((3,), (4,)))


def test_the_bridge_of_the_answers_is_part_of_the_prompt() -> None:
    inputs = {"input_ids": object()}
    group = RequestGroup.of_suffixes(inputs, [[5], [6, 7], []], [PLAIN, BRIDGED, BRIDGED], shared=10)
    assert (group.places, group.shared, group.error) == ([0, 1, 2], 10, None)
    assert group.suffixes == [[5], [6, 7, 8, 9], [8, 9]]
    assert group.answers == [PLAIN, BRIDGED, BRIDGED]
    assert group.inputs == inputs
    assert group.inputs is not inputs  # the caller's may change
    assert [group.length(number) for number in range(3)] == [11, 14, 12]


def test_a_part_of_a_group_keeps_the_places_of_its_requests() -> None:
    group = RequestGroup([4, 2, 7], {"input_ids": object()}, [[1], [2], [3]], 10, [PLAIN, BRIDGED, PLAIN])
    part = group.subset([2, 1])
    assert (part.places, part.suffixes, part.answers) == ([7, 2], [[3], [2]], [PLAIN, BRIDGED])
    assert (part.inputs, part.shared, part.error) == (group.inputs, 10, None)
    assert group.subset([]).places == []
    first, second = RequestGroup([0]), RequestGroup([0])
    assert first.inputs is not second.inputs
    assert first.suffixes is not second.suffixes
    assert first.answers is not second.answers
