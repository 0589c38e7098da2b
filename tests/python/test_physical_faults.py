"""What goes wrong around ports of NICs: notes that nobody can read, two runs at once, a launcher
that is killed, udev. On an emulated NIC.
"""

import json
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.python.fake_nic import INTERFACE, PF, FakeNic
from tests.python.test_physical import a_link
from unis.errors import UnisError
from unis.links import devices, physical
from unis.nics import binding
from unis.nics.sysfs import content

OTHER, OTHER_INTERFACE = "0000:02:00.0", "enp2s0f0"
KERNEL = ("unis1a", "unis1b")


@dataclass
class Place:
    """A card, and where UNiS notes what it does to it."""

    nic: FakeNic
    settings: Path

    @property
    def found(self) -> list[str]:
        """How the card is now."""
        folder = self.nic.root / "bus/pci/devices" / PF
        flags = self.nic.root / "class/net" / INTERFACE / "flags"
        files = (folder / "sriov_numvfs", folder / "sriov_drivers_autoprobe", flags, self.ipv6)
        return [*map(content, files), *(file.name for file in physical.records().glob("*"))]

    @property
    def ipv6(self) -> Path:
        return self.settings / f"ipv6/conf/{INTERFACE}/disable_ipv6"


def place_in(folder: Path, patch: pytest.MonkeyPatch) -> Place:
    """A card that nobody has used yet."""
    shutil.rmtree(folder, ignore_errors=True)
    nic = FakeNic(folder / "sys")
    place = Place(nic, folder / "proc/sys/net")
    place.ipv6.parent.mkdir(parents=True)
    place.ipv6.write_text("0")
    patch.setenv("UNIS_RUN_DIR", str(folder / "unis"))
    patch.setattr(binding, "write", nic.write)
    patch.setattr(physical, "netlink", nic.netlink)
    patch.setattr(physical, "use_by_host", lambda _: "")
    patch.setattr(physical, "_let_udev_end", lambda: None)
    patch.setattr(physical, "_SETTINGS", place.settings)
    patch.setattr(devices, "silence", lambda _: None)
    return place


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return place_in(tmp_path / "card", monkeypatch)


def make(place: Place, name: str = "x.c.0", at: int = 0, **more: Any) -> None:
    kernel = more.pop("kernel", None)
    physical.make(name, a_link(place.nic, at, **more), kernel=kernel, root=place.nic.root)


# ------------------------------------------------------------------ notes


@pytest.mark.parametrize("text", [
    "", "[]", '"x"', "{", "[" * 100_000, b"\xff", '{"address": "../x"}', '{"version": 1}',
    '{"version": 1, "links": 3}', json.dumps({
        "address": OTHER, "interface": OTHER_INTERFACE, "run": "y", "up": False, "autoprobe": 1,
        "ipv6": "0", "links": {}}),
    json.dumps({
        "address": PF, "interface": INTERFACE, "run": "x", "up": False, "autoprobe": "1",
        "ipv6": "0", "links": {"x.c.0": [0, 1]}}),
])  # fmt: skip
def test_a_note_that_nobody_can_read_holds_up_no_other_port(
    place: Place, text: str | bytes
) -> None:
    bad = physical.records() / f"{OTHER}.json"
    bad.parent.mkdir(parents=True)
    bad.write_bytes(text if isinstance(text, bytes) else text.encode())
    before = place.found
    make(place)
    assert physical.release("x.c.0", place.nic.root) == []
    assert place.found == before
    (problem,) = physical.release("y.c.0", place.nic.root)
    assert problem.startswith(f"link y.c.0: cannot read {bad}: ")
    assert problem.endswith(f"see to it that NIC {OTHER} is as you want it, and remove the file")
    assert "\n" not in problem
    assert physical.is_noted("y.c.0"), "who knows"
    bad.unlink()
    assert physical.release("y.c.0", place.nic.root) == []


def test_a_folder_in_the_place_of_a_note_holds_up_no_other_port(place: Place) -> None:
    (physical.records() / f"{OTHER}.json").mkdir(parents=True)
    make(place)
    assert physical.release("x.c.0", place.nic.root) == []
    (problem,) = physical.release("y.c.0", place.nic.root)
    assert problem.endswith(f"{OTHER}.json: Is a directory")


def test_a_note_of_another_version_is_refused_in_a_sentence(place: Place) -> None:
    make(place)
    file = physical.records() / f"{PF}.json"
    note = json.loads(file.read_text())
    assert note["version"] == 1
    file.write_text(json.dumps({**note, "version": 2, "links": [{"of": "a kind to come"}]}))
    sentence = "another version of UNiS has written it: it has version 2, and this `unis` reads 1; "
    place.nic.log.clear()
    (problem,) = physical.release("x.c.0", place.nic.root)
    assert sentence in problem
    for act in (
        lambda: make(place),
        lambda: physical.port_for(INTERFACE, "x", place.nic.root),
    ):
        with pytest.raises(UnisError, match=sentence):
            act()
    assert place.nic.log == []
    # Those of before versions are read.
    file.write_text(json.dumps({key: note[key] for key in note if key != "version"}))
    assert physical.release("x.c.0", place.nic.root) == []
    assert not file.exists()


# ------------------------------------------------------------------ two at once


def test_of_two_runs_at_once_one_has_the_port(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, write = place.found, physical._write
    together, looked = threading.Barrier(2), threading.Event()
    told: dict[str, str] = {}

    def slowly(record: physical.FoundPort) -> None:
        looked.wait(0.2)  # the other may look meanwhile, if nothing keeps it off
        write(record)

    def ask(run: str) -> None:
        together.wait(10)
        try:
            make(place, f"{run}.c.0", run=run)
            told[run] = ""
        except UnisError as error:
            told[run] = str(error)

    monkeypatch.setattr(physical, "_write", slowly)
    threads = [threading.Thread(target=ask, args=(run,)) for run in "xy"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    (winner, _), (loser, why) = sorted(told.items(), key=lambda one: one[1])
    assert told[winner] == ""
    assert why == f"run `{winner}` has {INTERFACE}"
    assert place.nic.log.count("sriov_numvfs 4") == 1
    assert physical.release(f"{loser}.c.0", place.nic.root) == []
    assert len(place.nic.vfs) == 4, "the loser takes nothing away"
    assert physical.release(f"{winner}.c.0", place.nic.root) == []
    assert place.found == before


# ------------------------------------------------------------------ killed


class Killed(BaseException):
    """In the place of SIGKILL: nobody cleans up after it."""


class Death:
    """Kills whoever reaches step number `at`: before and after each write and each question to the
    kernel, and in the middle of a note.
    """

    def __init__(self, place: Place, patch: pytest.MonkeyPatch, at: int) -> None:
        self.left, self._folders = at, (physical.records(), place.settings)
        nic = place.nic
        patch.setattr(binding, "write", self._around(nic.write))
        patch.setattr(nic, "link", self._around(nic.link))
        for name in ("replace", "unlink"):
            patch.setattr(Path, name, self._on_files(getattr(Path, name)))
        patch.setattr(Path, "write_text", self._on_files(Path.write_text, self._half))

    def step(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Killed

    def _around(self, act: Callable[..., Any]) -> Callable[..., Any]:
        def acts(*args: Any, **more: Any) -> Any:
            self.step()
            done = act(*args, **more)
            self.step()
            return done

        return acts

    def _on_files(
        self, act: Callable[..., Any], before: Callable[..., None] = lambda *_: None
    ) -> Callable[..., Any]:
        """Of UNiS; the card has files too."""

        def acts(file: Path, *args: Any, **more: Any) -> Any:
            if not any(map(file.is_relative_to, self._folders)):
                return act(file, *args, **more)
            before(file, *args)
            return self._around(act)(file, *args, **more)

        return acts

    def _half(self, file: Path, text: str, *_: object) -> None:
        if self.left < 2 and file.suffix == ".new":
            with file.open("w") as half:
                half.write(text[: len(text) // 2])
        self.step()


def killed_at(place: Place, at: int, act: Callable[[], object], patch: pytest.MonkeyPatch) -> bool:
    """Whether `act` has so many steps."""
    with patch.context() as during:
        Death(place, during, at)
        try:
            act()
        except Killed:
            return True
    return False


@pytest.mark.parametrize("kernel", [None, KERNEL], ids=["vfio", "kernel"])
@pytest.mark.parametrize("links", [1, 2])
@pytest.mark.parametrize("going", [False, True], ids=["made", "released"])
def test_who_is_killed_at_any_step_leaves_a_port_that_can_be_put_back(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kernel: tuple[str, str] | None,
    links: int,
    going: bool,
) -> None:
    """While the last of the links is made, or goes. The next command does what `unis down` does."""
    names = [f"x.c.{at}" for at in range(links)]
    at, steps = 0, 0
    while True:
        place = place_in(tmp_path / "card", monkeypatch)
        before, root = place.found, place.nic.root

        def made(which: int, place: Place = place) -> None:
            devices_of = (f"unis{which}a", f"unis{which}b") if kernel else None
            make(place, names[which], which, kernel=devices_of)

        for which in range(links if going else links - 1):
            made(which)
        if going:
            for name in names[1:]:
                assert physical.release(name, root) == []
        act = (lambda: physical.release(names[0], root)) if going else (lambda: made(links - 1))  # noqa: B023
        killed = killed_at(place, at, act, monkeypatch)
        problems = [told for name in reversed(names) for told in physical.release(name, root)]
        assert problems == [], f"killed at step {at}"
        assert place.found == before, f"killed at step {at}"
        if not killed:
            break
        make(place)  # the port can be used at once
        assert physical.release("x.c.0", root) == []
        at, steps = at + 1, steps + 1
    assert steps >= (8 if going else 20)


# ------------------------------------------------------------------ udev


@pytest.mark.parametrize("times", [1, 99])
def test_an_interface_that_udev_renames_after_us_gets_its_name_again(
    place: Place, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    nic = place.nic
    silenced: list[str] = []
    renamed: list[int] = []

    def udev() -> None:
        mine = [at for at, name in nic.names.items() if name in KERNEL]
        for at in mine:
            if renamed.count(at) < times:
                renamed.append(at)
                nic.rename(at, f"enp1s0f0v{at}")

    monkeypatch.setattr(physical, "_let_udev_end", udev)
    monkeypatch.setattr(devices, "silence", silenced.append)
    before = place.found
    if times > 1:
        with pytest.raises(UnisError, match=r"something renames the interface of 0000:01:10\.0 to"):
            make(place, kernel=KERNEL)
        assert place.found == before
        return
    make(place, kernel=KERNEL)
    assert {*KERNEL} < {*nic.names.values()}
    assert silenced == [KERNEL[0], KERNEL[0], KERNEL[1], KERNEL[1]], "settings go by the name"
    assert physical.release("x.c.0", nic.root) == []


def test_a_port_whose_interface_goes_meanwhile_is_put_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a driver does that makes it anew for VFs, and udev, which renames it."""
    before = place.found
    found = place.nic.link_lookup
    (place.nic.root / "class/net" / INTERFACE / "flags").write_text("0x1003")
    (place.nic.root / "class/net" / INTERFACE / "carrier").write_text("1")
    monkeypatch.setattr(place.nic, "link_lookup", lambda **_: [])
    with pytest.raises(UnisError, match=rf"link x\.c\.0: No such device \({INTERFACE}\)"):
        make(place)
    (told,) = physical.not_taken(a_link(place.nic))
    assert told == f"it is not known what {INTERFACE} has taken: No such device ({INTERFACE})"
    monkeypatch.setattr(place.nic, "link_lookup", found)
    assert place.found[:2] == before[:2]
    assert not physical.is_noted("x.c.0")
