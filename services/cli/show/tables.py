"""Prints tables with column headers: fitted to a terminal, one unwrapped line a row in files and pipes."""

import io
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from shared.printable_text import printable

if TYPE_CHECKING:
    from rich.table import Table

#: Columns of a page that is no terminal: no cell is wrapped or cut.
_UNLIMITED: Final = 1_000_000


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], numbers: Collection[str] = ()
) -> None:
    """Print the columns' names and the rows; nothing without rows. Columns in `numbers` are right-aligned.

    Columns are two spaces apart, and an empty cell is `-`. Free text belongs in the last column.
    """
    table = table_of(columns, rows, numbers)
    if table.row_count:
        show(table)


def table_of(
    columns: Sequence[str], rows: Iterable[Sequence[object]], numbers: Collection[str] = ()
) -> "Table":
    """Return a table of rich. Cells are literal text: a name is no markup, and cannot control a terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for name in columns:
        justify = "right" if name in numbers else "left"
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(printable("-" if cell in (None, "") else str(cell))) for cell in row))
    return table


def show(*parts: Any) -> None:
    """Print texts and tables of rich on standard output. A string is literal text."""
    from rich.console import Console
    from rich.text import Text

    parts = tuple(Text(printable(part)) if isinstance(part, str) else part for part in parts)
    if sys.stdout.isatty():
        Console(highlight=False).print(*parts, sep="\n")
        return
    page = io.StringIO()
    plain = Console(file=page, force_terminal=False, color_system=None, width=_UNLIMITED, highlight=False)
    plain.print(*parts, sep="\n")
    for line in page.getvalue().removesuffix("\n").split("\n"):
        print(line.rstrip())
