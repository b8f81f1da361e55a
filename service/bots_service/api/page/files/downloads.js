// Files that the page makes or fetched, saved by the browser.

import { element } from "./dom.js";

const KEPT_MS = 60000; // by then every browser has begun to save it

/** Save a file. */
export function saveAs(name, blob) {
  const href = URL.createObjectURL(blob);
  element("a", { href, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(href), KEPT_MS);
}
