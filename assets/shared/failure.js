// The message of work that failed. If the connection broke, a button below it begins the work again.

import { LOST } from "./server.js";
import { make, makeButton, setMessage } from "./view.js";

// box: the element of the message. label: the text of the button. retry(): begins the work with the same settings.
// Returns the function that shows a message, or none.
export function mountFailure(box, label, retry) {
  const line = make("p", "go-on", makeButton("", label, retry));
  box.after(line);
  const tell = (message = "") => {
    setMessage(box, message);
    line.hidden = message !== LOST;
  };
  tell();
  return tell;
}
