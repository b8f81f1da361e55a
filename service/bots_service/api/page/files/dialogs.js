// Dialogs that ask before something is done. A dialog holds the focus, closes by Esc, and gives the focus back.

import { element, say } from "./dom.js";

/**
 * Ask, and act once the form is sent. What is refused is said in the dialog, which stays open.
 * @param {string} title the question.
 * @param {string} text what happens, in a sentence or two.
 * @param {string} action the words of the button that acts.
 * @param {Node[]} fields of the form.
 * @param {() => Promise} act does it.
 */
export function ask({ title, text, action, fields = [], act }) {
  const refusal = element("p", { class: "bad", role: "alert" });
  const send = element("button", { type: "submit", class: "main" }, action);
  const cancel = element("button", { type: "button", onclick: () => node.close() }, "Cancel");
  const form = element(
    "form",
    {},
    element("h2", { id: "question" }, title),
    element("p", {}, text),
    fields,
    refusal,
    element("div", { class: "tools end" }, cancel, send),
  );
  const node = element("dialog", { "aria-labelledby": "question" }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (send.disabled) return; // a second click would act a second time
    send.disabled = true;
    try {
      await act();
      node.close();
    } catch (error) {
      say(refusal, error.message);
    } finally {
      send.disabled = false;
    }
  });
  const leave = () => node.close(); // another view is shown
  addEventListener("hashchange", leave);
  node.addEventListener("close", () => {
    removeEventListener("hashchange", leave);
    node.remove();
  });
  document.body.append(node);
  node.showModal();
}
