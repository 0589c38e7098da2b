"""A pseudo-terminal for a program that wants one: what it says goes to its log.

It is no controlling terminal of the program, unless that opens it itself by name. What is typed is
no signal, Ctrl-C neither.
"""

import contextlib
import os
import select
import termios
import threading
from typing import BinaryIO

_ROWS, _COLUMNS = 24, 80
_PIECE_BYTES = 1 << 16


def make_terminal(typed: str, log: BinaryIO) -> tuple[int, threading.Thread]:
    """The program's end of a new terminal into which `typed` is typed; the caller closes it. And
    who relays what is said to `log`: it ends when all of it is there.

    Our end is closed, and `log` with it, once no process has the program's end any more.
    """
    ours, theirs = os.openpty()
    modes = termios.tcgetattr(theirs)
    modes[1] &= ~termios.ONLCR  # a log has no carriage returns,
    modes[3] &= ~(termios.ECHO | termios.ISIG)  # nor what was typed, which is text
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    termios.tcsetwinsize(theirs, (_ROWS, _COLUMNS))
    os.set_blocking(ours, False)
    # A thread, for the launcher may wait for the engine while the program waits for its reader.
    relay = threading.Thread(target=_relay, args=(ours, typed.encode(), log), daemon=True)
    relay.start()
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
