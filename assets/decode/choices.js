// Choices of a visitor, which stay in this browser.

export function remembered(name) {
  try {
    return localStorage.getItem(name) !== null;
  } catch {
    return false; // the browser stores nothing
  }
}

/**
 * @param {string} name
 * @param {boolean} isChosen
 */
export function remember(name, isChosen) {
  try {
    if (isChosen) localStorage.setItem(name, "");
    else localStorage.removeItem(name);
  } catch {
    // the browser stores nothing: the choice lasts as long as the page
  }
}
