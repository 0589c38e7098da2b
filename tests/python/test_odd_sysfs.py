"""Whatever a machine shows in sysfs, UNiS reads it, or refuses in one sentence. An emulation: the
folders are made by chance, and no device is behind them.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.python.planned import EIGHT_CPUS, planned
from tests.python.strategies import Data, scaled
from tests.python.test_nics import chain as on_ports
from tests.python.test_nics import plan_of
from tests.python.test_sriov import chain as on_links
from unis.chain.model import ChainFile
from unis.errors import UnisError
from unis.links import physical
from unis.nics import binding, sysfs, usable
from unis.plan.machine import Machine
from unis.runtime import nics
from unis.runtime.doctor import nics as doctor_nics

_ADDRESSES = ["0000:01:00.0", "0000:01:10.0", "0000:01:10.2", "10000:e1:00.0", "odd name"]
_INTERFACES = ["enp1s0", "eth0", "eth0.5", "a,b", "[red]", "-x", "größe", os.fsdecode(b"e\xff")]
_DRIVERS = ["igb", "ena", "virtio-pci", "vfio-pci", "mlx5_core", "odd driver"]
_FILES = [
    "class", "vendor", "device", "numa_node", "driver_override", "sriov_totalvfs", "sriov_numvfs",
    "sriov_offset", "sriov_stride", "sriov_drivers_autoprobe",
]  # fmt: skip
_LINKS = ["driver", "iommu_group", "physfn", "virtfn0", "virtfn1", "virtfn10", "virtfnx", "net"]
_TEXTS = st.one_of(
    st.sampled_from([b"0x020000", b"-1", b"0", b"7", b"1", b"(null)", b"igb", b"", b"-7", b"1e3"]),
    st.binary(max_size=8),
)
# Of what stands in the place of a link to a folder: a link that leads there, or nowhere, or to
# itself; a file; a folder.
_KINDS = st.sampled_from(["link", "broken", "self", "file", "folder"])
_DEVICE = st.fixed_dictionaries(
    {
        "files": st.dictionaries(st.sampled_from(_FILES), st.none() | _TEXTS),
        "links": st.dictionaries(st.sampled_from(_LINKS), _KINDS),
        "driver": st.sampled_from(_DRIVERS),
        "group": st.sampled_from(["1", "1", "9", "x"]),
        "interfaces": st.lists(st.sampled_from(_INTERFACES), max_size=2, unique=True),
        "virtio": st.booleans(),
        "known": st.booleans(),  # the interfaces are in class/net
        "network": st.booleans(),  # with `class` at least what a NIC has
    }
)
_MACHINES = st.dictionaries(st.sampled_from(_ADDRESSES), _DEVICE, min_size=1, max_size=3)


def build(root: Path, machine: Data) -> None:
    for part in ("bus/pci/devices", "bus/pci/drivers/vfio-pci", "class/net", "targets"):
        (root / part).mkdir(parents=True)
    for address, device in machine.items():
        folder = root / "bus/pci/devices" / address
        folder.mkdir()
        for name, text in device["files"].items():
            if text is None:
                (folder / name).mkdir()
            else:
                (folder / name).write_bytes(text)
        if device["network"] and not (folder / "class").exists():
            (folder / "class").write_text("0x020000")
        for name, kind in device["links"].items():
            _place(root, folder / name, kind, device)
        _add_interfaces(root, folder, device)


def _place(root: Path, at: Path, kind: str, device: Data) -> None:
    named = {"driver": device["driver"], "iommu_group": device["group"]}
    target = root / "targets" / named.get(at.name, _ADDRESSES[1])
    if kind == "link":
        (target / "devices").mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            (target / "devices" / at.parent.name).symlink_to(at.parent)
        at.symlink_to(target)
    elif kind == "folder":
        at.mkdir()
    elif kind == "file":
        at.write_text("x")
    else:
        at.symlink_to(at if kind == "self" else root / "nowhere")


def _add_interfaces(root: Path, folder: Path, device: Data) -> None:
    for name in device["interfaces"]:
        net = folder / "virtio3/net" if device["virtio"] else folder / "net"
        with suppress(OSError):  # something else stands there
            (net / name).mkdir(parents=True)
            if device["known"]:
                (root / "class/net" / name).symlink_to(net / name)


def whole(address: str = _ADDRESSES[0], **more: object) -> Data:
    device = {
        "files": {}, "links": {}, "driver": "igb", "group": "1", "interfaces": ["enp1s0"],
        "virtio": False, "known": True, "network": True, **more,
    }  # fmt: skip
    return {address: device}


def tried(act: Callable[[], object]) -> None:
    """It is refused in one sentence, if at all."""
    try:
        act()
    except ValidationError as error:
        raise AssertionError("a traceback") from error
    except UnisError as error:
        told = [one.problem.sentence for one in getattr(error, "problems", ())] or [str(error)]
        assert all(told)
        assert not any("\n" in sentence for sentence in told)


@pytest.fixture(scope="module", autouse=True)
def _nothing_of_this_machine() -> Iterator[None]:
    """No notes of UNiS, no processes, no interfaces, no modprobe."""
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.setenv("UNIS_RUN_DIR", f"{folder}/unis")
        patch.setattr(nics, "use_by_host", lambda _: "")
        patch.setattr(physical, "use_by_host", lambda _: "")
        patch.setattr(usable, "_modprobe", lambda *_: False)
        patch.setattr(nics, "_PROC", Path(folder))
        yield


@given(_MACHINES)
@example(whole(_ADDRESSES[3], links={"driver": "link"}))
@example(whole(interfaces=["a,b"], links={"driver": "link", "iommu_group": "link"}))
@example(whole(driver="odd driver", links={"driver": "link", "iommu_group": "link"}))
@example(whole(driver="virtio-pci", virtio=True, links={"driver": "link"}))
@example(whole(driver="ena", links={"driver": "link"}, files={"numa_node": b"-1"}))
@settings(max_examples=scaled(300), deadline=None)
def test_no_machine_makes_a_traceback(machine: Data) -> None:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        root = Path(folder) / "sys"
        build(root, machine)
        patch.setattr(sysfs, "SYS", root)
        for finding in doctor_nics.nics():
            told = (finding.check, finding.found, finding.meaning, finding.mend)
            assert not any("\n" in text for text in told)
        for device in sysfs.devices(root):
            assert device.numa_node is None or device.numa_node >= 0
        for name in [*machine, *_INTERFACES]:
            tried(lambda name=name: binding.found(name, root))  # type: ignore[misc]
            tried(lambda name=name: physical.port_for(name, "x", root))  # type: ignore[misc]
            tried(lambda name=name: physical.vfio_hindrance(name, root))  # type: ignore[misc]
            for more in ({}, {"driver": "mmsg"}, {"driver": "vfio-pci"}):
                with suppress(ValidationError):  # no file has such a name
                    file = on_ports(name, **more)
                    tried(lambda file=file: nics.require(plan_of(file), []))  # type: ignore[misc]
            with suppress(ValidationError):
                parts = on_links(sriov={"nics": [name]})
                ChainFile.model_validate(parts)
                tried(lambda parts=parts: planned(parts, Machine(EIGHT_CPUS.cpus, root)))  # type: ignore[misc]


def test_the_doctor_prints_a_name_that_is_no_text(tmp_path: Path) -> None:
    build(tmp_path / "sys", whole(interfaces=[_INTERFACES[-1]], links={"driver": "link"}))
    words = "import sys; from pathlib import Path; from unis.nics import sysfs; "
    words += "sysfs.SYS = Path(sys.argv.pop()); from unis.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", words, "doctor", tmp_path / "sys"],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONUTF8": "1"},
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert r"e\udcff (driver igb)" in done.stdout
