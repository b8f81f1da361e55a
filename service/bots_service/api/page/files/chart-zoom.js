// The range of x that charts show: one for all charts of a view whose x means the same.

/** Return a range that charts share: {range, set, follow}; null is all there is. */
export function sharedZoom() {
  const followers = [];
  const zoom = {
    range: null,
    /** Show [first, last] of x, or everything by null. */
    set(range) {
      zoom.range = range;
      for (const follower of followers) follower();
    },
    /** Call a function whenever the range has changed. */
    follow: (follower) => followers.push(follower),
  };
  return zoom;
}

/** Return a part of the present range around its middle, or a wider one; null once it holds all of [first, last]. */
export function scaled(range, [first, last], factor) {
  const [low, high] = range ?? [first, last];
  const [middle, half] = [(low + high) / 2, ((high - low) / 2) * factor];
  const [from, to] = [Math.max(first, middle - half), Math.min(last, middle + half)];
  return from === first && to === last ? null : [from, to];
}
