"""Vendored files equal those of their packages, and our own files stay small."""

import base64
import hashlib
import tomllib

import pytest

from tests.unit.conventions.tree import ROOT

STATIC = ROOT / "services/admin/ui/static"
VENDORED = tomllib.loads((STATIC / "vendored.toml").read_text())["file"]


@pytest.mark.parametrize("file", VENDORED, ids=lambda file: file["name"])
def test_a_vendored_file_is_unchanged_and_has_its_licence(file: dict[str, str]) -> None:
    digest = base64.b64encode(hashlib.sha384((STATIC / file["name"]).read_bytes()).digest()).decode()
    assert f"sha384-{digest}" == file["sha384"]
    assert file["version"]
    assert (STATIC / file["licence_file"]).read_text().strip()


def test_every_other_file_is_our_own_and_short() -> None:
    ours = {each.name for each in STATIC.iterdir() if each.is_file()} - {each["name"] for each in VENDORED}
    assert ours == {"app.css", "app.js", "mark.svg", "vendored.toml"}
    assert len((STATIC / "app.css").read_text().splitlines()) <= 600
    assert len((STATIC / "app.js").read_text().splitlines()) <= 250
