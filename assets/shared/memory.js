// Texts that the browser stores for this page, by name. If it refuses, reading gives null and writing nothing.

/** The kept text, or null. @param {"localStorage" | "sessionStorage"} [storage] */
export function keptText(name, storage = "localStorage") {
  try {
    return globalThis[storage].getItem(name);
  } catch {
    return null;
  }
}

/** The value that was kept as JSON, or null. @param {"localStorage" | "sessionStorage"} [storage] */
export function keptValue(name, storage) {
  try {
    return JSON.parse(keptText(name, storage));
  } catch {
    return null; // another program wrote the text
  }
}

/** Keeps a text; null deletes it. @param {"localStorage" | "sessionStorage"} [storage] */
export function keep(name, text, storage = "localStorage") {
  try {
    if (text === null) globalThis[storage].removeItem(name);
    else globalThis[storage].setItem(name, text);
  } catch {
    // the browser stores nothing, or the text is too long for it
  }
}
