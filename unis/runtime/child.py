"""Processes of a run: how they are started, and what is said when one ends. No argument ever passes
through a shell.
"""

import contextlib
import os
import re
import select
import subprocess
import termios
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from unis.links import namespaces
from unis.runtime.cgroup import Leaf
from unis.runtime.directory import last_lines
from unis.runtime.errors import LaunchError, RunFailedError
from unis.runtime.files import appending, written
from unis.runtime.orphans import Orphan
from unis.runtime.privileges import PATH, Rights, account_of
from unis.runtime.state import RUN_MARK
from unis.signals import blocked
from unis.workload import OFFLOADS

_RELAY_SECONDS = 1.0  # for what a program has said to its terminal to be in its log
_BAD_USAGE = 2  # exit code of a program whose arguments or files are wrong; of any Go panic too
# Of DPDK's rte_eth_dev_configure; and RTE_ETH_RX_OFFLOAD_CHECKSUM, which `offloads` can add.
_REFUSED_OFFLOADS = re.compile(
    r"requested Rx offloads (0x\w+) doesn't match Rx offloads capabilities (0x\w+)"
)
_RX_CHECKSUM = 0xE
_REFUSED_SOCKET = "Failed to configure xdp socket"  # of net_af_xdp
_ADVISED_LINES = 40  # at the end of a log, where we look for what we know
_ROWS, _COLUMNS = 24, 80  # of a terminal
_PIECE_BYTES = 1 << 16

Process = subprocess.Popen[bytes] | Orphan


@dataclass(frozen=True)
class Command:
    """What is started, and how."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)  # beside our own
    cwd: Path | None = None
    rights: Rights | None = None  # None: ours
    stdin: str | None = None  # said to it, and then kept open; None: it has none
    terminal: bool = False  # its input and output are one
    namespace: str | None = None  # network namespace; None: ours


@dataclass(frozen=True)
class Child:
    """A process that was started."""

    what: str
    process: Process
    log: Path
    log_start: int = 0  # bytes of others before it in its log
    relay: threading.Thread | None = None  # writes its log, where it does not itself
    offloads: bool = False  # whether its ports were told to offer some

    def check(self, *, starting: bool = True) -> None:
        """Raises RunFailedError if it has ended; only while `starting` can that be bad input."""
        if self.ended():
            bad = starting and self.process.returncode == _BAD_USAGE
            raise RunFailedError(self.last_words(), bad_input=bad)

    def ended(self) -> str:
        """How it has ended; empty while it runs."""
        code = self.process.poll()
        if code is None:
            return ""
        return f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"

    def last_words(self) -> str:
        """Who ended how, and the end of its log."""
        sentence = f"{self.what} (pid {self.process.pid}) {self.ended()}"
        if self.relay:  # what the program has left running may keep its terminal
            self.relay.join(_RELAY_SECONDS)
        return sentence + self.end_of_log(advise_offloads=not self.offloads)

    def end_of_log(self, *, advise_offloads: bool = False) -> str:
        """The last lines of its log after a semicolon, with advice if we have some; or nothing."""
        lines = last_lines(self.log, since=self.log_start)
        last = last_lines(self.log, _ADVISED_LINES, since=self.log_start)
        advice = _advice(last, advise_offloads=advise_offloads)
        return f"{advice}; the end of {self.log}:\n{lines}" if lines else ""


def _advice(lines: str, *, advise_offloads: bool) -> str:
    """What to do about the last words of a program, where we know; begins with a comma."""
    refused = _REFUSED_OFFLOADS.search(lines)
    if _REFUSED_SOCKET in lines:
        return (
            ", which may have too few packet buffers: each port of net_af_xdp holds 2048, and "
            "needs more to work with"
        )
    unmet = int(refused[1], 16) & ~int(refused[2], 16) if refused else 0
    if advise_offloads and refused and not unmet & ~_RX_CHECKSUM:
        return ", for its ports do not check checksums: give it offloads: [rx-checksum]"
    return ""


def start(
    what: str,
    command: Command,
    log: Path,
    run_id: str,
    *,
    leaf: Leaf | None = None,
) -> Child:
    """Starts a process of a run: own session, so that the terminal's Ctrl-C does not reach it."""
    own = {**command.env, RUN_MARK: run_id}
    enter = leaf.enter() if leaf else []
    if command.namespace:
        enter += namespaces.enter(command.namespace)
    limits = command.rights.before(own) if command.rights else []
    user = command.rights.user if command.rights else None
    owner = account_of(user).pw_uid if user else -1  # it may open its terminal by name
    relay: threading.Thread | None = None
    with contextlib.ExitStack() as stack:
        with written(log):
            stream = appending(log)
            log_start = os.fstat(stream.fileno()).st_size
        if command.terminal:
            try:
                end, relay = _make_terminal(command.stdin or "", stream, owner)
            except (OSError, termios.error, RuntimeError) as error:  # RuntimeError: of a thread
                stream.close()
                raise LaunchError(
                    f"cannot make a terminal for {what}: {error.args[-1]}", bad_input=False
                ) from None
            stack.callback(os.close, end)
            ends = (end, end)
        else:
            stack.enter_context(stream)
            stdin = subprocess.DEVNULL if command.stdin is None else subprocess.PIPE
            ends = (stdin, stream.fileno())
        try:
            process = subprocess.Popen(
                [*enter, *limits, *command.argv],
                stdin=ends[0],
                stdout=ends[1],
                stderr=subprocess.STDOUT,
                cwd=command.cwd,
                # As long as it is root, nothing of what the user may say reaches it.
                env={"PATH": PATH, RUN_MARK: run_id} if user else {**os.environ, **own},
                start_new_session=True,
            )
        except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
            why = error.strerror if isinstance(error, OSError) else error
            raise LaunchError(f"cannot start {what}, {command.argv[0]}: {why}") from None
    if process.stdin and command.stdin:  # a pipe takes it whole: the chain file sees to that
        with contextlib.suppress(BrokenPipeError):  # its end is seen by `check`
            process.stdin.write(command.stdin.encode())
            process.stdin.flush()
    return Child(what, process, log, log_start, relay, OFFLOADS in own)


def _make_terminal(typed: str, log: BinaryIO, owner: int) -> tuple[int, threading.Thread]:
    """The program's end of a new pseudo-terminal into which `typed` is typed; the caller closes it.
    And the thread that relays the output to `log`: it ends when all of it is there. `owner`: a
    user's number; -1: ours.

    Our end is closed, and `log` with it, once no process has the program's end any more. It is no
    controlling terminal of the program, unless that opens it by name: what is typed is no signal.
    """
    with contextlib.ExitStack() as stack:
        ours, theirs = os.openpty()
        stack.callback(os.close, ours)
        stack.callback(os.close, theirs)
        modes = termios.tcgetattr(theirs)
        modes[1] &= ~termios.ONLCR  # a log has no carriage returns,
        modes[3] &= ~(termios.ECHO | termios.ISIG)  # nor what was typed, which is text
        termios.tcsetattr(theirs, termios.TCSANOW, modes)
        termios.tcsetwinsize(theirs, (_ROWS, _COLUMNS))
        os.fchown(theirs, owner, -1)
        os.set_blocking(ours, False)
        # A thread, for the launcher may wait for the engine while the program waits for its reader.
        relay = threading.Thread(target=_relay, args=(ours, typed.encode(), log), daemon=True)
        with blocked():  # also in it
            relay.start()
            stack.pop_all()
    return theirs, relay


def _relay(ours: int, typed: bytes, log: BinaryIO) -> None:
    poll = select.poll()
    poll.register(ours, select.POLLIN | (select.POLLOUT if typed else 0))
    with log, os.fdopen(ours, "rb", buffering=0):
        while True:
            ((_, events),) = poll.poll()
            if events & select.POLLOUT:
                with contextlib.suppress(BlockingIOError):
                    typed = typed[os.write(ours, typed[:_PIECE_BYTES]) :]
                if not typed:
                    poll.modify(ours, select.POLLIN)
            if events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                try:
                    said = os.read(ours, _PIECE_BYTES)
                except BlockingIOError:
                    continue
                except OSError:  # nobody has the other end
                    return
                with contextlib.suppress(OSError):  # a full disk is no reason to block the program
                    log.write(said)
                    log.flush()
