// The form for a job: SQL that is checked while it is typed, and the settings that people change.

import { call, Problem } from "./api.js";
import { h } from "./dom.js";

const WORDS = /\b(SELECT|FROM|WHERE|GROUP|BY|HAVING|ORDER|LIMIT|AS|AND|OR|NOT|IN|IS|NULL|LIKE|RLIKE|BETWEEN|CASE|WHEN|THEN|ELSE|END|DISTINCT|FILTER|DESC|ASC|CAST|TRUE|FALSE)\b|('(?:[^'\\]|\\.)*')|(\b\d+(?:\.\d+)?\b)|(\b[a-z_]+(?=\())/gi;
const SETTINGS = [
  ["emit", "500ms", "how often agents send and windows are shown again"],
  ["deadline", "10s", "after it a window is shown without the agents that are late"],
  ["lateness", "1m", "so long late lines still make a revision"],
  ["retain", "24h", "results are kept for so long"],
  ["since", "0s", "so much of the logs of the past is read, too"],
];
const PAUSE_MS = 300;

/** SQL with its words coloured; the character at `wrong` is underlined. */
function coloured(sql, wrong) {
  const parts = [];
  let done = 0;
  const plain = (end) => { if (end > done) parts.push(sql.slice(done, end)); done = end; };
  for (const found of sql.matchAll(WORDS)) {
    plain(found.index);
    const kind = found[1] ? "word" : found[2] ? "text" : found[3] ? "number" : "call";
    parts.push(h("span", { class: kind }, found[0]));
    done = found.index + found[0].length;
  }
  plain(sql.length);
  const out = h("code", {}, parts);
  if (wrong !== undefined && wrong !== null) underline(out, wrong);
  out.append("\n");
  return out;
}

function underline(code, at) {
  const walker = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(), start = 0; node; start += node.length, node = walker.nextNode()) {
    if (at < start + node.length) {
      const range = document.createRange();
      const rest = node.data.slice(at - start);
      range.setStart(node, at - start);
      range.setEnd(node, at - start + Math.max(1, rest.search(/\W|$/)));
      range.surroundContents(h("mark", {}));
      return;
    }
  }
  code.append(h("mark", {}, " "));
}

/**
 * options: {name, sql, settings, submit: async (job) => void, verb}. Without `name` the form asks for one.
 */
export function editor({ name = "", sql = "", settings = {}, submit, verb }) {
  const ink = h("pre", { "aria-hidden": "true" });
  const text = h("textarea", { id: "sql", spellcheck: "false", autocapitalize: "off", rows: "7", required: true, "aria-describedby": "verdict" });
  const verdict = h("div", { id: "verdict", class: "verdict", role: "status" });
  const nameInput = h("input", { id: "name", value: name, required: true, maxlength: "64", pattern: "[A-Za-z0-9][A-Za-z0-9_.\\-]*", autocomplete: "off", placeholder: "hot-products" });
  const inputs = SETTINGS.map(([key, usual, why]) => [key, h("input", { id: `set-${key}`, value: settings[key] ?? "", placeholder: usual, title: why, size: "7", autocomplete: "off" })]);
  const button = h("button", { class: "primary" }, verb);
  text.value = sql;

  const values = () => Object.fromEntries(inputs.filter(([, input]) => input.value.trim()).map(([key, input]) => [key, input.value.trim()]));
  const job = () => ({ name: name || nameInput.value.trim() || "unnamed", sql: text.value, settings: values() });
  const paint = (wrong) => {
    ink.replaceChildren(coloured(text.value, wrong));
    ink.scrollTop = text.scrollTop;
  };

  let asked = 0, timer = 0;
  async function check() {
    const mine = ++asked;
    if (!text.value.trim()) { verdict.replaceChildren(); verdict.className = "verdict"; return; }
    try {
      const { body } = await call("POST", "/v1/validate", job());
      if (mine !== asked) return;
      if (!body.valid) return refuse(new Problem(422, body.errors[0]));
      verdict.className = "verdict good";
      verdict.replaceChildren(h("pre", {}, body.plan), ...body.warnings.map((one) => h("p", { class: "warn" }, one.detail ?? one)));
      paint();
    } catch (problem) {
      if (mine === asked) refuse(problem);
    }
  }

  function refuse(problem) {
    const details = problem instanceof Problem ? problem.details : {};
    verdict.className = "verdict bad";
    verdict.replaceChildren(h("p", {}, problem.message), ...(details.advice ? [h("p", { class: "hint" }, details.advice)] : []));
    paint(details.position);
  }

  text.addEventListener("input", () => {
    paint();
    clearTimeout(timer);
    timer = setTimeout(check, PAUSE_MS);
  });
  text.addEventListener("scroll", () => { ink.scrollTop = text.scrollTop; });
  for (const [, input] of inputs) input.addEventListener("change", check);

  const form = h("form", { class: "editor", onsubmit: async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      await submit(job());
    } catch (problem) {
      refuse(problem);
    }
    button.disabled = false;
  } },
    name ? null : h("label", { class: "field" }, "Name ", nameInput),
    h("label", { for: "sql" }, "SQL"),
    h("div", { class: "ink" }, ink, text),
    verdict,
    h("details", {},
      h("summary", {}, "Settings"),
      h("div", { class: "settings" }, inputs.map(([key, input]) => h("label", { class: "field" }, `${key} `, input)))),
    h("p", {}, button));
  paint();
  if (sql) check();
  return form;
}
