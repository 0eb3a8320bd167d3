// SQL with its words coloured.

import { h } from "./dom.js";

const WORDS = /\b(SELECT|FROM|WHERE|GROUP|BY|HAVING|ORDER|LIMIT|AS|AND|OR|NOT|IN|IS|NULL|LIKE|RLIKE|BETWEEN|CASE|WHEN|THEN|ELSE|END|DISTINCT|FILTER|DESC|ASC|CAST|TRUE|FALSE)\b|('(?:[^'\\]|\\.)*')|(\b\d+(?:\.\d+)?\b)|(\b[a-z_]+(?=\())/gi;

/** `wrong`: index of the character where the mistake is underlined, if there is one. */
export function coloured(sql, wrong = null) {
  const parts = [];
  let done = 0;
  const upTo = (end) => { if (end > done) parts.push(sql.slice(done, end)); done = end; };
  for (const found of sql.matchAll(WORDS)) {
    upTo(found.index);
    const kind = found[1] ? "word" : found[2] ? "text" : found[3] ? "number" : "call";
    parts.push(h("span", { class: kind }, found[0]));
    done = found.index + found[0].length;
  }
  upTo(sql.length);
  const code = h("code", {}, parts);
  if (wrong !== null) underline(code, wrong);
  code.append("\n");
  return code;
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
