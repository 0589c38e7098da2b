"""docs/results.schema.json: what results.json of `evaluation paper` is made of, from its model.

`make docs` writes it; a test holds it current.
"""

import json
import sys
from pathlib import Path

from evaluation.paper.results import Results


def schema_text() -> str:
    """The whole file."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Results.model_json_schema(),
        "title": "Results of python -m evaluation paper",
    }
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(schema_text())
