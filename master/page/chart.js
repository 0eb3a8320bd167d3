// Lines over windows, drawn as SVG. Tentative windows are dashed and hollow.

import { clock, compact, s } from "./dom.js";

const HEIGHT = 260, LEFT = 52, RIGHT = 12, TOP = 12, BOTTOM = 26;

/** Steps of 1, 2 or 5 that cover `most` in about four parts. */
function steps(most) {
  if (!(most > 0)) return [0, 1];
  const raw = most / 4, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((part) => part * power).find((size) => size >= raw);
  const found = [];
  for (let at = 0; at < most + step * 0.999; at += step) found.push(at);
  return found;
}

/**
 * series: [{name, points: [{at: ms, value, final}]}], `at` ascending; width in pixels. Returns the svg element.
 */
export function chart(series, label, width) {
  const times = [...new Set(series.flatMap((one) => one.points.map((point) => point.at)))].sort((a, b) => a - b);
  const most = Math.max(0, ...series.flatMap((one) => one.points.map((point) => point.value)));
  const ticks = steps(most), top = ticks.at(-1);
  const first = times[0] ?? 0, wide = (times.at(-1) ?? 1) - first || 1;
  const x = (at) => LEFT + ((at - first) / wide) * (width - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM);
  const svg = s("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, class: "chart", role: "img", "aria-label": label });
  for (const tick of ticks) {
    svg.append(
      s("line", { x1: LEFT, x2: width - RIGHT, y1: y(tick), y2: y(tick), class: "grid" }),
      s("text", { x: LEFT - 6, y: y(tick) + 4, class: "axis end" }, compact(tick)),
    );
  }
  const every = Math.max(1, Math.ceil(times.length / (width / 150)));
  times.forEach((at, index) => {
    if (index % every === 0) svg.append(s("text", { x: x(at), y: HEIGHT - 8, class: "axis middle" }, clock(at)));
  });
  series.forEach((one, index) => svg.append(line(one, index, x, y)));
  return svg;
}

function line(one, index, x, y) {
  const group = s("g", { class: `series c${index % 8}` });
  const path = (points) => points.map((point, at) => `${at ? "L" : "M"}${x(point.at).toFixed(1)} ${y(point.value).toFixed(1)}`).join("");
  const finals = one.points.filter((point) => point.final);
  const rest = one.points.slice(Math.max(0, finals.length - 1));
  group.append(s("path", { d: path(finals), class: "line" }));
  if (rest.length > 1) group.append(s("path", { d: path(rest), class: "line tentative" }));
  for (const point of one.points) {
    const dot = s("circle", { cx: x(point.at), cy: y(point.value), r: point.final ? 2.5 : 3.5, class: point.final ? "dot" : "dot tentative" });
    dot.append(s("title", {}, `${one.name}: ${compact(point.value)} at ${clock(point.at)}${point.final ? "" : " (tentative)"}`));
    group.append(dot);
  }
  return group;
}
