// Questions to the user: Enter takes the first choice, Escape none.

import { h } from "./dom.js";

/** choices: [[value, label], ...]; resolves to the value chosen, or "". */
export function choose(title, text, choices) {
  const dialog = h("dialog", { "aria-labelledby": "choice" },
    h("form", { method: "dialog" },
      h("h2", { id: "choice" }, title),
      h("p", {}, text),
      h("menu", {},
        choices.map(([value, label], index) => h("button", { value, class: index ? null : "primary" }, label)),
        h("button", { value: "" }, "Cancel"))));
  document.body.append(dialog);
  return new Promise((done) => {
    dialog.addEventListener("close", () => { dialog.remove(); done(dialog.returnValue); }, { once: true });
    dialog.showModal();
  });
}

/** The token that the user gives, or "". `refused`: one was given, and it is not the fleet's. */
export function askToken(refused) {
  const dialog = document.getElementById("ask-token"), input = document.getElementById("token");
  document.getElementById("token-refused").hidden = !refused;
  input.value = "";
  return new Promise((done) => {
    dialog.addEventListener("close", () => done(dialog.returnValue === "use" ? input.value.trim() : ""), { once: true });
    dialog.returnValue = "";
    dialog.showModal();
  });
}
