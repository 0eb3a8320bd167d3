// One job: its live rows, a chart over its windows, what the answers cover, its tree, and the form that changes it.

import { call, follow, get } from "./api.js";
import { chart } from "./chart.js";
import { clock, compact, h, shown, span } from "./dom.js";
import { editor } from "./editor.js";
import { tree } from "./tree.js";

const WINDOWS_MAX = 60, LINES_MAX = 6, ROWS_MAX = 100, LOOK_MS = 2000, PAST = "15m";

export function jobView(view, name) {
  const path = `/v1/jobs/${encodeURIComponent(name)}`;
  const windows = new Map();
  const state = { job: null, etag: null, column: null, picked: null, dirty: false, link: "asking" };
  const parts = {
    head: h("section", { class: "head" }),
    chart: h("section", { class: "panel" }),
    rows: h("section", { class: "panel" }),
    cover: h("section", { class: "panel" }),
    tree: h("section", { class: "panel" }),
    form: h("section", { class: "panel" }),
  };
  view.replaceChildren(parts.head, h("div", { class: "columns" }, h("div", {}, parts.chart, parts.rows), h("div", {}, parts.cover, parts.form, parts.tree)));

  const changed = () => {
    if (state.dirty) return;
    state.dirty = true;
    requestAnimationFrame(() => {
      state.dirty = false;
      drawRows(parts.rows, windows, state, changed);
      drawChart(parts.chart, windows, state, changed);
      drawCover(parts.cover, windows, state);
    });
  };
  const take = (record) => {
    const key = record.window?.start ?? "";
    const known = windows.get(key);
    if (known && known.revision > record.revision) return;
    if (record.status === "withdrawn") windows.delete(key);
    else windows.set(key, record);
    for (const old of [...windows.keys()].sort().slice(0, -WINDOWS_MAX)) windows.delete(old);
    changed();
  };

  async function look() {
    try {
      const { body, etag } = await call("GET", path);
      const fresh = !state.job || state.job.revision !== body.revision;
      state.job = body;
      state.etag = etag;
      drawHead(parts.head, state, path);
      if (fresh) drawForm(parts.form, state, path, look);
      const [root, { nodes }] = await Promise.all([get(`${path}/tree`), get("/v1/nodes")]);
      parts.tree.replaceChildren(h("h2", {}, "Tree"), tree(root, new Map(nodes.map((node) => [node.name, node.kind]))));
    } catch (problem) {
      if (!state.job) parts.head.replaceChildren(h("h1", {}, name), h("p", { class: "warn" }, problem.message));
    }
    changed();
  }

  let link = null;
  (async () => {
    await look();
    let last = "";
    try {
      const page = await get(`${path}/results?limit=1000&from=-${PAST}`);
      page.results.forEach(take);
      last = String(page.last);
    } catch { /* the stream brings what comes */ }
    link = follow(`${path}/results/stream`, (record, kind) => { if (kind === "result") take(record); }, (said) => { state.link = said; changed(); }, last);
  })();
  const timer = setInterval(look, LOOK_MS);
  return () => { clearInterval(timer); link?.stop(); };
}

function drawHead(part, state, path) {
  const job = state.job;
  const act = (label, what, question) => h("button", { onclick: async () => {
    if (question && !confirm(question)) return;
    try { await what(); } catch (problem) { alert(problem.message); }
  } }, label);
  part.replaceChildren(
    h("h1", {}, job.name, " ", h("span", { class: `badge ${job.state}` }, job.state)),
    h("p", { class: "facts" }, `revision ${job.revision}`, " · ", `master ${job.master.name}`, job.watermark ? ` · results up to ${clock(job.watermark)}` : "", job.problem ? h("span", { class: "warn" }, ` · ${job.problem}`) : null),
    h("menu", {},
      act("Stop", () => call("POST", `${path}/stop`, { drain: true }), `Read what is there to its end and stop ${job.name}?`),
      act("Remove", async () => { await call("DELETE", path); location.hash = "#/"; }, `Remove ${job.name} and its results?`)));
}

/** Names of the columns but the window, of those that are numbers, and of those that are not. */
function columnsOf(rows) {
  const names = Object.keys(rows[0] ?? {}).filter((name) => !isWindow(rows[0][name]));
  const numeric = names.filter((name) => rows.some((row) => typeof row[name] === "number") && rows.every((row) => row[name] === null || typeof row[name] === "number"));
  return { names, numeric, keys: names.filter((name) => !numeric.includes(name)) };
}

const isWindow = (value) => value !== null && typeof value === "object" && "start" in value;
const newest = (windows) => [...windows.keys()].sort().reverse();

function drawRows(part, windows, state, changed) {
  const order = newest(windows);
  const key = state.picked !== null && windows.has(state.picked) ? state.picked : order[0];
  const record = windows.get(key);
  if (!record) {
    part.replaceChildren(h("h2", {}, "Rows"), h("p", { class: "hint" }, "No window has been published yet. The first appears when its end and the delay have passed."));
    return;
  }
  const rows = record.rows, { names, numeric } = columnsOf(rows);
  const most = Object.fromEntries(numeric.map((name) => [name, Math.max(0, ...rows.map((row) => row[name] ?? 0))]));
  const picker = h("select", { "aria-label": "Window", onchange: (event) => { state.picked = event.target.value === order[0] ? null : event.target.value; changed(); } },
    order.map((one) => h("option", { value: one, selected: one === key }, one ? `${clock(one)} to ${clock(windows.get(one).window.end)}` : "since the start")));
  const focused = document.activeElement?.closest?.("select") && part.contains(document.activeElement);
  part.replaceChildren(
    h("h2", {}, "Rows ", picker, " ", h("span", { class: `badge ${record.status}` }, record.status), record.revision > 1 ? h("span", { class: "hint" }, ` edition ${record.revision}`) : null),
    h("div", { class: "scroll" }, h("table", {},
      h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col", class: numeric.includes(name) ? "number" : "" }, name)))),
      h("tbody", {}, rows.slice(0, ROWS_MAX).map((row) => h("tr", {}, names.map((name) => cell(row[name], most[name]))))))),
    rows.length > ROWS_MAX ? h("p", { class: "hint" }, `${rows.length - ROWS_MAX} more rows in /results`) : "");
  if (focused) part.querySelector("select").focus();
}

function cell(value, most) {
  if (most === undefined) return h("td", {}, shown(value));
  const share = most > 0 && value > 0 ? Math.round((100 * value) / most) : 0;
  return h("td", { class: "number" }, h("span", { class: "bar", style: `--share:${share}%` }, shown(value)));
}

function drawChart(part, windows, state, changed) {
  const order = newest(windows).filter((one) => one).reverse();
  const last = windows.get(order.at(-1));
  const { numeric, keys } = columnsOf(last?.rows ?? []);
  if (order.length < 2 || !numeric.length) { part.hidden = true; return; }
  part.hidden = false;
  const column = numeric.includes(state.column) ? state.column : numeric[0];
  const nameOf = (row) => (keys.length ? keys.map((key) => shown(row[key])).join(" · ") : column);
  const weights = new Map();
  for (const one of order) {
    for (const row of windows.get(one).rows) weights.set(nameOf(row), (weights.get(nameOf(row)) ?? 0) + (row[column] ?? 0));
  }
  const names = [...weights].sort((a, b) => b[1] - a[1]).slice(0, LINES_MAX).map(([name]) => name);
  const series = names.map((name) => ({ name, points: order.map((one) => {
    const record = windows.get(one), row = record.rows.find((each) => nameOf(each) === name);
    return { at: Date.parse(one), value: row?.[column] ?? 0, final: record.status === "final" };
  }) }));
  const focused = part.contains(document.activeElement);
  part.replaceChildren(
    h("h2", {}, h("select", { "aria-label": "Column", onchange: (event) => { state.column = event.target.value; changed(); } },
      numeric.map((name) => h("option", { selected: name === column }, name))), ` over ${order.length} windows`),
    chart(series, `${column} over time`, Math.max(320, part.clientWidth - 32)),
    h("ul", { class: "legend" }, names.map((name, index) => h("li", { class: `c${index % 8}` }, name))));
  if (focused) part.querySelector("select").focus();
}

function drawCover(part, windows, state) {
  const record = windows.get(newest(windows)[0]);
  const cover = record?.coverage ?? state.job?.coverage;
  if (!cover) { part.replaceChildren(h("h2", {}, "Coverage")); return; }
  const missing = cover.missing ?? [];
  const fact = (label, value, bad) => h("div", { class: bad ? "bad" : "" }, h("dt", {}, label), h("dd", {}, value));
  part.replaceChildren(
    h("h2", {}, "Coverage"),
    h("meter", { min: "0", max: String(Math.max(1, cover.agents)), value: String(cover.agents - missing.length), "aria-label": "agents that answered" }),
    h("dl", {},
      fact("agents", `${cover.agents - missing.length} of ${cover.agents}`, missing.length > 0),
      ["lines", "rejected", "late", "lost_bytes", "shed"].filter((name) => name in cover).map((name) => fact(name.replace("_", " "), compact(cover[name]), name !== "lines" && cover[name] > 0)),
      state.job?.watermark ? fact("behind", span(Date.now() - Date.parse(state.job.watermark))) : null,
      fact("stream", state.link, state.link !== "live")),
    missing.length ? h("p", { class: "warn" }, `missing: ${missing.slice(0, 12).join(", ")}${missing.length > 12 ? ` and ${missing.length - 12} more` : ""}`) : "");
}

function drawForm(part, state, path, look) {
  if (part.contains(document.activeElement)) return;
  const job = state.job;
  part.replaceChildren(h("h2", {}, "Change it while it runs"), editor({
    name: job.name, sql: job.sql, settings: job.settings, verb: "Change",
    submit: async ({ sql, settings }) => {
      const patch = { sql, ...(Object.keys(settings).length ? { settings } : {}) };
      await call("PATCH", path, patch, { "If-Match": state.etag, "Content-Type": "application/merge-patch+json" });
      document.activeElement?.blur();
      await look();
    },
  }));
}
