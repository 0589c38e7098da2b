"""Linear programs, column by column, for HiGHS."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import highspy
import numpy as np


@dataclass(frozen=True)
class Solved:
    """The best there is of a program without whole numbers."""

    values: Sequence[float]  # of each column
    duals: Sequence[float]  # of each row: by so much the cost of all grows with its bounds


@dataclass
class LinearProgram:
    """Minimises the cost of columns, each at least 0, within the bounds of rows."""

    lower: Sequence[float]  # of each row
    upper: Sequence[float]
    _most: list[float] = field(default_factory=list)
    _costs: list[float] = field(default_factory=list)
    _starts: list[int] = field(default_factory=lambda: [0])
    _rows: list[int] = field(default_factory=list)
    _values: list[float] = field(default_factory=list)

    def add(self, cost: float, rows: Mapping[int, float], most: float = math.inf) -> None:
        """A column: its cost, what one of it adds to each row, and how many there may be."""
        self._costs.append(cost)
        self._most.append(most)
        self._rows += [*rows]
        self._values += [*rows.values()]
        self._starts.append(len(self._rows))

    def highs(self, *, whole: bool = False) -> highspy.HighsLp:
        """As HiGHS has it; `whole`: of each column a whole number."""
        count = len(self._costs)
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = count, len(self.lower)
        lp.col_cost_ = np.array(self._costs)
        lp.col_lower_, lp.col_upper_ = np.zeros(count), np.array(self._most)
        lp.row_lower_, lp.row_upper_ = np.array(self.lower), np.array(self.upper)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        lp.a_matrix_.start_ = np.array(self._starts)
        lp.a_matrix_.index_ = np.array(self._rows)
        lp.a_matrix_.value_ = np.array(self._values)
        if whole:
            lp.integrality_ = [highspy.HighsVarType.kInteger] * count
        return lp

    def solve(self) -> Solved | None:
        """None: there is no solution."""
        solver = highspy.Highs()
        solver.silent()
        solver.passModel(self.highs())
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        found = solver.getSolution()
        return Solved([*found.col_value], [*found.row_dual])
