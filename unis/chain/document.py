"""YAML with the line of every key, so that an error can say where it is."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from unis.chain.problem import ChainFileError, LocatedProblem, Location, Problem

_DEEPEST = 32  # levels; an alias inside its own anchor would have no end


@dataclass
class Document:
    """Plain data read from a YAML file and the line of each part of it."""

    file: Path
    data: Any = None
    lines: dict[Location, int] = field(default_factory=dict)  # of the key, or of the list's item
    problems: list[LocatedProblem] = field(default_factory=list)

    def actual(self, location: Location) -> Location:
        """`location` without what is not in the file (names of variants), but for its last part."""
        there: Location = ()
        for index, part in enumerate(location):
            if (*there, part) in self.lines or index == len(location) - 1:
                there = (*there, part)
        return there

    def line(self, location: Location) -> int:
        """The line of the part at `location`, or of the nearest part around it."""
        while location and location not in self.lines:
            location = location[:-1]
        return self.lines.get(location, 1)

    def located(self, problem: Problem) -> LocatedProblem:
        """`problem` with its line."""
        return LocatedProblem(self.file, self.line(problem.location), problem)


def _fail(file: Path, line: int, sentence: str) -> ChainFileError:
    return ChainFileError([LocatedProblem(file, line, Problem((), sentence))])


def read_document(file: Path) -> Document:
    """Reads YAML 1.2 from `file`; ChainFileError if it cannot be read or is no YAML."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise _fail(file, 1, f"cannot be read: {reason}; name a chain file") from None
    yaml = YAML(typ="safe", pure=True)
    try:
        node = yaml.compose(text)
        document = Document(file)
        if node is not None:
            document.data = _plain(yaml, node, (), document)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _fail(
            file, mark.line + 1 if mark else 1, f"is no YAML: {error.problem or error.context}"
        ) from None
    except (YAMLError, ValueError) as error:
        raise _fail(file, 1, f"is no YAML: {' '.join(str(error).split())}") from None
    return document


def _plain(yaml: YAML, node: Node, location: Location, document: Document) -> Any:
    document.lines.setdefault(location, node.start_mark.line + 1)
    if len(location) > _DEEPEST:
        raise _fail(document.file, node.start_mark.line + 1, "is nested too deeply to be read")
    if isinstance(node, MappingNode):
        return _mapping(yaml, node, location, document)
    if isinstance(node, SequenceNode):
        return [
            _plain(yaml, item, (*location, index), document)
            for index, item in enumerate(node.value)
        ]
    return _scalar(yaml, node)


def _mapping(
    yaml: YAML, node: MappingNode, location: Location, document: Document
) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key_node, value_node in node.value:
        key = _scalar(yaml, key_node) if isinstance(key_node, ScalarNode) else "?"
        here = (*location, key)
        if key in result:
            twice = f"stands here twice, first in line {document.lines[here]}; keep one"
            line = key_node.start_mark.line + 1
            document.problems.append(LocatedProblem(document.file, line, Problem(here, twice)))
            continue
        document.lines[here] = key_node.start_mark.line + 1
        result[key] = _plain(yaml, value_node, here, document)
    return result


def _scalar(yaml: YAML, node: Node) -> Any:
    # The constructor keeps nodes that it is busy with; each scalar is a document of its own.
    return yaml.constructor.construct_document(node)
