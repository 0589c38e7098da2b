"""Whom functions run as, what they may do, which folder is theirs. Needs the machine's users."""

import pwd
from collections.abc import Iterable, Iterator
from pathlib import Path

from unis import links
from unis.chain.model import ChainFile, Function
from unis.chain.problem import Problem
from unis.plan.wiring import Wiring

ROOT = "root"
# Root without them is not what programs expect of root: it cannot read the folder of a chain file
# that is somebody's own, nor keep its memory from being paged out.
ROOTS_CAPABILITIES = ("dac_override", "ipc_lock")


def other(function: Function) -> str | None:
    """The user that a function runs as; None if that is root."""
    return None if function.user in (None, ROOT) else function.user


def capabilities(function: Function, ports: Iterable[str] = ()) -> tuple[str, ...]:
    """All that its process has, and whatever that starts; `ports`: what its ports need."""
    roots = () if other(function) else ROOTS_CAPABILITIES
    return tuple(dict.fromkeys([*roots, *function.capabilities, *ports]))


def folders(file: ChainFile, below: Path) -> dict[str, Path]:
    """Of each function that runs as another user, the folder that only this user may enter. No name
    of a run or function has a dot.
    """
    return {
        name: below / f"{file.name}.{name}"
        for name in file.functions
        if other(file.function(name)) is not None
    }


def user_problems(file: ChainFile, wiring: Wiring) -> list[Problem]:
    """What is wrong with the users that the file names, as its links are."""
    return [*_unknown(file), *_on_rings(file, wiring), *_between_users(file, wiring)]


def _where(file: ChainFile, name: str) -> tuple[str, ...]:
    return ("functions", name, "user") if file.functions[name].user else ("defaults", "user")


def _unknown(file: ChainFile) -> Iterator[Problem]:
    for name in file.functions:
        user = other(file.function(name))
        if user is None:
            continue
        try:
            if pwd.getpwnam(user).pw_uid == 0:
                sentence = f"`{user}` is another name of root; write `{ROOT}`"
                yield Problem(_where(file, name), sentence)
        except KeyError:
            yield Problem(
                _where(file, name),
                f"there is no user `{user}` here; name one that `getent passwd` shows, or make it: "
                f"`useradd --system {user}`",
            )


def _on_rings(file: ChainFile, wiring: Wiring) -> Iterator[Problem]:
    for name in file.functions:
        user = other(file.function(name))
        if user is not None and wiring.shares_memory(name):
            yield Problem(
                _where(file, name),
                f"`{name}` is on rings, in the engine's DPDK group, which is one domain of trust: "
                f"who is in it can write all of its memory, and unisd's is root's. So `{user}` "
                f"must have a memif: add {{from: …, to: {name}, kind: memif}} to links, or leave "
                "the user out",
            )


def _between_users(file: ChainFile, wiring: Wiring) -> Iterator[Problem]:
    for place in wiring.direct():
        if not links.KINDS[place.kind].one_user:
            continue
        before, behind = place.edge.ends
        users = [other(wiring.graph.functions[name]) for name in (before, behind)]
        if users[0] != users[1]:
            names = " and ".join(user or ROOT for user in users)
            yield Problem(
                _where(file, before if users[0] else behind),
                f"`{before}` and `{behind}` have a {place.kind} between them, whose socket is one "
                f"user's alone, and they run as {names}; give both the same user, or put a "
                "function on rings between them",
            )
