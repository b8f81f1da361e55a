// The values of settings in words.

/** Return a setting's value in words. A mix is the weight of each tag. */
export function written(value) {
  if (value === null) return "none";
  if (Array.isArray(value)) return value.join(", ");
  if (typeof value !== "object") return String(value);
  return (
    Object.entries(value)
      .map((pair) => pair.join(" "))
      .join("; ") || "none"
  );
}
