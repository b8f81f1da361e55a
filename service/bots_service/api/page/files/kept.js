// Values that outlive the page; where the browser keeps nothing, they last as long as it.

/**
 * Return a kept text: {get, set}; null is none.
 * @param {() => Storage} storage where; asking for it may throw already.
 */
export function kept(storage, name) {
  let own = null;

  function get() {
    try {
      return storage().getItem(name);
    } catch {
      return own;
    }
  }

  function set(value) {
    own = value;
    try {
      if (value === null) storage().removeItem(name);
      else storage().setItem(name, value);
    } catch {
      // blocked: `own` stands in
    }
  }
  return { get, set };
}
