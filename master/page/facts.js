// What is known of a job beside its rows: state, coverage, revisions.

import { call, hasToken } from "./api.js";
import { choose } from "./dialogs.js";
import { badge, draw, h } from "./dom.js";
import { clock, compact, seconds, span } from "./values.js";

const MISSING_MAX = 12, LEADERLESS = "no leader: ";
/** A job that was read to its end has a watermark at the end of time. */
const ENDLESS = "9999";
const STATES = {
  starting: "The fleet takes it up.",
  changing: "The agents take up its new revision.",
  draining: "Agents read to the end as of now; then its windows are final and it stops.",
  stopped: "Nothing is read for it any more; its results stay until their time is over.",
};

/** Why a job is not answered for, as a badge and as a sentence. */
export const trouble = (problem) => badge(problem.details.type?.endsWith("/no-master") ? "no leader" : "no answer", "troubled");
export const saidOf = ({ message, details }) => h("span", { class: "warn" }, `${message.replace(LEADERLESS, "")}.`, details.advice ? ` ${details.advice}` : "");

/** Name, state and what can be done. `acts`: {stop(drain), remove()}; `problem`: why the job is not answered for now. */
export function drawHead(part, job, path, acts, problem = null) {
  const stopping = job.wanted !== "running";
  const stop = async () => {
    const how = await choose(`Stop ${job.name}?`, "Its results stay. A stopped job cannot be started again, but its SQL can begin a new one.", [["drain", "Read to the end, then stop"], ["now", "Stop at once"]]);
    if (how) await acts.stop(how === "drain");
  };
  const remove = async () => {
    if (await choose(`Remove ${job.name}?`, "The job and all its results go. This cannot be undone.", [["yes", "Remove"]])) await acts.remove();
  };
  draw(part,
    h("h1", {}, job.name, " ", problem ? trouble(problem) : badge(job.state)),
    h("p", { class: "facts" },
      problem ? [saidOf(problem), " As it was seen last: "] : null,
      `revision ${job.revision} · master ${job.master.name ?? job.master.address}`,
      job.watermark && job.watermark < ENDLESS ? ` · results up to ${clock(job.watermark)}` : "",
      STATES[job.state] ? ` · ${STATES[job.state]}` : "",
      job.problem ? h("span", { class: "warn" }, ` · ${job.problem}`) : null,
      hasToken() ? null : [" · ", h("a", { href: path, "data-key": "json" }, "job"), ", ", h("a", { href: `${path}/results?status=final`, "data-key": "results" }, "results"), " and ", h("a", { href: `${path}/results?format=csv`, "data-key": "csv" }, "CSV"), " from the API"]),
    h("menu", {},
      job.derived ? null : h("a", { class: "button", href: `#/new/${encodeURIComponent(job.name)}`, "data-key": "copy" }, "Copy"),
      stopping ? null : h("button", { onclick: stop, "data-key": "stop" }, "Stop"),
      h("button", { onclick: remove, "data-key": "remove" }, "Remove")));
}

const fact = (label, value, bad = false, about = null) => h("div", { class: bad ? "bad" : null, title: about }, h("dt", {}, label), h("dd", {}, value));
const COUNTS = [
  ["lines", "lines", "read since the job's revision began to read"],
  ["filtered", "filtered", "left out by WHERE"],
  ["rejected", "rejected", "do not fit the format; elfstream explain-format tells why"],
  ["late", "late", "came when their window was closed, and count in none"],
  ["outside", "outside", "older than the job, or of a window of another revision of the job"],
  ["lost_bytes", "lost bytes", "of logs that were gone before they were read"],
  ["shed", "shed", "left out because there was too much to do"],
];
const TROUBLES = ["rejected", "late", "lost_bytes", "shed"];

/** What the job does a second. */
function rates({ rates: told, wanted }) {
  if (!told || wanted !== "running") return null;
  const over = `over the last ${span(1000 * told.over_seconds)}`;
  return [
    ["lines/s", "lines", `read by all agents, ${over}`, false],
    ["rejected/s", "rejected", `do not fit the format, ${over}`, true],
    ["late/s", "late", `came when their window was closed, ${over}`, true],
    ["results/s", "results", `published, each edition of a window by itself, ${over}`, false],
  ].map(([label, name, about, isBad]) => {
    const rate = told[`${name}_per_second`];
    return rate === null || (isBad && rate === 0) ? null : fact(label, compact(Number(rate.toFixed(rate < 10 ? 1 : 0))), isBad, about);
  });
}

/** What the answers stand on. A window without end always waits for more, so its agents are those of the job. */
export function drawCover(part, record, job, link, forget) {
  const cover = record?.window ? record.coverage : job.coverage;
  const missing = cover.missing, all = Math.max(cover.agents, missing.length);
  const waits = job.waits_for.filter((one) => !missing.includes(one.agent)), there = all - missing.length - waits.length;
  draw(part, h("h2", {}, "Coverage"),
    h("meter", { min: "0", max: String(Math.max(1, all)), value: String(there), "aria-label": "agents that answered" }),
    h("dl", {},
      fact("agents", `${there} of ${all}`, there < all, "that have reached this time, of all that take part"),
      COUNTS.map(([name, label, about]) => fact(label, compact(cover[name]), TROUBLES.includes(name) && cover[name] > 0, about)),
      rates(job),
      job.lag_seconds === null || job.wanted !== "running" ? null : fact("behind", span(1000 * job.lag_seconds), job.lag_seconds > seconds(job.settings.deadline) + seconds(job.settings.delay), "how long ago the newest window ended that is final"),
      fact("stream", link, link !== "live", "of results to this page")),
    waits.length ? gone(`Final windows wait for`, waits.map((one) => [one.agent, `, which is at ${clock(one.watermark)} `]), forget) : "",
    missing.length ? gone(record?.window ? `Missing from ${clock(record.window.start)}:` : "Not heard of yet:", missing.map((name) => [name, " "]), forget) : "");
}

/** A sentence about agents, [[name, what of it], ...], each of which can be given up. */
function gone(sentence, agents, forget) {
  return h("p", { class: "warn" }, `${sentence} `,
    agents.slice(0, MISSING_MAX).map(([name, what]) => [name || "an agent", what, name ? h("button", { class: "small", "data-key": `forget ${name}`, onclick: async () => {
      if (await choose(`Go on without ${name}?`, "Windows become final without its lines. When it comes back its later lines count again.", [["yes", "Wait for it no longer"]])) await forget(name);
    } }, "go on without") : null, " "]).flat(),
    agents.length > MISSING_MAX ? `and ${agents.length - MISSING_MAX} more` : "");
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
      one.sql === null || before?.sql === one.sql ? null : h("details", { "data-key": `sql ${one.revision}` }, h("summary", { "data-key": `summary ${one.revision}` }, before ? "SQL changed" : "SQL"), h("pre", {}, one.sql)));
  });
  draw(part, h("h2", {}, "Revisions of the job"), h("ul", { class: "changes" }, items.reverse()));
}

/** Requests of the head and of the coverage. */
export const requests = (path) => ({
  stop: (drain) => call("POST", `${path}/stop`, { drain }),
  remove: () => call("DELETE", path),
  forget: (agent) => call("POST", `${path}/agents/${encodeURIComponent(agent)}/forget`, {}),
});
