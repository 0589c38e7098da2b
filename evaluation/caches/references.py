"""Records which cache lines a network function touches while it works on packets.

The function runs as its own DPDK process under Valgrind, with the tool `unis-refs`
(`models/recorder`), and reads packets of many flows from a capture. Recorded is what runs below the
function that is called with a burst (`*::Process(*` in the reference functions): the program's
start, its poll loop and the vdev that reads and writes captures are not. Each packet lies in the
next of `buffers` packet buffers, as in a device's ring, not where the vdev put it.
"""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from unis import built
from unis.counted.flows import ENTRY, Flows, by_itself, write_capture
from unis.errors import UnisError
from unis.runtime.costs import cache_directory

BUFFERS = 1024  # 512 descriptors each way, as the reference functions ask for
_VALGRIND_FOLDERS = ("/usr/libexec/valgrind", "/usr/lib/x86_64-linux-gnu/valgrind")
_VALGRIND_FILE = "vgpreload_core-amd64-linux.so"
_SECONDS = 900
_KEPT = ("PATH", "HOME", "LD_LIBRARY_PATH", "XDG_RUNTIME_DIR")  # of our environment
_PADDING = "PADDING"
_POINTER_BYTES = 8
_ABOVE_STACK_BYTES = 1 << 15  # of the environment and the words, or a multiple
_WORK = ".recording-"  # folder, while it is made
_STALE_SECONDS = 3600  # no recording takes so long: whose folder it was has been killed


class RecordingError(UnisError):
    """No recording; the text says why."""


class NoRecorderError(RecordingError):
    """Valgrind is missing."""


def _recorder() -> Path:
    """The Valgrind tool that records references."""
    return built.find("models", "recorder", "unis-refs")


@dataclass(frozen=True)
class RecordedProgram:
    """A function with its arguments; `files` are what they name, for the key of the recording."""

    name: str
    program: Path
    arguments: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    entry: str = ENTRY


@dataclass(frozen=True)
class Recorded:
    """A recording that is there."""

    name: str
    file: Path
    packets: int
    fill: int  # of those, the first that fill the tables; each flow once

    @property
    def warm_up(self) -> int:
        """Packets after which caches are as they stay: the first, and half of the rest."""
        return self.fill + (self.packets - self.fill) // 2


def record(
    subject: RecordedProgram,
    flows: Flows,
    *,
    folder: Path | None = None,
    buffers: int = BUFFERS,
    report: Callable[[str], None] = lambda _: None,
) -> Recorded:
    """Of `folder`, by default the user's cache, or made anew: some seconds for 100,000 packets,
    which is reported.

    RecordingError where Valgrind is missing, the function fails, or drops what it should pass.
    """
    kept = folder or cache_directory() / "references"
    file = kept / f"{subject.name}-{_key(subject, flows, buffers)}.refs"
    if not file.is_file():
        report(f"recording {subject.name} with {flows.total} packets, under Valgrind")
        try:
            kept.mkdir(parents=True, exist_ok=True)
            _sweep(kept)
            with tempfile.TemporaryDirectory(dir=kept, prefix=_WORK) as work:
                _record(subject, flows, buffers, Path(work).resolve()).replace(file)
        except OSError as error:
            raise RecordingError(
                f"cannot keep a recording in {kept}: {error.strerror}", bad_input=False
            ) from None
    return Recorded(subject.name, file, flows.total, flows.flows)


def _sweep(kept: Path) -> None:
    for folder in kept.glob(f"{_WORK}*"):
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)


def _record(subject: RecordedProgram, flows: Flows, buffers: int, work: Path) -> Path:
    capture, out = work / "in.pcap", work / "out.refs"
    write_capture(capture, flows.frames())
    words = by_itself(subject.program, subject.arguments, capture)
    command = [
        str(_recorder()), "--command-line-only=yes", "--tool=unis-refs", "-q",
        f"--out={out}", f"--entry={subject.entry}", f"--buffers={buffers}", *words,
    ]  # fmt: skip
    environment = _environment(words, work)
    try:
        done = subprocess.run(
            command, cwd=work, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, errors="replace", timeout=_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise RecordingError(
            f"{subject.name} has not ended after {_SECONDS} s under Valgrind; record fewer "
            "packets", bad_input=False,
        ) from None  # fmt: skip
    if done.returncode != 0:
        raise RecordingError(
            f"{subject.name} ended with {done.returncode} under Valgrind: "
            f"{_last_line(done.stderr)}",
            bad_input=False,  # of its own accord or not: memory may have been short
        )
    received = re.search(r"^rx_packets +(\d+)$", done.stdout, re.MULTILINE)
    if received and int(received[1]) != flows.total:
        raise RecordingError(f"{subject.name} received {received[1]} of {flows.total} packets")
    dropped = re.search(r"^dropped_by_function +(\d+)$", done.stdout, re.MULTILINE)
    if dropped and int(dropped[1]) > flows.total // 100:
        raise RecordingError(
            f"{subject.name} dropped {dropped[1]} of {flows.total} packets; are its tables large "
            f"enough for {flows.flows} flows?"
        )
    if not out.is_file() or out.stat().st_size <= len("UNISREF1"):
        raise RecordingError(
            f"nothing was recorded: {subject.program} calls no function {subject.entry} with "
            "packets, or was stripped of its symbols"
        )
    return out


def _environment(words: Sequence[str], work: Path) -> dict[str, str]:
    """Padded: it lies above the stack, with the words of the command. Else it would depend on their
    lengths which lines of the tables share a place in the cache with those of the stack.
    """
    environment = {
        **{name: os.environ[name] for name in _KEPT if name in os.environ},
        "VALGRIND_LIB": str(_valgrind_folder()),
        "VALGRIND_LAUNCHER": str(_recorder()),  # its core insists on one
        "TMPDIR": str(work),
        _PADDING: "",
    }
    texts = [*words, *(f"{name}={text}" for name, text in environment.items())]
    length = sum(len(os.fsencode(text)) + 1 + _POINTER_BYTES for text in texts)
    return {**environment, _PADDING: "x" * (-length % _ABOVE_STACK_BYTES)}


def _valgrind_folder() -> Path:
    named = os.environ.get("VALGRIND_LIB")
    for folder in (named,) if named else _VALGRIND_FOLDERS:
        if (Path(folder) / _VALGRIND_FILE).is_file():
            return Path(folder)
    raise NoRecorderError(
        "Valgrind is missing, under which functions are recorded: apt-get install valgrind"
    )


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("==")]
    return lines[-1] if lines else "it said nothing"


def _key(subject: RecordedProgram, flows: Flows, buffers: int) -> str:
    digest = sha256()
    files: Sequence[Path] = (_recorder(), subject.program, *subject.files)
    for file in files:
        try:
            digest.update(sha256(file.read_bytes()).digest())
        except OSError as error:
            raise RecordingError(f"cannot read {file}: {error.strerror}") from None
    arguments = [arg for arg in subject.arguments if Path(arg) not in subject.files]
    digest.update(repr((arguments, subject.entry, flows, buffers)).encode())
    # Traffic that is made otherwise is other traffic.
    digest.update(b"".join(Flows(flows=16, packets=16, seed=flows.seed).frames()))
    return digest.hexdigest()[:16]
