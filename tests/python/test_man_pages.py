"""Man pages: one for each command of `unis`, in the order that man pages have."""

import re

from tools.cli_pages import pages
from tools.man_pages import man_pages


def test_each_command_has_a_page() -> None:
    commands = {
        f"unis-{file.removesuffix('.md')}"
        for file in pages()
        if not file.startswith(("README", "evaluation"))
    }
    assert man_pages().keys() == {"unis", *commands}
    assert {"unis-up", "unis-profile-chain", "unis-serve"} <= commands


def test_a_page_has_the_sections_of_man_pages() -> None:
    for name, text in man_pages().items():
        sections = re.findall(r"^# (.+)$", text, re.MULTILINE)
        described = ["COMMANDS"] if name == "unis" else ["SYNOPSIS", "DESCRIPTION", "SEE ALSO"]
        assert sections == ["NAME", *described], name
        about = text.split("\n")[2]
        assert re.fullmatch(rf"{name} - [a-z].+", about), about
        assert not re.search(r"\]\(\S+\)", text), f"{name} has links, which a terminal has not"


def test_commands_are_named_by_their_pages() -> None:
    assert "unis-up(1)" in man_pages()["unis"]
    assert "python -m evaluation" not in man_pages()["unis"]
