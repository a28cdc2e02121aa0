// A server without a network, for modules that ask one.

import { after } from "node:test";

export const settled = () => new Promise(setImmediate);

// A server whose answers to POST wait until `answer` is called, and whose event streams the test writes.
export function serve() {
  const posts = [];
  const sources = [];
  globalThis.document = { baseURI: "http://server/below/" };
  globalThis.fetch = (address, { body, headers }) =>
    new Promise((resolve) => {
      const answer = async (value, ok = true) => {
        resolve({ ok, json: async () => value });
        await settled();
      };
      posts.push({ address, values: JSON.parse(body), headers, answer });
    });
  globalThis.EventSource = class extends EventTarget {
    static CONNECTING = 0;
    readyState = 0;

    constructor(address) {
      super();
      this.address = address;
      sources.push(this);
    }

    open() {
      this.readyState = 1;
      this.onopen?.();
    }

    close() {
      this.readyState = 2;
    }

    say(kind, data) {
      this.dispatchEvent(Object.assign(new Event(kind), { data }));
    }

    update(value) {
      this.say("generating", JSON.stringify([JSON.stringify({ rounds: [], ...value })]));
    }
  };
  // a stream that stays open would keep node alive until it counts as lost
  after(() => sources.forEach((source) => source.say("complete", "null")));
  return { posts, sources };
}
