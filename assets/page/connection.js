// Checks that the server is still reachable while it works for the visitor. Gradio notices a lost server too, and
// reloads the page when it is back, but it does not inform the run.

const EVERY = 2000; // milliseconds
const TRIES = 2; // failures before the server counts as lost: a single request may fail

const LOST =
  "The connection to the server is lost. What came until now stays here; when the server is back, the page starts anew by itself.";

const runs = [];
let failed = 0;

// run: an object with isActive(), which says whether it expects updates, and breakOff(message).
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
