// Elements, made without markup in strings: what users call their tasks can't become part of the page.

const TYPED_MS = 250; // after the last letter of a search
const KEPT_MS = 60000; // of a saved file: by then every browser has begun to save it

/**
 * Return an element.
 * @param {string} tag its name; "svg:" before it makes one of SVG.
 * @param {object} attributes by name; a function under onNAME listens to NAME; null, undefined and false leave it out.
 * @param {...(Node|string|null)} children text and elements, also in lists; null is left out.
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
  node.append(...children.flat(Infinity).filter((child) => child !== null));
  return node;
}

/** Put children in place of what an element held. What is there again keeps the focus, and how far it was scrolled. */
export function fill(node, ...children) {
  const focused = node.contains(document.activeElement) ? document.activeElement : null;
  const scrolled = new Map(scrolling(node).map((one) => [one.ariaLabel, [one.scrollLeft, one.scrollTop]]));
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null));
  for (const one of scrolling(node)) one.scrollTo(...(scrolled.get(one.ariaLabel) ?? [0, 0]));
  if (focused === null || focused === node) return;
  const same = [...node.querySelectorAll(focused.localName)].find((one) => isSame(one, focused));
  same?.focus({ preventScroll: true });
}

const scrolling = (node) => [...node.querySelectorAll(".scroll")];
const nameOf = (node) => node.dataset.name ?? node.ariaLabel ?? node.textContent;
const isSame = (one, other) => one.href === other.href && one.value === other.value && nameOf(one) === nameOf(other);

/** Set an element's text if it changed, so that screen readers announce changes only. */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Say whether somebody has marked text within an element: it should stay until it was copied. */
export function isBeingRead(node) {
  const selection = getSelection();
  return !selection.isCollapsed && node.contains(selection.anchorNode);
}

/**
 * Return a table, in a region of its name that scrolls where the table is wider.
 * @param {object[]} columns name; below: a second line of the heading; number: whether it holds numbers; about: a hint;
 *     sort: the order that a click on its heading asks for first, as the API names it.
 * @param {Array[]} rows of cells: text, an element, or a list of both. The first one names its row.
 * @param {object} order sort: the present one; sortBy: called with another one.
 */
export function table(caption, columns, rows, { sort = "", sortBy = null } = {}) {
  const head = columns.map((column) => heading(column, sort, sortBy));
  const lines = rows.map((cells) =>
    cells.map((cell, place) => {
      const attributes = { class: columns[place].number ? "number" : null };
      return place ? element("td", attributes, cell) : element("th", { ...attributes, scope: "row" }, cell);
    }),
  );
  return region(
    caption,
    element(
      "table",
      {},
      element("caption", { class: "unseen" }, caption),
      element("thead", {}, element("tr", {}, head)),
      element(
        "tbody",
        {},
        lines.map((cells) => element("tr", {}, cells)),
      ),
    ),
  );
}

/** A click sorts by a column; another one turns it round. */
function heading({ name, below = null, number, about, sort: wanted }, sort, sortBy) {
  const attributes = { scope: "col", class: number ? "number" : null };
  const second = below && element("span", { class: "below" }, below);
  if (!wanted || !sortBy) return element("th", attributes, name, second);
  const key = wanted.replace("-", "");
  const isSorted = sort.replace("-", "") === key;
  const isDown = sort.startsWith("-");
  const next = !isSorted ? wanted : isDown ? key : `-${key}`;
  const order = !isSorted ? "none" : isDown ? "descending" : "ascending";
  const button = { type: "button", class: "sort", "data-name": name, title: about, onclick: () => sortBy(next) };
  return element("th", { ...attributes, "aria-sort": order }, element("button", button, name), second);
}

/** Return two lines of a cell: what it tells, and what belongs to it. */
export const lines = (first, second) => [first, element("span", { class: "below" }, second)];

/** Return what is of less weight than what it belongs to. */
export const soft = (text, tag = "span") => element(tag, { class: "soft" }, text);

/** Return a part of the page that scrolls by itself, also by keyboard. */
export const region = (name, ...children) =>
  element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name }, children);

/** Return a card with a heading, and what stands at its right. */
export const card = (title, beside, ...children) =>
  element(
    "section",
    { class: "card", "aria-label": title },
    element("div", { class: "heading" }, element("h2", {}, title), beside),
    children,
  );

/** Return names with their values, as a list of an own look. pairs: [name, value], or null for none. */
export const pairs = (look, given) =>
  element(
    "dl",
    { class: look },
    given
      .filter(Boolean)
      .map(([name, ...value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))),
  );

/** Return a search: {node, show}. search: called with its text once nobody types any more. */
export function searchField(label, search) {
  const node = element("input", { type: "search", placeholder: label, "aria-label": label, maxlength: "128" });
  let typed = 0;
  node.addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(() => search(node.value.trim()), TYPED_MS);
  });
  return { node, show: (text) => document.activeElement !== node && (node.value = text) };
}

/** Save a file. */
export function saveAs(name, blob) {
  const href = URL.createObjectURL(blob);
  element("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), KEPT_MS);
}

/**
 * Ask in a dialog, and act once that is confirmed. What is refused is said there, and it stays open.
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
  const buttons = element("div", { class: "heading" }, send, cancel);
  const form = element(
    "form",
    {},
    element("h2", { id: "question" }, title),
    element("p", {}, text),
    fields,
    refusal,
    buttons,
  );
  const node = element("dialog", { "aria-labelledby": "question", onclose: () => node.remove() }, form);
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
  addEventListener("hashchange", () => node.close(), { once: true }); // another view is shown
  document.body.append(node);
  node.showModal();
}
