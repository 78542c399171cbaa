"""Every HTTP server of ours declines offers to change the protocol (shared/http11.py)."""

import ast

from tests.unit.conventions.tree import ROOT, product_files

DECLINING = {"Http11Protocol", "LimitedProtocol", "Handshake"}


def test_every_server_uses_the_protocol_that_declines_upgrades() -> None:
    servers, offenders = 0, []
    for file in product_files():
        for node in ast.walk(ast.parse((ROOT / file).read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in {"uvicorn.run", "uvicorn.Config"}:
                servers += 1
                used = {
                    n.id
                    for k in node.keywords
                    if k.arg == "http"
                    for n in ast.walk(k.value)
                    if isinstance(n, ast.Name)
                }
                if not used or not used - {"settings"} <= DECLINING:
                    offenders.append(f"{file}:{node.lineno} serves HTTP by {used or 'the default'}")
    assert servers
    assert offenders == []
