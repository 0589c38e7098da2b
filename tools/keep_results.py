"""Keeps the results that README and docs speak of: `python -m tools.keep_results RESULTS`.

What `unis bench paper` wrote goes to docs/results.json, without its pictures, and the numbers of
README and docs that are drawn from it are written anew; tests/python/test_claims.py holds them
against it.

Such a number is marked: `0.98 to 1.00 <!-- fig4a handover ratio_to_cooperative -->` is the least
and the most of the medians of a figure's rows for an arm, over all lengths, of the cost named last
(`of light`) if one is named; `simulator - median_error` is of the simulator, and `simulator -
switch_us` of all its points.
"""

import json
import re
import sys
from pathlib import Path

from unis.report.evaluation import Results

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "results.json"
DOCUMENTS = (ROOT / "README.md", ROOT / "docs" / "measuring.md")


CLAIM = re.compile(
    r"(?P<numbers>\d[\d.,]*(?:\s+to\s+\d[\d.,]*)?)\s*"
    r"<!--\s*(?P<figure>\w+)\s+(?P<arm>[^>]*?)\s+(?P<field>\w+)(?:\s+of\s+(?P<cost>\w+))?\s*-->"
)


def numbers_of(results: Results, claim: re.Match[str]) -> str | None:
    """What the results say, with as many digits as the claim has; None: no such row."""
    values = _values(results, claim)
    if not values:
        return None
    digits = len(claim["numbers"].split()[0].partition(".")[2])
    least, most = f"{min(values):,.{digits}f}", f"{max(values):,.{digits}f}"
    return least if claim["field"].endswith("_error") else f"{least} to {most}"


def renewed(text: str, results: Results) -> str:
    """A document with the numbers of these results."""

    def of(claim: re.Match[str]) -> str:
        told = numbers_of(results, claim)
        return claim.group() if told is None else claim.group().replace(claim["numbers"], told, 1)

    return CLAIM.sub(of, text)


def _values(results: Results, claim: re.Match[str]) -> list[float]:
    if claim["figure"] == "simulator":
        of_all = getattr(results.simulator, claim["field"], None)
        points = results.simulator.points
        return [getattr(of, claim["field"]) for of in points] if of_all is None else [of_all]
    rows = [
        getattr(row, claim["field"])
        for row in results.rows
        if (row.experiment, row.arm) == (claim["figure"], claim["arm"])
        and claim["cost"] in (None, row.cost)
    ]
    return [getattr(value, "median", value) for value in rows if value is not None]


def kept(results: Results) -> str:
    """A line for each figure and row, so that a change of one is seen."""
    data = results.model_dump(mode="json")
    figures = [{**figure, "plots": []} for figure in data.pop("figures")]
    rows = [{**row, "paper": ""} for row in data.pop("rows")]
    parts = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in data.items()]
    for key, lines in (("figures", figures), ("rows", rows)):
        parts.append(
            f' "{key}": [\n' + ",\n".join(f"  {json.dumps(one)}" for one in lines) + "\n ]"
        )
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    """Reads, and writes."""
    results = Results.model_validate_json(Path(sys.argv[1]).read_text())
    before = json.loads(KEPT.read_text())["commit"].partition("-dirty")[0]
    KEPT.write_text(kept(results))
    for document in DOCUMENTS:
        text = renewed(document.read_text(), results)
        document.write_text(text.replace(before, results.commit.partition("-dirty")[0]))


if __name__ == "__main__":
    main()
