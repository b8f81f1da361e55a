// Asks for a key where keys guard the service.

import { copyable } from "./copyable.js";
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
    element(
      "p",
      { id: "key-help" },
      "This service requires an API key. The page keeps your key until you close the tab.",
    ),
    element("label", { for: "key" }, "API key"),
    field,
    refusal === null
      ? null
      : element("p", { class: "bad", role: "alert" }, `Invalid, expired or revoked key: ${refusal}`),
    element("button", { type: "submit", class: "main" }, "Sign in"),
    help(),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    signIn(field.value);
    done();
  });
  setTimeout(() => field.focus());
  return form;
}

function help() {
  const home = new URL(".", location.href).href.replace(/\/$/, "");
  return element(
    "details",
    {},
    element("summary", {}, "How do I get a key?"),
    element(
      "p",
      {},
      "Ask your administrator for a key. Administrators: with your own key in BOTS_API_KEY, this command creates one that can read every dataset:",
    ),
    copyable(
      `bots keys create my-browser --scope read --dataset '*' --url ${home}`,
      "Shell",
      "the command that creates a key",
    ),
    element("p", { class: "soft" }, "Scopes and datasets of a key: ", element("code", {}, "docs/security.md"), "."),
  );
}
