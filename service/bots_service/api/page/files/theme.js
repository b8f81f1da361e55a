// Not a module: it runs before the page is drawn, so that it is never drawn in the wrong colours first.

(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null; // "light", "dark", or as the system has it

  function apply() {
    root.dataset.theme = chosen ?? (system.matches ? "dark" : "light");
    document.dispatchEvent(new Event("bots-theme")); // charts are drawn again
  }
  try {
    const stored = localStorage.getItem("bots-theme");
    if (stored === "light" || stored === "dark") chosen = stored;
  } catch {
    // the browser keeps nothing: as the system has it
  }
  system.addEventListener("change", apply);
  document.addEventListener("bots-theme-chosen", (event) => {
    chosen = event.detail;
    apply();
  });
  apply();
})();
