"""The page of `unis profile chain`: what it says, and where its pictures have what."""

import json
import math
import re
from dataclasses import dataclass
from xml.etree import ElementTree

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.python.parts_found import found_parts, part_time
from tests.python.test_docs import ROOT
from tests.python.test_report import Page
from unis.counted.result import Count, Counted, PlaceCounts
from unis.parts.accounting import COPY, PARTS, PROCESSING, QUEUEING, SEND
from unis.parts.advised import Advice, ChainUse, Trial, TrialLoad
from unis.parts.result import ChainParts
from unis.report.bars import time_text
from unis.report.parts import parts_page

_SVG = "{http://www.w3.org/2000/svg}"
_WHOLE, _PLACES, _WAY = (
    "the parts of all places",
    "the parts of each place",
    "the way of one packet",
)
_TIMES = st.one_of(st.floats(-1e9, 1e13), st.just(0.0), st.floats(-10, 10))


@dataclass(frozen=True)
class Box:
    told: str
    x: float
    y: float
    width: float


def pictures(page: str) -> dict[str, ElementTree.Element]:
    """By their labels."""
    found = {}
    for text in re.findall(r'<svg class="drawn" .*?</svg>', page, re.DOTALL):
        text = text.replace("<svg", f'<svg xmlns="{_SVG[1:-1]}"', 1)
        whole = ElementTree.fromstring(text)  # noqa: S314  our own page
        found[whole.attrib["aria-label"]] = whole
    return found


def boxes(picture: ElementTree.Element) -> list[Box]:
    found = []
    for group in picture.iter(f"{_SVG}g"):
        told, rects = group.find(f"{_SVG}title"), [*group.iter(f"{_SVG}rect")]
        if told is not None and rects:
            x, y, width = (float(rects[0].attrib[key]) for key in ("x", "y", "width"))
            found.append(Box(told.text or "", x, y, width))
    return found


def words(picture: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in picture.iter(f"{_SVG}text")]


def first_paragraph(page: str) -> str:
    return page[page.index("</h1>") :].partition("<p ")[2].partition(">")[0]


def by_place(found: ChainParts) -> list[Box]:
    return boxes(pictures(parts_page(found))[_PLACES])


@pytest.mark.parametrize("functions", [1, 4, 8])
def test_the_page_is_whole_and_needs_nothing_else(functions: int) -> None:
    page = parts_page(found_parts(functions))
    parsed = Page(page)
    assert not parsed.open
    assert parsed.references == []
    assert not {"script", "link", "iframe", "img"} & set(parsed.tags)
    assert set(re.findall(r"url\(#(\w+)\)", page)) == set(parsed.ids)
    assert "A <fast> CPU" in parsed.text
    assert "3 packets: did not come to the sink" in parsed.text
    assert "latency +10.0%, throughput -10.0%" in parsed.text


def test_a_residual_that_is_too_large_is_said_first_in_red() -> None:
    assert "bad" in first_paragraph(parts_page(found_parts(residual=-0.16)))
    fine = parts_page(found_parts(residual=-0.14))
    assert 'class="bad"' not in fine
    assert "lead" in first_paragraph(fine)


def test_the_largest_part_is_named_unless_the_parts_explain_nothing() -> None:
    def ns(place: str, part: str) -> float:
        return 90_000 if (place, part) == ("f1", COPY) else 1000

    said = "The largest part is copy at f1: 90.0 µs"
    assert said in parts_page(found_parts(ns=ns))
    assert said not in parts_page(found_parts(ns=ns, residual=0.5))


def test_every_place_has_its_parts_side_by_side_on_one_axis() -> None:
    def ns(place: str, part: str) -> float:
        return 3000 if (place, part) == ("f1", PROCESSING) else 1000

    rows: dict[float, list[Box]] = {}
    for box in by_place(found_parts(2, ns)):
        rows.setdefault(box.y, []).append(box)
    source, first, second, sink, residual = rows.values()
    assert [box.told for box in source] == [f"{SEND}: 1.00 µs"]
    assert [box.told for box in first] == [f"{part}: 1.00 µs" for part in PARTS]
    assert [box.told for box in sink] == [f"{QUEUEING}: 1.00 µs"]
    assert residual[0].told.startswith("residual +5.0% (-5.0% to +15.0%)")
    wide = {box.told.partition(":")[0]: box.width for box in second}
    assert (wide[PROCESSING] + 1) / (wide[COPY] + 1) == pytest.approx(3, rel=0.01)
    ends = [box.x + box.width + 1 for box in second]
    assert [box.x for box in second[1:]] == pytest.approx(ends[:-1], abs=0.2)
    assert first[0].x == second[0].x == residual[0].x


def test_parts_below_zero_stand_left_of_it_and_that_is_said() -> None:
    def ns(_: str, part: str) -> float:
        return -500 if part == COPY else 1000

    found = found_parts(1, ns)
    negative = [box for box in by_place(found) if box.told.startswith(COPY)]
    others = [box for box in by_place(found) if not box.told.startswith((COPY, "residual"))]
    zero = min(box.x for box in others)
    assert [box.x + box.width <= zero for box in negative] == [True]
    assert "Left of 0 are parts" in parts_page(found)
    assert "Left of 0 are parts" not in parts_page(found_parts())


@pytest.mark.parametrize("residual", [0.1, -0.1])
def test_the_residual_is_between_what_is_explained_and_what_was_measured(residual: float) -> None:
    picture = pictures(parts_page(found_parts(residual=residual)))[_WHOLE]
    *explained, measured, between = boxes(picture)
    ends = sorted((explained[-1].x + explained[-1].width, measured.x + measured.width))
    assert [between.x, between.x + between.width] == pytest.approx(ends, abs=2.1)
    whiskers = [line for line in picture.iter(f"{_SVG}line") if line.get("class") == "whisker"]
    low, high = (float(whiskers[0].attrib[key]) for key in ("x1", "x2"))
    assert low < between.x + between.width < high or low < between.x < high


def test_the_way_of_a_packet_has_a_row_for_each_place() -> None:
    found = found_parts(2)
    drawn = boxes(pictures(parts_page(found))[_WAY])
    assert [box.told.partition(":")[0] for box in drawn] == [
        f"{span.place}, {span.part}" for span in found.way
    ]
    assert [box.x for box in drawn] == sorted(box.x for box in drawn)
    assert len({box.y for box in drawn}) == 4
    without = found.model_copy(update={"way": []})
    assert _WAY not in pictures(parts_page(without))


def test_short_places_beside_a_very_long_one_have_an_axis_of_their_own() -> None:
    def ns(place: str, part: str) -> float:
        return 5e6 if (place, part) == ("f1", QUEUEING) else 1000

    short = pictures(parts_page(found_parts(4, ns)))["the short ones"]
    assert [name for name in words(short) if name.startswith("f")] == ["f0", "f2", "f3"]
    assert "the short ones" not in pictures(parts_page(found_parts(4)))


def test_each_provider_is_told_apart() -> None:
    found = found_parts(1)
    assert "All are measured by: passages." in parts_page(found)
    found.functions[0].parts[COPY] = part_time(5).model_copy(update={"provider": "tracepoints"})
    page = parts_page(found)
    assert "Measured by a: passages, b: tracepoints." in page
    assert len(re.findall(r"<small>[^<]* b</small>", page)) == 1


@given(st.data())
def test_whatever_the_parts_are_the_pictures_are_in_their_frames(data: st.DataObject) -> None:
    functions = data.draw(st.integers(1, 8))
    names = data.draw(
        st.lists(st.text("<&>\"'éx-", min_size=1, max_size=60), min_size=8, max_size=8)
    )
    values = iter(data.draw(st.lists(_TIMES, min_size=60, max_size=60)))
    found = found_parts(
        functions, lambda *_: next(values), residual=data.draw(st.floats(-50, 0.99)),
        name=names.__getitem__,
    )  # fmt: skip
    page = parts_page(found)
    assert not Page(page).open
    for picture in pictures(page).values():
        for shape in picture.iter():
            for key in ("x", "x1", "x2", "width"):
                value = float(shape.get(key, "0"))
                assert math.isfinite(value)
                assert 0 <= value <= 960
    assert len(pictures(page)[_PLACES].findall(f"{_SVG}g/{_SVG}title/..")) >= functions + 3


def test_advice_is_told_with_what_it_rests_on_and_what_came_of_it() -> None:
    advice = Advice(
        what="Batch <32>.", change={}, expected_gain=3, kind="throughput", rests_on=["it spins"]
    )
    load = TrialLoad(before=1, after=3, gain=None)
    trial = Trial(what="Batch <32>.", how="windows", overload_kpps=load, half_load_us=load,
                  worth=True)  # fmt: skip
    said = Page(parts_page(found_parts().model_copy(update={"advice": [advice], "tried": [trial]})))
    assert "Batch <32>. Gain: about 3.0 times the throughput at overload." in said.text
    assert "Rests on: it spins." in said.text
    assert "It was worth it: 1.0 → 3.0 kpps at overload" in said.text
    assert "Advice" not in parts_page(found_parts())


def test_the_page_has_what_was_counted() -> None:
    ran = Count(value=1234, interval=(1, 2), provider="schedstat", unit="ns a packet")
    none = ran.model_copy(update={"value": 0.0})
    places = [
        PlaceCounts(name="f<0>", counts={"run": ran, "drops": none}, ratios={}),
        PlaceCounts(name="chain", counts={}, ratios={}),
    ]
    page = parts_page(found_parts().model_copy(update={"counted": Counted(places=places)}))
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", page[page.index("What was counted") :])
    assert cells == ["run, ns", "1,234", "", "schedstat"]
    assert "f<0>" in Page(page).text
    assert "What was counted" not in parts_page(found_parts())


def test_without_advice_the_page_says_what_was_considered() -> None:
    use = ChainUse(
        policy="unis", controller="handover", delivered_kpps=1, engine_ns=0, functions=[], lost={},
        out_of_order=None, switch_ns=0, p95_us=None,
    )  # fmt: skip
    update = {"use": use, "considered": ["No CPU is <free>."]}
    said = Page(parts_page(found_parts().model_copy(update=update)))
    assert "UNiS knows no change" in said.text
    assert "No CPU is <free>." in said.text


def test_times_have_a_unit_that_suits_them() -> None:
    told = [time_text(ns) for ns in (0, 999, -1500, 12_345, 123_456, 5e6, 2e9)]
    assert told == ["0 ns", "999 ns", "-1.50 µs", "12.3 µs", "123 µs", "5.00 ms", "2.00 s"]


def test_the_page_has_both_schemes() -> None:
    assert "prefers-color-scheme: dark" in parts_page(found_parts())


def test_what_is_written_obeys_its_schema() -> None:
    schema = json.loads((ROOT / "docs" / "profile.schema.json").read_text())
    written = json.loads(found_parts().model_dump_json())
    jsonschema.validate(written, schema)
    del written["residual"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(written, schema)
