"""What a program needs is read from its files: no code of it runs for that."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import need
from unis.container.elf import read_elf
from unis.container.libraries import files_needed
from unis.container.model import ImageError

pytestmark = pytest.mark.system


@pytest.fixture(autouse=True)
def _compiler() -> None:
    need(shutil.which("cc") is not None, "needs a C compiler")


def compiled(target: Path, source: str, *words: str) -> Path:
    target.parent.mkdir(exist_ok=True)
    subprocess.run(
        ["cc", "-xc", "-", *(["-shared", "-fPIC"] if target.suffix else []), "-o", target, *words],
        input=source, text=True, check=True, cwd=target.parent,
    )  # fmt: skip
    return target


def test_no_auditor_of_a_program_runs(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    spy = compiled(
        tmp_path / "spy.so",
        "#include <fcntl.h>\n"
        "unsigned la_version(unsigned version) {"
        f' creat("{ran}", 0600); return version; }}',
    )
    program = compiled(tmp_path / "x", "int main() { return 0; }", f"-Wl,--audit={spy}")
    files = files_needed([program])
    assert not ran.exists()
    assert spy not in files
    assert "libc.so.6" in {file.name for file in files}
    subprocess.run([program], check=True)
    assert ran.exists(), "it would have run"


@pytest.mark.parametrize("tags", ["--enable-new-dtags", "--disable-new-dtags"])
def test_libraries_are_found_where_the_loader_finds_them(tmp_path: Path, tags: str) -> None:
    """Folders of a DT_RPATH, and not of a DT_RUNPATH, are also searched for what libraries need."""
    library = tmp_path / "lib" / "libinner.so"
    inner = compiled(library, "int inner() { return 3; }", "-Wl,-soname,libinner.so")
    outer = compiled(
        tmp_path / "lib" / "libouter.so", "int inner(); int outer() { return inner(); }",
        "-L.", "-linner",
    )  # fmt: skip
    program = compiled(
        tmp_path / "x", "int outer(); int main() { return outer(); }",
        "-Llib", "-louter", "-Wl,-rpath,$ORIGIN/lib", "-Wl,-rpath-link,lib", f"-Wl,{tags}",
    )  # fmt: skip
    code = subprocess.run([program], check=False, stderr=subprocess.DEVNULL).returncode
    if tags == "--disable-new-dtags":
        assert code == 3
        assert {inner, outer} <= {*files_needed([program])}
    else:
        assert code == 127, "the loader does not find libinner.so"
        with pytest.raises(ImageError, match=r"needs libinner\.so, which is in no folder"):
            files_needed([program])


def test_what_is_found_is_what_ldd_finds() -> None:
    program = Path(sys.executable).resolve()
    told = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    files = {word for word in told.split() if word.startswith("/")}
    assert {str(file) for file in files_needed([program])} == files | {"/etc/ld.so.cache"}


def test_a_damaged_file_is_none(tmp_path: Path) -> None:
    whole = compiled(tmp_path / "x", "int main() { return 0; }").read_bytes()
    damaged = tmp_path / "damaged"
    for at in range(1024):
        damaged.write_bytes(whole[:at] + b"\xff" * 8 + whole[at + 8 :])
        read_elf(damaged)  # whatever it says
        damaged.write_bytes(whole[:at])
        read_elf(damaged)
    assert read_elf(Path("/dev/zero")) is None
