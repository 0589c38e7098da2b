"""Changes of a chain file: made to plain data, shown as the lines to change, written as a file."""

import copy
import io
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from unis.chain.load import LoadedChain
from unis.chain.model import ChainFile
from unis.parts.advised import Advice, Change


def value_at(data: Any, path: str) -> Any:
    """None: nothing stands there."""
    for key in path.split("."):
        if isinstance(data, list):
            data = data[int(key)] if int(key) < len(data) else None
        else:
            data = data.get(key) if isinstance(data, dict) else None
    return data


def changed(data: Any, change: Change) -> Any:
    """A copy with every value of the change in its place."""
    data = copy.deepcopy(data)
    for path, value in change.items():
        *way, last = path.split(".")
        part = data
        for key in way:
            if isinstance(part, list):
                part = part[int(key)]
            else:
                if part.get(key) is None:
                    part[key] = {}
                part = part[key]
        if value is None:
            part.pop(last, None)
        else:
            part[last] = value
    return data


def changed_chain(chain: LoadedChain, change: Change) -> LoadedChain:
    """The same chain with the change: valid by itself, and not planned yet."""
    data = chain.document.data if chain.document else _stated(chain.file)
    return LoadedChain(chain.path, ChainFile.model_validate(changed(data, change)))


def lines_of(file: ChainFile, change: Change) -> str:
    """The lines to change, as YAML: of a link its ends too."""
    told: dict[str, Any] = {}
    links: dict[int, dict[str, Any]] = {}
    left_out = ""
    for path, value in change.items():
        way = path.split(".")
        if way[0] == "links":
            link = file.links[int(way[1])]
            of_link = links.setdefault(int(way[1]), {"from": link.origin, "to": link.to})
            if value is not None:
                of_link[way[2]] = value
        elif value is not None:
            told = changed(told, {path: value})
        if value is None:
            left_out += f"# without {path}\n"
    if links:
        told["links"] = [links[at] for at in sorted(links)]
    return left_out + _yaml(told)


def advised_text(file: Path, advice: Advice) -> str:
    """The user's file with the advice followed; comments, anchors and variables stay."""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 100
    data = changed(yaml.load(file.read_text()), advice.change)
    out = io.StringIO()
    yaml.dump(data, out)
    return (
        f"# {file.name}, with one change: {advice.what}\n"
        f"# Paths in it are relative to {file.resolve().parent}: put it there.\n{out.getvalue()}"
    )


def _stated(file: ChainFile) -> dict[str, Any]:
    return file.model_dump(mode="json", by_alias=True, exclude_unset=True)


def _yaml(data: object) -> str:
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = None
    yaml.width = 200
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    out = io.StringIO()
    yaml.dump(data, out)
    return out.getvalue()
