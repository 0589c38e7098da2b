"""Through which ports of a function each chain goes. Our functions forward 0↔1, 2↔3 and so on."""

from unis.chain.graph import ChainGraph, Graph

Way = tuple[int, int]  # in port, out port


def ways(graph: Graph, function: str, *, duplex: bool) -> dict[str, Way]:
    """By chain. A function of one chain has one port; of more, a pair for each two of them: there
    and back. A way back takes the pair of its way there, as does a `duplex` link, which carries
    both. A command has a pair in any case: most programs forward from a port to another.
    """
    serving = graph.chains_of(function)
    command = graph.functions[function].command is not None
    if stated := {chain.name: way for chain in serving if (way := _stated(chain, function))}:
        return stated
    if len(serving) == 1 and not duplex and not command:
        return {serving[0].name: (0, 0)}
    found: dict[str, Way] = {}
    ports = 0
    left: Way | None = None  # the free direction of a pair
    for chain in serving:
        if chain.reverse_of:
            continue
        back = graph.back_of(chain.name)
        if left and not back and not duplex:
            found[chain.name], left = left, None
            continue
        there, there_back = (ports, ports + 1), (ports + 1, ports)
        ports += 2
        found[chain.name] = there
        if back:
            found[back.name] = there_back
        elif not duplex:
            left = there_back
    return found


def _stated(chain: ChainGraph, function: str) -> Way | None:
    """What the edges of the chain say, the first of several."""
    received, sent = chain.stated_ports(function)
    return (min(received), min(sent)) if received and sent else None
