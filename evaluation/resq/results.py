"""Results of `python -m evaluation resq`, as in results.json."""

from pydantic import BaseModel


class Placed(BaseModel):
    """Machines for one workload, by every method; `paper`: what its figures 8 and 9 print."""

    promises: int
    greedy: int
    exact: int
    bound: int
    seconds: float  # of the exact method
    greedy_seconds: float
    wrong: int  # that the verifier found, of both; 0
    off: int  # promises broken where profiles are off by 1.5 points, in the worst of all draws
    predictor: int  # as the authors' program reads the rule
    predictor_named: int  # each function under its own name
    predictor_second: int  # as the text reads
    dynamic: int  # an instance is added where demand is not met
    dynamic_headroom: int  # where 95 % of what instances can pass does not meet it
    dynamic_violated: float  # % of promises, by latency
    agnostic: int  # packed by solo throughput
    agnostic_shared_violated: float  # % of promises, by more than 5 %
    agnostic_split_violated: float
    agnostic_shared_short: float  # % by throughput alone
    agnostic_split_short: float
    paper: dict[str, int]


class Beside(BaseModel):
    """A number of the paper's and ours."""

    here: float
    paper: float


class Models(BaseModel):
    """How the models do on figures that they were not, or were, chosen by."""

    worst_neighbours: dict[str, Beside]  # % of throughput lost (Fig. 2, 64 B); nothing is chosen
    overestimates: dict[str, Beside]  # points, of the predictor (Fig. 10); δ is chosen by them
    penalty_ns: float  # δ


class Shared(BaseModel):
    """Machines where each promise needs 10 to 60 % of a core."""

    exact: int  # with a core for each
    shared: int
    bound: int | None  # of shared, by its model
    wrong: int  # that the verifier found, or was refused; 0
    seconds: float
    fewer: float  # of the former, by it
    simulated: int  # instances, each on its core under the scheduler on virtual time
    late_or_short: int  # of these, whose promise is not kept
    closest: float  # p95 by what is promised, at most


class Scale(BaseModel):
    """Many promises."""

    slos: int
    servers: int
    machines: int
    bound: int
    seconds: float
    gap: float
    wrong: int


class Sockets(BaseModel):
    """Machines for one workload."""

    promises: int
    greedy: int
    exact: int
    bound: int
    seconds: float  # of the exact method
    wrong: int  # that the verifier found, or was refused; 0


class CacheArm(BaseModel):
    """All functions of each server in one last-level cache that is modelled."""

    servers: int
    played: int  # that differ
    broken: dict[str, int]  # promises, by function
    broken_when_off: int  # in the worst of all draws of profiles that are off by 1.5 points
    lost: dict[str, float]  # by function, of what it passes alone: the most that one passes less


class InCaches(BaseModel):
    """Our functions, placed by profiles of the cache model and played in caches of it."""

    promises: int
    bound: int  # no placement with masks for each uses fewer servers
    wrong: int  # that the verifier found; 0
    kept_apart: str  # the arm in which every promise is to be kept
    arms: dict[str, CacheArm]


class Admission(BaseModel):
    """Random workloads, each with machines and profiles of its own."""

    workloads: int
    promises: int  # of each, in an order by chance
    median: float  # machines by the fewest
    worst: float
    wrong: int  # that the verifier found, or refused; 0


class Answers(BaseModel):
    """How long a request takes; in a cluster of this size, while promises come."""

    slos: int
    servers: int
    machines: int  # used at last
    median_ms: float
    p99_ms: float
    worst_ms: float  # of the CPU's time; others' work is not in it
    prices_ms: float  # at most, between two requests


class Resq(BaseModel):
    """results.json."""

    schema_version: int = 5
    placement: dict[str, Placed]
    models: Models
    shared: dict[str, Shared]
    sockets: dict[str, Sockets]  # cores, sockets and memory bandwidth, by workload
    caches: InCaches | None  # None: Valgrind is missing, under which functions are recorded
    scale: Scale
    admission: Admission
    answers: Answers
