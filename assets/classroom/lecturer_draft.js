// The class as the draft, on the projector: the text, the proposals, and the scores of class and small model.

import { setMessage, setText } from "../shared/view.js";
import { spelled } from "./connection.js";
import { drawProposals, drawScores, drawText } from "./draft.js";

export function mountDraft(dialog, send) {
  const find = (selector) => dialog.querySelector(selector);
  const on = (selector, act) => find(selector).addEventListener("click", act);
  on(".close", () => dialog.close());
  on(".verify", () => send("check"));
  on(".next-round", () => send("next"));
  on(".end", () => send("draft"));
  // Keys that are typed here must not act as commands of the page.
  dialog.addEventListener("keydown", (event) => event.stopPropagation());
  find(".begin").addEventListener("submit", () => send("draft", { prompt: find(".begin input").value }));

  const show = () => dialog.open || dialog.showModal();
  let hasBegun = false;

  function drawRound({ draft, answered, here }) {
    const { proposals, checking, ended } = draft;
    drawText(find(".text"), draft);
    drawScores(find(".scores"), draft);
    const asks = !proposals && !ended;
    const guessed = `${answered} of ${Math.max(here, answered)} have guessed`;
    setText(find(".answered"), checking ? "The large model checks …" : guessed);
    find(".answered").hidden = find(".verify").hidden = !asks;
    find(".verify").disabled = checking || answered === 0;
    find(".next-round").hidden = !proposals || ended;
    if (proposals) drawProposals(find(".result"), draft);
    else find(".result").replaceChildren();
  }

  return {
    show,
    draw({ who, state, message }) {
      const draft = state?.draft;
      if (who) setText(find(".room"), `Class ${spelled(who.room)} · ${state?.here ?? 0} here`);
      setMessage(find(".message"), message);
      find(".begin").hidden = Boolean(draft);
      find(".drafting").hidden = !draft;
      if (draft) drawRound(state);
      if (draft && !hasBegun) show();
      if (!who || (hasBegun && state?.place)) dialog.close(); // after the end of a text another one can begin
      hasBegun = Boolean(draft);
    },
  };
}
