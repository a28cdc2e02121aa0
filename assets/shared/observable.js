// A list of listeners, and the function that notifies them.

export function observable() {
  const listeners = new Set();
  return {
    subscribe: (listener) => listeners.add(listener),
    notify: (value = undefined) => {
      for (const listener of listeners) listener(value);
    },
  };
}
