"""What is wrong with a chain file, where, and what to do."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic_core import PydanticCustomError

from unis.errors import UnisError

Location = tuple[str | int, ...]


def dotted(location: Location) -> str:
    """`("chains", 0, "name")` as `chains[0].name`."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a chain file."""

    location: Location
    sentence: str
    passing: bool = False  # right as soon as other runs are down


@dataclass(frozen=True)
class LocatedProblem:
    """A problem and the line of the file where it is."""

    file: Path
    line: int  # 0: the file as a whole
    problem: Problem

    def __str__(self) -> str:
        where = f"{dotted(self.problem.location)}: " if self.problem.location else ""
        line = f":{self.line}" if self.line else ""
        return f"{self.file}{line}: {where}{self.problem.sentence}"


class ChainFileError(UnisError):
    """A chain file that cannot be used; the text has one line for each problem."""

    def __init__(self, problems: Sequence[LocatedProblem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = list(problems)
        self.bad_input = not all(located.problem.passing for located in self.problems)


WRONG = "unis_wrong"


def wrong(sentence: str) -> PydanticCustomError:
    """An error of the value that is being validated."""
    return PydanticCustomError(WRONG, "{text}", {"text": sentence})
