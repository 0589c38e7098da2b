"""docs/*.schema.json of files that UNiS writes, from their models: `python -m tools.schemas docs`.

A test holds each current. That of the chain file is `unis schema`.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from pydantic import BaseModel

from evaluation.paper.results import Results
from unis.capacity.machine import MachineFile
from unis.capacity.result import CapacityResult
from unis.parts.result import ChainParts

MODELS: Mapping[str, tuple[type[BaseModel], str]] = MappingProxyType({
    "results.schema.json": (Results, "Results of python -m evaluation paper"),
    "machine.schema.json": (MachineFile, "Machine file of unis model"),
    "model.schema.json": (CapacityResult, "model.json of unis model"),
    "profile.schema.json": (ChainParts, "profile.json of unis profile chain"),
})  # fmt: skip


def schema_text(name: str) -> str:
    """The whole file of this name."""
    model, title = MODELS[name]
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **model.model_json_schema(),
        "title": title,
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name in MODELS:
        (Path(sys.argv[1]) / name).write_text(schema_text(name))
