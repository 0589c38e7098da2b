"""`python -m tests.machine [WORDS of pytest]`: boots the emulated machine, has it run the tests of
tests/machine/inside, and says what came of them. Exits with 0 if all passed, with 1 if one failed,
with 2 if the machine gave no answer. A machine that hangs before its tests begin is booted again.
Without WORDS each file of tests has a boot of its own, so that one that hangs costs no other file.
"""

import argparse
import compileall
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import partial
from pathlib import Path

from tests.machine import frames
from tests.machine.lines import Message
from tests.machine.machine import Booted, MachineError, SilenceError, booted
from tests.machine.parts import DRIVERS, Parts, drivers
from unis import built

_BOOT_SILENCE = 150.0  # seconds until a boot is taken to hang; one takes 15 to 70
_BOOTS = 3  # at most, until tests begin
_SILENCE = 320.0  # seconds until a test is taken to hang
# What the kernel says where a processor of the emulation gets no more interrupts of its timer.
_LOST_TIMER = "Possible timer handling issue"
_PASSED, _FAILED, _NO_ANSWER = range(3)
_CODES = ("passed", "failed", "no answer")
_INSIDE = Path(__file__).parent / "inside"
_LAST_LINES = 40  # of the serial port


class Session:
    """The outer half of a run of the tests."""

    def __init__(self, machine: Booted) -> None:
        self._machine = machine
        self.begun = False  # the tests: from then on nothing is repeated
        self.running = ""  # the test that does
        self.passed = 0
        self.failed: list[str] = []
        self.ended = False
        self.code = 0  # pytest's, inside

    def follow(self, minutes: float, boot_silence: float = _BOOT_SILENCE) -> None:
        """Until the tests have ended. MachineError if they do not."""
        end = time.monotonic() + 60 * minutes
        silence = lambda: _SILENCE if self.begun else boot_silence  # noqa: E731
        for line in self._machine.read_lines(silence, end):
            message = json.loads(line)
            if message["what"] == "end":
                self.ended, self.code = True, message["code"]
            elif answer := self._take(message):
                self._machine.write_line(json.dumps(answer).encode())
        if not self.ended:
            raise MachineError("the machine ended before its tests did")

    @property
    def good(self) -> bool:
        """Whether all tests were run, and passed."""
        return bool(self.passed) and not self.failed and not self.code

    def _take(self, message: Message) -> object:
        """What is answered; None: nothing."""
        match message["what"]:
            case "exchange":
                exchange = frames.Exchange(**message["exchange"])
                out, back = (self._machine.wires[message[end]] for end in ("out", "back"))
                return asdict(frames.run(exchange, out, back))
            case "seen":
                seen = self._machine.seen[message["wire"]]
                answer = {"frames": [frame.hex() for frame in seen]}
                seen.clear()
                return answer
            case "ready":
                self.begun = True
                _say(f"{message['seconds']:6.1f} s  ready: {message['words']}")
            case "running":
                self.running = message["test"]
            case "test":
                self._tell(message)
            case other:
                raise MachineError(f"the machine said {other!r}, which means nothing")
        return None

    def _tell(self, message: Message) -> None:
        facts = ", ".join(f"{key} {value}" for key, value in message["facts"])
        _say(f"{message['seconds']:6.1f} s  {message['outcome']:7} {message['test']}"
             f"{'  ' + facts if facts else ''}")  # fmt: skip
        if message["outcome"] == "passed":
            self.passed += 1
        else:
            self.failed.append(message["test"])
            _say(message["words"])


def _say(words: str) -> None:
    print(words, flush=True)  # noqa: T201


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.machine", description=__doc__)
    parser.add_argument("--minutes", type=float, default=90, help="until all must have ended")
    parser.add_argument("--folder", type=Path, default=built.clone() / "build" / "machine")
    options, rest = parser.parse_known_args(words)
    root = built.clone() / "build" / "third-party" / "root"
    parts = Parts(root.resolve())
    if missing := parts.missing():
        _say(f"missing: {missing}; run: tools/third-party machine testpmd openvswitch")
        return 1
    _say("An emulated machine with two emulated network cards: what works, and never how fast.")
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(built.clone()),
        "HOME": "/run/home",
        "LANG": "C.UTF-8",
        "CI": "true",  # what is missing fails a test
        DRIVERS: ",".join(drivers([root / "usr" / "bin" / "dpdk-testpmd", built.unisd()])),
    }
    for package in ("tests", "unis", "evaluation"):  # the emulation would take many seconds for it
        compileall.compile_dir(built.clone() / package, quiet=1)

    def run(words: Sequence[str], folder: Path, minutes: float) -> int:
        command = [sys.executable, "-m", "tests.machine.guest", *words]
        initramfs = parts.initramfs(command, environment)
        return answer(partial(booted, parts, folder, initramfs), folder / "serial.log", minutes)

    if rest:
        return run(rest, options.folder, options.minutes)
    return one_by_one(run, sorted(_INSIDE.glob("test_*.py")), options.folder, options.minutes)


def one_by_one(
    run: Callable[[Sequence[str], Path, float], int],
    files: Sequence[Path],
    folder: Path,
    minutes: float,
) -> int:
    """Files of tests, each with what `run` boots for it; the exit code of all."""
    begin = time.monotonic()
    codes: dict[str, int] = {}
    for at, file in enumerate(files, 1):
        left = minutes - (time.monotonic() - begin) / 60
        if left <= 0:
            codes[file.stem] = _NO_ANSWER
            continue
        _say(f"{file.stem}, {at} of {len(files)}")
        codes[file.stem] = run([str(file)], folder / file.stem, left)
    _say(f"{len(files)} files of tests in {(time.monotonic() - begin) / 60:.0f} minutes")
    for name, code in codes.items():
        _say(f"{_CODES[code]:9}  {name}")
    return next((code for code in (_FAILED, _NO_ANSWER) if code in codes.values()), _PASSED)


def answer(
    boot: Callable[[], AbstractContextManager[Booted]], log: Path, minutes: float,
    boot_silence: float = _BOOT_SILENCE,
) -> int:  # fmt: skip
    """The exit code."""
    begin = time.monotonic()
    for attempt in range(1, _BOOTS + 1):
        with boot() as machine:
            session = Session(machine)
            try:
                session.follow(minutes, boot_silence)
                break
            except MachineError as error:
                where = f"while {session.running} ran" if session.begun else "before any test"
                _say(f"{error}, {where}; the end of {log}:")
                _say("\n".join(log.read_text(errors="replace").splitlines()[-_LAST_LINES:]))
                if session.begun or not isinstance(error, SilenceError):
                    break
                _say(f"boot {attempt} of at most {_BOOTS} hung before any test")
    _say(f"{session.passed} passed, {len(session.failed)} failed in "
         f"{time.monotonic() - begin:.0f} s of emulation")  # fmt: skip
    for test in session.failed:
        _say(f"failed: {test}")
    if _LOST_TIMER in log.read_text(errors="replace"):
        _say(
            "The emulation lost the timer of a processor: what failed then may not be UNiS' fault."
        )
    if not session.ended:
        _say("no answer: not every test was run")
        return _NO_ANSWER
    if session.code and not session.failed:
        _say(f"failed: pytest itself ended with {session.code}")
    return _PASSED if session.good else _FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
