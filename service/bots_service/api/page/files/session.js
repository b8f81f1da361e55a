// The key of this tab. It is gone when the tab is closed, and never part of an address.

import { kept } from "./kept.js";

const stored = kept(() => sessionStorage, "bots-key");

/** Return the key, null where none was given. */
export const key = () => stored.get();

export const signIn = (given) => stored.set(given.trim());

export const signOut = () => stored.set(null);
