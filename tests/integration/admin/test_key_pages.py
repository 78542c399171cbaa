"""Pages of keys and sources: a secret is shown once, and each role has its limits."""

import re

from tests.fixtures.fix_postgres import Database, Templates
from tests.integration.admin.conftest import database_beside
from tests.integration.admin.inside import inside


def test_a_key_is_created_rotated_and_revoked_and_its_secret_is_shown_once(
    templates: Templates, migrated: Database
) -> None:
    with (
        database_beside(templates.server, "template0") as dsn,
        inside(dsn, {"onramp": migrated.dsn}) as service,
    ):
        browser = service.browser()
        page = browser.see("/keys")
        created = browser.send(page, "/keys", name="till", events="order_*", reason="a new till")
        [secret] = re.findall(r"onramp_till_[\w-]+", created.text)
        assert secret not in browser.see("/keys")
        assert "order_*" in browser.see("/keys")
        stale = browser.send(page, "/keys", name="till-2", events="", reason="again")
        assert stale.status_code == 412
        assert "the last change is by ada" in stale.text
        rotated = browser.send(browser.see("/keys/till/rotate"), "/keys/till/rotate", reason="it leaked")
        assert re.findall(r"onramp_till_[\w-]+", rotated.text) != [secret]
        revoked = browser.send(browser.see("/keys/till/revoke"), "/keys/till/revoke", reason="it is gone")
        assert revoked.headers["location"] == "/ui/keys"
        assert "till" not in browser.see("/keys")
        assert "New key" not in service.of("vera").browser().see("/keys")
        assert service.of("olga").browser().client.get("/ui/keys").status_code == 403


def test_a_source_is_shown_with_its_checks_and_its_setup(templates: Templates, migrated: Database) -> None:
    shop = {"dsn_env": "ONRAMP_SOURCE_SHOP", "schemas": ["app"], "publish": "shop"}
    with (
        database_beside(templates.server, "template0") as dsn,
        inside(dsn, {"onramp": migrated.dsn}, known={"sources": {"shop": shop}}) as service,
    ):
        assert "unreported" in service.of("vera").browser().see("/sources")
        shown = service.browser().see("/sources/shop")
        assert "ONRAMP_SOURCE_SHOP is not set" in shown
        assert "CREATE PUBLICATION" in shown
        some = service.of("vera").browser().see("/sources/shop")
        assert "CREATE PUBLICATION" not in some
        assert "Checks" not in some
