"""Where the functions' threads were found running, by perf of Linux, in windows of their own."""

import contextlib
import os
import re
import select
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from pydantic import BaseModel

from unis.counted.flame import Frame, Stacks
from unis.counted.provider import CountedChain, CountedFunction
from unis.measure.counters import CountersError, PerfEvent, open_event

_HERTZ = 999  # not in step with anything
_STACK_BYTES = 4096  # that are copied of a stack, to be unwound: programs have no frame pointers
_SECONDS = 60
_TOP = 10
_CYCLES = PerfEvent(0, 0)
_UNKNOWN = "[unknown]"
_KERNEL_FROM = 1 << 63  # addresses
_THREAD = re.compile(r"^\s*(\d+)/(\d+)\s*$")
_FRAME = re.compile(r"^\s+([0-9a-f]+) (.*) \((.*)\)$")


class HotError(Exception):
    """There are no samples; the text says why."""


class HotSymbol(BaseModel):
    """Code in which a function was found."""

    symbol: str
    module: str
    share: float  # of the samples of its function: it was the innermost


class HotFunction(BaseModel):
    """A function of the chain."""

    name: str
    samples: int
    symbols: list[HotSymbol]  # the hottest first


class Hot(BaseModel):
    """Samples of all functions."""

    event: str  # that took them: cycles, or cpu-clock where there are none
    hertz: int
    functions: list[HotFunction]


@dataclass(frozen=True)
class Sampled:
    """What perf found."""

    hot: Hot
    stacks: Stacks
    missing: list[str]


def sampled(chain: CountedChain, window: Callable[[], object]) -> Sampled:
    """Samples the functions during `window`. HotError: perf is missing or fails."""
    perf = shutil.which("perf")
    if perf is None:
        raise HotError("hot functions: perf is missing (apt-get install linux-perf)")
    event = _event()
    with tempfile.TemporaryFile() as data:
        with _recording(perf, event, chain, data):
            window()
        text = _script(perf, data)
    names = {each.pid: each.name for each in chain.functions}
    stacks = parse_stacks(text, names)
    if not stacks:
        raise HotError("hot functions: perf took no samples of the functions")
    hot = Hot(event=event, hertz=_HERTZ, functions=hot_functions(stacks, chain.functions))
    return Sampled(hot, stacks, [*_hidden(stacks)])


def parse_stacks(text: str, names: Mapping[int, str]) -> Stacks:
    """Of `perf script -F pid,tid,ip,sym,dso`. `names`: functions by PID; others are left out."""
    found: Counter[tuple[Frame, ...]] = Counter()
    for sample in text.split("\n\n"):
        lines = sample.splitlines()
        heads = [at for at, line in enumerate(lines) if _THREAD.match(line)]
        if not heads:
            continue
        head = _THREAD.match(lines[heads[0]])
        name = names.get(int(head[1])) if head else None
        if name is None:
            continue
        frames = [frame for line in lines[heads[0] + 1 :] if (frame := _frame(line))]
        found[Frame(name, "", "function"), *reversed(frames)] += 1
    order = {name: at for at, name in enumerate(names.values())}
    return dict(sorted(found.items(), key=lambda each: order[each[0][0].symbol]))


def hot_functions(stacks: Stacks, functions: Sequence[CountedFunction]) -> list[HotFunction]:
    """In the order of `functions`."""
    inner: dict[str, Counter[Frame]] = {each.name: Counter() for each in functions}
    for stack, count in stacks.items():
        inner[stack[0].symbol][stack[-1]] += count
    found = []
    for name, counts in inner.items():
        samples = sum(counts.values())
        symbols = [
            HotSymbol(symbol=frame.symbol, module=frame.module, share=count / samples)
            for frame, count in counts.most_common(_TOP)
        ]
        found.append(HotFunction(name=name, samples=samples, symbols=symbols))
    return found


def _frame(line: str) -> Frame | None:
    match = _FRAME.match(line)
    if not match:
        return None
    address, symbol, path = int(match[1], 16), match[2], match[3]
    kernel = address >= _KERNEL_FROM
    if symbol == _UNKNOWN and path == _UNKNOWN and not kernel:
        return None  # no code: the unwinder lost its way
    if kernel:
        return Frame(symbol, "kernel", "kernel")
    module = Path(path).name
    library = ".so" in module or module.startswith("[")
    return Frame(symbol, module, "library" if library else "program")


def _event() -> str:
    try:
        os.close(open_event(_CYCLES, 0))
    except CountersError:
        return "cpu-clock"
    return "cycles"


@contextlib.contextmanager
def _recording(perf: str, event: str, chain: CountedChain, data: IO[bytes]) -> Iterator[None]:
    pids = ",".join(str(each.pid) for each in chain.functions)
    with contextlib.ExitStack() as stack:
        control, tell = _pipe(stack)
        told, done = _pipe(stack)
        command = [
            perf, "record", "-q", "-B", "-N", "-e", event, "-F", str(_HERTZ),
            "--call-graph", f"dwarf,{_STACK_BYTES}", "-p", pids, "-o", "-",
            "-D", "-1", "--control", f"fd:{control},{done}",
            "--", "cat",  # ends with its input, also if UNiS is killed, and perf with it
        ]  # fmt: skip
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command, stdin=pipe, stdout=data, stderr=pipe, text=True, pass_fds=(control, done)
        ) as process:
            try:
                os.write(tell, b"enable\n")
                _wait_until_enabled(process, told)
                yield
                process.communicate(timeout=_SECONDS)
            except subprocess.TimeoutExpired:
                raise HotError("hot functions: perf record does not end") from None
            finally:
                if process.poll() is None:
                    process.kill()


def _pipe(stack: contextlib.ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        stack.callback(os.close, end)
    return ends


def _wait_until_enabled(process: subprocess.Popen[str], told: int) -> None:
    end = time.monotonic() + _SECONDS
    while not select.select([told], [], [], 0.05)[0]:
        if process.poll() is not None:
            _, said = process.communicate(timeout=_SECONDS)  # `cat` may have stderr still
            raise HotError(f"hot functions: perf record failed: {_last_line(said)}")
        if time.monotonic() > end:
            raise HotError("hot functions: perf record does not start")


def _script(perf: str, data: IO[bytes]) -> str:
    data.seek(0)
    command = [perf, "script", "-i", "-", "--no-inline", "-F", "pid,tid,ip,sym,dso"]
    try:
        done = subprocess.run(
            command, stdin=data, capture_output=True, text=True, errors="replace",
            timeout=_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise HotError("hot functions: perf script does not end") from None
    if done.returncode != 0:
        raise HotError(f"hot functions: perf script failed: {_last_line(done.stderr)}")
    return done.stdout


def _hidden(stacks: Stacks) -> Iterator[str]:
    kernel = [each for stack in stacks for each in stack if each.kind == "kernel"]
    if kernel and all(each.symbol == _UNKNOWN for each in kernel):
        yield (
            "hot functions: the kernel hides its symbols (kernel.kptr_restrict); not known: which "
            "of its functions were found running"
        )


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
