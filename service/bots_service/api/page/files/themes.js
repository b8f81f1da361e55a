// The choice between light, dark, and as the system has it; theme.js applies it.

import { say } from "./dom.js";
import { kept } from "./kept.js";

const NEXT = { system: "light", light: "dark", dark: "system" };
const stored = kept(() => localStorage, "bots-theme");

/** Let a button go round the themes. */
export function offerThemes(button) {
  let chosen = stored.get() in NEXT ? stored.get() : "system";
  const show = () => say(button, `Theme: ${chosen}`);
  button.addEventListener("click", () => {
    chosen = NEXT[chosen];
    const theme = chosen === "system" ? null : chosen;
    stored.set(theme);
    document.dispatchEvent(new CustomEvent("bots-theme-chosen", { detail: theme }));
    show();
  });
  show();
}

/** Return a colour of the present theme, by its name in colors.css. */
export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
