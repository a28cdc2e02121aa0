const VARIABLE = /^var\((--[a-z-]+)\)$/;

// Replaces colour names in a figure by colours. Figures use the style sheet's names (`specdec/figures/looks.py`). Lists
// of numbers or texts are data and stay unchanged.
/** @param {any} value @param {(name: string) => string} colourOf */
export function resolved(value, colourOf) {
  if (typeof value === "string") return value.replace(VARIABLE, (_, name) => colourOf(name));
  if (Array.isArray(value)) return typeof value[0] === "object" ? value.map((item) => resolved(item, colourOf)) : value;
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, resolved(item, colourOf)]));
}
