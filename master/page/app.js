// The live page: which view the address names, and the short ones.

import { askAgain, call, get, hasToken, polled } from "./api.js";
import { badge, count, draw, h, jobLink } from "./dom.js";
import { editor } from "./editor.js";
import { jobView } from "./job.js";
import { clock, span } from "./values.js";

const top = document.getElementById("fleet"), said = document.getElementById("said");

let parting = "";
const fleet = {
  /** Shows that the fleet does not answer, or (null) that it does. */
  trouble(problem) {
    document.body.classList.toggle("stale", problem !== null);
    if (problem !== null) draw(top, h("span", { class: "warn" }, problem.message), problem.status === 401 ? h("button", { class: "small", onclick: askAgain, "data-key": "token" }, "Give it") : "");
  },
  /** Opens a view, with a sentence. */
  go(hash, sentence) {
    parting = sentence;
    location.hash = hash;
  },
  /** A sentence for the user; it stays until another view is opened. */
  say(sentence) {
    said.textContent = sentence;
    said.hidden = !sentence;
  },
};

function table(names, rows, empty) {
  if (!rows.length) return h("p", { class: "hint" }, empty);
  return h("div", { class: "scroll" }, h("table", { class: "cards" },
    h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((value, at) => h("td", { "data-label": names[at] }, value)))))));
}

function listView(view, title, rows) {
  const list = h("section", { class: "panel" }, h("h1", {}, title));
  view.replaceChildren(list);
  return polled(async () => {
    const drawn = await rows();
    fleet.trouble(null);
    draw(list, ...drawn);
  }, fleet.trouble);
}

const standing = (job) => (job.problem ? [badge("no leader", "troubled"), h("span", { class: "warn why" }, job.problem.replace("no leader: ", ""))] : [badge(job.state)]);

const jobsView = (view) => listView(view, "Jobs", async () => {
  const { jobs, next } = await get("/v1/jobs");
  return [h("h1", {}, "Jobs"),
    table(["name", "state", "source", "revision", "made", "changed"],
      jobs.map((job) => [h("a", { href: jobLink(job.name), "data-key": job.name }, job.name), standing(job), job.source ?? "derived", String(job.revision), clock(job.created), job.revision > 1 ? clock(job.changed) : ""]),
      "No job runs yet."),
    next ? h("p", { class: "hint" }, "There are more jobs; elfstream job list shows all of them.") : "",
    h("p", {}, h("a", { href: "#/new", class: "button primary", "data-key": "new" }, "New job"))];
});

/** Nodes tell of themselves every 30 s. */
const SILENT_MS = 45000;
const heard = (ago) => [`${span(ago)} ago`, ago > SILENT_MS ? [" ", badge("silent", "troubled")] : ""].flat();

const nodesView = (view) => listView(view, "Nodes", async () => {
  const { nodes } = await get("/v1/nodes"), now = Date.now();
  return [h("h1", {}, "Nodes"),
    table(["name", "kind", "address", "sources", "version", "up for", "last heard"],
      nodes.map((node) => [node.name, node.left ? badge("left") : node.kind, node.address, (node.sources ?? []).join(", "), node.version, node.left ? "" : span(now - Date.parse(node.started)), heard(now - Date.parse(node.told))]),
      "No node has told of itself yet.")];
});

const WINDOW = "window(time, '10 seconds')";

/** A first job over a source. */
function example({ name, fields }) {
  const has = (field) => fields.some((one) => one.name === field);
  const key = ["path", "status", "host"].find(has);
  const more = has("request_time") ? ", approx_percentile(request_time, 0.99) AS p99" : "";
  if (!key) return `SELECT ${WINDOW} AS w, count(*) AS n${more}\nFROM ${name}\nGROUP BY ${WINDOW}`;
  return `SELECT ${WINDOW} AS w, ${key},\n       count(*) AS n${more}\nFROM ${name}\nGROUP BY ${WINDOW}, ${key}\nORDER BY n DESC\nLIMIT 10`;
}

function newView(view, from) {
  let parameters = {};
  const form = editor({ named: true, verb: "Start",
    check: async (job) => (await call("POST", "/v1/validate", { ...job, parameters, name: job.name || "unnamed" })).body,
    submit: async (job) => {
      await call("POST", "/v1/jobs", { ...job, parameters });
      location.hash = jobLink(job.name);
    } });
  const sources = h("div", {});
  view.replaceChildren(h("section", { class: "panel" }, h("h1", {}, "New job"),
    h("p", { class: "hint" }, "A job is a SQL group-by over the logs of all agents. It runs until you stop it, and can be changed while it runs."),
    form.form), sources);
  view.querySelector("#name").focus();
  (async () => {
    const [{ sources: known }, copied] = await Promise.all([get("/v1/sources"), from ? get(`/v1/jobs/${encodeURIComponent(from)}`) : null]);
    if (copied) parameters = copied.parameters;
    if (!form.isTouched() && (copied || known.length)) form.load(copied?.sql ?? (known.length ? example(known[0]) : ""), copied?.settings, {});
    draw(sources, h("section", { class: "panel" }, h("h2", {}, "What can be asked"), known.length ? known.map((one) => h("details", { open: known.length === 1, "data-key": one.name },
      h("summary", {}, h("b", {}, one.name), h("span", { class: "hint" }, ` of ${count(one.agents.length, "agent")}`)),
      h("ul", { class: "fields" }, one.fields.map((field) => h("li", {}, h("code", {}, field.name), " ", h("span", { class: "hint" }, field.type)))))) : h("p", { class: "hint" }, "No agent has told of a source yet.")));
  })().catch(fleet.trouble);
  return () => {};
}

const named = (text) => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};

let leave = () => {};
function route(isFirst) {
  leave();
  const view = document.getElementById("view");
  const [, where = "", last = ""] = location.hash.split("/"), name = named(last);
  const here = where === "nodes" || where === "new" ? where : "jobs";
  for (const item of document.querySelectorAll("[data-nav]")) {
    if (item.dataset.nav === here) item.setAttribute("aria-current", "page");
    else item.removeAttribute("aria-current");
  }
  document.title = `${where === "jobs" && name ? name : here === "new" ? "new job" : here} · elfstream`;
  fleet.say(parting);
  parting = "";
  if (!isFirst) {
    scrollTo(0, 0);
    view.focus({ preventScroll: true });
  }
  leave = where === "jobs" && name ? jobView(view, name, fleet)
    : where === "nodes" ? nodesView(view)
      : where === "new" ? newView(view, name) : jobsView(view);
}

polled(async () => {
  const { nodes } = await get("/v1/nodes");
  const here = nodes.filter((node) => !node.left), agents = here.filter((node) => node.kind === "agent").length;
  const silent = here.filter((node) => Date.now() - Date.parse(node.told) > SILENT_MS).length;
  document.body.classList.remove("stale");
  draw(top, `${count(agents, "agent")}, ${count(here.length - agents, "worker")}`,
    silent ? h("span", { class: "warn" }, `${silent} silent`) : "");
  document.getElementById("api").hidden = hasToken();
}, fleet.trouble);
window.addEventListener("hashchange", () => route(false));
route(true);
