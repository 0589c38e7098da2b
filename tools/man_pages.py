"""A man page for each command, as Markdown, of which `tools/deb` makes roff.

`python -m tools.man_pages FOLDER` writes them, from what docs/cli says.
"""

import re
import sys
from pathlib import Path

from tools.cli_pages import pages

_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def man_pages() -> dict[str, str]:
    """Text by name, as `unis-up`; those of `python -m evaluation` are a clone's."""
    found: dict[str, str] = {}
    for file, text in pages().items():
        name = "unis" if file == "README.md" else f"unis-{Path(file).stem}"
        if not name.startswith("unis-evaluation"):
            found[name] = _man_page(name, text)
    return found


def _man_page(name: str, text: str) -> str:
    _, _, rest = text.partition("\n\n")
    if name == "unis":
        rest = rest.partition("\n\n")[2].partition("## Comparisons")[0]  # and not who wrote it
        about = "runs chains of poll-mode network functions on shared CPU cores"
        return f"# NAME\n\nunis - {about}\n\n# COMMANDS\n\n{_LINK.sub(_plain, rest)}"
    synopsis, described = re.split(r"(?<=\n```\n)\n", rest, maxsplit=1)
    about = described.partition(". ")[0].partition(".\n")[0].replace("\n", " ")
    about = about[:1].lower() + about[1:]
    return (
        f"# NAME\n\n{name} - {about}\n\n# SYNOPSIS\n\n{synopsis}\n# DESCRIPTION\n\n"
        f"{_LINK.sub(_plain, described)}\n# SEE ALSO\n\nunis(1), /usr/share/doc/unis\n"
    )


def _plain(found: re.Match[str]) -> str:
    """Commands by their pages; documents by their names."""
    words = found[1]
    return f"{words.replace(' ', '-')}(1)" if re.fullmatch(r"unis [a-z -]+", words) else words


if __name__ == "__main__":
    for each, page in man_pages().items():
        (Path(sys.argv[1]) / f"{each}.md").write_text(page)
