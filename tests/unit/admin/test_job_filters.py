"""A job shows the filters of its caller, and not the transforms of others."""

from services.admin.api.jobs import filters_of


def test_the_deployed_transforms_are_not_shown() -> None:
    stored = '{"group": 7, "only": ["order_*"], "transforms": ["transform:salaries"]}'
    assert filters_of(stored) == {"group": 7, "only": ["order_*"]}
