"""Functions in containers pass packets and hand the CPU over as others do, and leave nothing."""

import os
import shutil
from pathlib import Path

import pytest

from tests.e2e.machine import Json, Machine, macswap
from tests.e2e.test_run import assert_delivers_more_than, assert_whole, delivered
from tests.e2e.test_users import DAC_OVERRIDE, IPC_LOCK, NET_RAW, assert_has
from tests.e2e.test_veth import kill_and_await
from tests.needs import need
from unis import built
from unis.runtime.directory import base_directory, run_directory
from unis.runtime.folders import folders_directory, port_plugin
from unis.runtime.orphans import FUNCTION_MARK, mark_of
from unis.runtime.process import marked

EXAMPLE = built.clone() / "examples" / "container.yaml"
NAMESPACES = ["pid", "mnt", "ipc", "uts", "cgroup"]
SLOWLY: Json = {"source": {"kind": "synthetic", "size": 64}, "rate": "20kpps"}


@pytest.fixture(autouse=True)
def _crun() -> None:
    need(shutil.which("crun") is not None, "needs crun: apt-get install crun")


def is_contained(pid: int) -> bool:
    """Whether a process is the first one of namespaces of its own."""
    status = Path(f"/proc/{pid}/status").read_text()
    numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[1:]
    own = [Path(f"/proc/{pid}/ns/{kind}").readlink() for kind in NAMESPACES]
    ours = [Path(f"/proc/self/ns/{kind}").readlink() for kind in NAMESPACES]
    apart = not {*own} & {*ours}
    assert apart == (own != ours), "all or none"
    return apart and numbers[-1] == "1"


def assert_nothing_left(machine: Machine) -> None:
    """Beyond what every run takes along: bundles, what crun notes, folders, mounts."""
    directory = run_directory(machine.name)
    machine.wait_for(lambda: not (directory.path / "containers").exists(), "a bundle is left")
    machine.assert_clean()
    assert not directory.crun.exists()
    assert not [*folders_directory().glob(f"{machine.name}.*")]
    assert str(directory.path) not in Path("/proc/self/mountinfo").read_text()
    assert not [*Path("/run/crun").glob("*")]


@pytest.mark.parametrize("end", ["down", "launcher", "guard", "unisd"])
def test_the_example_runs_and_leaves_nothing(machine: Machine, end: str) -> None:
    machine.unis("up", str(EXAMPLE), "--name", machine.name, "--detach")
    run = machine.ps()
    pids = run["functions"]
    assert {name: is_contained(pid) for name, pid in pids.items()} == {
        "firewall": True, "monitor": True, "nat": False,
    }  # fmt: skip
    networks = {name: Path(f"/proc/{pid}/ns/net").readlink() for name, pid in pids.items()}
    ours = Path("/proc/self/ns/net").readlink()
    assert [name for name, network in networks.items() if network != ours] == ["monitor"]
    assert_has(pids["firewall"], "root", DAC_OVERRIDE | IPC_LOCK)
    assert_has(pids["monitor"], "root", DAC_OVERRIDE | IPC_LOCK | NET_RAW)
    assert str(port_plugin(machine.name)) in Path(f"/proc/{pids['monitor']}/maps").read_text()
    assert_delivers_more_than(machine, 50_000)
    assert_whole(machine.exact_account())
    state = run_directory(machine.name).read()
    assert state
    assert state.guard
    if end == "down":
        machine.down()
    else:
        machine.kill(state.guard.pid if end == "guard" else run[end]["pid"])
        machine.wait_for(lambda: not machine.processes(), "processes are left")
    assert_nothing_left(machine)


@pytest.mark.parametrize(
    "left", ["containers/a/root", "crun/a", "containers/b", "containers/b/pid"]
)
def test_a_launcher_that_is_killed_meanwhile_leaves_nothing(machine: Machine, left: str) -> None:
    """Just when this has been made."""
    file = machine.chain_file({name: macswap(container={}) for name in "ab"}, traffic=SLOWLY)
    directory = run_directory(machine.name)
    with machine.start("up", str(file)) as launcher:
        while not (directory.path / left).exists():
            assert launcher.poll() is None
        machine.kill(launcher.pid)
        launcher.communicate()
    machine.wait_for(lambda: not machine.processes(), "processes are left")
    assert_nothing_left(machine)


def test_they_hand_the_cpu_over_and_sleep(machine: Machine) -> None:
    """The engine finds the turns of threads that have other numbers in their containers."""
    functions = {name: macswap(container={}) for name in "ab"}
    machine.up(machine.chain_file(functions, traffic=SLOWLY))
    assert_delivers_more_than(machine, 20_000)
    stats = machine.ps()["stats"]
    assert [core.get("cannot_rest", "") for core in stats["cores"]] == [""]
    for function in stats["functions"]:
        assert int(function["time"]["blocked_ns"]) > 0, function["name"]


def test_one_that_is_killed_comes_back(machine: Machine) -> None:
    functions = {name: macswap(container={}, restart="on-failure") for name in "ab"}
    machine.up(machine.chain_file(functions, traffic=SLOWLY))
    for victim in "abb":
        assert_delivers_more_than(machine, delivered(machine.ps()) + 5000)
        kill_and_await(machine, victim)
        assert is_contained(machine.pid_of(victim))
    assert_delivers_more_than(machine, delivered(machine.ps()) + 5000)
    assert_whole(machine.exact_account())
    machine.down()
    assert_nothing_left(machine)


@pytest.mark.long
def test_a_restart_that_fails_leaves_no_second_container(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where crun has started the function, and names another process."""
    spoil, wrapper = machine.directory / "spoil", machine.directory / "bin" / "crun"
    wrapper.parent.mkdir()
    wrapper.write_text(f"""#!/bin/sh
{shutil.which("crun")} "$@" || exit
rm {spoil} 2>/dev/null || exit 0
for word; do case $word in --pid-file=*) echo 1 > "${{word#*=}}";; esac; done
""")
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    machine.up(machine.chain_file({"a": macswap(container={}, restart="on-failure")}))
    spoil.touch()
    kill_and_await(machine, "a")
    assert not spoil.exists()
    state = run_directory(machine.name).read()
    assert state
    found = marked(FUNCTION_MARK, mark_of(state.run_id, "a"))
    assert [process.pid for process in found] == [machine.pid_of("a")]
    machine.down()
    assert_nothing_left(machine)


def test_a_program_of_an_image_runs_as_its_user(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sees the image, the folder of the chain file, what is mounted, and nothing else."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(machine.directory / "cache"))
    machine.unis("image", "macswap", "-o", "image")
    (machine.directory / "rules").mkdir()
    machine.directory.chmod(0o755)
    image = {"image": "image", "mounts": ["rules:/etc/rules"]}
    function = macswap(container=image, user="nobody")
    machine.up(machine.chain_file({"a": function}, traffic=SLOWLY))
    pid = machine.pid_of("a")
    assert is_contained(pid)
    assert_has(pid, "nobody", 0)
    root = Path(f"/proc/{pid}/root")
    assert str(Path(f"/proc/{pid}/exe").readlink()) == "/usr/local/bin/macswap"
    assert {path.name for path in (root / "etc").iterdir()} == {"ld.so.cache", "rules"}
    notes = root / base_directory().relative_to("/")
    assert {path.name for path in notes.iterdir()} == {"functions", "ports"}
    assert [path.name for path in (notes / "functions").iterdir()] == [f"{machine.name}.a"]
    assert_delivers_more_than(machine, 5000)
    assert_whole(machine.exact_account())
    machine.down()
    assert_nothing_left(machine)
    (unpacked,) = (machine.directory / "cache/unis/images").iterdir()
    assert {path.name for path in unpacked.iterdir()} == {"etc", "lib", "lib64", "usr"}, (
        "nothing is written into it"
    )


def test_what_is_wrong_is_told_with_what_mends_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**container: object) -> str:
        file = machine.chain_file({"a": macswap(container=container)}, traffic=SLOWLY)
        return machine.unis("up", str(file), "--detach", code=2)

    assert "there is no folder" in refused(image="image")
    machine.unis("image", "monitor", "-o", "image")
    assert "there is no program `macswap` in" in refused(image="image")
    path = [place for place in os.environ["PATH"].split(":") if not Path(place, "crun").exists()]
    hidden = machine.directory / "bin"
    hidden.mkdir()
    for place in ("/usr/bin", "/usr/sbin", "/bin", "/sbin"):
        for program in Path(place).iterdir():
            if program.name != "crun" and not (hidden / program.name).is_symlink():
                (hidden / program.name).symlink_to(program)
    monkeypatch.setenv("PATH", ":".join([*path, str(hidden)]))
    said = refused()
    assert "run `apt-get install crun`" in said
    assert "starting unisd" not in said
