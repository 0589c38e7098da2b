"""Reads a chain file, or says everything that is wrong with it at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import ValidationError

from unis.chain import consistency
from unis.chain.document import Document, read_document
from unis.chain.explain import explained_chain
from unis.chain.graph import Graph
from unis.chain.model import API_VERSION, ChainFile
from unis.chain.problem import ChainFileError, Problem


@dataclass(frozen=True)
class LoadedChain:
    """A valid chain file and where it was."""

    path: Path
    file: ChainFile
    document: Document | None = None  # None: made by a program, without lines

    @cached_property
    def graph(self) -> Graph:
        """Its chains over its functions."""
        return Graph.of(self.file)

    @property
    def directory(self) -> Path:
        """What paths in the file are relative to."""
        stated = self.file.directory
        return Path(stated) if stated else self.path.resolve().parent

    @property
    def variables(self) -> dict[str, str]:
        """Variables of the environment that the file used."""
        return self.document.variables if self.document else {}

    @property
    def digest(self) -> str:
        """Of the text that was read; empty where there was none."""
        return self.document.digest if self.document else ""

    def error(self, problems: Sequence[Problem]) -> ChainFileError:
        """What is wrong with the file on this machine, each with its line."""
        document = self.document or Document(self.path)
        return ChainFileError(
            sorted(map(document.located, problems), key=lambda located: located.line)
        )


def load(
    path: Path, name: str | None = None, variables: Mapping[str, str] | None = None
) -> LoadedChain:
    """Reads and checks `path` by itself; whether a machine can run it, the plan says.

    A `name` takes the place of the file's; `variables` that of the environment. Raises
    ChainFileError, which has one line `file:line: key: sentence` for each problem.
    """
    document = read_document(path, variables)
    if not isinstance(document.data, dict):
        begin = f"is not a chain file; begin it with apiVersion: {API_VERSION}"
        raise ChainFileError([document.located(Problem((), begin))])
    if name is not None:
        document.data["name"] = name
    problems: list[Problem] = []
    chain_file = None
    try:
        chain_file = ChainFile.model_validate(document.data)
        problems.extend(consistency.problems(chain_file))
    except ValidationError as error:
        problems.extend(explained_chain(error, document))
    if chain_file is None or problems or document.problems:
        refused = {located.problem.location for located in document.problems}
        located = document.problems + [
            document.located(problem) for problem in problems if problem.location not in refused
        ]
        raise ChainFileError(sorted(located, key=lambda problem: problem.line))
    return LoadedChain(path, chain_file, document)
