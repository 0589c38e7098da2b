"""Modules of this kernel."""

import platform
from pathlib import Path

_LOADED = Path("/sys/module")
_LISTED = Path("/lib/modules")


def missing(*names: str) -> list[str]:
    """Those that it has neither built in nor can load; none where nobody can tell: a container may
    not see their files.
    """
    files = [_LISTED / platform.release() / name for name in ("modules.builtin", "modules.dep")]
    listed = [file.read_text() for file in files if file.exists()]
    return [
        name
        for name in names
        if listed
        and not (_LOADED / name).exists()
        and not any(f"/{name}.ko" in text for text in listed)
    ]
