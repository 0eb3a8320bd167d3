// Elements without a framework. Texts are always set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const h = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
export const s = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const PLAIN = new Intl.NumberFormat("en", { maximumFractionDigits: 3 });

export const compact = (number) => (Math.abs(number) < 10000 ? PLAIN.format(number) : COMPACT.format(number));

/** A value of a row as people read it. */
export function shown(value) {
  if (value === null || value === undefined) return "null";
  if (typeof value === "number") return Number.isInteger(value) ? value.toLocaleString("en") : PLAIN.format(value);
  if (Array.isArray(value)) return value.map(shown).join(", ");
  if (typeof value === "object") return Object.values(value).map(shown).join(" to ");
  return String(value);
}

export const clock = (time) => (time ? new Date(time).toLocaleTimeString([], { hour12: false }) : "");

/** 1.2 s, 3 min, 2 h. */
export function span(milliseconds) {
  const seconds = milliseconds / 1000;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}
