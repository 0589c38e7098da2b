"""Changes of a chain file: made to plain data, shown as the lines to change, written as a file."""

import copy
import io
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.util import load_yaml_guess_indent

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
    _change(data, change)
    return data


def _change(data: Any, change: Change) -> None:
    """What aliases of YAML share is changed only where the path says so."""
    uses = Counter(map(id, _parts(data)))
    for path, value in change.items():
        *way, last = path.split(".")
        part: Any = data
        for key in way:
            at: Any = int(key) if isinstance(part, list) else key
            there = part[at] if isinstance(part, list) else part.get(at)
            if there is None:
                part[at] = {}
            elif isinstance(there, dict) and uses[id(there)] > 1:
                part[at] = there.copy()
                if isinstance(there, CommentedMap):
                    part[at].yaml_set_anchor(None)
            part = part[at]
        merges = getattr(part, "merge", None)  # `<<`, which null overrides
        if value is not None or (merges and last in part):
            part[last] = value
        else:
            part.pop(last, None)


def _parts(data: Any) -> Iterator[Any]:
    """All mappings, as often as they are referred to."""
    if isinstance(data, dict):
        yield data
    if isinstance(data, dict | list):
        for each in data.values() if isinstance(data, dict) else data:
            yield from _parts(each)


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
    yaml.width = 4096
    text = file.read_text()
    data, indent, offset = load_yaml_guess_indent(text, yaml=yaml)
    if indent is not None:
        yaml.indent(sequence=indent, offset=offset)
    _change(data, advice.change)
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
