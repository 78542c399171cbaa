"""Onramp's services, run from the project's folder as ``python -m services.<name>``.

`shared` and `services` are also names of packages that others publish.  A stray one on
the path would be imported in silence, so this guard compares places, not names.
"""

from pathlib import Path

import shared

_HERE = Path(__file__).resolve().parent.parent
_IMPORTED = Path(shared.__file__ or "").resolve().parent.parent

if _IMPORTED != _HERE:
    message = (
        f"`shared` was imported from {_IMPORTED}, but `services` lies in {_HERE}: another package "
        f"of that name is first on the path. Start with PYTHONPATH={_HERE} from a clean environment."
    )
    raise ImportError(message)
