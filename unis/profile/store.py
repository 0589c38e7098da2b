"""What was measured of a profile, kept as soon as it was: measuring goes on where it stopped.

A file for each function or chain, configuration, traffic and machine, below ~/.cache/unis/profiles.
"""

import hashlib
import json
import time
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from unis import built
from unis.plan.model import ChainPlan, Plan
from unis.profile.bounds import Reading
from unis.profile.place import Place
from unis.runtime.costs import cache_directory, cost_key, shares_of
from unis.runtime.errors import LaunchError
from unis.runtime.files import check_writable, write_atomically

# What was disturbed in more of its windows is told, and measured anew by the next call.
_DISTURBED = 0.5
_DIGITS = 16


class StoredProfile(BaseModel):
    """All of one profile that was measured so far."""

    model_config = ConfigDict(extra="forbid")

    what: dict[str, str]  # what it is of, for people
    slots: int | None = None  # of the rings that it was measured on
    began: float = 0.0  # seconds since 1970
    mpps: Reading | None = None  # with the whole cache, as fast as packets are taken
    waiting: float = 0.0  # packets in the rings meanwhile: few if the platform is the limit
    shares: dict[float, Reading] = {}  # of that, by ways
    latencies: dict[float, Reading] = {}  # p95, µs, by percent of load

    def undisturbed(self) -> "StoredProfile":
        """What of it may be gone on with."""

        def good(readings: dict[float, Reading]) -> dict[float, Reading]:
            return {
                x: reading for x, reading in readings.items() if reading.disturbed <= _DISTURBED
            }

        mpps = self.mpps if self.mpps and self.mpps.disturbed <= _DISTURBED else None
        changed = {"mpps": mpps, "shares": good(self.shares), "latencies": good(self.latencies)}
        return self.model_copy(update=changed)


def what(plan: Plan, place: Place, settings: Mapping[str, str]) -> dict[str, str]:
    """All that must be the same for a profile to be the same."""
    shares = shares_of(plan.traffic)
    functions = {
        f"function {function.name}": cost_key(function, shares) for function in plan.functions
    }
    traffic = plan.traffic.model_dump_json()
    source = getattr(plan.traffic.source, "file", None)
    if source is not None:
        traffic += f" {digest((plan.directory / source).read_bytes())}"
    return {
        **functions,
        "chain": " ".join(map(_way, plan.chains)),
        "traffic": traffic,
        "scheduler": plan.scheduler.model_dump_json(),
        **{f"machine {key}": str(value) for key, value in place.model_dump(mode="json").items()},
        "unisd": digest(built.unisd().read_bytes()),
        **settings,
    }  # fmt: skip


def _way(chain: ChainPlan) -> str:
    """The same for chains that pass the same functions alike, whatever their links are called."""
    if not chain.edges:
        return " ".join(hop.function for hop in chain.hops)
    edges = [f"{edge.origin}.{edge.out_port}>{edge.to}.{edge.in_port}" for edge in chain.edges]
    splits = [
        (branch.match, branch.weight, branch.copy)
        for part in chain.splits
        for branch in part.branches
    ]
    return f"{' '.join(edges)} {splits}"


def digest(content: bytes) -> str:
    """A name for it."""
    return hashlib.sha256(content).hexdigest()[:_DIGITS]


class Store:
    """The file of one profile."""

    def __init__(self, name: str, key: Mapping[str, str], folder: Path | None = None) -> None:
        named = digest(json.dumps(dict(key), sort_keys=True).encode())
        self.file = (folder or cache_directory() / "profiles") / f"{name}-{named}.json"
        self._key = dict(key)

    def see_that_it_can_be_kept(self) -> None:
        """Before a minute is spent on it. LaunchError if it cannot."""
        try:
            check_writable(self.file.parent)
        except OSError as error:
            raise self._cannot(error) from None

    def read(self) -> StoredProfile:
        """What there is; nothing where it cannot be read, or is of something else."""
        try:
            found = StoredProfile.model_validate_json(self.file.read_text())
        except (OSError, ValueError):  # also of bytes that are no text
            return self.new()
        return found if found.what == self._key else self.new()

    def new(self) -> StoredProfile:
        """Nothing yet."""
        return StoredProfile(what=self._key, began=time.time())

    def write(self, kept: StoredProfile) -> None:
        """LaunchError if it cannot."""
        try:
            write_atomically(self.file, kept.model_dump_json(indent=1) + "\n")
        except OSError as error:
            raise self._cannot(error) from None

    def _cannot(self, error: OSError) -> LaunchError:
        return LaunchError(
            f"cannot write {self.file}: {error.strerror}; XDG_CACHE_HOME names another folder",
            bad_input=False,
        )
