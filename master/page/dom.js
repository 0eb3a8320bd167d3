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

const drawn = new WeakMap();

/**
 * Draws `children` into `part` if they differ from what was drawn there last. Elements that have the same `data-key`
 * keep the focus and, if they are <details>, stay open.
 */
export function draw(part, ...children) {
  const fresh = h("div", {}, ...children), markup = fresh.innerHTML;
  if (drawn.get(part) === markup) return;
  drawn.set(part, markup);
  const focused = part.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const open = new Set([...part.querySelectorAll("details[open]")].map((one) => one.dataset.key));
  part.replaceChildren(...fresh.childNodes);
  for (const one of part.querySelectorAll("[data-key]")) {
    if (open.has(one.dataset.key)) one.open = true;
    if (one.dataset.key === focused) one.focus({ preventScroll: true });
  }
}

/** A select whose options do not change while it is used. `offer` gives it [value, text] pairs and the value chosen. */
export function picker(label, chosen) {
  let offered = "";
  const select = h("select", { "aria-label": label, onchange: () => chosen(select.value) });
  const offer = (options, value) => {
    if (document.activeElement === select) return;
    const all = JSON.stringify(options);
    if (all !== offered) select.replaceChildren(...options.map(([one, text]) => h("option", { value: one }, text)));
    offered = all;
    select.value = value;
  };
  return { select, offer };
}

/** `kind`: how it looks, if not as the state it names. */
export const badge = (state, kind = state) => h("span", { class: `badge ${kind}` }, state);
export const jobLink = (name) => `#/jobs/${encodeURIComponent(name)}`;
export const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
