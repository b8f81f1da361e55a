// The choice between light, dark, and as the system has it; theme.js applies it.

import { say } from "./dom.js";

const THEME = "bots-theme"; // in the browser's storage: "light" or "dark"; absent: as the system has it
const NEXT = { system: "light", light: "dark", dark: "system" };

const chosen = () => localStorage.getItem(THEME) ?? "system";

/** Let a button go round the themes. */
export function offerThemes(button) {
  const told = () => say(button, `Theme: ${chosen()}`);
  button.addEventListener("click", () => {
    const next = NEXT[chosen()];
    if (next === "system") localStorage.removeItem(THEME);
    else localStorage.setItem(THEME, next);
    document.dispatchEvent(new Event("bots-theme-chosen"));
    told();
  });
  told();
}

/** Return a colour of the present theme, by its name in page.css. */
export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
