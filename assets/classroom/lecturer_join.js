// The ways to join the room, for the projector: a QR code, a link and the code.

import * as lessons from "../lessons/panel.js";
import { svg } from "../shared/drawing.js";
import { setText } from "../shared/view.js";
import { spelled } from "./connection.js";

const linkOf = (room) => {
  const url = new URL("class", document.baseURI);
  url.search = room ? `room=${room}` : "";
  return url;
};

// A long address may break after each of its parts.
const parts = (address) => address.split(/(?<=\/)/).flatMap((part) => [part, document.createElement("wbr")]);

export function mountJoin(dialog, server, present) {
  const find = (selector) => dialog.querySelector(selector);
  let room = null;
  find(".close").addEventListener("click", () => dialog.close());
  // Esc closes this dialog, and does not leave projector mode.
  dialog.addEventListener("keydown", (event) => event.stopPropagation());
  find(".begin").addEventListener("click", () => {
    dialog.close();
    lessons.beginLecture(0);
  });

  async function drawCode(code) {
    const image = await server.qr({ link: linkOf(code).href });
    if (!image || image.error || code !== room) return;
    const place = { viewBox: `-2 -2 ${image.size + 4} ${image.size + 4}`, "shape-rendering": "crispEdges" };
    find(".qr").replaceChildren(svg("svg", place, svg("path", { d: image.path })));
  }

  return {
    show() {
      find(".begin").hidden = Boolean(lessons.place());
      if (!dialog.open) dialog.showModal();
    },
    draw({ who, state }) {
      if (!who) {
        room = null;
        return dialog.close();
      }
      setText(find(".here"), present(state ?? {}));
      if (who.room === room) return;
      room = who.room;
      const short = linkOf();
      find(".link").replaceChildren(...parts(`${short.host}${short.pathname}`));
      setText(find(".code"), spelled(room));
      drawCode(room);
    },
  };
}
