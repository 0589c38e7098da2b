"""The cost of the scheduler's own code without system calls: the engine's microbenchmark."""

import json
import re
import subprocess
from collections.abc import Callable, Mapping

from unis import built

FUNCTIONS = 16  # per core
_WHAT = {
    "BM_TickWithoutSwitch": "there is nothing to do",
    "BM_TickThatFindsNoWork": "no function has work",
    "BM_TickThatSwitchesEveryCore": "each core is switched",
}
_NAME = re.compile(r"(?P<what>\w+)/cores:(?P<cores>\d+)/tasks:\d+$")
_SECONDS = 60  # at most

Ticks = Mapping[
    str, Mapping[int, float]
]  # ns of a tick of all cores, by finding and number of cores


def measured(report: Callable[[str], None]) -> Ticks:
    """Measures ticks; empty if the microbenchmark was not built."""
    try:
        program = built.find("engine", "scheduler", "scheduler_bench")
    except built.NotBuiltError:
        return {}
    report("measuring the cost of a tick of 1 to 64 cores")
    wanted = f"^({'|'.join(_WHAT)})/cores:.*/tasks:{FUNCTIONS}$"
    done = subprocess.run(
        [program, f"--benchmark_filter={wanted}", "--benchmark_format=json",
         "--benchmark_min_time=0.05"],
        capture_output=True, text=True, timeout=_SECONDS, check=True,
    )  # fmt: skip
    return parsed(json.loads(done.stdout)["benchmarks"])


def parsed(benchmarks: list[dict[str, object]]) -> Ticks:
    """From Google Benchmark's JSON, whose times are in ns."""
    found: dict[str, dict[int, float]] = {}
    for benchmark in benchmarks:
        if name := _NAME.match(str(benchmark["name"])):
            by_cores = found.setdefault(_WHAT[name["what"]], {})
            by_cores[int(name["cores"])] = float(str(benchmark["real_time"]))
    return found
