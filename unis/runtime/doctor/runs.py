"""Which chains run, what have killed ones left, and do they get in each other's way?"""

from collections.abc import Iterator
from pathlib import Path

from unis.plan.cpus import format_cpu_list
from unis.runtime.directory import RunDirectory, all_runs, damages
from unis.runtime.doctor.finding import Finding, blocked, content, fine, note
from unis.runtime.errors import NotAllowedError, as_root
from unis.runtime.state import Phase, RunState


def runs() -> Iterator[Finding]:
    """Which chains run, and what killed ones have left."""
    try:
        found, damaged = all_runs(), damages()
    except NotAllowedError as error:
        yield note("runs", "not visible to this user", str(error), as_root())
        return
    for damage in damaged.values():
        yield note("runs", "notes are damaged", damage, "pgrep -af unis-")
    if not found and not damaged:
        yield fine("runs", "none")
    for directory, state in found:
        yield _of_run(directory, state)


def _of_run(directory: RunDirectory, state: RunState) -> Finding:
    mend = f"unis down {state.name}"
    if state.problems:
        left = "; ".join(state.problems)
        return note("runs", f"the clean-up of {state.name} is incomplete", left, mend)
    if state.phase == Phase.FAILED:
        why = state.reason.splitlines()[0]
        return note("runs", f"{state.name} failed", why, mend)
    if state.live():
        return fine("runs", f"{state.name} on CPU {format_cpu_list(state.cpus)}")
    return note(
        "runs",
        f"{state.name} is stale",
        f"its launcher was killed and {directory.path} is left; the next `unis up` or this cleans "
        "up",
        mend,
    )


def lcore_clashes() -> Finding:
    """Do two processes of one DPDK group claim the same lcore?"""
    claimed: dict[tuple[str, str], list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        words = content(path).split("\0")
        prefix = _option(words, "--file-prefix")
        for part in (_option(words, "--lcores") or "").split(","):
            if prefix and part:
                claimed.setdefault((prefix, part.partition("@")[0]), []).append(int(path.parts[2]))
    clashes = {key: pids for key, pids in claimed.items() if len(pids) > 1}
    if not clashes:
        return fine("lcores", "distinct in every DPDK group")
    (prefix, lcore), pids = next(iter(clashes.items()))
    return blocked(
        "lcores",
        f"lcore {lcore} of group {prefix} is used by {', '.join(map(str, pids))}",
        "processes with the same lcore share one cache of the packet memory and corrupt it",
        f"kill {pids[-1]}",
    )


def _option(words: list[str], name: str) -> str | None:
    for index, word in enumerate(words):
        if word.startswith(f"{name}="):
            return word.partition("=")[2]
        if word == name and index + 1 < len(words):
            return words[index + 1]
    return None
