// The newest windows of a job, and the two panels that show them: rows of one, a chart over all.

import { chart } from "./chart.js";
import { badge, draw, h, picker } from "./dom.js";
import { decimals, isNumber, isWindow, numberOf, period, shown } from "./values.js";

const WINDOWS_MAX = 60, LINES_MAX = 6;
export const ROWS_MAX = 100;

/** The latest edition of each window, by its start; "" is the one window of a job that has none. */
export class Windows {
  constructor() {
    this.held = new Map();
    this.picked = "";
    /** Columns that tell the rows of a window apart. */
    this.keys = [];
  }

  take(record) {
    const key = record.window?.start ?? "", known = this.held.get(key);
    if (known && known.revision > record.revision) return;
    if (record.status === "withdrawn") this.held.delete(key);
    else this.held.set(key, record);
    for (const old of this.starts().slice(0, -WINDOWS_MAX)) if (old !== this.picked) this.held.delete(old);
  }

  starts() {
    return [...this.held.keys()].sort();
  }

  newest() {
    return this.held.get(this.starts().at(-1));
  }
}

const times = (window) => (window ? period(window) : "since the job began");
const columnsOf = (record) => record.columns.filter((one) => !isWindow(one.type)).map(({ name, type }) => ({ name, type, isNumber: isNumber(type) }));

/** Rows of the newest window, or of the one that is picked. `changed` is called when the user picks. */
export function rowsPanel(windows, changed) {
  const pick = picker("Window", (value) => { windows.picked = value; changed(); });
  const about = h("span", {}), body = h("div", {});
  const part = h("section", { class: "panel" }, h("h2", { class: "bar-head" }, "Rows ", pick.select, about), body);
  return { part, update() {
    const record = windows.held.get(windows.picked) ?? windows.newest();
    pick.select.hidden = windows.held.size < 2;
    pick.offer([["", "newest window"], ...windows.starts().reverse().map((one) => [one, times(windows.held.get(one).window)])], windows.held.has(windows.picked) ? windows.picked : "");
    draw(about, ...(record ? [`${times(record.window)} `, badge(record.status), h("span", { class: "hint" }, ` by revision ${record.plan} of the job${record.window && record.revision > 1 ? `, edition ${record.revision} of the window` : ""}`)] : []));
    draw(body, record ? rowsTable(record, windows.keys) : h("p", { class: "hint" }, "No window has been published yet. The first comes when logs have lines in it, its end has passed, and then the delay."));
  } };
}

function rowsTable(record, keys) {
  const columns = columnsOf(record), rows = record.rows;
  const digits = new Map(columns.filter((one) => one.isNumber).map((one) => [one.name, Math.max(0, ...rows.map((row) => decimals(shown(row[one.name], one.type))))]));
  const most = new Map(columns.filter((one) => one.isNumber && !keys.includes(one.name)).map(({ name }) => [name, rows.length > 1 ? Math.max(0, ...rows.map((row) => numberOf(row[name]) ?? 0)) : 0]));
  const hidden = record.row_count - rows.length;
  return [
    h("div", { class: "scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, columns.map((one) => h("th", { scope: "col", class: one.isNumber ? "number" : null, title: one.type }, one.name)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, columns.map((one) => cell(row[one.name], one, most.get(one.name), digits.get(one.name)))))))),
    rows.length ? "" : h("p", { class: "hint" }, "This window has no rows."),
    hidden > 0 ? h("p", { class: "hint" }, `and ${hidden.toLocaleString("en")} more; all of them are in the results`) : "",
  ];
}

/** `digits`: that any number of the column has after the point; those that have less are moved, so that points are below each other. */
function cell(value, { type, isNumber: right }, most, digits) {
  const text = shown(value, type), quiet = value === null || value === undefined || value === "";
  const inner = quiet ? h("span", { class: "hint" }, value === "" ? "empty" : text) : text;
  const title = quiet || text.length < 24 ? null : text;
  if (!right) return h("td", { title }, inner);
  const number = numberOf(value), share = number > 0 && most > 0 ? Math.round((100 * number) / most) : 0;
  const less = digits - decimals(text) + (digits && !text.includes(".") ? 0.5 : 0);
  return h("td", { class: "number" }, h("span", { class: "bar", style: `--share:${share}%;--less:${less}` }, inner));
}

/** What tells the rows of a window apart: all but numbers and arrays, and numbers from the left as far as they are needed. */
function keysOf(columns, records) {
  const keys = columns.filter((one) => !one.isNumber && !one.type.startsWith("ARRAY"));
  for (const more of columns.filter((one) => one.isNumber)) {
    if (records.every(({ rows }) => new Set(rows.map((row) => nameOf(row, keys))).size === rows.length)) break;
    keys.push(more);
  }
  return keys;
}

const nameOf = (row, keys) => keys.map(({ name, type }) => shown(row[name], type)).join(" · ");

/** One number of the rows over the windows, for the groups where it is greatest in all. */
export function chartPanel(windows) {
  let column = "";
  const pick = picker("Column", (value) => { column = value; update(); });
  const about = h("span", {}), body = h("div", {});
  const part = h("section", { class: "panel", hidden: true }, h("h2", { class: "bar-head" }, pick.select, about), body);
  function update() {
    const records = windows.starts().filter((one) => one).map((one) => windows.held.get(one));
    const columns = records.length ? columnsOf(records.at(-1)) : [];
    const keys = keysOf(columns, records);
    const numbers = columns.filter((one) => one.isNumber && !keys.includes(one)).map(({ name }) => name);
    part.hidden = records.length < 2 || !numbers.length;
    if (part.hidden) return;
    if (!numbers.includes(column)) column = numbers[0];
    pick.offer(numbers.map((one) => [one, one]), column);
    const series = seriesOf(records, keys, column);
    draw(about, `over ${records.length} windows`);
    draw(body,
      chart(series, marksOf(records), `${column} over ${records.length} windows; the rows below have the numbers`, Math.max(300, part.clientWidth - 32)),
      keys.length ? h("ul", { class: "legend" }, series.map((one, index) => h("li", { class: `c${index}` }, one.name))) : "");
  }
  return { part, update };
}

function seriesOf(records, keys, column) {
  const sums = new Map();
  const found = records.map(({ rows }) => new Map(rows.map((row) => [nameOf(row, keys), numberOf(row[column])])));
  for (const [name, value] of found.flatMap((one) => [...one])) sums.set(name, (sums.get(name) ?? 0) + Math.abs(value ?? 0));
  const names = [...sums].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).slice(0, LINES_MAX).map(([name]) => name);
  return names.map((name) => ({ name: name || column, points: records.map((record, at) => ({
    at: Date.parse(record.window.start), value: found[at].get(name) ?? null, final: record.status === "final",
  })) }));
}

/** Where the plan of the job changed. */
const marksOf = (records) => records.slice(1).filter((one, at) => one.plan !== records[at].plan).map((one) => ({ at: Date.parse(one.window.start), text: `revision ${one.plan}` }));
