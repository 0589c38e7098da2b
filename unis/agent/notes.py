"""What an agent must find again when it is started anew: written before it acts."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter

from unis.agent.fair import WayShares
from unis.errors import UnisError
from unis.isolate.state import Record
from unis.runtime.files import write_atomically

_FILE = "agent.json"


@dataclass(frozen=True)
class Standing:
    """Whether a promise is broken, and for how many looks in a row it was otherwise."""

    broken: bool = False
    other: int = 0

    @property
    def matters(self) -> bool:
        """Else it is as one that was never looked at."""
        return self.broken or self.other > 0

    def after(self, *, bad: bool, patience: int) -> Self:
        """One look more: it takes `patience` in a row to be broken, or kept again."""
        if bad == self.broken:
            return replace(self, other=0)
        if self.other + 1 >= patience:
            return replace(self, broken=bad, other=0)
        return replace(self, other=self.other + 1)


@dataclass(frozen=True)
class OnDemandState:
    """How far functions on demand were divided."""

    shares: WayShares = field(default_factory=lambda: WayShares(None))
    looks: int = 0  # since they were divided so
    done: bool = False  # no further step would help
    told: tuple[str, ...] = ()  # promises that are broken all the same, as was told


@dataclass(frozen=True)
class Notes:
    """All of it."""

    record: Record | None = None  # of the tree, for undoing
    on_demand: OnDemandState = field(default_factory=OnDemandState)
    standing: dict[str, Standing] = field(default_factory=dict)  # of promises
    server: str = ""  # whose agent wrote it, as xeon:0


_NOTES = TypeAdapter(Notes)


class NotesFile:
    """In the agent's folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _FILE

    def read(self) -> Notes:
        """Empty where there are none yet; UnisError where they cannot be read."""
        try:
            return _NOTES.validate_json(self._path.read_bytes())
        except FileNotFoundError:
            return Notes()
        except (OSError, ValueError) as error:
            raise UnisError(
                f"{self._path} cannot be read ({error}): remove it, and groups `unis-…` that are "
                "left in resctrl with rmdir"
            ) from None

    def write(self, notes: Notes) -> None:
        """In one step. UnisError where there is no room."""
        try:
            write_atomically(self._path, _NOTES.dump_json(notes).decode() + "\n")
        except OSError as error:
            raise UnisError(
                f"cannot write {self._path}: {error.strerror}", bad_input=False
            ) from None
