"""Of a quadlet and the unit that is made of it: the same options, none lost."""

import contextlib
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.needs import need
from tools import podman_unit
from tools.podman_unit import QuadletError, Section

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "packaging" / "image"
QUADLET = FOLDER / "unis@.container"

words = st.text("abcXYZ019:/%@.-,", min_size=1)
keys = st.text("ABCabc", min_size=1)
sections = st.lists(
    st.builds(Section, keys, st.lists(st.tuples(keys, st.just("") | words)).map(tuple))
)


def container() -> Section:
    return next(it for it in podman_unit.parse(QUADLET.read_text()) if it.name == "Container")


@given(sections)
def test_what_is_written_is_read(written: list[Section]) -> None:
    assert podman_unit.parse(podman_unit.render(written)) == written


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(QuadletError):
        podman_unit.parse(text)


def test_a_line_that_is_none_is_refused_by_its_number() -> None:
    with pytest.raises(QuadletError, match=r"line 3: expected KEY=VALUE below a \[Section\]"):
        podman_unit.parse("[Container]\nImage=x\nnonsense\n")


def test_the_unit_is_current() -> None:
    assert (FOLDER / "unis@.service").read_text() == podman_unit.unit(QUADLET), "run `make docs`"


def test_the_image_is_of_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert container().all("Image") == [f"localhost/unis:{version}"]


def test_each_value_of_the_quadlet_is_in_the_unit() -> None:
    text = podman_unit.unit(QUADLET)
    for key, value in container().entries:
        if key == "SecurityLabelDisable":
            assert "--security-opt=label=disable" in text
        elif not value.startswith("-/"):  # an optional device
            assert all(word in text for word in value.split()), (key, value)


def test_an_option_of_none_is_lost() -> None:
    unknown = Section("Container", (("Image", "x"), ("Ulimit", "rtprio=99")))
    with pytest.raises(QuadletError, match=r"\[Container\] Ulimit is not known; expected Image"):
        podman_unit.options(unknown)


def test_a_quadlet_without_an_image_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.container"
    file.write_text("[Unit]\n[Container]\nExec=up\n[Service]\n[Install]\n")
    with pytest.raises(QuadletError, match=r"\[Container\] needs one Image, not 0"):
        podman_unit.unit(file)


def test_each_line_of_the_quadlet_is_explained() -> None:
    page = (ROOT / "docs" / "package.md").read_text()
    for key, value in container().entries:
        name = value.split("=")[0] if key == "PodmanArgs" else key
        assert f"`{name}" in page, name


@pytest.mark.system
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    need(verify is not None, "needs systemd-analyze: apt-get install systemd")
    assert verify
    # It looks whether the program is there, so the unit is verified with one that is.
    text = podman_unit.unit(QUADLET)
    assert text.count("/usr/bin/podman ") == 3
    unit = tmp_path / "unis@demo.service"
    unit.write_text(text.replace("/usr/bin/podman ", "/bin/true "))
    done = subprocess.run(
        [verify, "verify", "--man=no", "--recursive-errors=no", unit],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.system
def test_podman_s_generator_takes_the_quadlet(tmp_path: Path) -> None:
    """Debian 12's podman 4.3 has none."""
    places = ("/usr/libexec/podman/quadlet", "/usr/lib/podman/quadlet")
    generator = next((place for place in places if Path(place).exists()), None)
    if generator is None:
        pytest.skip("podman 4.4 or later brings the generator; no package of Debian 12 does")
    shutil.copy(QUADLET, tmp_path)
    done = subprocess.run(
        [generator, "-dryrun"],
        env={"QUADLET_UNIT_DIRS": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    made = re.search(r"^ExecStart=.*", done.stdout, re.MULTILINE)
    assert made
    for option in podman_unit.options(container()):
        if not option.startswith(("--log-driver", "--name")):
            assert option.partition("=")[2].casefold() in made.group().casefold(), option
