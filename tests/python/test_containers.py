"""Containers: what is planned, what crun is told, what an image is, what is made of it."""

import gzip
import hashlib
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.python.planned import planned, small, told
from unis.chain.model import ChainFile
from unis.container.build import PROGRAMS, build_image
from unis.container.bundle import FIXED, Contained, config, ordered, within
from unis.container.image import Image, find_in, open_image, this_architecture, unpack
from unis.container.libraries import files_needed
from unis.container.model import ImageError, Mount
from unis.container.root import assemble
from unis.plan.difference import difference

# ------------------------------------------------------------------ the plan


def contained(**container: object) -> dict[str, Any]:
    """The middle one of three functions is in a container."""
    functions: dict[str, Any] = {name: {"program": "sh"} for name in ("fw", "nat", "monitor")}
    functions["nat"]["container"] = container
    return small(functions=functions)


def test_a_function_in_a_container_is_on_memifs_and_sees_its_own_of_the_run() -> None:
    plan = planned(contained())
    nat = plan.function("nat")
    assert nat.group == "own"
    assert {link.kind for link in plan.links if nat.ports[0].rx == link.name} == {"memif"}
    assert nat.container
    folder = Path("/run/unis/functions/x.nat")
    assert nat.container.mounts == (
        Mount(Path("/run/unis/functions/x.nat"), folder, writable=True),
        Mount(Path("/run/unis/x"), Path("/run/unis/x")),
        Mount(Path("/somewhere"), Path("/somewhere")),
    )
    assert all(str(folder) in word for word in nat.argv if word.startswith("--vdev"))
    assert plan.function("fw").container is None
    assert plan.function("fw").group == "engine"


def test_on_rings_there_is_no_container() -> None:
    (sentence,) = told(contained() | {"links": [{"from": "fw", "to": "nat", "kind": "ring"}]})
    assert sentence.startswith("('functions', 'nat', 'container') `nat` is on rings")


def test_on_a_tap_there_is_no_container() -> None:
    ends = [("fw", "nat"), ("nat", "monitor")]
    chosen = [{"from": origin, "to": to, "kind": "tap"} for origin, to in ends]
    (sentence,) = told(contained() | {"links": chosen})
    assert sentence.startswith("('functions', 'nat', 'container') `nat` is on a link of kind tap")


def test_a_mount_names_what_is_there_and_hides_nothing() -> None:
    mounts = ["/nonexistent:/a", "/etc:/proc/x", "/etc:/etc/own:rw"]
    missing, hides = told(contained(mounts=mounts))
    assert missing.endswith("'mounts', 0) there is no /nonexistent; name a file or folder")
    assert "/proc is each container's own" in hides
    plan = planned(contained(mounts=mounts[2:])).function("nat").container
    assert plan
    assert Mount(Path("/etc"), Path("/etc/own"), writable=True) in plan.mounts


@pytest.mark.parametrize("folder", ["/tmp", "/run", "/var", "/dev/shm"])  # noqa: S108
def test_what_each_container_has_of_its_own_is_not_the_machines(folder: str) -> None:
    (sentence,) = told(contained(), file=Path(folder, "chain.yaml"))
    assert sentence.startswith(
        f"('functions', 'nat', 'container') the function would see {folder},"
    )
    assert planned(contained(), file=Path(folder, "x", "chain.yaml")).function("nat").container
    (sentence,) = told(contained(mounts=[f"/etc:{folder}"]))
    assert "is each container's own; mount it elsewhere" in sentence


def test_no_function_can_replace_what_is_mounted_at_a_restart(tmp_path: Path) -> None:
    """By a link to `/`, of a folder in one that it may write."""
    (tmp_path / "data" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("data/inner")
    (tmp_path / "data" / "sh").symlink_to("/bin/sh")
    root = tmp_path / "data" / "root" / "bin"
    root.mkdir(parents=True)
    (root / "sh").touch(mode=0o755)
    file = tmp_path / "chain.yaml"
    assert planned(contained(mounts=["data/inner:/a", "data:/b"]), file=file)
    assert planned(contained(mounts=[".:/a:rw"]), file=file), "it cannot replace what is mounted"
    for function, at, inside in (
        ({"container": {"mounts": ["data/inner:/a"]}}, "'container', 'mounts', 0", "data/inner"),
        ({"container": {"mounts": ["link:/a"]}}, "'container', 'mounts', 0", "data/inner"),
        ({"container": {"image": "data/root"}}, "'container', 'image'", "data/root"),
        ({"container": {}, "program": "data/sh"}, "'program'", "data/sh"),
    ):
        data = contained(mounts=["data:/b:rw"])
        data["functions"]["monitor"] |= function
        (sentence,) = told(data, file=file)
        said = f"{tmp_path / inside} is in {tmp_path / 'data'}, so `nat`"
        assert sentence.startswith(f"('functions', 'monitor', {at}) {said}")
    (sentence,) = told(contained(mounts=["..:/b:rw"]), file=file)
    assert sentence.startswith(f"('functions', 'nat', 'container') {tmp_path} is in")


@pytest.mark.parametrize("words", ["/etc", "/etc:x", "/etc:/", "/a:/b:ro", "/a:/b/../c", ":/a", 1])
def test_a_mount_is_two_places(words: object) -> None:
    with pytest.raises(ValueError, match="invalid mount"):
        ChainFile.model_validate(contained(mounts=[words]))


def test_another_container_is_another_process() -> None:
    plain, inside = planned(small()), planned(contained())
    mounted = planned(contained(mounts=["/etc:/x"]))
    for old, new in ((plain, inside), (inside, plain), (inside, mounted)):
        found = difference(old, new)
        assert "nat" in found.started
        whys = {change.name: change.why for change in found.changes}
        assert "its container" in whys["nat"]
    assert not difference(inside, planned(contained()))


# ------------------------------------------------------------------ the bundle


def process(**parts: Any) -> Contained:
    values: dict[str, Any] = {
        "name": "nat", "argv": ["/bin/nat", "--x"], "env": {"A": "1"}, "cwd": Path("/chain"),
        "uid": 7, "gid": 8, "groups": [8, 9], "capabilities": ["net_raw"], "image": (),
        "mounts": (),
    }  # fmt: skip
    return Contained(**(values | parts))


def test_a_process_has_its_rights_and_no_way_to_more() -> None:
    told = config(Path("/b/root"), process())["process"]
    assert told["args"] == ["/bin/nat", "--x"]
    assert told["env"] == ["A=1"]
    assert told["user"] == {"uid": 7, "gid": 8, "additionalGids": [9]}
    assert told["noNewPrivileges"] is True
    assert set(map(tuple, told["capabilities"].values())) == {("CAP_NET_RAW",)}
    assert set(told["capabilities"]) == {
        "bounding", "effective", "permitted", "inheritable", "ambient",
    }  # fmt: skip
    assert "rlimits" not in told, "those of the launcher"


def test_it_has_namespaces_of_its_own_and_joins_that_of_its_network() -> None:
    def namespaces(network: Path | None) -> dict[str, str]:
        found = config(Path("/b/root"), process(network=network))["linux"]["namespaces"]
        return {each["type"]: each.get("path", "") for each in found}

    own = dict.fromkeys(["pid", "mount", "ipc", "uts", "cgroup"], "")
    assert namespaces(None) == own
    assert namespaces(Path("/proc/9/ns/net")) == own | {"network": "/proc/9/ns/net"}


def test_what_it_sees_is_read_only_but_for_what_says_otherwise() -> None:
    image = [Mount(Path("/image/usr"), Path("/usr"))]
    mounts = [Mount(Path("/a"), Path("/run/a")), Mount(Path("/b"), Path("/b"), writable=True)]
    told = config(Path("/b/root"), process(image=image, mounts=mounts))
    assert told["root"] == {"path": "/b/root", "readonly": True}
    bound = {each["destination"]: each for each in told["mounts"] if each["type"] == "bind"}
    assert {place: "rw" in each["options"] for place, each in bound.items()} == {
        "/usr": False, "/run/a": False, "/b": True,
    }  # fmt: skip
    assert all({"nosuid", "nodev"} <= {*each["options"]} for each in bound.values())
    places = [each["destination"] for each in told["mounts"]]
    assert places.index("/usr") < places.index("/run") < places.index("/run/a")
    assert {"/proc", "/sys", "/dev", "/dev/hugepages"} <= {*places}


paths = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(
    lambda parts: Path("/", *parts)
)
mounts = st.lists(st.builds(Mount, paths, paths, st.booleans()), max_size=12)


@given(mounts)
def test_no_mount_is_hidden_by_a_later_one(given_mounts: list[Mount]) -> None:
    found = ordered(given_mounts)
    places = [mount.inside for mount in found]
    assert len({*places}) == len(places)
    assert {*places} == {mount.inside for mount in given_mounts}
    for at, place in enumerate(places):
        assert not any(within(place, later) for later in places[at + 1 :])
    for mount in found:
        first = next(each for each in given_mounts if each.inside == mount.inside)
        assert mount.source == first.source
        same = [each for each in given_mounts if (each.source, each.inside) == first_of(mount)]
        assert mount.writable == any(each.writable for each in same)


def first_of(mount: Mount) -> tuple[Path, Path]:
    return mount.source, mount.inside


# ------------------------------------------------------------------ images

Entry = tuple[str, str]  # path, and content: `x` program, `f` file, `d` folder, `>TO` link


def layout(folder: Path, *layers: Sequence[Entry], architecture: str = "") -> Path:
    """An image layout."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def blob(data: bytes, kind: str) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}

    kind = "application/vnd.oci.image.layer.v1.tar+gzip"
    manifest = {
        "config": blob(
            json.dumps(
                {
                    "architecture": architecture or this_architecture(),
                    "config": {"Env": ["PATH=/a:/b", "MORE=1=2"]},
                }
            ).encode(),
            "config",
        ),
        "layers": [blob(packed(entries), kind) for entries in layers],
    }
    index = {"manifests": [blob(json.dumps(manifest).encode(), "manifest")]}
    (folder / "index.json").write_text(json.dumps(index))
    (folder / "oci-layout").touch()
    return folder


def packed(entries: Sequence[Entry]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as layer:
        for path, content in entries:
            member = tarfile.TarInfo(path)
            member.mode = 0o644 if content == "f" else 0o755
            member.uid, member.gid = os.getuid(), os.getgid()
            if content == "d":
                member.type = tarfile.DIRTYPE
            elif content.startswith(">"):
                member.type, member.linkname = tarfile.SYMTYPE, content[1:]
            layer.addfile(member, io.BytesIO())
    return stream.getvalue()


def test_a_program_is_found_on_the_path_of_the_image(tmp_path: Path) -> None:
    image = open_image(layout(tmp_path / "i", [("b/p", "x"), ("a/p", "f"), ("c/q", ">../b/p")]))
    assert image.env == {"PATH": "/a:/b", "MORE": "1=2"}
    assert find_in(image, "p") == Path("/b/p")
    assert find_in(image, "/c/q") == Path("/c/q")
    assert find_in(image, "./b/p") == Path("/b/p")
    assert find_in(image, "q") is None
    assert find_in(image, "a/p") is None, "it cannot be executed"


def test_the_same_programs_make_the_same_image_and_no_library_twice(tmp_path: Path) -> None:
    programs = {"yes": Path("/usr/bin/yes"), "y": Path("/usr/bin/yes"), "t": Path("/usr/bin/true")}
    digests = {build_image(programs, [], tmp_path / name) for name in ("one", "two", "one")}
    assert len(digests) == 1
    image = open_image(tmp_path / "one")
    assert {name: str(find_in(image, name)) for name in programs} == {
        name: str(PROGRAMS / name) for name in programs
    }
    root = tmp_path / "root"
    root.mkdir()
    unpack(image, root)
    bin_folder = root / "usr/local/bin"
    assert bin_folder.joinpath("yes").samefile(bin_folder / "y")
    assert [*root.rglob("libc.so.6")], "it needs that"
    build_image({"t": Path("/usr/bin/true")}, [], tmp_path / "one")
    assert find_in(open_image(tmp_path / "one"), "yes") is None
    assert len([*(tmp_path / "one/blobs/sha256").iterdir()]) == 3
    with pytest.raises(ImageError, match="something else in it"):
        build_image(programs, [], root)


def test_what_a_script_needs_nobody_knows(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("#!/bin/sh")
    with pytest.raises(ImageError, match="is a script or the like"):
        files_needed([tmp_path / "x"])


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda folder: (folder / "index.json").write_text("{"), "is no OCI image layout"),
        (lambda folder: (folder / "index.json").write_text("[]"), "is no OCI image layout"),
        (lambda folder: (folder / "index.json").unlink(), "damaged: cannot read"),
        (lambda folder: (folder / "oci-layout").unlink(), "neither a file `oci-layout` nor"),
        (lambda folder: folder.rename(folder.with_name("other")), "there is no folder"),
    ],
)
def test_what_is_no_image_is_told(tmp_path: Path, spoil: Any, sentence: str) -> None:
    folder = layout(tmp_path / "i", [("b/p", "x")])
    spoil(folder)
    with pytest.raises(ImageError, match=sentence):
        open_image(folder)


def test_the_file_is_told_what_is_wrong_with_its_image(tmp_path: Path) -> None:
    ours = layout(tmp_path / "ours", [("b/p", "x")])
    other = layout(tmp_path / "other", [("b/sh", "x")], architecture="s390x")
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "sh").write_bytes(b"\x7fELF".ljust(18, b"\0") + b"\x08\0")
    (root / "bin" / "sh").chmod(0o755)
    expected = {
        "/nonexistent": "IMAGE there is no folder /nonexistent",
        str(other): f"IMAGE {other} is for s390x, and this machine is",
        str(ours): f"PROGRAM there is no program `sh` in {ours} on its PATH, /a:/b",
        str(root): f"IMAGE /bin/sh of {root} is for machine 8",
    }
    for image, start in expected.items():
        (sentence,) = told(contained(image=image))
        place = "('functions', 'nat', 'container', 'image')"
        start = start.replace("IMAGE", place).replace("PROGRAM", "('functions', 'nat', 'program')")
        assert sentence.startswith(start)


def test_a_damaged_layer_is_not_used(tmp_path: Path) -> None:
    image = open_image(layout(tmp_path / "i", [("b/p", "x")]))
    image.layers[0].write_bytes(packed([("b/another", "x")]))
    into = tmp_path / "root"
    into.mkdir()
    with pytest.raises(ImageError, match="another digest"):
        unpack(image, into)


def test_a_layer_may_have_several_members_of_gzip(tmp_path: Path) -> None:
    plain = gzip.decompress(packed([("a", "x"), ("b", "x")]))
    data = b"".join(gzip.compress(plain[at : at + 512]) for at in range(0, len(plain), 512))
    blob = tmp_path / hashlib.sha256(data).hexdigest()
    blob.write_bytes(data)
    into = tmp_path / "root"
    into.mkdir()
    unpack(Image(tmp_path, layers=(blob,)), into)
    assert {path.name for path in into.iterdir()} == {"a", "b"}
    blob.write_bytes(data[:-1] + b"x")
    with pytest.raises(ImageError, match="damaged"):
        unpack(Image(tmp_path, layers=(blob,)), into)


@pytest.mark.parametrize("part", ["config", "manifest", "index"])
def test_what_describes_an_image_has_its_digest(tmp_path: Path, part: str) -> None:
    """Else one image could take another's place among those that are unpacked."""
    folder = layout(tmp_path / "i", [("b/p", "x")])
    index = json.loads((folder / "index.json").read_text())
    blobs = folder / "blobs" / "sha256"
    manifest = blobs / index["manifests"][0]["digest"].partition(":")[2]
    config = blobs / json.loads(manifest.read_text())["config"]["digest"].partition(":")[2]
    if part == "index":
        other = blobs / ("0" * 64)
        other.write_bytes(manifest.read_bytes())
        index["manifests"][0]["digest"] = f"sha256:{other.name}"
        (folder / "index.json").write_text(json.dumps(index))
    else:
        spoilt = config if part == "config" else manifest
        spoilt.write_text(spoilt.read_text() + " ")
    with pytest.raises(ImageError, match="is damaged: its content has another digest"):
        open_image(folder)


@pytest.mark.parametrize(
    "layers",
    [
        [[("../x", "x")]],
        [[("a", ">/OUT"), ("a/x", "x")]],
        [[("a", ">/OUT")], [("a/x", "x")]],
        [[("a", ">/OUT")], [("a/.wh.kept", "f")]],
        [[("a", ">../../OUT")], [("a/.wh..wh..opq", "f")]],
    ],
)
def test_nothing_is_written_outside(tmp_path: Path, layers: list[list[Entry]]) -> None:
    out, into = tmp_path / "out", tmp_path / "root"
    out.mkdir()
    into.mkdir()
    (out / "kept").touch()
    placed = [[(path, to.replace("/OUT", str(out))) for path, to in layer] for layer in layers]
    with pytest.raises(ImageError):
        unpack(open_image(layout(tmp_path / "i", *placed)), into)
    assert [path.name for path in out.iterdir()] == ["kept"]
    assert not (tmp_path / "x").exists()


names = st.lists(st.sampled_from("ab"), min_size=1, max_size=3).map("/".join)
contents = st.one_of(st.sampled_from(["x", "f", "d"]), names.map(lambda to: f">/{to}"))
gone = st.builds(
    lambda path: (str(PurePosixPath(path).with_name(f".wh.{PurePosixPath(path).name}")), "f"), names
)
layers = st.lists(st.lists(st.one_of(st.tuples(names, contents), gone), max_size=6), max_size=3)


@given(layers)
def test_what_is_found_in_layers_is_what_they_become(drawn: list[list[Entry]]) -> None:
    """Unless a layer cannot be unpacked, as where a file is in the place of a folder."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        image = open_image(layout(folder / "i", *drawn))
        root = folder / "root"
        root.mkdir()
        try:
            unpack(image, root)
        except (ImageError, OSError):
            return
        unpacked = Image(root)
        for depth in range(1, 4):
            for number in range(2**depth):
                path = "/" + "/".join("ab"[number >> at & 1] for at in range(depth))
                assert find_in(image, path) == find_in(unpacked, path), path


@given(
    st.dictionaries(names, st.sampled_from("xf"), max_size=8),
    st.lists(names.map(lambda name: Path("/", name)), max_size=3),
)
def test_a_root_shows_the_image_around_what_is_mounted_in_it(
    files: dict[str, str], places: list[Path]
) -> None:
    """And the image stays as it is."""
    with tempfile.TemporaryDirectory() as place:
        image, root = Path(place, "image"), Path(place, "root")
        image.mkdir()
        for name, content in files.items():
            try:
                (image / name).parent.mkdir(parents=True, exist_ok=True)
                (image / name).write_text(content)
            except OSError:  # a file in the place of a folder, or the reverse
                continue
        before = sorted(image.rglob("*"))
        pieces = assemble(image, root, [*FIXED, *places])
        assert sorted(image.rglob("*")) == before
        for file in (path for path in before if path.is_file()):
            inside = Path("/") / file.relative_to(image)
            covered = any(within(inside, place) for place in places)
            seen = [piece for piece in pieces if within(inside, piece.inside)]
            assert len(seen) == (0 if covered else 1)
            assert all(piece.source == image / piece.inside.relative_to("/") for piece in seen)
        for piece in pieces:
            assert not any(
                within(place, piece.inside) and piece.source.is_dir() for place in places
            ), "crun would make a folder in the image"
