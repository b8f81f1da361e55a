// Not a module: it runs before the page is drawn, so that it is never drawn in the wrong colours first.

(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");

  function apply() {
    root.dataset.theme = localStorage.getItem("bots-theme") ?? (system.matches ? "dark" : "light");
    document.dispatchEvent(new Event("bots-theme")); // charts are drawn again
  }
  system.addEventListener("change", apply);
  document.addEventListener("bots-theme-chosen", apply);
  apply();
})();
