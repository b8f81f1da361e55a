// The key of this tab. It is gone when the tab is closed, and never part of an address.

const KEY = "bots-key";

/** Return the key, null where none was given. */
export const key = () => sessionStorage.getItem(KEY);

export const signIn = (given) => sessionStorage.setItem(KEY, given.trim());

export const signOut = () => sessionStorage.removeItem(KEY);
