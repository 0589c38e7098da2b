"""Cores from as few machines as will do: a linear program that grows, column by column.

Machines count by what they have in all: cores, ways, classes of service. HiGHS keeps its basis, so
a program that has grown is solved from where it was.
"""

from collections.abc import Sequence

import highspy
import numpy as np
from numpy.typing import NDArray

from unis.slo.profile import Server

MACHINES = 0  # the column
CORES, WAYS, CLASSES, FIRST = 0, 1, 2, 3  # rows; from FIRST on what is to be done, once each
_NOBODY = np.array([], dtype=np.int32), np.array([], dtype=np.float64)


class MachineProgram:
    """Columns: machines, whose number is least, and cores of each kind that was added."""

    def __init__(self, server: Server, wanted: int) -> None:
        """`wanted`: rows of what cores are to do."""
        self.solver = highspy.Highs()
        self.solver.silent()
        self.solver.addVar(0.0, highspy.kHighsInf)
        self.solver.changeColCost(MACHINES, 1.0)
        for has in (server.places, server.ways, server.classes - 1):
            self.solver.addRow(0.0, highspy.kHighsInf, 1, np.array([0]), np.array([float(has)]))
        for _ in range(wanted):
            self.solver.addRow(1.0, highspy.kHighsInf, 0, *_NOBODY)

    def add(self, ways: int, classes: int, rows: Sequence[int], done: Sequence[float]) -> None:
        """A kind of core: what it takes of machines, and how much it does of each row."""
        every = [CORES, WAYS, CLASSES, *rows]
        values = [-1.0, -float(ways), -float(classes), *done]
        self.solver.addCol(
            0.0, 0.0, highspy.kHighsInf, len(every), np.array(every, dtype=np.int32),
            np.array(values),
        )  # fmt: skip

    def relaxed(self) -> tuple[float, NDArray[np.float64]]:
        """Machines, and by row how many a thing more would save, or a thing more to do cost."""
        self.solver.run()
        solution = self.solver.getSolution()
        return float(solution.col_value[MACHINES]), np.maximum(0.0, np.array(solution.row_dual))
