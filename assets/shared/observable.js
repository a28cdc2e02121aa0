// A list of listeners, and the function that notifies them.

export function observable() {
  const listeners = new Set();
  return {
    subscribe: (listener) => listeners.add(listener),
    notify: (what = undefined) => {
      for (const listener of listeners) listener(what);
    },
  };
}
