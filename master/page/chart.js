// Lines over windows, drawn as SVG. Tentative windows are dashed and hollow.

import { s } from "./dom.js";
import { clock, compact } from "./values.js";

const HEIGHT = 260, LEFT = 52, RIGHT = 28, TOP = 12, BOTTOM = 26;

/** Multiples of 1, 2 or 5 times a power of ten that cover `least` to `most` in about four parts. */
function steps(least, most) {
  const raw = (most - least || 1) / 4, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((part) => part * power).find((size) => size >= raw) ?? 10 * power;
  const first = Math.floor(least / step), last = Math.ceil(most / step);
  return Array.from({ length: Math.max(1, last - first) + 1 }, (_, at) => (first + at) * step);
}

/**
 * series: [{name, points: [{at: ms, value or null, final}]}], `at` ascending, null where there is none; marks: [{at, text}];
 * width in pixels. Returns the svg element.
 */
export function chart(series, marks, label, width) {
  const times = [...new Set(series.flatMap((one) => one.points.map((point) => point.at)))].sort((a, b) => a - b);
  const values = series.flatMap((one) => one.points.map((point) => point.value ?? 0));
  const ticks = steps(Math.min(0, ...values), Math.max(0, ...values)), low = ticks[0], top = ticks.at(-1);
  const first = times[0] ?? 0, wide = (times.at(-1) ?? 1) - first || 1;
  const x = (at) => LEFT + ((at - first) / wide) * (width - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - ((value - low) / (top - low)) * (HEIGHT - TOP - BOTTOM);
  const svg = s("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, class: "chart", role: "img", "aria-label": label });
  for (const tick of ticks) {
    svg.append(
      s("line", { x1: LEFT, x2: width - RIGHT, y1: y(tick), y2: y(tick), class: "grid" }),
      s("text", { x: LEFT - 6, y: y(tick) + 4, class: "axis end" }, compact(tick)),
    );
  }
  const every = Math.max(1, Math.ceil(times.length / (width / 150)));
  times.forEach((at, index) => {
    if (index % every === 0) svg.append(s("text", { x: x(at), y: HEIGHT - 8, class: "axis middle" }, clock(at, times.at(-1))));
  });
  for (const mark of marks) {
    svg.append(
      s("line", { x1: x(mark.at), x2: x(mark.at), y1: TOP, y2: HEIGHT - BOTTOM, class: "mark" }),
      s("text", { x: x(mark.at) + 4, y: TOP + 8, class: "axis" }, mark.text),
    );
  }
  series.forEach((one, index) => svg.append(line(one, index, x, y)));
  return svg;
}

function line(one, index, x, y) {
  const group = s("g", { class: `series c${index}` });
  const spot = (point) => `${x(point.at).toFixed(1)} ${y(point.value).toFixed(1)}`;
  const paths = { true: "", false: "" };
  one.points.forEach((point, at) => {
    const last = one.points[at - 1];
    if (last && last.value !== null && point.value !== null) paths[last.final && point.final] += `M${spot(last)}L${spot(point)}`;
  });
  group.append(s("path", { d: paths.true, class: "line" }), s("path", { d: paths.false, class: "line tentative" }));
  for (const point of one.points.filter(({ value }) => value !== null)) {
    const dot = s("circle", { cx: x(point.at).toFixed(1), cy: y(point.value).toFixed(1), r: point.final ? 2.5 : 3.5, class: point.final ? "dot" : "dot tentative" });
    dot.append(s("title", {}, `${one.name}: ${compact(point.value)} at ${clock(point.at)}${point.final ? "" : " (tentative)"}`));
    group.append(dot);
  }
  return group;
}
