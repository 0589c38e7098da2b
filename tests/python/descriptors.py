"""Small descriptors of SOL006 as plain data, and what the import makes of them."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.python.strategies import Data
from unis.chain.document import read_as_written
from unis.etsi.importer import ImportedChain, Wishes, imported
from unis.etsi.programs import StatedPrograms
from unis.etsi.tree import DescriptorError

PROGRAMS = StatedPrograms({"fw": ["firewall"], "nat": ["nat", "--public", "192.0.2.1"]})


def element(vnf: str, order: int | None = None, **more: str) -> Data:
    """A constituent-profile-element in OSM's form."""
    stated = {} if order is None else {"order": order}
    return {"id": f"at-{vnf}", "constituent-base-element-id": vnf, **stated, **more}


def position(*elements: Data, **more: object) -> Data:
    """A position with all elements in one cp-profile; `match_attributes` and the like in `more`."""
    keys = {key.replace("_", "-"): value for key, value in more.items()}
    profile = {"id": "cps", "constituent-profile-elements": [*elements]}
    return {"id": "p", "cp-profile-id": [profile], **keys}


def nsd(*positions: Data, **more: object) -> Data:
    """A service of the VNFs fw and nat with one forwarding path."""
    profiles = [{"id": name, "vnfd-id": f"{name}-vnf"} for name in ("fw", "nat")]
    paths = [{"id": "web", "position-desc-id": [*positions]}]
    return {
        "id": "edge",
        "vnffgd": [{"id": "graph", "nfpd": paths}],
        "df": [{"id": "only", "vnf-profile": profiles}],
        **{key.replace("_", "-"): value for key, value in more.items()},
    }


def wrapped(*nsds: Data, vnfd: Iterable[Data] = ()) -> Data:
    """As ETSI has them in one file."""
    return {"nfv": {"nsd": [*nsds], "vnfd": [*vnfd]}}


def read(tmp_path: Path, *files: Data, wishes: Wishes | None = None) -> ImportedChain:
    """What the import makes of files with this content."""
    documents = []
    for number, data in enumerate(files):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(data, indent=1))
        documents.append(read_as_written(path))
    return imported(documents, Wishes(PROGRAMS) if wishes is None else wishes)


def refused(tmp_path: Path, *files: Data, wishes: Wishes | None = None) -> str:
    """What the import says of files that it refuses."""
    with pytest.raises(DescriptorError) as caught:
        read(tmp_path, *files, wishes=wishes)
    return str(caught.value)
