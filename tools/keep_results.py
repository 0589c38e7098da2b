"""Keeps the results that README and docs speak of: `python -m tools.keep_results RESULTS`.

What `unis bench paper` wrote goes to docs/results.json, without its pictures; the numbers in the
documents that are drawn from it are held against it by tests/python/test_claims.py.
"""

import json
import sys
from pathlib import Path

from unis.report.evaluation import Results

KEPT = Path(__file__).resolve().parents[1] / "docs" / "results.json"


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
    KEPT.write_text(kept(Results.model_validate_json(Path(sys.argv[1]).read_text())))


if __name__ == "__main__":
    main()
