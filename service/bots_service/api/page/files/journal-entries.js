// The entries of a journal as a reader wants them: many equal ones in one line, and what was not loaded as a gap.

/**
 * Return the lines for some entries, newest first: {kind, entries} each, and {kind: "gap", first, last} for reports
 * that were not loaded.
 * @param {object[]} entries newest first.
 * @param {boolean} isWhole whether nothing but reports may be missing between two of them.
 */
export function linesOf(entries, isWhole) {
  const lines = [];
  for (const entry of entries) {
    const line = lines.at(-1);
    const before = line?.entries?.at(-1);
    if (before && isWhole && before.seq - entry.seq > 1) {
      lines.push({ kind: "gap", first: entry.seq + 1, last: before.seq - 1 }, { kind: entry.kind, entries: [entry] });
    } else if (before && isEqual(before, entry)) line.entries.push(entry);
    else lines.push({ kind: entry.kind, entries: [entry] });
  }
  return lines;
}

const isEqual = (one, other) => one.kind === "report" && other.kind === "report" && one.hidden === other.hidden;

/** Return the sum of a number over entries. */
export const sum = (entries, name) => entries.reduce((total, entry) => total + (entry[name] ?? 0), 0);

/** Return the first and last step of entries, newest first: those that the oldest closed up to the newest. */
export function stepsOf(entries) {
  const known = entries.filter((entry) => entry.step !== null);
  if (!known.length) return null;
  const [newest, oldest] = [known[0], known.at(-1)];
  return { first: oldest.closed === false ? oldest.step + 1 : oldest.step, last: newest.step };
}
