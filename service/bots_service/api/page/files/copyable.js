// Text to copy: commands and programs.

import { element, say } from "./dom.js";

const COPIED_MS = 2000;

/**
 * Return a text with a button that copies it.
 * @param {string} language of the text, as it is shown.
 * @param {string} label what it is, for the button's name.
 */
export function copyable(text, language, label) {
  const code = element("code", {}, text);
  const button = element("button", { type: "button", class: "copy", "aria-label": `Copy ${label}` }, "Copy");
  const status = element("span", { class: "unseen", role: "status" });
  button.addEventListener("click", async () => {
    const isCopied = await copy(text, code);
    say(button, isCopied ? "Copied" : "Press Ctrl+C");
    say(status, isCopied ? `Copied ${label}` : `${label} is selected; press Ctrl+C`);
    setTimeout(() => (say(button, "Copy"), say(status, "")), COPIED_MS);
  });
  const region = { class: "scroll", tabindex: "0", role: "region", "aria-label": label };
  const bar = element("div", { class: "copy-bar" }, element("span", { class: "soft" }, language), button, status);
  return element("div", { class: "copyable" }, bar, element("pre", region, code));
}

/** Copy a text; where the browser does not allow it, as over plain HTTP, mark it for the reader to copy. */
async function copy(text, code) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(code);
    return false;
  }
}
