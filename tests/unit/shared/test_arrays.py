"""Arrays as Postgres reads them."""

from shared.postgres import arrays


def test_numbers_and_texts_are_literals_and_none_is_null() -> None:
    assert arrays.numbers([1, -2, 3]) == "{1,-2,3}"
    assert arrays.texts(["a", None, "NULL", ""]) == '{"a",NULL,"NULL",""}'
    assert arrays.texts([]) == "{}"


def test_text_with_quotes_backslashes_or_separators_is_quoted_and_escaped() -> None:
    assert arrays.texts(['a"b', "c\\d", "e,{f}"]) == '{"a\\"b","c\\\\d","e,{f}"}'
