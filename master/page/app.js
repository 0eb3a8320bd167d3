// The live page: which view the address names, and the short ones.

import { call, get } from "./api.js";
import { clock, h, span } from "./dom.js";
import { editor } from "./editor.js";
import { jobView } from "./job.js";

const LOOK_MS = 2000;
const EXAMPLE = `SELECT window(time, '10 seconds') AS w, path,
       count(*) AS hits, approx_percentile(request_time, 0.99) AS p99
FROM access
GROUP BY window(time, '10 seconds'), path
ORDER BY hits DESC
LIMIT 10`;

/** A view that asks again now and then; returns what ends it. */
function polled(draw) {
  let over = false, timer = 0;
  (async function again() {
    try {
      await draw();
    } catch (problem) {
      if (!over) document.getElementById("fleet").textContent = problem.message;
    }
    if (!over) timer = setTimeout(again, LOOK_MS);
  })();
  return () => { over = true; clearTimeout(timer); };
}

function table(names, rows, empty) {
  if (!rows.length) return h("p", { class: "hint" }, empty);
  return h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((value) => h("td", {}, value)))))));
}

const link = (name) => h("a", { href: `#/jobs/${encodeURIComponent(name)}` }, name);
const badge = (state) => h("span", { class: `badge ${state}` }, state);

function jobsView(view) {
  const list = h("section", { class: "panel" }, h("h2", {}, "Jobs"));
  view.replaceChildren(list);
  return polled(async () => {
    const { jobs } = await get("/v1/jobs");
    list.replaceChildren(h("h2", {}, "Jobs"),
      table(["name", "state", "source", "revision", "since"], jobs.map((job) => [link(job.name), badge(job.state), job.source, String(job.revision), clock(job.created)]),
        "No job runs yet."),
      h("p", {}, h("a", { href: "#/new", class: "primary" }, "New job")));
  });
}

function nodesView(view) {
  const list = h("section", { class: "panel" }, h("h2", {}, "Nodes"));
  view.replaceChildren(list);
  return polled(async () => {
    const { nodes } = await get("/v1/nodes");
    list.replaceChildren(h("h2", {}, `${nodes.length} nodes`),
      table(["name", "kind", "address", "sources", "version", "up for", "last heard"],
        nodes.map((node) => [node.name, node.kind, node.address, (node.sources ?? []).join(", "), node.version, span(Date.now() - Date.parse(node.started)), clock(node.told)]),
        "No node has told of itself yet."));
  });
}

function newView(view) {
  view.replaceChildren(h("section", { class: "panel" }, h("h2", {}, "Ask the fleet"),
    h("p", { class: "hint" }, "A job is a SQL group-by over the logs of all agents. It runs until you stop it, and can be changed while it runs."),
    editor({ sql: EXAMPLE, verb: "Start", submit: async (job) => {
      await call("POST", "/v1/jobs", job);
      location.hash = `#/jobs/${encodeURIComponent(job.name)}`;
    } })));
  view.querySelector("#name").focus();
  return () => {};
}

let leave = () => {};
function route() {
  leave();
  const view = document.getElementById("view");
  const [, where = "", name = ""] = location.hash.split("/");
  const here = where === "nodes" || where === "new" ? where : "jobs";
  for (const item of document.querySelectorAll("[data-nav]")) item.toggleAttribute("aria-current", item.dataset.nav === here);
  document.title = name ? `${decodeURIComponent(name)} · elfstream` : "elfstream";
  leave = where === "jobs" && name ? jobView(view, decodeURIComponent(name))
    : where === "nodes" ? nodesView(view)
      : where === "new" ? newView(view) : jobsView(view);
}

polled(async () => {
  const { nodes } = await get("/v1/nodes");
  const agents = nodes.filter((node) => node.kind === "agent").length;
  document.getElementById("fleet").textContent = `${agents} agents, ${nodes.length - agents} workers`;
});
window.addEventListener("hashchange", route);
route();
