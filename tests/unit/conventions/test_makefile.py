"""Environment and arguments that `make` passes to the tools that it runs."""

import os
import subprocess

import pytest

from tests.unit.conventions.tree import ROOT

_SHOW = "show:;@echo $${UV_SYSTEM_CERTS-none}"


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        ({}, "none"),
        ({"SSL_CERT_FILE": "/etc/ssl/own.pem"}, "true"),
        ({"SSL_CERT_FILE": "/etc/ssl/own.pem", "UV_SYSTEM_CERTS": "false"}, "false"),
    ],
)
def test_uv_trusts_what_the_machine_trusts_where_that_has_an_authority_of_its_own(
    given: dict[str, str], seen: str
) -> None:
    env = {
        name: value for name, value in os.environ.items() if name not in ("SSL_CERT_FILE", "UV_SYSTEM_CERTS")
    }
    command = ["make", "-s", "--no-print-directory", f"--eval={_SHOW}", "show"]
    shown = subprocess.run(command, cwd=ROOT, env=env | given, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == seen
