"""Keeps the results that README and docs speak of: `python -m tools.keep_results RESULTS`.

What `python -m evaluation paper` wrote goes to docs/results.json, and the numbers of README and
docs that are drawn from it are written anew; tests/python/test_claims.py holds them against it.
Kept is only a whole run of a commit as it is.

Such a number is marked: `0.98 to 1.00 <!-- fig4a handover ratio_to_cooperative -->` is the least
and the most of the medians of a figure's measured rows for an arm, over all lengths, of the cost
named last (`of light`) if one is named; `simulator - median_error` is of the simulator, `simulator
priority median_error` of an arm there, and `simulator - switch_us` of all its points.
"""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from evaluation.paper.evaluation import FIGURES
from evaluation.paper.report import counts
from evaluation.paper.results import Errors, Figure, Results
from unis.runtime.files import write_atomically

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "docs" / "results.json"
# That claims may stand in.
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
_COMMIT = re.compile(r"[0-9a-f]{7,40}")
_FOR_ALL = 0o644
_DIGITS = 5  # that are kept

CLAIM = re.compile(
    r"(?P<numbers>\d[\d.,]*(?:\s+to\s+\d[\d.,]*)?)\s*"
    r"<!--\s*(?P<figure>\w+)\s+(?P<arm>[^>]*?)\s+(?P<field>\w+)(?:\s+of\s+(?P<cost>\w+))?\s*-->"
)


class NotKeptError(Exception):
    """The text says what is wrong with results, or with a claim."""


def numbers_of(results: Results, claim: re.Match[str]) -> str:
    """What the results say, with as many digits as the claim has. NotKeptError: nothing."""
    values = _values(results, claim)
    digits = len(claim["numbers"].split()[0].partition(".")[2])
    least, most = f"{min(values):,.{digits}f}", f"{max(values):,.{digits}f}"
    return least if least == most else f"{least} to {most}"


def renewed(text: str, results: Results) -> str:
    """A document with the numbers of these results. NotKeptError for a claim that has none."""

    def of(claim: re.Match[str]) -> str:
        return claim.group().replace(claim["numbers"], numbers_of(results, claim), 1)

    return CLAIM.sub(of, text)


def _values(results: Results, claim: re.Match[str]) -> list[float]:
    field = claim["field"]
    among: Sequence[object]
    if claim["figure"] == "simulator":
        whole = results.simulator
        of_all = whole if claim["arm"] == "-" else whole.by_arm.get(claim["arm"])
        of_points = field not in Errors.model_fields
        among = whole.points if of_points else [of_all] if of_all else []
    else:
        among = [
            row
            for row in results.rows
            if (row.experiment, row.arm, row.source) == (claim["figure"], claim["arm"], "measured")
            and claim["cost"] in (None, row.cost)
        ]
    if not among:
        raise NotKeptError(f"no row has {claim.group()}")
    found = [getattr(one, field) for one in among if hasattr(one, field)]
    values = [getattr(value, "median", value) for value in found if value is not None]
    if not found:
        raise NotKeptError(f"rows have no `{field}`: {claim.group()}")
    if not values:
        raise NotKeptError(f"no row of {claim.group()} has a value")
    if not all(isinstance(value, int | float) for value in values):
        raise NotKeptError(f"`{field}` is no number: {claim.group()}")
    return values


def kept(results: Results) -> str:
    """A line for each figure and row, so that a change of one is seen, and no digit of noise."""
    data = _rounded(results.model_dump(mode="json"))
    figures = data.pop("figures")
    rows = [{**row, "paper": ""} for row in data.pop("rows")]
    parts = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in data.items()]
    for key, lines in (("figures", figures), ("rows", rows)):
        parts.append(
            f' "{key}": [\n' + ",\n".join(f"  {json.dumps(one)}" for one in lines) + "\n ]"
        )
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _rounded(of: Any) -> Any:  # JSON is any
    if isinstance(of, float):
        return float(f"{of:.{_DIGITS}g}")
    if isinstance(of, dict):
        return {key: _rounded(value) for key, value in of.items()}
    return [*map(_rounded, of)] if isinstance(of, list) else of


def why_not(results: Results) -> Iterator[str]:
    """Why they are not to be kept, as sentences; none: they are."""
    if not _COMMIT.fullmatch(results.commit):
        yield f"of `{results.commit}`, which is no commit as it is: measure one, without changes"
    if (extent := results.settings.get("extent")) != "full":
        yield f"of a run that is `{extent}`, not full"
    there = {figure.key for figure in results.figures}
    if missing := [key for key in FIGURES if key not in there]:
        yield f"without {', '.join(missing)}"
    if results.settings.get("figures") != "all":
        yield "of some figures only"


def _loaded(file: Path) -> Results:
    try:
        return Results.model_validate_json(file.read_text())
    except OSError as error:
        raise NotKeptError(f"cannot read {file}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise NotKeptError(f"{file} has no results: {where}: {first['msg']}") from None
    except UnicodeDecodeError:
        raise NotKeptError(f"{file} has no results: it is no text") from None


def keep(file: Path) -> None:
    """Writes all, or nothing. NotKeptError says why."""
    results = _loaded(file)
    if problems := [*why_not(results)]:
        raise NotKeptError(f"{file} is not kept, for it is {'; '.join(problems)}")
    before = json.loads(KEPT.read_text())
    # As the documents call where and of what it was measured.
    where = {
        before["commit"].partition("-dirty")[0]: results.commit,
        before["machine"]["kernel"]: results.machine.kernel,
        counts([*map(Figure.model_validate, before["figures"])]): counts(results.figures),
    }
    texts: dict[Path, str] = {}
    for document in DOCUMENTS:
        try:
            text = renewed(document.read_text(), results)
        except NotKeptError as error:
            raise NotKeptError(f"{document.relative_to(ROOT)}: {error}") from None
        for old, new in where.items():
            text = text.replace(old, new)
        texts[document] = text
    for document, text in {**texts, KEPT: kept(results)}.items():
        if text != document.read_text():
            write_atomically(document, text, _FOR_ALL)


def main(words: list[str]) -> None:
    """Exits with a sentence where it cannot."""
    if len(words) != 1 or words[0].startswith("-"):
        sys.exit("Usage: python -m tools.keep_results RESULTS, as build/bench/results.json")
    try:
        keep(Path(words[0]))
    except NotKeptError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
