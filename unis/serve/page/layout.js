// Where the nodes of a chain stand, and how its edges run. Pure: nothing is drawn here.

export const BOX = { width: 186, height: 112 };
export const END = { width: 84, height: 46 };
const GAP = 102; // between boxes, for what is told of a link
const BRANCH_GAP = 112;
const LANE = 138; // from row to row
const TOP = 2; // for the frame of a box
const LOW = (BOX.height - END.height) / 2; // by which source and sink are lower
const TURN = 10; // beside the boxes, where an edge turns to the next row

function sizeOf(node) {
  return node.end ? END : BOX;
}

/** Source, functions, sink, and the edges between them; `key` is another for another shape. */
export function graphOf(chain) {
  const { functions, edges } = chain.spec;
  const nodes = [
    { id: "source:", name: "source", end: true },
    ...functions.map((name) => ({ id: name, name, end: false })),
    { id: ":sink", name: "sink", end: true },
  ];
  const stops = nodes.map((node) => node.id);
  const found = edges.length
    ? edges.map(({ from, to, port }) => ({ from: from || "source:", to: to || ":sink", port, stated: { from, to, port } }))
    : stops.slice(1).map((to, index) => ({ from: stops[index], to, port: "", stated: null }));
  for (const edge of found) edge.key = `${edge.from}→${edge.to}:${edge.port}`;
  return { nodes, edges: found, branched: edges.length > 0, key: JSON.stringify([functions, edges]) };
}

/** Places by node and edge, for a width in pixels. */
export function placed(graph, width) {
  return graph.branched ? layered(graph) : flowing(graph, width);
}

/** A chain without branches runs like text: from left to right, row below row. */
function flowing({ nodes, edges }, width) {
  const boxes = new Map();
  const lines = new Map();
  let x = TURN;
  let y = TOP;
  let [right, middle, above] = [0, 0, 0]; // the place before
  nodes.forEach((node, index) => {
    const size = sizeOf(node);
    const gap = index ? GAP : 0;
    const turns = index > 0 && x + gap + size.width > width - TURN;
    if (turns) [x, y, above] = [TURN, y + LANE - (node.end ? LOW : 0), middle];
    middle = y + BOX.height / 2;
    const start = x;
    x += gap;
    boxes.set(node.id, { x, y: middle - size.height / 2, ...size });
    if (index) lines.set(edges[index - 1].key, flowingLine(start, x, middle, turns ? { x: right, y: above } : null));
    x += size.width;
    right = x;
  });
  const widest = Math.max(...[...boxes.values()].map((box) => box.x + box.width));
  return { boxes, lines, width: widest + TURN, height: y + BOX.height + TOP - (x <= TURN + GAP + END.width ? LOW : 0) };
}

/** `before`: where the edge leaves the row above; null: it is in this row. */
function flowingLine(start, end, middle, before) {
  const label = { x: (start + end) / 2 - 2, y: middle };
  if (!before) return { path: `M${start} ${middle}H${end - 2}`, label };
  const between = before.y + LANE / 2;
  const path = `M${before.x} ${before.y}H${before.x + TURN - 3}V${between}H3V${middle}H${end - 2}`;
  return { path, label };
}

/** A chain with branches stands in columns by its longest way from the source. */
function layered({ nodes, edges }) {
  const rank = new Map(nodes.map((node) => [node.id, 0]));
  for (let turn = 0; turn < nodes.length; turn += 1) {
    for (const { from, to } of edges) {
      if (rank.get(to) <= rank.get(from) && rank.get(from) < nodes.length) rank.set(to, rank.get(from) + 1);
    }
  }
  const last = Math.max(...rank.values());
  rank.set(":sink", last);
  const columns = Array.from({ length: last + 1 }, () => []);
  for (const node of nodes) columns[rank.get(node.id)].push({ id: node.id, size: sizeOf(node), from: [] });
  const ways = edges.map((edge) => wayOf(edge, rank, columns));
  placeInLanes(columns);
  const rows = Math.max(...columns.flat().map((place) => place.lane)) + 1;
  const boxes = new Map();
  const at = new Map();
  columns.forEach((column, index) => {
    const x = TURN + (index ? END.width + BRANCH_GAP + (index - 1) * (BOX.width + BRANCH_GAP) : 0);
    for (const place of column) {
      const middle = TOP + place.lane * LANE + BOX.height / 2;
      const box = { x, y: middle - place.size.height / 2, ...place.size };
      at.set(place.id, box);
      if (!place.passing) boxes.set(place.id, box);
    }
  });
  const lines = new Map(ways.map((way) => [way.edge.key, lineOf(way, ways, at)]));
  const width = Math.max(...[...boxes.values()].map((box) => box.x + box.width)) + TURN;
  return { boxes, lines, width, height: (rows - 1) * LANE + BOX.height + 2 * TOP };
}

/** The places that an edge passes; in columns between its ends it gets places of its own. */
function wayOf(edge, rank, columns) {
  const stops = [edge.from];
  for (let column = rank.get(edge.from) + 1; column < rank.get(edge.to); column += 1) {
    const id = `${edge.key}@${column}`;
    columns[column].push({ id, size: BOX, from: [stops.at(-1)], passing: true });
    stops.push(id);
  }
  stops.push(edge.to);
  columns[rank.get(edge.to)].find((place) => place.id === edge.to)?.from.push(stops.at(-2));
  return { edge, stops };
}

/** Beside those that come before, so that few edges cross. */
function placeInLanes(columns) {
  const lanes = new Map();
  const tallest = Math.max(...columns.map((column) => column.length));
  for (const column of columns) {
    const wanted = (place) => {
      const before = place.from.filter((id) => lanes.has(id)).map((id) => lanes.get(id));
      return before.length ? before.reduce((sum, lane) => sum + lane, 0) / before.length : (tallest - 1) / 2;
    };
    column.sort((a, b) => wanted(a) - wanted(b));
    const middle = column.reduce((sum, place) => sum + wanted(place), 0) / column.length;
    const first = Math.max(0, Math.min(tallest - column.length, middle - (column.length - 1) / 2));
    column.forEach((place, index) => {
      place.lane = first + index;
      lanes.set(place.id, place.lane);
    });
  }
}

function lineOf({ edge, stops }, ways, at) {
  const points = stops.slice(1).map((to, index) => {
    const [a, b] = [at.get(stops[index]), at.get(to)];
    return {
      x0: a.x + a.width,
      y0: a.y + a.height * (index ? 0.5 : share(edge, ways, "from")),
      x1: b.x,
      y1: b.y + b.height * (index === stops.length - 2 ? share(edge, ways, "to") : 0.5),
      through: index < stops.length - 2 ? b.x + b.width : null,
    };
  });
  const path = points
    .map(({ x0, y0, x1, y1, through }, index) => {
      const middle = (x0 + x1) / 2;
      const end = index === points.length - 1 ? x1 - 2 : x1;
      const begin = `${index ? "L" : "M"}${x0} ${y0}`;
      const rest = through === null ? "" : `H${through}`;
      return `${begin}C${middle} ${y0} ${middle} ${y1} ${end} ${y1}${rest}`;
    })
    .join("");
  const { x0, y0, x1, y1 } = points[0];
  return { path, label: { x: (x0 + x1) / 2, y: (y0 + y1) / 2 } };
}

/** Where on the side of a box an edge begins or ends: edges share the side. */
function share(edge, ways, side) {
  const same = ways.map((way) => way.edge).filter((other) => other[side] === edge[side]);
  return (same.indexOf(edge) + 1) / (same.length + 1);
}
