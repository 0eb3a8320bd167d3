// One job: its live rows, a chart over its windows, what the answers cover, its tree, and the form that changes it.

import { call, follow, get, polled } from "./api.js";
import { draw, h } from "./dom.js";
import { editor } from "./editor.js";
import { drawChanges, drawCover, drawHead, requests, saidOf, trouble } from "./facts.js";
import { tree } from "./tree.js";
import { chartPanel, ROWS_MAX, rowsPanel, Windows } from "./windows.js";

const PASTS = ["-1m", "-15m", "-2h", "-1d", ""], ENOUGH = 20, PAGES_MAX = 4;

/** `fleet`: {trouble(problem or null), say(sentence), go(hash, sentence)}. Returns what ends the view. */
export function jobView(view, name, fleet) {
  const path = `/v1/jobs/${encodeURIComponent(name)}`, ask = requests(path);
  const windows = new Windows();
  const state = { job: null, link: "asking", over: false, waits: false, stream: null };
  const rows = rowsPanel(windows, changed), chart = chartPanel(windows);
  const panel = () => h("section", { class: "panel" });
  const head = h("section", { class: "head" }), cover = panel(), changes = panel(), shape = panel();
  const form = formPanel(path, state, look, fleet);
  const body = h("div", { class: "columns", hidden: true }, h("div", {}, chart.part, rows.part, shape), h("div", {}, cover, form.part, changes));
  view.replaceChildren(head, body);

  function changed() {
    if (state.waits || state.over || !state.job) return;
    state.waits = true;
    requestAnimationFrame(() => {
      state.waits = false;
      rows.update();
      chart.update();
      drawCover(cover, windows.newest(), state.job, state.link, act(ask.forget));
    });
  }

  /** An action of the user: its refusal is said, and what it changed is looked at. */
  function act(what) {
    return async (...given) => {
      try {
        await what(...given);
        await look();
      } catch (problem) {
        fleet.say(problem.message);
      }
    };
  }

  const acts = {
    stop: act(ask.stop),
    remove: act(async () => {
      await ask.remove();
      leave();
      fleet.go("#/", `${name} is removed, with its results.`);
    }),
  };

  async function look() {
    if (state.over) return;
    let found;
    try {
      found = await call("GET", path);
    } catch (problem) {
      if (problem.status === 404) return gone();
      throw problem;
    }
    if (state.over) return;
    state.job = found.body;
    windows.keys = state.job.keys;
    body.hidden = false;
    fleet.trouble(null);
    drawHead(head, state.job, path, acts);
    form.update(state.job, found.etag);
    changed();
    const [all, root, { nodes }] = await Promise.all([get(`${path}/changes`), get(`${path}/tree`), get("/v1/nodes")]);
    if (state.over) return;
    drawChanges(changes, all.changes);
    draw(shape, h("h2", {}, "Tree"), h("div", { class: "scroll" }, tree(root, new Map(nodes.map((node) => [node.name, node.kind])))));
  }

  function gone() {
    if (state.over) return;
    leave();
    body.hidden = true;
    draw(head, h("h1", {}, name), h("p", { class: "warn" }, state.job ? "This job has been removed." : "There is no such job."), h("p", {}, h("a", { href: "#/" }, "All jobs")));
  }

  function event(data, kind) {
    if (kind === "result") windows.take(data);
    if (kind === "reset") windows.held.clear();
    if (kind === "end" && data.reason === "removed") return gone();
    if (kind === "end" || kind === "reset") look().catch(fleet.trouble);
    changed();
  }

  (async () => {
    let last = "";
    try {
      last = await past(path, windows);
    } catch { /* the stream brings what comes */ }
    if (state.over) return;
    changed();
    state.stream = follow(`${path}/results/stream?rows=${ROWS_MAX}`, event, (said) => { state.link = said; changed(); }, last);
  })();
  const end = polled(look, (problem) => {
    if (!problem.status || problem.status === 401) fleet.trouble(problem);
    if (state.job && problem.status) drawHead(head, state.job, path, acts, problem);
    else if (!state.job) draw(head, h("h1", {}, name, " ", trouble(problem)), h("p", { class: "facts" }, saidOf(problem)));
  });
  const sized = new ResizeObserver(changed);
  sized.observe(body);
  function leave() {
    state.over = true;
    end();
    sized.disconnect();
    state.stream?.stop();
  }
  return leave;
}

/** The windows of as much of the past as gives enough of them. Returns the id that a stream goes on from. */
async function past(path, windows) {
  let last = "";
  for (const from of PASTS) {
    let next = null;
    for (let pages = 0; pages < PAGES_MAX && (next !== null || !pages); ++pages) {
      const page = await get(`${path}/results?limit=1000&rows=${ROWS_MAX}${from && `&from=${from}`}${next === null ? "" : `&after=${next}`}`);
      page.results.forEach((one) => windows.take(one));
      last ||= String(page.last);
      next = page.next;
    }
    if (windows.held.size >= ENOUGH || windows.held.has("")) break;
  }
  return last;
}

/** The form keeps what is typed: a revision that somebody else made is told, not loaded over it. */
function formPanel(path, state, look, fleet) {
  const part = h("section", { class: "panel" }), hint = h("p", { class: "hint" });
  let loaded = null;
  const given = ({ sql, settings }) => ({ ...(sql === state.job.sql ? {} : { sql }), settings });
  const form = editor({
    verb: "Change",
    check: async (job) => (await call("POST", `${path}/validate`, given(job))).body,
    submit: async (job) => {
      if (!form.isTouched()) return form.notice("Nothing has been changed yet.");
      try {
        const { body, etag } = await call("PATCH", path, given(job), { "If-Match": loaded, "Content-Type": "application/merge-patch+json" });
        load(body, etag);
        form.notice(`Revision ${body.revision} is on its way; the revisions below tell from which window on.`);
      } catch (problem) {
        if (problem.status !== 412) throw problem;
        await look();
      }
      return look().catch(fleet.trouble);
    },
  });
  function load(job, etag) {
    loaded = etag;
    form.load(job.sql, job.settings);
  }
  part.append(h("h2", {}, "Change it while it runs"), hint, form.form);
  return { part, update(job, etag) {
    const ends = job.wanted !== "running" || job.derived !== null;
    form.form.hidden = ends;
    hint.textContent = job.derived ? `Its windows are computed elsewhere: ${job.derived.text || "nobody said from what"}` : ends ? "A stopped job cannot be changed. Copy it to begin a new one." : "";
    if (etag === loaded || ends) return;
    if (loaded === null || !form.isTouched()) return load(job, etag);
    form.notice(`Somebody else changed this job: it is at revision ${job.revision} now.`, [
      ["Show it, without my changes", () => load(job, etag)],
      ["Keep mine, and change that one", () => { loaded = etag; form.notice(""); }],
    ]);
  } };
}
