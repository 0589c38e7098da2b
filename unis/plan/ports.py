"""Through which ports of a function each chain goes. Our functions forward 0↔1, 2↔3 and so on."""

from collections.abc import Set as AbstractSet

from unis.chain.model import ChainFile

Way = tuple[int, int]  # in port, out port


def ways(file: ChainFile, function: str, own: AbstractSet[str]) -> dict[str, Way]:
    """By chain. A function of one chain has one port; of more, a pair for each two of them: there
    and back. A way back takes the pair of its way there, as does a memif, which carries both.
    A command has a pair in any case: most programs forward from a port to another.
    """
    serving = [name for name in file.chains if function in file.path(name)]
    command = file.functions[function].command is not None
    if len(serving) == 1 and function not in own and not command:
        return {serving[0]: (0, 0)}
    back = {chain.reverse_of: name for name, chain in file.chains.items() if chain.reverse_of}
    found: dict[str, Way] = {}
    ports = 0
    left: Way | None = None  # the free direction of a pair
    for name in serving:
        if file.chains[name].reverse_of:
            continue
        if left and name not in back and function not in own:
            found[name], left = left, None
            continue
        there, there_back = (ports, ports + 1), (ports + 1, ports)
        ports += 2
        found[name] = there
        if name in back:
            found[back[name]] = there_back
        elif function not in own:
            left = there_back
    return found
