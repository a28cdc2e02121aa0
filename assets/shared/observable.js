// Who wants to hear of changes, and telling them.

export function observable() {
  const listeners = new Set();
  return {
    subscribe: (listener) => listeners.add(listener),
    notify: (what) => {
      for (const listener of listeners) listener(what);
    },
  };
}
