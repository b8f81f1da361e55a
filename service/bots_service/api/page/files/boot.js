// Not a module: it tells when a part of the page did not load, and has to work when modules do not.

(() => {
  let isTold = false;

  /** Say above what there is of the page that it is not whole, with a button to load it again. */
  function tell() {
    const main = document.getElementById("main");
    if (isTold || main === null) return;
    isTold = true;
    const title = document.createElement("h1");
    title.textContent = "This page did not load completely";
    const words = document.createElement("p");
    words.textContent =
      "A part of it could not be fetched: the connection broke, or the service was updated meanwhile. Training is not affected.";
    const button = document.createElement("button");
    button.textContent = "Reload";
    button.className = "main";
    button.addEventListener("click", () => location.reload());
    const card = document.createElement("section");
    card.className = "card lost";
    card.setAttribute("role", "alert");
    card.append(title, words, button);
    main.removeAttribute("aria-busy");
    main.before(card);
  }

  // A lost script or style sheet fires an event that does not bubble. A module that others need is lost with these.
  document.addEventListener(
    "error",
    ({ target }) => {
      const isNeeded = target.localName === "script" || target.rel === "stylesheet";
      if (!isNeeded) return;
      if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", tell);
      else tell();
    },
    true,
  );
})();
