"""The page of `unis serve` as it is sent: it loads nothing from elsewhere, and its parts fit."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.python.asgi import ask, runs_below, served
from unis.built import clone

PAGE = clone() / "unis" / "serve" / "page"
SCRIPTS = sorted(PAGE.glob("*.js"))
STYLE = PAGE / "page.css"
_SVG_NAMESPACE = "http://www.w3.org/2000/svg"


class _Elements(HTMLParser):
    """All elements with their attributes, and the text in scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.inline: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {key: value or "" for key, value in attrs}))
        self._inside = tag

    def handle_data(self, data: str) -> None:
        if self._inside in ("script", "style") and data.strip():
            self.inline.append(data)

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002
        self._inside = ""


@pytest.fixture(scope="module")
def elements() -> _Elements:
    parser = _Elements()
    parser.feed((PAGE / "index.html").read_text())
    return parser


def ids(elements: _Elements) -> list[str]:
    return [attributes["id"] for _, attributes in elements.found if "id" in attributes]


def test_each_file_is_sent_under_a_policy_that_forbids_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs_below(tmp_path, monkeypatch)
    app = served()
    paths = {"/": "text/html", "/page/page.css": "text/css"}
    paths |= {f"/page/{script.name}": "text/javascript" for script in SCRIPTS}
    for path, kind in paths.items():
        found = ask(app, "GET", path)
        assert found.status == 200, path
        assert found.headers["content-type"].partition(";")[0] == kind
        policy = found.headers["content-security-policy"].split("; ")
        assert "default-src 'none'" in policy
        assert {"script-src 'self'", "style-src 'self'", "connect-src 'self'"} <= {*policy}
        assert "unsafe" not in " ".join(policy)
    assert ask(app, "GET", "/page/none.js").status == 404


def test_nothing_comes_from_elsewhere() -> None:
    for file in (PAGE / "index.html", STYLE, *SCRIPTS):
        text = file.read_text().replace(_SVG_NAMESPACE, "")
        assert "//" not in re.sub(r"^\s*//.*|\s// .*$", "", text, flags=re.MULTILINE), file.name
        assert "@import" not in text
        assert "data:" not in re.sub(r"\bdata: ", "", text), file.name


def test_no_script_and_no_style_is_inline(elements: _Elements) -> None:
    assert elements.inline == []
    for tag, attributes in elements.found:
        assert "style" not in attributes, tag
        assert not [key for key in attributes if key.startswith("on")], tag
        assert not attributes.get("href", "").startswith("javascript:"), tag


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_data_never_becomes_markup(script: Path) -> None:
    text = script.read_text()
    for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(",
                "new Function(", "DOMParser", "createContextualFragment"):  # fmt: skip
        assert way not in text, way


def test_ids_are_there_once_and_labels_name_them(elements: _Elements) -> None:
    found = ids(elements)
    assert len(found) == len({*found})
    for tag, attributes in elements.found:
        for key in ("for", "aria-labelledby"):
            if key in attributes:
                assert attributes[key] in found, f"{tag} {key}={attributes[key]}"
        if tag in ("input", "select", "textarea"):
            named = [other.get("for") for name, other in elements.found if name == "label"]
            assert attributes["id"] in {*named, "shortcuts"}, attributes  # that is in its label


def test_each_id_that_scripts_and_styles_name_is_there(elements: _Elements) -> None:
    found = {*ids(elements)}
    for script in SCRIPTS:
        named = {*re.findall(r'byId\("([^"]+)"\)', script.read_text())}
        assert named <= found, script.name
    style = STYLE.read_text()
    rules = re.sub(r"\{[^{}]*\}|/\*.*?\*/", " ", style, flags=re.DOTALL)
    assert {*re.findall(r"#([a-z][a-z-]+)", rules)} <= found
    assert {*re.findall(r'url\("?#([a-z-]+)"?\)', style)} <= found
    (sections,) = re.findall(r"SECTIONS = \[([^]]+)\]", (PAGE / "page.js").read_text())
    assert {f"{name}-heading" for name in re.findall(r'"(\w+)"', sections)} <= found


def test_each_script_imports_what_another_one_exports() -> None:
    exports = {
        script.name: {
            *re.findall(
                r"^export (?:async )?(?:class|const|function) (\w+)",
                script.read_text(),
                re.MULTILINE,
            )
        }
        for script in SCRIPTS
    }
    for script in SCRIPTS:
        for names, source in re.findall(
            r'^import \{ ([^}]+) \} from "\./([^"]+)";', script.read_text(), re.MULTILINE
        ):
            assert {*names.split(", ")} <= exports[source], f"{script.name} from {source}"
            rest = re.sub(r"^import .*$", "", script.read_text(), flags=re.MULTILINE)
            unused = [name for name in names.split(", ") if not re.search(rf"\b{name}\b", rest)]
            assert unused == [], script.name


def test_no_script_is_long() -> None:
    assert len(SCRIPTS) > 5
    for file in (*SCRIPTS, STYLE, PAGE / "index.html"):
        assert len(file.read_text().splitlines()) <= 400, file.name
