"""YAML with the line of every key, so that an error can say where it is."""

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.composer import Composer, MaxDepthExceededError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from unis.chain.problem import ChainFileError, LocatedProblem, Location, Problem

_DEEPEST = 32  # levels; an alias inside its own anchor would have no end
_MOST_NODES = 20_000  # keys and values; aliases of aliases would fill the memory
_LARGEST = 1 << 20  # bytes
# The kernel ends every path, argument and variable of a process at the first NUL.
_NUL = r"a NUL character (\0), which neither paths nor arguments can have; remove it"
_INDENTATION = re.compile(r"^[ \t]*\t[ \t]*", re.MULTILINE)
_NUMBERS = (":int", ":float", ":bool")  # tags
# `${VAR}` in values, as compose has it.
_REFERENCE = re.compile(r"\$(?:(\$)|\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?-)([^{}]*))?\}|)")


@dataclass
class Document:
    """Plain data read from a YAML file and the line of each part of it."""

    file: Path
    data: Any = None
    lines: dict[Location, int] = field(default_factory=dict)  # of the key, or of the list's item
    problems: list[LocatedProblem] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)  # that values took, by name
    digest: str = ""  # SHA-256 of the text

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


class _TooManyNodesError(Exception):
    def __init__(self, line: int) -> None:
        self.line = line


class _BoundedComposer(Composer):
    """Gives up while it reads: a file of the permitted size could take minutes."""

    def __init__(self, loader: Any = None) -> None:
        super().__init__(loader)
        self.warn_double_anchors = False  # YAML allows them
        self.nodes = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """The next node with all that is in it."""
        self.nodes += 1
        if self.nodes > _MOST_NODES:
            raise _TooManyNodesError(self.parser.peek_event().start_mark.line + 1)
        return super().compose_node(parent, index)


def _fail(file: Path, line: int, sentence: str) -> ChainFileError:
    return ChainFileError([LocatedProblem(file, line, Problem((), sentence))])


def read_document(file: Path, variables: Mapping[str, str] | None = None) -> Document:
    """Reads YAML 1.2 from `file`, with `variables` (those of the environment) filled in.

    Raises ChainFileError if it cannot be read or is not YAML. Keys `x-…` are left out.
    """
    return _read(file, _text(file), os.environ if variables is None else variables)


def document_of(file: Path, text: str, variables: Mapping[str, str]) -> Document:
    """As `read_document`, of a text that has been read from `file`."""
    return _read(file, text, variables)


def read_as_written(file: Path) -> Document:
    """Reads YAML 1.2 or JSON of another origin: `$` is a character, and no key is left out.

    Raises ChainFileError, as `read_document`.
    """
    text = _text(file)
    if text.lstrip("\ufeff \t\r\n").startswith(("{", "[")):  # JSON may be indented by tabs
        text = _INDENTATION.sub(lambda match: " " * len(match[0]), text)
    return _read(file, text, None)


def _read(file: Path, text: str, variables: Mapping[str, str] | None) -> Document:
    yaml = YAML(typ="safe", pure=True)
    yaml.max_depth = _DEEPEST  # while it is read: the time grows with the square of the depth
    yaml.Composer = _BoundedComposer
    try:
        node = _composed(yaml, text)
        document = Document(file, digest=digest_of(text))
        reader = _Reader(yaml, document, variables)
        if node is not None:
            reader.document.data = reader.plain(node, ())
    except _TooManyNodesError as error:
        raise _fail(file, error.line, f"has more than {_MOST_NODES} values; use fewer") from None
    except MaxDepthExceededError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise _fail(file, line, "is nested too deeply to be read") from None
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _fail(
            file, mark.line + 1 if mark else 1, f"is not YAML: {error.problem or error.context}"
        ) from None
    except (YAMLError, ValueError) as error:
        raise _fail(file, 1, f"is not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise _fail(file, 1, "is nested too deeply to be read") from None
    return reader.document


def digest_of(text: str) -> str:
    """Of the text of a chain file: tells whether a run is what its file says."""
    return hashlib.sha256(text.encode()).hexdigest()


def _composed(yaml: YAML, text: str) -> Node | None:
    try:
        node: Node | None = yaml.compose(text)
    except (AssertionError, KeyError):  # what ruamel.yaml says to `%YAML 1.9`
        raise YAMLError("its %YAML version is neither 1.1 nor 1.2; leave it out") from None
    return node


def _text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            data = stream.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise _fail(file, 0, "is larger than 1 MB, which no chain file is")
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise _fail(file, 0, "cannot be read: it is not UTF-8 text; name a YAML file") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = error.strerror if isinstance(error, OSError) else error
        raise _fail(file, 0, f"cannot be read: {reason}; name a YAML file") from None


def _can_be_written(node: ScalarNode) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in node.value)


def _is_merge(node: Node) -> bool:
    return isinstance(node, ScalarNode) and node.value == "<<" and not node.style


@dataclass
class _Reader:
    yaml: YAML
    document: Document
    variables: Mapping[str, str] | None  # None: all is read as it is written
    nodes: int = 0

    def plain(self, node: Node, location: Location) -> Any:
        """What `node` stands for, as dicts, lists and scalars."""
        line = node.start_mark.line + 1
        self.document.lines.setdefault(location, line)
        self._count(node)
        if len(location) > _DEEPEST:
            raise _fail(self.document.file, line, "is nested too deeply to be read")
        if isinstance(node, MappingNode):
            return self._mapping(node, location)
        if isinstance(node, SequenceNode):
            return [self.plain(item, (*location, at)) for at, item in enumerate(node.value)]
        return self._scalar(node, location)

    def _mapping(self, node: MappingNode, location: Location) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        merged: list[MappingNode] = []
        for key_node, value_node in node.value:
            if _is_merge(key_node):
                merged += self._mappings_in(value_node)
                continue
            key = self._key(key_node)
            here = (*location, key)
            line = key_node.start_mark.line + 1
            if key in result:
                twice = f"stands here twice, first in line {self.document.lines[here]}; keep one"
                self._problem(line, here, twice)
            elif not (self.variables is not None and str(key).startswith("x-")):
                self.document.lines.setdefault(here, line)
                result[key] = self.plain(value_node, here)
        for other in merged:
            for key, value in self._mapping(other, location).items():
                result.setdefault(key, value)
        return result

    def _mappings_in(self, node: Node) -> list[MappingNode]:
        """What `<<:` brings in: one mapping or a list of them."""
        found = node.value if isinstance(node, SequenceNode) else [node]
        for each in found:
            self._count(each)
            if not isinstance(each, MappingNode):
                line = each.start_mark.line + 1
                raise _fail(self.document.file, line, "<< is followed by no mapping; name one")
        return list(found)

    def _count(self, node: Node) -> None:
        self.nodes += 1
        if self.nodes > _MOST_NODES:
            raise _fail(
                self.document.file,
                node.start_mark.line + 1,
                f"has more than {_MOST_NODES} values once its aliases are written out; use fewer",
            )

    def _key(self, node: Node) -> Any:
        if not isinstance(node, ScalarNode):
            return "?"
        if "\0" in node.value:  # a key is a name: no sentence could print it
            raise _fail(self.document.file, node.start_mark.line + 1, f"has a key with {_NUL}")
        return self._construct(self._characters(node))

    def _scalar(self, node: Node, location: Location) -> Any:
        if self.variables is not None and isinstance(node, ScalarNode) and "$" in node.value:
            line = node.start_mark.line + 1
            try:
                filled = _interpolated(node.value, self.variables, self.document.variables)
            except _InterpolationError as error:
                self._problem(line, location, str(error))
                return node.value
            node = self._as_written(node, filled)
        if isinstance(node, ScalarNode) and "\0" in node.value:
            self._problem(node.start_mark.line + 1, location, f"contains {_NUL}")
            return node.value.replace("\0", "")
        return self._construct(self._characters(node))

    def _characters(self, node: Node) -> Node:
        """JSON writes a character beyond 16 bits as two escapes, which stay two halves in YAML."""
        if self.variables is None and isinstance(node, ScalarNode) and not _can_be_written(node):
            pairs = node.value.encode("utf-16-le", "surrogatepass")
            node.value = pairs.decode("utf-16-le", "replace")
        return node

    def _as_written(self, node: ScalarNode, value: str) -> ScalarNode:
        """The node as if `value` stood in the file: `cpu: ${CPU}` is a number, and `"${CPU}"` too,
        for in braces the quotes are YAML's, not the writer's.
        """
        tag = node.ctag
        whole = _REFERENCE.fullmatch(node.value)
        if not node.style or (whole and whole[2]):  # nothing stands beside the variable
            found = self.yaml.resolver.resolve(ScalarNode, value, (True, False))
            tag = found if not node.style or str(found).endswith(_NUMBERS) else tag
        return ScalarNode(
            tag=tag, value=value, start_mark=node.start_mark, end_mark=node.end_mark,
            style=node.style,
        )  # fmt: skip

    def _construct(self, node: Node) -> Any:
        # The constructor keeps nodes that it is busy with; each scalar is a document of its own.
        return self.yaml.constructor.construct_document(node)

    def _problem(self, line: int, location: Location, sentence: str) -> None:
        self.document.problems.append(
            LocatedProblem(self.document.file, line, Problem(location, sentence))
        )


class _InterpolationError(ValueError):
    """The text says which variable is missing, or what is no reference."""


def _interpolated(text: str, variables: Mapping[str, str], used: dict[str, str]) -> str:
    """`text` with `${VAR}` and `${VAR:-default}` filled in; `$$` stands for a dollar.

    Adds to `used` the variables that are set.
    """

    def fill(match: re.Match[str]) -> str:
        dollar, name, sign, default = match.groups()
        if dollar:
            return "$"
        if name is None:
            raise _InterpolationError(
                f"`{text}` has a $ that begins no ${{NAME}}; write $$ for a dollar"
            )
        value = variables.get(name)
        if value is not None:
            used[name] = value
        # `:-` stands in for an empty variable too, `-` only for one that is not set.
        if value or (value is not None and sign != ":-"):
            return value
        if sign:
            return str(default)
        raise _InterpolationError(
            f"the variable {name} is not set; set it, or write ${{{name}:-default}}"
        )

    return _REFERENCE.sub(fill, text)
