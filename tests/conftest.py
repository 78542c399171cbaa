"""Loads the test plugins; see tests/fixtures/ for what a test can ask for."""

pytest_plugins = (
    "tests.fixtures.fix_kafka",
    "tests.fixtures.fix_postgres",
    "tests.fixtures.fix_stack",
)
