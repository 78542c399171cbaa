"""A source's DSN is read from a file or a variable, and its password is written once."""

from pathlib import Path

import pytest
from psycopg2.extensions import parse_dsn

from shared.postgres.source_dsns import SourceDsns
from stack.source_secrets import folder_of, keep

SHOP = "ONRAMP_SOURCE_SHOP"
DSN = "postgresql://shop:s3cret@db.example/app"


def test_a_file_comes_before_the_environment_and_is_read_at_each_use(tmp_path: Path) -> None:
    dsns = SourceDsns(folder_of(tmp_path), {SHOP: "postgresql://of.environment/app"})
    assert dsns.find(SHOP) == "postgresql://of.environment/app"
    keep(tmp_path, SHOP, DSN)
    assert dsns.find(SHOP) == DSN
    assert (dsns.find("ONRAMP_SOURCE_OTHER"), SourceDsns(env={}).find(SHOP)) == ("", "")


def test_kafka_connect_file_holds_only_the_password_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    keep(tmp_path, SHOP, DSN)
    files = {file.name: file for file in folder_of(tmp_path).iterdir()}
    assert files[f"{SHOP}_PASSWORD"].read_bytes() == b"s3cret"
    assert {file.stat().st_mode & 0o777 for file in files.values()} == {0o600}
    assert folder_of(tmp_path).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("dsn", "password"),
    [("postgresql://shop@db.example/app", "variable's"), (DSN, "s3cret"), ("host=db", "variable's")],
)
def test_a_dsn_without_a_password_has_that_of_its_variable(dsn: str, password: str) -> None:
    found = SourceDsns(env={SHOP: dsn, f"{SHOP}_PASSWORD": "variable's"}).find(SHOP)
    assert parse_dsn(found) == {**parse_dsn(dsn), "password": password}
    assert SourceDsns(env={SHOP: "no dsn", f"{SHOP}_PASSWORD": "x"}).find(SHOP) == "no dsn"
