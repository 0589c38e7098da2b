"""What the scheduler's own code costs, without system calls: the engine's microbenchmark."""

import json
import re
import subprocess
from collections.abc import Callable, Mapping

from unis import built

FUNCTIONS = 16  # a core
_WHAT = {
    "BM_TickWithoutSwitch": "nothing to be done",
    "BM_TickThatFindsNoWork": "nobody has work",
    "BM_TickThatSwitchesEveryCore": "each core is switched",
}
_NAME = re.compile(r"(?P<what>\w+)/cores:(?P<cores>\d+)/tasks:\d+$")
_SECONDS = 60  # at most

Ticks = Mapping[str, Mapping[int, float]]  # ns of a tick of all cores, by what it finds, by cores


def measured(report: Callable[[str], None]) -> Ticks:
    """Nothing where it was not built."""
    try:
        program = built.scheduler_bench()
    except built.NotBuiltError:
        return {}
    report("measuring what a tick of 1 to 64 cores costs")
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
    for one in benchmarks:
        if name := _NAME.match(str(one["name"])):
            of = found.setdefault(_WHAT[name["what"]], {})
            of[int(name["cores"])] = float(str(one["real_time"]))
    return found
