// The connection of the page to its server: questions with one answer, and streams of updates.

export const urlOf = (address) => new URL(address, document.baseURI).href;

// On a Space with a shared GPU, this page is in a frame of the Hugging Face hub. This code asks the hub's page for
// headers that charge a run to the visitor's own quota, as `@gradio/client` does.
const SUPPORTED = "supports-zerogpu-headers";
const HUB = "https://huggingface.co";
let hubAnswers = false;
let isLeaving = false; // when a page is left, the browser closes all its streams
export function prepareServer() {
  addEventListener("beforeunload", () => {
    isLeaving = true;
    setTimeout(() => (isLeaving = false), PATIENCE); // the visitor may stay on the page
  });
  if (parent === window || !location.hostname.endsWith(".hf.space")) return;
  addEventListener("message", ({ data, origin }) => {
    if (data === SUPPORTED && origin === HUB) hubAnswers = true;
  });
  parent.postMessage(SUPPORTED, HUB);
}
const PATIENCE = 2000; // milliseconds within which the hub's page must answer

function hubHeaders() {
  if (!hubAnswers) return {};
  return new Promise((resolve) => {
    const channel = new MessageChannel();
    const answered = (headers) => {
      clearTimeout(timer);
      channel.port1.close();
      resolve(headers ?? {});
    };
    const timer = setTimeout(answered, PATIENCE);
    channel.port1.onmessage = ({ data }) => answered(data);
    parent.postMessage("zerogpu-headers", HUB, [channel.port2]);
  });
}

function post(address, value, more = {}) {
  const headers = { "content-type": "application/json", ...more };
  return fetch(urlOf(address), { method: "POST", headers, body: JSON.stringify(value) });
}

// The functions of a panel: `await server.exact({ p, q })`. An answer is plain data, or { error }, a message.
export function serverOf(panel) {
  const ask = (name) => async (question) => {
    const answer = await post(`ask/${panel}/${name}`, question ?? null);
    if (answer.ok) return answer.json();
    const { detail } = await answer.json().catch(() => ({}));
    return { error: detail ?? `The server answered ${answer.status}.` };
  };
  return new Proxy({}, { get: (_, name) => (name === "then" ? undefined : ask(String(name))) });
}

export const LOST = "The connection to the server is lost. All results so far are kept.";
const NOT_BEGUN = "The server did not answer. Try again.";
const BROKE_OFF = "The server ended the work before it was complete. Try again.";
// Milliseconds without any message until a stream counts as lost; the server sends one every 15 seconds.
const SILENCE = 60_000;

// Begins a stream of the server. values: its parameters by name. update(text): called with each update, in order.
// ended(message): called once, with an empty message if the stream is complete. Returns a function that closes the
// stream, which ends its work on the server; nothing is called afterwards.
export function stream(name, values, { update, ended }) {
  let source = null;
  let timer = 0;
  let isClosed = false;

  function close() {
    isClosed = true;
    clearTimeout(timer);
    // A stream that is still being opened is closed once it is open, because that ends its work on the server.
    if (source?.readyState === EventSource.CONNECTING) source.onopen = () => source.close();
    else source?.close();
  }

  function end(message) {
    if (isClosed || isLeaving) return;
    isClosed = true;
    clearTimeout(timer);
    source?.close();
    ended(message);
  }

  function alive() {
    clearTimeout(timer);
    timer = setTimeout(() => end(LOST), SILENCE);
  }

  async function begin() {
    const address = `gradio_api/call/v2/${name}`;
    const answer = await post(address, values, await hubHeaders());
    const { event_id, detail } = await answer.json().catch(() => ({}));
    if (!event_id) return end(typeof detail === "string" ? detail : NOT_BEGUN);
    source = new EventSource(urlOf(`${address}/${event_id}`));
    if (isClosed) return close();
    alive();
    source.addEventListener("heartbeat", alive);
    source.addEventListener("generating", ({ data }) => {
      if (isClosed) return; // an update that was on its way
      alive();
      update(JSON.parse(data)[0]);
    });
    source.addEventListener("complete", () => end(""));
    // An error event with data is a message of the server. One without data means that the connection failed;
    // the browser would then open the stream again.
    source.addEventListener("error", (event) =>
      end(/** @type {MessageEvent} */ (event).data === undefined ? LOST : BROKE_OFF),
    );
  }

  begin().catch(() => end(LOST));
  return close;
}
