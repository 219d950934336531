from actors.numbers import json_integer, whole_number


def test_whole_number() -> None:
    expected = {
        "0": 0,
        "1024": 1024,
        "0" * 9 + "7": 7,
        "9" * 10: 9_999_999_999,
        "9" * 11: None,
        "9" * 5000: None,
        "": None,
        None: None,
        "-1": None,
        "1.5": None,
        " 1": None,
        "\u0663": None,  # a digit to str.isdigit, three to int
        "\u00b2": None,  # a digit to str.isdigit, an error to int
    }
    assert {text: whole_number(text) for text in expected} == expected


def test_json_integer() -> None:
    assert json_integer(str(-(2**63))) == -(2**63)
    assert json_integer(str(2**64 - 1)) == 2**64 - 1
    assert json_integer("9" * 21) is None
    assert json_integer("-" + "9" * 5000) is None
