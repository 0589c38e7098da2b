"""What a run has done to the machine, on disk before it is done, so it can always be undone."""

import contextlib
import os
import tempfile
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from unis.launch.process import ProcessId

RUN_MARK = "UNIS_RUN"  # environment of every process of a run: its id


class Phase(StrEnum):
    """How far a run is."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    FAILED = "failed"  # everything is undone; the reason and the logs are kept


class NfProcess(BaseModel):
    """A network function that was started."""

    name: str
    cpu: int
    process: ProcessId


class RunState(BaseModel):
    """All that is needed to undo a run."""

    run_id: str
    name: str
    chain_file: str
    file_prefix: str  # of the DPDK group
    hugepage_dir: Path
    runtime_dir: Path  # DPDK's, of this group
    cpus: list[int]  # of the functions
    platform_cpus: list[int]  # of unisd
    phase: Phase = Phase.STARTING
    reason: str = ""
    supervisor: ProcessId
    guard: ProcessId | None = None
    unisd: ProcessId | None = None
    nfs: list[NfProcess] = []
    sysctls: dict[Path, str] = Field(default_factory=dict)  # values of before

    def live(self) -> bool:
        """Whether somebody still looks after it."""
        return self.phase != Phase.FAILED and self.supervisor.alive()


class RunDirectory:
    """The directory of one run: state, socket and logs."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def name(self) -> str:
        """What the run is called."""
        return self.path.name

    @property
    def socket(self) -> Path:
        """Where unisd listens."""
        return self.path / "engine.sock"

    @property
    def unisd_log(self) -> Path:
        """What unisd says."""
        return self.path / "unisd.log"

    @property
    def event_log(self) -> Path:
        """What the launcher did, one line each."""
        return self.path / "unis.log"

    @property
    def lock(self) -> Path:
        """Held by whoever undoes the run."""
        return self.path / "lock"

    @property
    def port_driver(self) -> Path:
        """The run's own copy of the net_unis port."""
        return self.path / "librte_net_unis.so"

    def nf_log(self, nf: str) -> Path:
        """What a function says."""
        return self.path / f"nf-{nf}.log"

    def read(self) -> RunState | None:
        """The state; None if there is none, or none that can be read."""
        try:
            return RunState.model_validate_json((self.path / "state.json").read_bytes())
        except (OSError, ValidationError):
            return None

    def write(self, state: RunState) -> None:
        """Replaces the state in one step: readers see the old or the new one."""
        handle, name = tempfile.mkstemp(dir=self.path, prefix="state.")
        try:
            with os.fdopen(handle, "w") as stream:
                stream.write(state.model_dump_json(indent=1))
            Path(name).replace(self.path / "state.json")
        except BaseException:
            with contextlib.suppress(OSError):
                Path(name).unlink()
            raise


def base_directory() -> Path:
    """Where runs are: UNIS_RUN_DIR, or /run/unis."""
    return Path(os.environ.get("UNIS_RUN_DIR") or "/run/unis").absolute()


def run_directory(name: str) -> RunDirectory:
    """The directory of the run called `name`, whether or not it exists."""
    return RunDirectory(base_directory() / name)


def all_runs() -> list[tuple[RunDirectory, RunState]]:
    """Every run that left a state, by name."""
    try:
        directories = [RunDirectory(path) for path in sorted(base_directory().iterdir())]
    except OSError:
        return []
    return [(directory, state) for directory in directories if (state := directory.read())]


def last_lines(log: Path, count: int = 8) -> str:
    """The end of a log, for an error message."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(f"    {line}" for line in lines[-count:])
