"""Refused source logins: the error has libpq's own text and never the password."""

import pytest
from psycopg2.extensions import make_dsn, parse_dsn

from services.cdc.agent.source_sql import SourceError
from services.cdc.setup.login_sql import require_login, schemas_of
from tests.fixtures.fix_postgres import Database
from tests.fixtures.writer import execute

SHOP = "ONRAMP_SOURCE_SHOP"


def refusal(dsn: str) -> str:
    with pytest.raises(SourceError) as raised:
        require_login(SHOP, dsn)
    return str(raised.value)


def test_a_refused_login_has_libpqs_own_text(database: Database) -> None:
    here = parse_dsn(database.dsn)
    wrong = refusal(make_dsn(**{**here, "password": "s3cret"}))
    assert f'password authentication failed for user "{here["user"]}"' in wrong
    gone = refusal(make_dsn(**{**here, "dbname": "nowhere"}))
    assert gone == f'cannot log in to the source by {SHOP}: database "nowhere" does not exist'
    unreachable = refusal(make_dsn(**{**here, "port": "1"}))
    assert "Connection refused" in unreachable
    for text in (wrong, unreachable):
        assert text.startswith(f"cannot log in to the source by {SHOP}: connection to server at")
    for text in (wrong, gone, unreachable):
        assert "s3cret" not in text
        assert here["password"] not in text


@pytest.mark.parametrize(
    "dsn", ["postgresql://me:s3/cret@db.example/app", "postgresql://me:a@s3cret@db.example/app", "s3cret"]
)
def test_malformed_dsn_is_not_repeated_in_the_error(dsn: str) -> None:
    assert "cret" not in refusal(dsn)


def test_the_schemas_are_those_of_people(database: Database) -> None:
    execute(database.dsn, "CREATE SCHEMA app")
    assert schemas_of(SHOP, database.dsn) == ["app", "public"]
