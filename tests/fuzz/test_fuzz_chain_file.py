"""Whatever stands in a chain file: it is a plan or sentences; no crash, and not for ever."""

import os
import random
import resource
from pathlib import Path

from tests.fuzz.mutation import no_hang, rounds, spoiled
from tests.python.planned import EIGHT_CPUS, places
from unis import built
from unis.chain.load import load
from unis.chain.problem import ChainFileError
from unis.plan.planner import make_plan

# Of programs that every machine has, so that some become plans.
SMALL = b"""\
apiVersion: unis/v1
name: small
defaults: {cpu: 1}
functions:
  a: {program: sh, cost_ns: 50}
  b: {program: sh, cost_ns: 9, args: [-x]}
  c: {program: sh, cpu: 2}
chains: {edge: {path: [a, b, c], match: [{protocol: udp}]}, back: {reverse_of: edge}}
links: [{from: a, to: b, kind: memif, slots: 512}]
traffic: {source: {kind: synthetic, size: imix}, rate: 10Mpps}
scheduler: {policy: unis, gamma: 0.7, theta_min: 10}
"""
EXAMPLES = [SMALL] * 6 + [
    file.read_bytes() for file in sorted(built.examples_directory().glob("*.yaml"))
]
WORDS = [
    word.encode()
    for word in (
        "&a", "*a", "<<: *a", "!!timestamp x", "!!binary =", "!!set", "!!omap", "!a", "? ", ": ",
        "- ", "{", "}", "[", "]", "|", ">", "'", '"', "#", "%YAML 9.9\n", "---\n", "...\n", "\t",
        "\x00", "\x85", "\ufeff", "${A}", "${A:-", "${PATH}", "$", "~", "null", "true", "0x", "0o9",
        "1_0", "-1", "0", ".inf", ".nan", "1e999", "9" * 30, "9" * 5000, "1:2:3", "2001-99-99",
        "\n", "  ", "ingress", "egress", "reverse_of: ", "kind: memif", "kind: port", "path: ",
        "command: ", "size: ", "10gbps", "1e400pps", "10.0.0.0/99", "::/0", "\\x", "../", "%s",
    )
]  # fmt: skip


def wild(dice: random.Random) -> bytes:
    match dice.randrange(12):
        case 0:
            return dice.randbytes(dice.randint(0, 300))
        case 1:
            return b"".join(dice.choice(WORDS) for _ in range(dice.randint(1, 60)))
        case 2:  # deep
            return dice.choice((b"[", b"{a: ", b"- ", b"? ", b"&a [")) * dice.randint(1, 4000)
        case 3:  # aliases of aliases
            rows = [b"a0: &a0 [x, x, x]"]
            rows += [b"a%d: &a%d [%s]" % (n, n, b"*a%d, " % (n - 1) * 9) for n in range(1, 9)]
            return b"\n".join((*rows, spoiled(dice, dice.choice(EXAMPLES), WORDS)))
        case 4:
            return SMALL
        case _:
            return spoiled(dice, dice.choice(EXAMPLES), WORDS)


def test_a_chain_file_is_a_plan_or_sentences(tmp_path: Path) -> None:
    file = tmp_path / "chain.yaml"
    plans = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for dice in rounds():
        file.write_bytes(wild(dice))
        with no_hang():
            try:
                make_plan(load(file), EIGHT_CPUS, (), places)
            except ChainFileError:
                continue
            plans += 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 << 10  # KiB
    assert plans or os.environ.get("UNIS_FUZZ_SEED"), "none was read to its end"
