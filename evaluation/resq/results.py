"""Results of `python -m evaluation resq`, as in results.json."""

from pydantic import BaseModel


class Placed(BaseModel):
    """Machines for one workload by method. `paper`: the numbers of its figures 8 and 9."""

    promises: int
    greedy: int
    exact: int
    bound: int
    seconds: float  # of the exact method
    greedy_seconds: float
    wrong: int  # problems that the verifier found in both placements; 0
    off: int  # promises broken by profiles that are wrong by 1.5 points, in the worst draw
    predictor: int  # by the authors' program
    predictor_named: int  # by the program with the right functions
    predictor_second: int  # by the text of the paper
    dynamic: int  # elastic scaling
    dynamic_headroom: int  # elastic scaling with instances loaded to 95 % at most
    dynamic_violated: float  # % of promises, in latency
    agnostic: int  # packed by solo throughput
    agnostic_shared_violated: float  # % of promises, missed by more than 5 %
    agnostic_split_violated: float
    agnostic_shared_short: float  # %, in throughput alone
    agnostic_split_short: float
    paper: dict[str, int]


class ReproducedNumber(BaseModel):
    """A number here, and in the paper."""

    here: float
    paper: float


class Models(BaseModel):
    """The models, compared with figures of the paper."""

    # % of throughput lost (Fig. 2, 64 B); not used to fit
    worst_neighbours: dict[str, ReproducedNumber]
    # Percentage points, of the predictor (Fig. 10); δ is fitted to them.
    overestimates: dict[str, ReproducedNumber]
    penalty_ns: float  # δ


class Shared(BaseModel):
    """Machines where each promise needs 10 to 60 % of a core."""

    exact: int  # with a core for each
    shared: int
    bound: int | None  # lower bound of `shared`, by its model
    wrong: int  # problems that the verifier found, and refused promises; 0
    seconds: float
    fewer: float  # 1 - shared ÷ exact
    simulated: int  # instances, each on its core under the scheduler on virtual time
    late_or_short: int  # simulated instances whose promise is not kept
    closest: float  # maximum of p95 ÷ promise


class LargePlacement(BaseModel):
    """Placement of many promises."""

    slos: int
    servers: int
    machines: int
    bound: int
    seconds: float
    gap: float
    wrong: int  # problems that the verifier found; 0


class Sockets(BaseModel):
    """Machines for one workload with sockets and memory bandwidth."""

    promises: int
    greedy: int
    exact: int
    bound: int
    seconds: float  # of the exact method
    wrong: int  # problems that the verifier found, and refused promises; 0


class CacheArm(BaseModel):
    """All functions of a server in one modelled last-level cache."""

    servers: int
    played: int  # distinct servers that were simulated
    broken: dict[str, int]  # promises, by function
    broken_when_off: int  # by profiles that are wrong by 1.5 points, in the worst draw
    lost: dict[str, float]  # largest loss ÷ solo throughput, by function


class InCaches(BaseModel):
    """Our functions, placed by profiles of the cache model and simulated in modelled caches."""

    promises: int
    bound: int  # minimum number of servers with a mask per function
    wrong: int  # problems that the verifier found; 0
    kept_apart: str  # the arm that must keep every promise
    arms: dict[str, CacheArm]


class Admission(BaseModel):
    """Online admission of random workloads, each with its own machines and profiles."""

    workloads: int
    promises: int  # per workload, in random order
    median: float  # machines ÷ the fewest possible
    worst: float
    wrong: int  # problems that the verifier found, and refused promises; 0


class Answers(BaseModel):
    """The time of a request, in a cluster that fills up."""

    slos: int
    servers: int
    machines: int  # used at the end
    median_ms: float
    p99_ms: float
    worst_ms: float  # all three in CPU time
    prices_ms: float  # longest update of prices, between two requests


class Resq(BaseModel):
    """results.json."""

    schema_version: int = 5
    placement: dict[str, Placed]
    models: Models
    shared: dict[str, Shared]
    sockets: dict[str, Sockets]  # cores, sockets and memory bandwidth, by workload
    caches: InCaches | None  # None: Valgrind is missing, under which functions are recorded
    scale: LargePlacement
    admission: Admission
    answers: Answers
