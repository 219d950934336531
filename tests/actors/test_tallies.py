"""Counts of a stage: prompts that deviate from their file, and pictures."""

from actors.tallies import TallyingStage


def test_prompts_that_were_cut_or_moved_are_counted_per_item_and_field() -> None:
    stage = TallyingStage()
    stage._count_prompt(truncated=["article", "titles"], empty_context=None, moves_system=False)
    stage._count_prompt(truncated=["article"], empty_context=None, moves_system=True)
    stage._count_prompt(truncated=None, empty_context="no link", moves_system=False)
    assert stage.take_tally() == {
        "truncated/items": 2,
        "truncated field/article": 2,
        "truncated field/titles": 1,
        "empty context/no link": 1,
        "system text/in the user's turn": 1,
    }


def test_pictures_are_counted_where_their_tokens_are_known() -> None:
    stage = TallyingStage()
    stage._count_pictures(2, tokens=90)
    stage._count_pictures(1, tokens=45)
    stage._count_pictures(1, tokens=None)
    stage._count_pictures(0, tokens=0)
    assert stage.take_tally() == {"pictures/shown": 3, "pictures/tokens": 135}
    assert stage.take_tally() == {}
