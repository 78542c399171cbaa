"""Arrays as Postgres reads them."""

from shared.postgres import arrays


def test_numbers_and_texts_are_literals_and_none_is_null() -> None:
    assert arrays.numbers([1, -2, 3]) == "{1,-2,3}"
    assert arrays.texts(["a", None, "NULL", ""]) == '{"a",NULL,"NULL",""}'
    assert arrays.texts([]) == "{}"


def test_what_would_end_a_text_is_escaped() -> None:
    assert arrays.texts(['a"b', "c\\d", "e,{f}"]) == '{"a\\"b","c\\\\d","e,{f}"}'
