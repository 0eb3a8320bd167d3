// The form for a job: SQL that is checked while it is typed, and the settings that people change.

import { call, Problem } from "./api.js";
import { h } from "./dom.js";
import { coloured } from "./ink.js";

const SETTINGS = [
  ["emit", "500ms", "agents send, and windows are shown again, so often"],
  ["delay", "2s", "lines of a file may be out of order by so much"],
  ["idle", "5s", "a file without lines for so long holds no window up"],
  ["deadline", "10s", "then a window is shown without the agents that are late"],
  ["lateness", "1m", "late lines still make a new edition of a window for so long"],
  ["retain", "1d", "results are kept for so long"],
  ["since", "0s", "so much of the past is read, too"],
  ["webhook", "https://", "is sent each final window with rows"],
];
const PAUSE_MS = 300, LINES_MIN = 6, LINES_MAX = 20;

/** The text before a position; the API counts characters, not halves of them. */
const upTo = (text, position) => [...text].slice(0, position).join("");
const place = (before) => `Line ${before.split("\n").length}, column ${[...before].length - [...before].lastIndexOf("\n")}`;

/**
 * options: `named`, whether the form asks for a name; `verb` on its button; `check(job)` gives what /validate says of it;
 * `submit(job)` does it. A job is {name, sql, settings}: the settings that differ from those loaded, null where one was
 * emptied. Returns {form, load, isTouched, notice}.
 */
export function editor({ named = false, verb, check, submit }) {
  const ink = h("pre", { "aria-hidden": "true" });
  const text = h("textarea", { id: "sql", spellcheck: "false", autocapitalize: "off", required: true, "aria-describedby": "verdict" });
  const verdict = h("div", { id: "verdict", class: "verdict", role: "status" });
  const plan = h("pre", {}), warnings = h("div", { class: "warn" });
  const details = h("details", { hidden: true }, h("summary", {}, "Plan"), plan);
  const notes = h("div", { class: "notes", role: "status" });
  const name = h("input", { id: "name", required: true, maxlength: "64", pattern: "[A-Za-z0-9][A-Za-z0-9_.\\-]*", title: "letters, digits, _ . -; a letter or digit first", autocomplete: "off", placeholder: "hot-products" });
  const inputs = new Map(SETTINGS.map(([key, usual]) => [key, h("input", { id: `set-${key}`, placeholder: usual, size: key === "webhook" ? "30" : "7", autocomplete: "off", "aria-describedby": `why-${key}` })]));
  const settings = h("details", {},
    h("summary", {}, "Settings"),
    h("div", { class: "settings" }, SETTINGS.map(([key, , why]) => h("p", {}, h("label", { for: `set-${key}` }, key), inputs.get(key), h("span", { class: "hint", id: `why-${key}` }, why)))));
  const button = h("button", { class: "primary" }, verb);

  let base = { sql: "", settings: {} };
  const changedSettings = () => Object.fromEntries([...inputs]
    .map(([key, input]) => [key, input.value.trim()])
    .filter(([key, value]) => value !== (base.settings[key] ?? ""))
    .map(([key, value]) => [key, value || null]));
  const job = () => ({ name: name.value.trim(), sql: text.value, settings: changedSettings() });
  const isTouched = () => text.value !== base.sql || Object.keys(changedSettings()).length > 0;
  const paint = (wrong) => {
    ink.replaceChildren(coloured(text.value, wrong));
    text.rows = Math.min(LINES_MAX, Math.max(LINES_MIN, text.value.split("\n").length + 1));
    ink.scrollTop = text.scrollTop;
  };
  const mark = (field) => {
    for (const [key, input] of inputs) input.setAttribute("aria-invalid", String(field === `settings.${key}`));
  };

  let asked = 0, timer = 0, noted = "";
  function say(kind, ...children) {
    verdict.className = `verdict ${kind}`;
    verdict.replaceChildren(...children);
    warnings.replaceChildren();
    details.hidden = kind !== "good";
    mark(null);
  }

  async function look() {
    const mine = ++asked;
    if (!text.value.trim()) return say("");
    try {
      const body = await check(job());
      if (mine !== asked) return undefined;
      if (!body.valid) return refuse(new Problem(422, body.errors[0]));
      say("good", h("p", {}, `Understood: ${body.columns.map((one) => one.name).join(", ")} from ${body.source}.`));
      warnings.replaceChildren(...body.warnings.map((one) => h("p", {}, one)));
      plan.textContent = body.plan;
      paint();
    } catch (problem) {
      if (mine === asked) refuse(problem);
    }
    return undefined;
  }

  /** Says what is wrong; `isAsked`: the user wants to go on, so the caret goes where it is. */
  function refuse(problem, isAsked = false) {
    const { field, position, advice } = problem.details ?? {};
    const setting = field?.startsWith("settings.") ? field.slice("settings.".length) : "";
    const before = field === "sql" && Number.isInteger(position) ? upTo(text.value, position) : null;
    const where = setting ? `${setting}: ` : before !== null ? `${place(before)}: ` : "";
    say("bad", h("p", {}, where + problem.message), advice ? h("p", { class: "hint" }, advice) : "");
    paint(before?.length);
    mark(field);
    if (setting) settings.open = true;
    if (!isAsked) return;
    (inputs.get(setting) ?? (field === "name" && named ? name : field === "sql" ? text : null))?.focus();
    if (before !== null) text.setSelectionRange(before.length, before.length);
  }

  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(look, PAUSE_MS);
  };
  text.addEventListener("input", () => { paint(); soon(); });
  text.addEventListener("scroll", () => { ink.scrollTop = text.scrollTop; });
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  for (const input of inputs.values()) input.addEventListener("input", soon);

  const form = h("form", { class: "editor", onsubmit: async (event) => {
    event.preventDefault();
    clearTimeout(timer);
    ++asked;
    button.disabled = true;
    try {
      await submit(job());
    } catch (problem) {
      refuse(problem, true);
    }
    button.disabled = false;
  } },
    named ? h("p", { class: "field" }, h("label", { for: "name" }, "Name"), name) : null,
    h("label", { for: "sql" }, "SQL"),
    h("div", { class: "ink" }, ink, text),
    verdict, warnings, details, settings, notes,
    h("p", {}, button, h("span", { class: "hint" }, " or Ctrl+Enter in the SQL")));

  return {
    form, isTouched,
    /** Shows a job as it is; what was typed is lost. `usual`: settings that need not be sent. */
    load(sql, settings = {}, usual = settings) {
      text.value = sql;
      for (const [key, input] of inputs) input.value = settings[key] ?? "";
      base = { sql, settings: usual };
      noted = "";
      notes.replaceChildren();
      paint();
      look();
    },
    /** A sentence above the button, with buttons: [[label, what], ...]. The same again changes nothing. */
    notice(sentence, actions = []) {
      if (sentence === noted) return;
      noted = sentence;
      notes.replaceChildren(...(sentence ? [h("p", {}, sentence)] : []), ...actions.map(([label, what]) => h("button", { type: "button", onclick: what }, label)));
    },
  };
}
