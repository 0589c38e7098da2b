"""What the kernel counts of devices and of its own work for packets."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from unis.counted.provider import CountedChain, Counts, Growing, Key, cpu_place, summed

# Of /proc/PID/net/dev, by the number of the column.
_DEVICE = {
    0 + 1: "device received", 2: "device receive errors", 3: "device receive drops",
    8 + 1: "device sent", 10: "device send errors", 11: "device send drops",
}  # fmt: skip
# Of /proc/net/softnet_stat, by the number of the column; the CPU's own is that of _SOFTNET_CPU.
_SOFTNET = {0: "softnet processed", 1: "softnet dropped", 2: "softnet time squeeze"}
_SOFTNET_CPU = 12
_RECEIVE = "NET_RX"


def parse_devices(text: str, devices: Collection[str]) -> dict[str, int]:
    """Of /proc/PID/net/dev: sums over `devices`."""
    found = dict.fromkeys(_DEVICE.values(), 0)
    for line in text.splitlines():
        name, colon, numbers = line.partition(":")
        if colon and name.strip() in devices:
            values = numbers.split()
            for column, what in _DEVICE.items():
                found[what] += int(values[column])
    return found


def parse_softnet(text: str) -> dict[int, dict[str, int]]:
    """Of /proc/net/softnet_stat, by CPU."""
    found = {}
    for number, line in enumerate(text.splitlines()):
        values = [int(value, 16) for value in line.split()]
        # Before Linux 5.10 the lines have no number, and those of offline CPUs are missing.
        cpu = values[_SOFTNET_CPU] if len(values) > _SOFTNET_CPU else number
        found[cpu] = {what: values[column] for column, what in _SOFTNET.items()}
    return found


def parse_interrupts(text: str, rows: Collection[str] = ()) -> dict[int, int]:
    """Of /proc/interrupts or /proc/softirqs: by CPU, sums over `rows`; none: over all."""
    lines = text.splitlines()
    cpus = [int(word.removeprefix("CPU")) for word in lines[0].split()] if lines else []
    found = dict.fromkeys(cpus, 0)
    for line in lines[1:]:
        name, _, rest = line.partition(":")
        values = rest.split()[: len(cpus)]
        if len(values) == len(cpus) and (not rows or name.strip() in rows):
            for cpu, value in zip(cpus, values, strict=True):
                found[cpu] += int(value)
    return found


class KernelStatistics(Growing):
    """Of the devices of each function, and of the CPUs."""

    name = "kernel"
    units: Mapping[str, str] = {
        **dict.fromkeys(_DEVICE.values(), "packets"),
        **{what: "packets" for what in _SOFTNET.values() if "squeeze" not in what},
        "softnet time squeeze": "times",
        "interrupts": "interrupts",
        "receive softirqs": "softirqs",
    }

    def __init__(self, chain: CountedChain, proc: Path = Path("/proc")) -> None:
        super().__init__()
        self._chain = chain
        self._proc = proc

    def read(self) -> Counts:
        """A file that cannot be read tells nothing."""
        return summed([*self._devices(), *self._cpus()])

    def _devices(self) -> Iterator[tuple[Key, float]]:
        for function in self._chain.functions:
            if function.devices:
                text = self._text(f"{function.pid}/net/dev")
                for what, value in parse_devices(text, function.devices).items():
                    yield (function.name, what), value

    def _cpus(self) -> Iterator[tuple[Key, float]]:
        softnet = parse_softnet(self._text("net/softnet_stat"))
        interrupts = parse_interrupts(self._text("interrupts"))
        receive = parse_interrupts(self._text("softirqs"), (_RECEIVE,))
        for cpu in self._chain.cpus:
            place = cpu_place(cpu)
            for what, value in softnet.get(cpu, {}).items():
                yield (place, what), value
            for what, by_cpu in (("interrupts", interrupts), ("receive softirqs", receive)):
                if cpu in by_cpu:
                    yield (place, what), by_cpu[cpu]

    def _text(self, file: str) -> str:
        try:
            return (self._proc / file).read_text()
        except OSError:
            return ""
