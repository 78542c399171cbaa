"""Runs the commands of docs/containers.md on the stack as printed, and compares their outputs."""

import re
import subprocess
from typing import Final

from tests.compose.stack_run import ComposeStack, wait_until
from tests.fixtures.printed import Block, blocks, pattern

_PAGE: Final = "docs/containers.md"
_GATEWAY: Final = "http://127.0.0.1:8080"
#: Commands that the test runs itself, with a limit of time.
_OF_THE_TEST: Final = re.compile(r"^docker compose (--profile \w+ )*(up|down)\b.*\n", re.MULTILINE)


def follow(stack: ComposeStack, section: str) -> None:
    """Run the commands of a section, except for `up` and `down`, and print their outputs.

    Commands that send an event run once. Others are repeated until they print what the page shows: an event
    that was just sent becomes visible a moment later.
    """
    for block in blocks(_PAGE, (section,)):
        code = _OF_THE_TEST.sub("", block.code).replace(_GATEWAY, stack.gateway)
        if code and "/v1/events" in code:
            output = stack.shell(code)
            assert pattern(block.printed).search(output), (code, output)
            print(output.strip("\n"))
        elif code:
            _follow_until_right(stack, block, code)


def _follow_until_right(stack: ComposeStack, block: Block, code: str) -> None:
    output = ""

    def is_right() -> bool:
        nonlocal output
        try:
            output = stack.shell(code)
        except subprocess.CalledProcessError as error:
            output = f"exit code {error.returncode}: {error.stdout}"
            return False
        return bool(pattern(block.printed).search(output))

    wait_until(is_right, code, lambda: output)
    print(output.strip("\n"))
