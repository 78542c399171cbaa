"""The protections of what a table keeps, and of what is remembered of it: no Kafka."""

from typing import Final

from tests.mutants.machine import Mutant

_FOLDER: Final = "tests/integration/writer_tables"
ENCODINGS: Final = f"{_FOLDER}/test_encodings.py"
VALUES: Final = f"{_FOLDER}/test_lossless.py"
FIELDS: Final = "tests/unit/writer_columns/test_same_fields.py"
FLOATS: Final = "tests/unit/writer/test_floats.py"
REMEMBERED: Final = f"{_FOLDER}/test_remembered.py"
WIDE: Final = f"{_FOLDER}/test_wide.py"
RAISED: Final = "tests/integration/writer/test_raised.py"
_SMALL: Final = "tests/integration/writer/test_small_tables.py"
LATER: Final = f"{_FOLDER}/test_later_columns.py"

TABLES: Final = (
    Mutant(
        "one encoding for every connection",
        "../../shared/postgres/connect.py",
        '        client_encoding="UTF8",\n',
        "",
        ENCODINGS,
    ),
    Mutant(
        "a server notices that our machine is gone, and frees its locks",
        "../../shared/postgres/connect.py",
        " {_SERVERS} ",
        " ",
        "tests/integration/writer/test_lost_machines.py",
    ),
    Mutant(
        "texts that the database's encoding does not have are found before they are staged",
        "persist/insert.py",
        "    rows = _without_unstorable(conn, database, spec, rows, out)\n",
        "",
        ENCODINGS,
    ),
    Mutant(
        "names that the database's encoding does not have",
        "settle/settlement.py",
        "        target = encodings.spelled(self._context.conn, target)\n",
        "",
        ENCODINGS,
    ),
    Mutant(
        "names of fields are shown in plain letters",
        "persist/row_errors.py",
        "field.isascii() and field.isidentifier()",
        "field.isidentifier()",
        ENCODINGS,
    ),
    Mutant(
        "how texts are read is pinned: intervals",
        "postgres/database.py",
        '        "intervalstyle": "postgres",\n',
        "",
        ENCODINGS,
    ),
    Mutant(
        "how texts are read is pinned: arrays",
        "postgres/database.py",
        '        "array_nulls": "on",\n',
        "",
        ENCODINGS,
    ),
    Mutant(
        "floats that a column gives back: whole numbers",
        "columns/json_to_text.py",
        " and lossless.keeps_integers(of, values)",
        "",
        VALUES,
    ),
    Mutant(
        "floats that a column gives back",
        "columns/json_to_text.py",
        "if not lossless.keeps_number(of, text):",
        "if False:",
        VALUES,
    ),
    Mutant(
        "floats spelled with all of their digits",
        "columns/lossless.py",
        "return _is_spelled(float(kept), text, _DIGITS[of.float_name])",
        "return False",
        FLOATS,
    ),
    Mutant(
        "no more digits than a float has",
        "columns/lossless.py",
        "return digits <= max_digits and Decimal",
        "return Decimal",
        FLOATS,
    ),
    Mutant(
        "the shortest text beside a power of two",
        "columns/lossless.py",
        "    if shortest == text or Decimal(shortest) == Decimal(text):\n",
        "    if shortest == text and False:\n",
        FLOATS,
    ),
    Mutant(
        "intervals keep their digits",
        "columns/json_to_text.py",
        "if lost := lossless.interval_loss(of, value):",
        "if lost := None:",
        VALUES,
    ),
    Mutant(
        "ranges of times keep their digits",
        "columns/json_to_text.py",
        "if lossless.is_too_fine(of, value):",
        "if False:",
        VALUES,
    ),
    Mutant(
        "money's locale",
        "columns/column_types.py",
        '    "money": Kind.NONE',
        '    "monies": Kind.NONE',
        VALUES,
    ),
    Mutant(
        "what is known of a table has an age",
        "postgres/answer_cache.py",
        " and now() - entry[0] < within",
        "",
        REMEMBERED,
    ),
    Mutant(
        "a discard is confirmed",
        "persist/typed_table.py",
        " or (prepared.discarded and not catalog.known(database, target, DISCARD_SECONDS))",
        "",
        REMEMBERED,
    ),
    Mutant(
        "a discard is not confirmed again and again",
        "persist/typed_table.py",
        "prepared.discarded and not catalog.known(database, target, DISCARD_SECONDS)",
        "prepared.discarded",
        REMEMBERED,
    ),
    Mutant(
        "a landing table is looked at again",
        "persist/landing.py",
        "    if _known.get((database.dsn, name)) is None:\n",
        "    if (database.dsn, name) not in _known._known:\n",
        REMEMBERED,
    ),
    Mutant(
        "a wide stage is in parts",
        "persist/stage.py",
        "_MOST_COLUMNS: Final = 250",
        "_MOST_COLUMNS: Final = 9_999",
        WIDE,
    ),
    Mutant(
        "what cannot be staged is halved",
        "persist/insert.py",
        "        if str(e.pgcode)[:2] not in _VALUE_CLASSES:\n            raise\n",
        "        raise\n",
        WIDE,
    ),
    Mutant(
        "what a function raises is told from the server's own word",
        "settle/settlement.py",
        "            own = is_a_functions_own(e)\n",
        "            own = False\n",
        RAISED,
    ),
    Mutant(
        "the server's own word is told from what a function raises",
        "settle/settlement.py",
        "            own = is_a_functions_own(e)\n",
        "            own = True\n",
        RAISED,
    ),
    Mutant(
        "what nobody knows may be one row's fault",
        "postgres/sqlstates.py",
        "return sqlstate == STATEMENT_TIMEOUT or sqlstate[:2] not in _NEVER_OF_A_ROW_CLASSES",
        "return False",
        "tests/integration/writer/test_holds.py",
    ),
    Mutant(
        "a race that is always lost is one table's",
        "settle/task.py",
        "                    blocked[e.blocked.target], races = e.blocked, 0\n",
        "                    return self._fail(database, e.fault.code, e.detail)\n",
        RAISED,
    ),
    Mutant(
        "many at fault before the first that lands",
        "recover/release.py",
        "_MAX_SUSPECTS: Final = 200",
        "_MAX_SUSPECTS: Final = 5",
        RAISED,
    ),
    Mutant(
        "tables that are there get the columns of a later release",
        "persist/landing.py",
        "    elif missing := table.missing:\n",
        "    elif missing := []:\n",
        LATER,
    ),
    Mutant(
        "events wait for a column, nobody is parked for it",
        "persist/landing.py",
        "        raise _logged(database, statement, e) from None\n",
        "        raise\n",
        LATER,
    ),
    Mutant(
        "an escape in an object, and its quotes tell nothing",
        "columns/same_fields.py",
        '    matches[np.searchsorted(starts, np.flatnonzero(raw == _BACKSLASH), "right") - 1] = False\n',
        "",
        FIELDS,
    ),
    Mutant(
        "an object within an object has no place among columns",
        "columns/same_fields.py",
        "        if not is_text and b'\"' in body[start:end]:\n",
        "        if False:\n",
        FIELDS,
    ),
    Mutant(
        "what is between the values of an object is that of its layout",
        "columns/same_fields.py",
        "        fits &= pieces.equal(2 * i, gap)\n",
        "        pass\n",
        FIELDS,
    ),
    Mutant(
        "strings that a column does not take as they are",
        "columns/values_to_text.py",
        "    if of.kind in _CLOSELY:\n",
        "    if False:\n",
        FIELDS,
    ),
    Mutant(
        "digits that a column would round, of many numbers at once",
        "columns/values_to_text.py",
        "    certain &= ~exponents & (digits <= of.scale)\n",
        "",
        FIELDS,
    ),
    Mutant(
        "floats that a column gives back, of many at once",
        "columns/values_to_text.py",
        "        certain &= ~exponents & (sizes <= SAFE_LENGTH[of.float_name])\n",
        "",
        FIELDS,
    ),
    Mutant(
        "whole numbers in a column of hundreds",
        "columns/lossless.py",
        "    if of.scale is not None and of.scale < 0:  # it keeps tens or hundreds\n",
        "    if False:\n",
        "tests/unit/writer/test_numbers.py",
    ),
    Mutant(
        "rows in columns and rows one by one stand in their order",
        "persist/typed_rows.py",
        '    order = np.argsort(indices, kind="stable")\n',
        "    order = np.arange(len(indices))\n",
        FIELDS,
    ),
    *(
        Mutant(what, file, text, other, f"{_SMALL}::test_{test}")
        for what, file, text, other, test in (
            (
                "rows that a trigger swallowed, among small tables",
                "persist/small_tables.py",
                "    IF onramp_landed <> {rows} THEN\n",
                "    IF onramp_landed > {rows} THEN\n",
                "a_row_that_a_trigger_swallows_is_parked_and_all_others_land",
            ),
            (
                "rules, among small tables",
                "persist/landing.py",
                " and not table.has_rules",
                "",
                "a_table_with_rules_takes_what_it_takes_by_copy",
            ),
            (
                "no key, among small tables",
                "persist/landing.py",
                " and table.has_key and ",
                " and ",
                "a_table_without_a_key_goes_by_itself_and_says_so",
            ),
            (
                "what waits, among small tables",
                "settle/settlement.py",
                " and self.holds.lets_all(t)}",
                "}",
                "what_waits_for_one_of_them_waits_alone",
            ),
            (
                "a database that refuses small tables together",
                "persist/small_tables.py",
                "seen=e.pgcode != UNIQUE_VIOLATION",
                "seen=False",
                "a_database_that_refuses_it_is_not_asked_each_time",
            ),
        )
    ),
)
