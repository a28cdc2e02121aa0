// The connection to a room over plain HTTP: sends actions and receives news.

import { keep, keptValue } from "../shared/memory.js";

const PAUSE = 300; // the least milliseconds between two requests for the state of the room
const AGAIN = 1500; // milliseconds until a failed request is repeated, a little longer each time
const LONGEST = 10_000;
const SILENT = 40_000; // milliseconds after which a waiting request counts as lost: a phone may have changed its network

/** A refusal of the server: its status and its message. */
export class Refused extends Error {
  /** @param {number} status @param {string} message */
  constructor(status, message) {
    super(message);
    this.status = status;
  }

  get isGone() {
    return [403, 404, 410].includes(this.status);
  }
}

export const LOST = "The connection to the server is lost. The page keeps trying.";

// The message for the error of an action. Unless it is a refusal, the server did not answer.
export const reason = (error) => (error instanceof Refused ? error.message : LOST);

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function parsed(answer) {
  const body = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, body.detail ?? "The server’s reply is not valid.");
  return body;
}

const address = (name) => new URL(`class/${name}`, document.baseURI);

// Posts to the server and returns its answer. Throws `Refused` if the server refuses.
export async function post(name, body = {}, token = "") {
  const headers = { "content-type": "application/json", "x-class-token": token };
  return parsed(await fetch(address(name), { method: "POST", headers, body: JSON.stringify(body) }));
}

async function fetchState({ room, token }, version, ending) {
  const url = address("now");
  url.search = new URLSearchParams({ room, since: String(version) }).toString();
  // `AbortSignal.any` would be shorter, but phones from before 2024 lack it.
  const controller = new AbortController();
  const end = () => controller.abort();
  const timer = setTimeout(end, SILENT);
  ending.addEventListener("abort", end);
  try {
    const headers = { "x-class-token": token };
    return await parsed(await fetch(url, { headers, cache: "no-store", signal: controller.signal }));
  } finally {
    clearTimeout(timer);
    ending.removeEventListener("abort", end);
  }
}

// Watches a room. Calls `seen(state)` after each answer, `gone(message)` when the room no longer admits this client,
// and `lost(isLost)` when answers fail or arrive again. Returns a function that ends the watch.
export function watch(who, { seen, gone, lost }) {
  const ending = new AbortController();
  const asleep = () => ending.signal.aborted;
  async function follow() {
    for (let version = "", failed = 0; !asleep(); ) {
      try {
        const state = await fetchState(who, version, ending.signal);
        if (asleep()) return;
        if (failed > 0) lost(false);
        failed = 0;
        version = state.version;
        seen(state);
        await pause(PAUSE);
      } catch (error) {
        if (asleep()) return;
        if (error instanceof Refused && error.isGone) return gone(error.message);
        failed += 1;
        if (failed > 1) lost(true);
        await pause(Math.min(LONGEST, AGAIN * failed) * (0.5 + Math.random()));
      }
    }
  }
  follow();
  return () => ending.abort();
}

// The browser's memory of a room, by name. If the browser stores nothing, it lasts as long as the page.
const remembered = new Map();

export function remember(name, value) {
  remembered.set(name, value);
  keep(name, value && JSON.stringify(value));
}

// Forgets this room. If another window of the browser has entered a newer room, that one stays.
export function forget(name, who) {
  if (who && recall(name)?.token === who.token) remember(name, null);
}

export function recall(name) {
  const value = keptValue(name) ?? remembered.get(name);
  return typeof value?.room === "string" && typeof value?.token === "string" ? value : null;
}

// A room's code in two groups of letters, as people read it aloud.
export const spelled = (code) => `${code.slice(0, 4)} ${code.slice(4)}`;
