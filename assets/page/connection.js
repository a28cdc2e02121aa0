// Whether the server is still there while it works for the visitor. Gradio notices a loss too and starts the
// page anew once the server is back, but it tells no run of it.

const EVERY = 2000; // milliseconds
const TRIES = 2; // a request may fail by itself

const LOST =
  "The connection to the server is lost. What came until now stays here; when the server is back, the page starts anew by itself.";

const runs = [];
let failed = 0;

// run: with isActive(), whether it expects something of the server, and breakOff(message).
export function watchConnection(run) {
  if (runs.length === 0) setInterval(look, EVERY);
  runs.push(run);
}

async function look() {
  if (!runs.some((run) => run.isActive())) return void (failed = 0);
  try {
    await fetch(new URL("gradio_api/queue/status", document.baseURI), { cache: "no-store" });
    failed = 0;
  } catch {
    failed += 1;
  }
  if (failed >= TRIES) for (const run of runs) if (run.isActive()) run.breakOff(LOST);
}
