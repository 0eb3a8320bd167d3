// What is known of a job beside its rows: state, coverage, revisions.

import { call, hasToken } from "./api.js";
import { choose } from "./dialogs.js";
import { badge, draw, h } from "./dom.js";
import { clock, compact, seconds, span } from "./values.js";

const MISSING_MAX = 12;
/** A job that was read to its end has a watermark at the end of time. */
const ENDLESS = "9999";
const STATES = {
  starting: "The fleet takes it up.",
  changing: "The agents take up its new revision.",
  draining: "Agents read to the end as of now; then its windows are final and it stops.",
  stopped: "Nothing is read for it any more; its results stay until their time is over.",
};

/** Name, state and what can be done. `acts`: {stop(drain), remove()}. */
export function drawHead(part, job, path, acts) {
  const stopping = job.wanted !== "running";
  const stop = async () => {
    const how = await choose(`Stop ${job.name}?`, "Its results stay. A stopped job cannot be started again, but its SQL can begin a new one.", [["drain", "Read to the end, then stop"], ["now", "Stop at once"]]);
    if (how) await acts.stop(how === "drain");
  };
  const remove = async () => {
    if (await choose(`Remove ${job.name}?`, "The job and all its results go. This cannot be undone.", [["yes", "Remove"]])) await acts.remove();
  };
  draw(part,
    h("h1", {}, job.name, " ", badge(job.state)),
    h("p", { class: "facts" },
      `revision ${job.revision} · master ${job.master.name ?? job.master.address}`,
      job.watermark && job.watermark < ENDLESS ? ` · results up to ${clock(job.watermark)}` : "",
      STATES[job.state] ? ` · ${STATES[job.state]}` : "",
      job.problem ? h("span", { class: "warn" }, ` · ${job.problem}`) : null,
      hasToken() ? null : [" · ", h("a", { href: path, "data-key": "json" }, "job"), ", ", h("a", { href: `${path}/results?status=final`, "data-key": "results" }, "results"), " and ", h("a", { href: `${path}/results?format=csv`, "data-key": "csv" }, "CSV"), " from the API"]),
    h("menu", {},
      h("a", { class: "button", href: `#/new/${encodeURIComponent(job.name)}`, "data-key": "copy" }, "Copy"),
      stopping ? null : h("button", { onclick: stop, "data-key": "stop" }, "Stop"),
      h("button", { onclick: remove, "data-key": "remove" }, "Remove")));
}

const fact = (label, value, bad = false) => h("div", { class: bad ? "bad" : null }, h("dt", {}, label), h("dd", {}, value));

/** What the answers stand on. A window without end always waits for more, so its agents are those of the job. */
export function drawCover(part, record, job, link, forget) {
  const cover = record?.window ? record.coverage : job.coverage;
  const missing = cover.missing, all = Math.max(cover.agents, missing.length);
  const counts = ["lines", "filtered", "rejected", "late", "lost_bytes", "shed"];
  draw(part, h("h2", {}, "Coverage"),
    h("meter", { min: "0", max: String(Math.max(1, all)), value: String(all - missing.length), "aria-label": "agents that answered" }),
    h("dl", {},
      fact("agents", `${all - missing.length} of ${all}`, missing.length > 0),
      counts.map((name) => fact(name.replace("_", " "), compact(cover[name]), !["lines", "filtered"].includes(name) && cover[name] > 0)),
      job.lag_seconds === null || job.wanted !== "running" ? null : fact("behind", span(1000 * job.lag_seconds), job.lag_seconds > seconds(job.settings.deadline) + seconds(job.settings.delay)),
      fact("stream", link, link !== "live")),
    missing.length ? h("p", { class: "warn" }, `${record?.window ? `Missing from ${clock(record.window.start)}` : "Not heard of yet"}: `,
      missing.slice(0, MISSING_MAX).map((name) => [name || "an agent", " ", name ? h("button", { class: "small", "data-key": `forget ${name}`, onclick: async () => {
        if (await choose(`Go on without ${name}?`, "Windows become final without its lines. When it comes back its later lines count again.", [["yes", "Wait for it no longer"]])) await forget(name);
      } }, "go on without") : null, " "]).flat(),
      missing.length > MISSING_MAX ? `and ${missing.length - MISSING_MAX} more` : "") : "");
}

/** The revisions of a job, the newest first, with what each of them changed. */
export function drawChanges(part, changes) {
  const items = changes.map((one, at) => {
    const before = changes[at - 1];
    const settings = before ? Object.keys(one.settings).filter((key) => one.settings[key] !== before.settings[key]).map((key) => `${key} ${before.settings[key] || "none"} to ${one.settings[key] || "none"}`) : [];
    return h("li", {},
      h("b", {}, String(one.revision)), ` ${one.state}`,
      h("span", { class: "hint" }, one.start && at ? ` windows from ${clock(one.start)}` : ` made ${clock(one.made)}`),
      one.problem ? h("p", { class: "warn" }, one.problem) : null,
      settings.length ? h("p", { class: "hint" }, settings.join(", ")) : null,
      before?.sql === one.sql ? null : h("details", { "data-key": `sql ${one.revision}` }, h("summary", { "data-key": `summary ${one.revision}` }, before ? "SQL changed" : "SQL"), h("pre", {}, one.sql)));
  });
  draw(part, h("h2", {}, "Revisions"), h("ul", { class: "changes" }, items.reverse()));
}

/** Requests of the head and of the coverage. */
export const requests = (path) => ({
  stop: (drain) => call("POST", `${path}/stop`, { drain }),
  remove: () => call("DELETE", path),
  forget: (agent) => call("POST", `${path}/agents/${encodeURIComponent(agent)}/forget`, {}),
});
