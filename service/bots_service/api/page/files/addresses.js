// Addresses of the page's views. An address holds all that its view shows, so that links and Back work.

const part = encodeURIComponent;

export const datasetHref = (dataset, query = {}) => withQuery(`#/datasets/${part(dataset)}`, query);
export const runHref = (dataset, run) => `#/datasets/${part(dataset)}/runs/${part(run)}`;
export const overviewHref = (query = {}) => withQuery("#/", query);

/** Return an address with a query: values by name, a list as often as it is long; null and empty texts are left out. */
function withQuery(address, query) {
  const given = Object.entries(query).flatMap(([name, value]) =>
    Array.isArray(value) ? value.map((one) => [name, one]) : value === null || value === "" ? [] : [[name, value]],
  );
  return given.length ? `${address}?${new URLSearchParams(given)}` : address;
}

/**
 * Put what a view shows into the address bar; no other view is opened.
 * @param {boolean} isNew whether Back returns to what was shown before.
 * @param {object|null} state kept with the address, which is no place for it.
 */
export function remember(address, { isNew = false, state = null } = {}) {
  if (isNew && location.hash !== address) history.pushState(state, "", address);
  else history.replaceState(state, "", address);
}
