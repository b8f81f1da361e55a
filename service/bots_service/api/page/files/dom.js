// Elements, made without markup in strings: what users call their tasks can't become part of the page.

/**
 * Return an element.
 * @param {string} tag its name; "svg:" before it makes one of SVG.
 * @param {object} attributes by name; a function under onNAME listens to NAME; null, undefined and false leave it out.
 * @param {...(Node|string|null)} children text and elements; null is left out.
 */
export function element(tag, attributes = {}, ...children) {
  const node = tag.startsWith("svg:")
    ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4))
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null));
  return node;
}

/** Put children in place of what an element held. What is there again keeps the focus, and how far it was scrolled. */
export function fill(node, ...children) {
  const focused = node.contains(document.activeElement) ? document.activeElement : null;
  const scrolled = new Map(scrolling(node).map((one) => [one.ariaLabel, one.scrollLeft]));
  node.replaceChildren(...children.flat().filter((child) => child !== null));
  for (const one of scrolling(node)) one.scrollLeft = scrolled.get(one.ariaLabel) ?? 0;
  if (focused === null || focused === node) return;
  const same = [...node.querySelectorAll(focused.localName)].find((one) => isSame(one, focused));
  same?.focus({ preventScroll: true });
}

const scrolling = (node) => [...node.querySelectorAll(".scroll")];
const nameOf = (node) => node.dataset.name ?? node.ariaLabel ?? node.textContent;
const isSame = (one, other) => one.href === other.href && one.value === other.value && nameOf(one) === nameOf(other);

/** Say whether somebody has marked text within an element: it should stay until it was copied. */
export function isBeingRead(node) {
  const selection = getSelection();
  return !selection.isCollapsed && node.contains(selection.anchorNode);
}

/** Set an element's text if it changed, so that screen readers announce changes only. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * Return a table, which stays one for screen readers where CSS shows its rows as cards.
 * @param {object[]} columns name; number: whether it holds numbers; below: the name of a second line in its cells.
 * @param {Array[]} rows of cells: text or an element, or two of them, one below the other.
 */
export function table(caption, columns, rows) {
  return element(
    "table",
    { role: "table" },
    element("caption", { class: "unseen" }, caption),
    element(
      "thead",
      { role: "rowgroup" },
      element(
        "tr",
        { role: "row" },
        columns.map((column) => heading(column)),
      ),
    ),
    element(
      "tbody",
      { role: "rowgroup" },
      rows.map((cells) => row(columns, cells)),
    ),
  );
}

function heading({ name, below, number }) {
  const attributes = { scope: "col", role: "columnheader", class: number ? "number" : null };
  return element("th", attributes, below ? lines(name, below) : name);
}

const row = (columns, cells) =>
  element(
    "tr",
    { role: "row" },
    cells.map((cell, place) => dataCell(columns[place], cell)),
  );

function dataCell({ name, below, number }, cell) {
  const attributes = { role: "cell", class: number ? "number" : null, "data-name": name };
  return element("td", attributes, Array.isArray(cell) ? lines(cell[0], cell[1], below) : cell);
}

const lines = (first, second, name = null) =>
  element(
    "span",
    { class: "lines" },
    element("span", {}, first),
    element("span", { class: "soft", "data-name": name }, second),
  );
