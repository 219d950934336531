"""Numbers of things in messages."""

from actors.quantities import quantity


def test_a_number_has_its_noun_in_the_singular_or_plural() -> None:
    cases = {
        (0, "row"): "0 rows",
        (1, "row"): "1 row",
        (2000, "row"): "2,000 rows",
        (1, "entity"): "1 entity",
        (3, "entity"): "3 entities",
        (2, "key"): "2 keys",
        (2, "class"): "2 classes",
        (2, "index"): "2 indexes",
        (2, "match"): "2 matches",
    }
    assert {case: quantity(*case) for case in cases} == cases
