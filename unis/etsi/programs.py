"""What a function runs: the VDU of a VNFD, its image, and the program that UNiS is told.

A VDU has no command line. The program stands in two `configurable-properties` of UNiS' own, or the
user names it.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unis.chain.model import Function
from unis.etsi.tree import DataNode

PROGRAM, COMMAND = "unis-program", "unis-command"  # keys of configurable-properties
_PROPERTIES = "configurable-properties"


@dataclass(frozen=True)
class StatedPrograms:
    """Programs and images that the user names, by vnf-profile or VNFD."""

    programs: Mapping[str, Sequence[str]] = field(default_factory=dict)  # words
    commands: Mapping[str, Sequence[str]] = field(default_factory=dict)
    images: Mapping[str, str] = field(default_factory=dict)  # as the chain file is to have them
    # The folder of an image that a descriptor in a file names, as the chain file is to have it;
    # None if there is no image layout of the OCI.
    folder: Callable[[Path, str], str | None] = lambda _file, _image: None

    @property
    def ids(self) -> list[str]:
        """All that they are for."""
        return list(dict.fromkeys([*self.programs, *self.commands, *self.images]))


def function_of(
    profile: DataNode, ids: tuple[str, str], vnfd: DataNode | None, stated: StatedPrograms
) -> dict[str, Any]:
    """A function of a chain file for a vnf-profile; `ids` are those of the profile and its VNFD.

    DescriptorError: nothing names a program.
    """
    function = _stated_by_user(ids, stated)
    vdu = None if vnfd is None else _vdu(vnfd)
    if not function:
        if vnfd is None:
            raise profile.error(
                f"is of the VNFD `{ids[1]}`, which no file has; name its file too, or say "
                f"--program {ids[0]}='NAME ARGUMENTS'"
            )
        function = _stated_in(vdu) if vdu is not None else {}
        if not function:
            raise vnfd.error(
                f"names no program that UNiS could start; say --program {ids[0]}='NAME ARGUMENTS', "
                f"or --command {ids[0]}='NAME ARGUMENTS' for any DPDK program"
            )
    image = _first(stated.images, ids)
    contained = False
    if vdu is not None and vnfd is not None:
        vdu.text("id")
        contained, of_vdu = _image(vdu, vnfd, stated)
        image = image or of_vdu
    if contained or image is not None:
        function["container"] = {} if image is None else {"image": image}
    return function


def vdu_of(name: str, function: Function) -> tuple[dict[str, Any], dict[str, Any]]:
    """A VDU for a function, and further parts of its VNFD: its image and container."""
    key, words = (
        (COMMAND, function.command)
        if function.command is not None
        else (PROGRAM, [function.program or "", *function.args])
    )
    vdu: dict[str, Any] = {"id": name, "name": name}
    vdu[_PROPERTIES] = [{"key": key, "value": shlex.join(words)}]
    more: dict[str, Any] = {}
    if function.container is not None:
        more["os-container-desc"] = [{"id": name}]
        vdu["os-container-desc"] = [name]
        if function.container.image is not None:
            image = {"id": name, "name": name, "version": "1.0", "image": function.container.image}
            more["sw-image-desc"] = [image]
            more["os-container-desc"][0]["sw-image-desc"] = name
    return vdu, more


def _stated_by_user(ids: tuple[str, str], stated: StatedPrograms) -> dict[str, Any]:
    """What is said of the profile counts before what is said of its VNFD."""
    for name in ids:
        for known, key in ((stated.programs, PROGRAM), (stated.commands, COMMAND)):
            if name in known:
                return _running(key, known[name])
    return {}


def _first(known: Mapping[str, Any], ids: tuple[str, str]) -> Any:
    return next((known[name] for name in ids if name in known), None)


def _running(key: str, words: Sequence[str]) -> dict[str, Any]:
    if key == COMMAND:
        return {"command": list(words)}
    more = {"args": list(words[1:])} if len(words) > 1 else {}
    return {"program": words[0], **more}


def _vdu(vnfd: DataNode) -> DataNode | None:
    """The VDU that names a program, or the only VDU."""
    vdus = list(vnfd.keyed("vdu").values())
    naming = [vdu for vdu in vdus if _ours(vdu)]
    if len(naming) > 1:
        raise naming[1].error(
            f"names a program of UNiS, as `{naming[0].peek('id')}` does; a function is one "
            "process: keep one"
        )
    if naming:
        return naming[0]
    return vdus[0] if len(vdus) == 1 else None


def _ours(vdu: DataNode) -> dict[str, DataNode]:
    properties = vdu.get(_PROPERTIES)
    if properties is None or not isinstance(properties.value, list):  # OSM: another form
        return {}
    return {
        key: entry
        for entry in vdu.items(_PROPERTIES)
        if isinstance(entry.value, dict) and (key := entry.value.get("key")) in (PROGRAM, COMMAND)
    }


def _stated_in(vdu: DataNode) -> dict[str, Any]:
    found = _ours(vdu)
    if len(found) > 1:
        raise vdu.error(f"has {PROGRAM} and {COMMAND}; keep one")
    for key, entry in found.items():
        entry.text("key")
        value = entry.text("value")
        try:
            words = shlex.split(value or "")
        except ValueError as error:
            raise entry.error(f"is no command line ({error}); close its quotes") from None
        if not words or not words[0]:
            raise entry.error("names no program; write `value: NAME ARGUMENTS`")
        return _running(key, words)
    return {}


def _image(vdu: DataNode, vnfd: DataNode, stated: StatedPrograms) -> tuple[bool, str | None]:
    """Whether the VDU is a container, and the folder of its image."""
    containers = vnfd.keyed("os-container-desc")
    contained = False
    naming = vdu
    for name, node in vdu.texts("os-container-desc"):
        if name not in containers:
            raise node.error(f"there is no os-container-desc `{name}`; add it to the VNFD")
        if contained:
            raise node.error("is a second container; a function is one process: keep one")
        naming, contained = containers[name], True
        naming.text("id")
    named = naming.get("sw-image-desc")
    images = vnfd.keyed("sw-image-desc")
    if named is None:
        return contained, None
    name = named.as_text()
    if name not in images:
        raise named.error(f"there is no sw-image-desc `{name}`; add it to the VNFD")
    place = images[name].get("image")
    folder = None if place is None else stated.folder(vnfd.marked.document.file, place.as_text())
    if folder is None or place is None:
        reason = (
            "it names no folder with an OCI image layout, beside the descriptor; make one with "
            "skopeo and name it by --image, or the function runs a program of this machine"
        )
        named.because(reason)
        images[name].because(reason)
        return contained, None
    named.mark()
    images[name].text("id")
    place.mark()
    return contained, folder
