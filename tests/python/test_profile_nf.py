"""A profile from its readings to the workload file that `unis plan` reads."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evaluation.commands.caches import cache_model
from tests.python.commands import evaluation, run
from unis import built
from unis.chain.problem import ChainFileError
from unis.profile import session
from unis.profile.bounds import Reading
from unis.profile.curve import Method
from unis.profile.place import Place, ways_of
from unis.profile.profiler import Step, StepKind, Wish, measure, missing
from unis.profile.result import About, Modelled, Profiled, result
from unis.profile.store import Store, StoredProfile
from unis.profile.subject import of_file, of_function, synthetic
from unis.runtime.errors import InterruptedRunError, LaunchError
from unis.slo.exact import exact
from unis.slo.model import load
from unis.slo.profile import ImpossibleProfileError, Profile
from unis.slo.resq_profiles import PROFILES
from unis.slo.verify import problems

ABOUT = About("nf", "nf --x", "64 B", "a machine", "UNiS 0", 18, 100.0)
MEASURED = Wish(18, Method())
WITHOUT_CAT = Wish(None, Method())


class Known:
    """A backend that measures a profile which is known."""

    def __init__(self, of: Profile, dies_after: int | None = None) -> None:
        self.of = of
        self.asked: list[tuple[str, float]] = []
        self._dies_after = dies_after

    def _note(self, kind: str, at: float) -> None:
        if self._dies_after is not None and len(self.asked) >= self._dies_after:
            raise InterruptedRunError("SIGINT")
        self.asked.append((kind, at))

    def capacity(self) -> tuple[Reading, float]:
        self._note("capacity", 0)
        return Reading(self.of.solo_mpps, 0.01), 2000.0

    def throughput(self, ways: int) -> Reading:
        self._note("ways", ways)
        return Reading(self.of.share(ways) / self.of.share(18))

    def latency(self, load: float) -> Reading:
        self._note("load", round(load * 100))
        known = dict(self.of.p95_us_by_load)
        return Reading(float(np.interp(load, [*known], [*known.values()])))


def kept() -> StoredProfile:
    return StoredProfile(what={"function": "x"}, slots=2048, began=1e9)


def silent(_: object) -> None:
    """Nobody listens."""


def profiled(
    of: Profile, wish: Wish = MEASURED, modelled: Modelled | str | None = None
) -> Profiled:
    return result(wish, measure(wish, Known(of), kept(), silent, silent), ABOUT, modelled)


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_of_the_paper_is_found_again(name: str) -> None:
    known = PROFILES[name]
    found = profiled(known).profile()
    assert found.solo_mpps == pytest.approx(known.solo_mpps, rel=1e-3)
    for ways in range(1, 19):
        assert found.share(ways) == pytest.approx(known.share(ways) / known.share(18), rel=0.0101)
    printed = dict(known.p95_us_by_load)
    for at, us in found.p95_us_by_load:
        assert us == pytest.approx(np.interp(at, [*printed], [*printed.values()]), rel=0.0101)


def written(tmp_path: Path, found: Profiled) -> Path:
    file = tmp_path / "w.yaml"
    head = "apiVersion: unis/slo/v1\nname: w\nservers: {a: {count: 9, cores: 9, ways: 18}}\n"
    slos = "slos:\n  s: {function: nf, throughput: 90 %, p95_latency: 100 us, count: 3}\n"
    file.write_text(head + found.yaml() + slos)
    return file


def test_what_is_written_is_planned_with(tmp_path: Path) -> None:
    workload = load(written(tmp_path, profiled(PROFILES["stats"])))
    (slo,) = workload.slos
    assert "throughput by ways measured" in slo.profile.source
    assert "nf --x; 64 B, rings of 2048" in slo.profile.source
    assert "2001-09-09 on a machine; UNiS 0" in slo.profile.source
    placement = exact(workload)
    assert not [*problems(workload, placement)]
    # As with the profile that was measured: 2 machines of 9 cores and 18 ways would be too many.
    assert len(placement.machines) == 1


def test_ways_that_nobody_can_set_promise_next_to_nothing(tmp_path: Path) -> None:
    found = profiled(PROFILES["firewall"], WITHOUT_CAT)
    assert found.throughput_by_ways == "unknown"
    assert found.throughput is None
    assert any("not known" in told and "-m evaluation profile" in told for told in found.remarks)
    without = profiled(PROFILES["firewall"], WITHOUT_CAT, "no recorder")
    assert any("it is not modelled: no recorder" in told for told in without.remarks)
    workload = load(written(tmp_path, found))
    placement = exact(workload)
    parts = [part for machine in placement.machines for part in machine.instances]
    assert all(part.ways == 18 for part in parts)
    assert parts or placement.refused


def test_what_a_model_says_is_called_so() -> None:
    model = Modelled((0.5, 0.8, 1.0), "a cache that is simulated")
    found = profiled(PROFILES["lpm"], WITHOUT_CAT, model)
    assert found.percent_by_ways == [50, 80, 100]
    assert "throughput by ways modelled" in found.source
    assert "# throughput by ways is modelled, not measured" in found.yaml()
    measured = profiled(PROFILES["lpm"], MEASURED, model)
    assert measured.throughput_by_ways == "measured"


def test_only_the_evaluation_brings_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    models: list[object] = []

    def refusing(*args: object) -> None:
        models.append(args[-1])
        raise LaunchError("refused")

    monkeypatch.setattr(session, "Session", refusing)
    for command in (evaluation("profile", "sh"), run("profile", "nf", "sh")):
        assert command == (2, "refused\n")
    assert models == [cache_model, None]


@pytest.mark.parametrize("after", [0, 1, 4, 12])
def test_it_goes_on_after_an_interruption(tmp_path: Path, after: int) -> None:
    store = Store("nf", {"function": "x"}, tmp_path)
    whole = Known(PROFILES["stats"])
    measure(MEASURED, whole, kept(), silent, silent)
    dying = Known(PROFILES["stats"], dies_after=after)
    store.write(store.new())
    with pytest.raises(InterruptedRunError):
        measure(MEASURED, dying, store.read(), store.write, silent)
    kind, at = whole.asked[after]
    assert missing(MEASURED, store.read())[0] == Step(StepKind(kind), at)
    rest = Known(PROFILES["stats"])
    done = measure(MEASURED, rest, store.read(), store.write, silent)
    assert dying.asked + rest.asked == whole.asked
    assert missing(MEASURED, done) == []
    assert store.read() == done


def test_nothing_is_measured_twice_and_a_nearer_look_uses_it_all() -> None:
    first = Known(PROFILES["snort"])
    there = measure(MEASURED, first, kept(), silent, silent)
    careful = Wish(18, Method(careful=True))
    nearer = Known(PROFILES["snort"])
    measure(careful, nearer, there, silent, silent)
    asked = first.asked + nearer.asked
    assert len(set(asked)) == len(asked)
    assert nearer.asked


def test_what_was_disturbed_is_measured_anew() -> None:
    there = measure(MEASURED, Known(PROFILES["lpm"]), kept(), silent, silent)
    bad = {**there.latencies, 55.0: Reading(9999.0, disturbed=0.8)}
    spoilt = there.model_copy(update={"latencies": bad})
    again = Known(PROFILES["lpm"])
    measure(MEASURED, again, spoilt.undisturbed(), silent, silent)
    assert again.asked == [("load", 55)]
    found = result(MEASURED, spoilt, ABOUT)
    assert any("disturbed: in 1 of" in remark for remark in found.remarks)
    assert found.source.startswith("disturbed; ")


OTHER = '{"what": {"function": "y"}, "mpps": {"value": 1}}'


@pytest.mark.parametrize("content", ["", "nonsense", "{}", OTHER])
def test_a_store_that_cannot_be_read_is_empty(tmp_path: Path, content: str) -> None:
    store = Store("nf", {"function": "x"}, tmp_path)
    store.file.write_text(content)
    assert store.read().mpps is None


def test_another_machine_or_configuration_has_a_file_of_its_own(tmp_path: Path) -> None:
    one, other = (Store("nf", {"function": x}, tmp_path) for x in "xy")
    one.write(one.new().model_copy(update={"slots": 512}))
    assert one.file != other.file
    assert (one.read().slots, other.read().slots) == (512, None)


def test_a_store_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Store("nf", {}, tmp_path / "file" / "folder")
    with pytest.raises(LaunchError, match="cannot write"):
        store.see_that_it_can_be_kept()


def test_progress_says_how_many_and_how_long() -> None:
    said: list[str] = []
    clock = iter(range(1000))
    measure(MEASURED, Known(PROFILES["lpm"]), kept(), silent, said.append, lambda: next(clock))
    assert said[0] == "1 of about 18: what passes"
    assert "throughput with 1 ways: 70.0%" in said[2]
    assert all("s left" in line for line in said[2:])


def changed(**changes: object) -> StoredProfile:
    return measure(MEASURED, Known(PROFILES["stats"]), kept(), silent, silent).model_copy(
        update=changes
    )


def test_a_load_that_loses_packets_is_no_promise() -> None:
    there = changed()
    lossy = {
        load: replace(of, lost=0.02 if load >= 95 else 0.0) for load, of in there.latencies.items()
    }
    found = result(MEASURED, changed(latencies=lossy), ABOUT)
    assert max(found.p95_us_by_percent_of_load) == 90
    assert any("at 95 % of its load 2.0% of the packets are lost" in it for it in found.remarks)
    all_lossy = {load: replace(of, lost=0.5) for load, of in there.latencies.items()}
    with pytest.raises(ImpossibleProfileError, match="are lost at 10 % of its load already"):
        result(MEASURED, changed(latencies=all_lossy), ABOUT)


def test_whether_the_platform_was_the_limit() -> None:
    def limits(waiting: float) -> bool:
        remarks = result(MEASURED, changed(waiting=waiting), ABOUT).remarks
        return any("source and sink were the limit" in remark for remark in remarks)

    assert limits(300.0)
    assert not limits(1900.0)


def test_impossible_readings_are_refused() -> None:
    shares = {**changed().shares, 9.0: Reading(0.3)}
    with pytest.raises(ImpossibleProfileError, match="which no cache does"):
        result(MEASURED, changed(shares=shares), ABOUT)
    with pytest.raises(ImpossibleProfileError, match="nothing passes"):
        result(MEASURED, changed(mpps=None), ABOUT)


TWO = """apiVersion: unis/v1
name: two
traffic:
  source: {kind: port, device: net_null0}
  sink: {kind: port, device: net_null0}
functions:
  a: {program: macswap, cpu: 1}
  b: {program: macswap, cpu: 0}
chains:
  c: {path: [a], match: [{dst_port: 1}]}
  d: {path: [b]}
"""


def test_chains_that_have_no_profile(tmp_path: Path) -> None:
    file = tmp_path / "two.yaml"
    file.write_text(TWO)
    with pytest.raises(ChainFileError) as refused:
        of_file(file)
    said = str(refused.value)
    for part in (
        "two.yaml:4: traffic.source: is a port", "two.yaml:5: traffic.sink: is a port",
        "two.yaml:6: functions: are on several CPUs", "two.yaml:9: chains: has 2",
    ):  # fmt: skip
        assert part in said


def test_a_chain_file_keeps_all_but_its_rate() -> None:
    subject = of_file(built.examples_directory() / "demo.yaml")
    assert subject.name == "demo"
    assert subject.chain.file.traffic.rate == "max"
    assert subject.told == "chain demo of demo.yaml: firewall → nat → monitor"
    (chain,) = subject.on_rings(512).chain.file.chains.values()
    assert chain.ring == 512


def test_a_graph_is_told_as_no_path(tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(
        "apiVersion: unis/v1\nname: x\ndefaults: {cpu: 1}\n"
        "functions: {a: {program: sh}, b: {program: sh}}\n"
        "chains: {c: {graph: [{from: ingress, to: a}, {from: a, to: b, port: 0},"
        " {from: a, to: egress, port: 1}, {from: b, to: egress}]}}\n"
    )
    assert of_file(file).told == "chain x of x.yaml: a graph of a, b"


def test_functions_of_ours_have_arguments() -> None:
    subject = of_function("firewall", None, synthetic("imix", 512), None)
    (function,) = subject.chain.file.functions.values()
    assert function.args[0] == "--rules"
    assert Path(str(function.args[1])).is_file()
    source = subject.chain.file.traffic.source
    assert (source.kind, source.size, source.flows) == ("synthetic", "imix", 512)  # type: ignore[union-attr]
    other = of_function("./My.Nf", ["-x"], synthetic(None, None), None)
    assert other.name == "my-nf"
    with pytest.raises(LaunchError, match="size"):
        of_function("firewall", None, synthetic("enormous", None), None)


def test_ways_of_the_last_level(tmp_path: Path) -> None:
    assert ways_of(tmp_path) == 0
    for index, (level, ways) in enumerate([(1, 8), (3, 16), (2, 4)]):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        (folder / "level").write_text(f"{level}\n")
        (folder / "ways_of_associativity").write_text(f"{ways}\n")
    assert ways_of(tmp_path) == 16


def test_a_place_in_words() -> None:
    place = Place(cpu="a CPU", cpus=2, cache_bytes=32 << 20, ways=16, kernel="6.1", dpdk="22.11")
    assert str(place) == "a CPU, 2 CPUs, 32 MiB in 16 ways, Linux 6.1, DPDK 22.11"
    assert "cache unknown" in str(place.model_copy(update={"ways": 0}))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("macswap", "--tolerance", "1"), "write a percentage"),
        (("macswap", "--tolerance", "0%"), "write a percentage"),
        (("macswap", "--window", "nan"), "invalid number nan"),
        (("chain.yaml", "--size", "64"), "states arguments and traffic itself"),
        (("macswap", "--pcap", "x.pcap", "--flows", "2"), "has sizes and flows of its own"),
        (("macswap", "--size", "enormous"), "enormous"),
        (("macswap", "--name", "a/b"), "cannot name a profile"),
        (("macswap", "--name", "null"), "cannot name a profile"),
        (("nowhere.yaml",), "nowhere.yaml"),
        (("there-is-no-such-program",), "there is no program"),
        (("macswap", "--pcap", "nowhere.pcap"), "nowhere.pcap"),
    ],
)
def test_what_cannot_be_profiled(words: tuple[str, ...], said: str) -> None:
    code, output = run("profile", "nf", *words)
    assert code == 2
    assert said in " ".join(output.replace("│", " ").split())
