// Asks for a key where keys guard the service.

import { element } from "./dom.js";
import { signIn } from "./session.js";

/** Return a form. refusal: of the key that was tried, null before the first one; done: called with a key in place. */
export function askForKey(refusal, done) {
  const field = element("input", {
    id: "key",
    type: "password",
    autocomplete: "off",
    spellcheck: "false",
    required: true,
    "aria-describedby": "key-help",
  });
  const form = element(
    "form",
    { class: "card sign-in" },
    element("h1", {}, "Sign in"),
    element("p", {}, "This service requires an API key. The page keeps your key until you close the tab."),
    element("label", { for: "key" }, "API key"),
    field,
    element(
      "p",
      { id: "key-help", class: "soft" },
      "To create a key, run: ",
      element("code", {}, "bots keys create NAME --scope read"),
    ),
    refusal === null
      ? null
      : element("p", { class: "bad", role: "alert" }, `Invalid, expired or revoked key: ${refusal}`),
    element("button", { type: "submit", class: "main" }, "Sign in"),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    signIn(field.value);
    done();
  });
  setTimeout(() => field.focus());
  return form;
}
