// A job's reducer tree, root at the top: squares are workers, circles are agents.

import { count, s } from "./dom.js";

const ACROSS = 74, DOWN = 78, MARGIN = 44, SHOWN_MAX = 24;
/** Edges begin below the name of a vertex. */
const NAMED = 30;

/** `node`: {name, role, agents, children: [...]}; `kinds`: agent or worker, by name. */
export function tree(node, kinds) {
  const placed = [];
  const leaves = { count: 0 };
  const depth = place(node, 0, leaves, placed);
  const width = Math.max(1, leaves.count) * ACROSS + MARGIN, height = (depth - 1) * DOWN + 62;
  const svg = s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "tree", role: "img", "aria-label": `the tree of reducers, ${placed.length} vertices; ${node.name} is its root` });
  for (const one of placed) {
    for (const child of one.below) {
      const begin = one.y + NAMED, middle = (begin + child.y) / 2;
      svg.append(s("path", { d: `M${one.x} ${begin}C${one.x} ${middle} ${child.x} ${middle} ${child.x} ${child.y}`, class: "edge" }));
    }
  }
  for (const one of placed) svg.append(mark(one, kinds.get(one.node.name)));
  return svg;
}

function place(node, level, leaves, placed) {
  const spot = { node, y: 24 + level * DOWN, below: [] };
  let deepest = level + 1;
  const children = node.children ?? [];
  for (const child of children.slice(0, SHOWN_MAX)) {
    deepest = Math.max(deepest, place(child, level + 1, leaves, placed));
    spot.below.push(placed.at(-1));
  }
  const hidden = (node.hidden ?? 0) + Math.max(0, children.length - SHOWN_MAX);
  if (hidden) {
    deepest = Math.max(deepest, place({ name: `and ${hidden} more`, role: "more" }, level + 1, leaves, placed));
    spot.below.push(placed.at(-1));
  }
  spot.x = spot.below.length
    ? (spot.below[0].x + spot.below.at(-1).x) / 2
    : MARGIN + leaves.count++ * ACROSS;
  placed.push(spot);
  return deepest;
}

function mark({ node, x, y }, kind) {
  const root = node.role === "root";
  const shape = node.role === "more"
    ? s("text", { x, y: y + 4, class: "axis middle" }, "...")
    : kind === "worker"
      ? s("rect", { x: x - 8, y: y - 8, width: 16, height: 16, rx: 3 })
      : s("circle", { cx: x, cy: y, r: 8 });
  const name = String(node.name ?? "");
  return s("g", { class: `vertex ${kind ?? ""}${root ? " root" : ""}${node.problem ? " troubled" : ""}` },
    shape,
    s("title", {}, `${name}${root ? ", the master" : ""}: ${node.problem ?? count(node.agents ?? 0, "agent")}`),
    s("text", { x, y: y + 24, class: "axis middle" }, name.length > 11 ? `${name.slice(0, 10)}…` : name));
}
