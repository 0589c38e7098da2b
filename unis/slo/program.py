"""Linear programs, with whole numbers or without: the one module that knows HiGHS."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import highspy
import numpy as np

_EXACT = 1e-6  # a gap of the objective that is no gap


class InfeasibleError(ValueError):
    """No values keep all rows within their limits."""


@dataclass(frozen=True)
class Solution:
    """The best values that were found."""

    values: Sequence[float]  # of each column
    objective: float
    bound: float  # no values have a lower objective; minus infinity where none was proven
    # Where relaxed: what the objective gains with the limits of each row, and with each column.
    duals: Sequence[float]
    reduced_costs: Sequence[float]


class Program:
    """Minimises the cost of columns, within the limits of rows.

    Rows and columns are added at any time. HiGHS keeps its basis, so a program that has grown is
    solved from where it was.
    """

    def __init__(self) -> None:
        self._solver = highspy.Highs()
        self._solver.silent()
        self._rows: list[tuple[float, float]] = []  # limits of those that HiGHS does not have yet
        self._columns: list[tuple[float, float, Mapping[int, float], bool]] = []
        self._row_count = self._column_count = 0

    def row(self, least: float = 0.0, most: float = math.inf) -> int:
        """Adds a row with these limits; returns its index."""
        self._rows.append((least, most))
        self._row_count += 1
        return self._row_count - 1

    def column(
        self,
        cost: float,
        rows: Mapping[int, float],
        most: float = math.inf,
        *,
        whole: bool = False,
    ) -> int:
        """Adds a column, from 0 to `most`; returns its index. `rows`: what 1 of it adds to each."""
        self._columns.append((cost, most, rows, whole))
        self._column_count += 1
        return self._column_count - 1

    def limit(self, columns: Iterable[int], most: float = math.inf) -> None:
        """Sets the upper limit of columns."""
        self._pass_on()
        for column in columns:
            self._solver.changeColBounds(column, 0.0, most)

    def fix(self, values: Mapping[int, float]) -> None:
        """Leaves these columns one value each, until `limit`."""
        for column, value in values.items():
            self._solver.changeColBounds(column, value, value)

    def solve(
        self,
        seconds: float = math.inf,
        *,
        relaxed: bool = False,
        gap: float = 0.0,
        absolute_gap: float = _EXACT,
        enough: float = -math.inf,
        nodes: int = highspy.kHighsIInf,
    ) -> Solution | None:
        """Returns None where nothing was found in time. Raises InfeasibleError.

        `relaxed`: whole numbers need not be whole. `gap` (relative) or `absolute_gap` from the
        bound, or an objective of `enough`, is good enough.
        """
        self._pass_on()
        solver = self._solver
        # The time limit of HiGHS counts from when a solver was made.
        limits = {
            "time_limit": solver.getRunTime() + max(0.1, seconds),
            "solve_relaxation": relaxed,
            "mip_rel_gap": gap,
            "mip_abs_gap": absolute_gap,
            "objective_target": enough,
            "mip_max_nodes": nodes,
        }
        for name, value in limits.items():
            solver.setOptionValue(name, value)
        solver.run()
        status, info = solver.getModelStatus(), solver.getInfo()
        if status == highspy.HighsModelStatus.kInfeasible:
            raise InfeasibleError("no values keep all rows within their limits")
        if relaxed and status != highspy.HighsModelStatus.kOptimal:
            return None
        if not info.primal_solution_status:
            return None
        found, objective = solver.getSolution(), info.objective_function_value
        bound = objective if relaxed else info.mip_dual_bound
        return Solution([*found.col_value], objective, bound, [*found.row_dual], [*found.col_dual])

    def _pass_on(self) -> None:
        """Gives HiGHS what it does not have yet."""
        if self._rows:
            least, most = np.array(self._rows, np.float64).T.copy()
            none, nothing = np.array([], np.int32), np.array([], np.float64)
            self._solver.addRows(len(least), least, most, 0, none, none, nothing)
        if self._columns:
            costs, most, rows, whole = zip(*self._columns, strict=True)
            starts = np.cumsum([0, *map(len, rows)], dtype=np.int32)
            indices = np.array([row for coefficients in rows for row in coefficients], np.int32)
            values = np.array(
                [value for coefficients in rows for value in coefficients.values()], np.float64
            )
            self._solver.addCols(
                len(costs), np.array(costs, np.float64), np.zeros(len(costs)),
                np.array(most, np.float64), len(indices), starts[:-1], indices, values,
            )  # fmt: skip
            first = self._column_count - len(costs)
            for column in (first + number for number, is_whole in enumerate(whole) if is_whole):
                self._solver.changeColIntegrality(column, highspy.HighsVarType.kInteger)
        self._rows, self._columns = [], []
