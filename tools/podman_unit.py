"""A unit of systemd that calls `podman run` with what a quadlet says, for podman without quadlets.

`python -m tools.podman_unit FILE.container` prints it; with `--options` before FILE, only the
options of `podman run`, one a line. It knows the keys that packaging/image uses. An unknown key is
an error, so that no option is lost.
"""

import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_ABOUT = """\
# Made of {name} by `make docs`: a chain as a service in a container, for podman without quadlets.
#
#   cp packaging/image/{unit} /etc/systemd/system/
#   systemctl daemon-reload
#   systemctl enable --now unis@NAME
#
# Devices that {name} calls optional are left out.
"""
_ALWAYS = ("--rm", "--replace", "--detach", "--cgroups=split", "--sdnotify=conmon")
_SERVICE = (
    "Type=notify",
    "NotifyAccess=all",
    "KillMode=mixed",
    "Delegate=yes",
    "Environment=PODMAN_SYSTEMD_UNIT=%n",
)
_ID_FILE = "%t/%N.cid"
_END = f"/usr/bin/podman rm --volumes --force --ignore --cidfile={_ID_FILE}"


class QuadletError(ValueError):
    """A line of a quadlet that is none, or that cannot be told to `podman run`."""


@dataclass(frozen=True)
class Section:
    """Keys and values in their order; a key may stand several times."""

    name: str
    entries: tuple[tuple[str, str], ...]

    def all(self, key: str) -> list[str]:
        """Each value of a key."""
        return [value for name, value in self.entries if name == key]


def parse(text: str) -> list[Section]:
    """The sections of a unit or quadlet; QuadletError with the number of the line."""
    found: list[tuple[str, list[tuple[str, str]]]] = []
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#;":
            continue
        if stripped[0] == "[" and stripped[-1] == "]":
            found.append((stripped[1:-1], []))
            continue
        key, equals, value = stripped.partition("=")
        if not equals or not key or not found:
            raise QuadletError(f"line {number}: expected KEY=VALUE below a [Section], not {line!r}")
        found[-1][1].append((key.rstrip(), value.lstrip()))
    return [Section(name, tuple(entries)) for name, entries in found]


def render(sections: list[Section]) -> str:
    """What `parse` reads again."""
    return "\n".join(
        "".join([f"[{section.name}]\n", *(f"{key}={value}\n" for key, value in section.entries)])
        for section in sections
    )


def options(container: Section) -> list[str]:
    """Of `podman run`, in the order of the quadlet; QuadletError for a key that is not known."""
    found: list[str] = []
    for key, value in container.entries:
        if key in ("Image", "Exec"):
            continue
        if key not in _OPTIONS:
            known = ", ".join(["Image", "Exec", *_OPTIONS])
            raise QuadletError(f"[Container] {key} is not known; expected {known}")
        found += _OPTIONS[key](value)
    return found


def unit(quadlet: Path) -> str:
    """The unit's text; QuadletError where the quadlet has a flaw."""
    sections = {section.name: section for section in parse(quadlet.read_text())}
    missing = [name for name in ("Unit", "Container", "Service", "Install") if name not in sections]
    if missing:
        raise QuadletError(f"{quadlet}: section [{missing[0]}] is missing")
    container = sections["Container"]
    image = container.all("Image")
    if len(image) != 1:
        raise QuadletError(f"{quadlet}: [Container] needs one Image, not {len(image)}")
    words = ["/usr/bin/podman", "run", *_ALWAYS, f"--cidfile={_ID_FILE}", *options(container)]
    words += [image[0], *(word for value in container.all("Exec") for word in shlex.split(value))]
    service = [
        *(tuple(line.split("=", 1)) for line in _SERVICE),
        ("ExecStart", " \\\n  ".join(words)),
        ("ExecStop", _END),
        ("ExecStopPost", f"-{_END}"),
        *sections["Service"].entries,
    ]
    made = Section("Service", tuple((key, value) for key, value in service))
    about = _ABOUT.format(name=quadlet.name, unit=f"{quadlet.stem}.service")
    return about + render([sections["Unit"], made, sections["Install"]])


def _capabilities(option: str) -> Callable[[str], Iterator[str]]:
    return lambda value: (f"--{option}={name}" for name in value.split())


def _plain(option: str) -> Callable[[str], Iterator[str]]:
    return lambda value: iter([f"--{option}={value}"])


def _device(value: str) -> Iterator[str]:
    if not value.startswith("-"):  # optional: `podman run` has no such option
        yield f"--device={value}"


def _label(value: str) -> Iterator[str]:
    if value == "true":
        yield "--security-opt=label=disable"


_OPTIONS: dict[str, Callable[[str], Iterator[str]]] = {
    "ContainerName": _plain("name"),
    "LogDriver": _plain("log-driver"),
    "Volume": _plain("volume"),
    "AddDevice": _device,
    "Network": _plain("network"),
    "PodmanArgs": lambda value: iter(shlex.split(value)),
    "SecurityLabelDisable": _label,
    "DropCapability": _capabilities("cap-drop"),
    "AddCapability": _capabilities("cap-add"),
}


def main(words: list[str]) -> None:
    """Prints the unit, or with `--options` the options."""
    quadlet = Path(words[-1])
    if words[:-1] == ["--options"]:
        parsed = parse(quadlet.read_text())
        container = next(section for section in parsed if section.name == "Container")
        sys.stdout.write("".join(f"{option}\n" for option in options(container)))
    else:
        sys.stdout.write(unit(quadlet))


if __name__ == "__main__":
    main(sys.argv[1:])
