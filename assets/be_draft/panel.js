// The game "You draft": the story, the field for the next words, and the table that compares the drafters.

import { pairLine } from "../page/pair.js";
import { offer, writeAddress } from "../page/setup.js";
import { onTab, openTab } from "../page/tabs.js";
import { KINDS, STATUSES } from "../shared/catalogue.js";
import { appendText, shortened, visible } from "../shared/labels.js";
import { fillTable, make, setMessage, setText } from "../shared/view.js";
import { fieldsOf, Game, START } from "./game.js";
import { guessWords, outcome, rows } from "./words.js";

const LONGEST = 14; // characters of a rejected token above the one that replaced it
// Seconds after an answer in which Enter without a guess is ignored: it was probably pressed for the guess before.
const HASTE = 0.25;
// The game always uses the story models, whichever pair the page has loaded.
const PLAYING = [
  { role: "target", name: "stories/target" },
  { role: "draft", name: "stories/draft" },
];
const INVITATION = "Type the next words and press Enter. With nothing typed, the large model writes one token alone.";
const WAITING = "The large model is working …";
const BROKEN = "The server did not answer. Your words are still there: try again.";

// The space before a word has no colour, so that no line ends with a strip of colour.
function tokenElement(token) {
  const element = make("span", `token ${token.kind}`);
  element.title = KINDS[token.kind];
  const word = token.text.replace(/^ +(?=\S)/, "");
  appendText(element, word);
  return [token.text.slice(0, token.text.length - word.length), element];
}

// Draws the typed words that were rejected, in small letters above the target's word.
function lostElement({ text, status }) {
  const isRejected = status === "rejected";
  const element = make(isRejected ? "s" : "span", `token ${status}`);
  element.title = STATUSES[status];
  element.setAttribute("role", "img"); // otherwise few screen readers say that it was rejected
  element.setAttribute("aria-label", `${STATUSES[status]}: ${visible(text)}`);
  appendText(element, shortened(text.trimStart() || text, LONGEST));
  return element;
}

function roundElement({ tokens, guess }) {
  const round = make("span", "round");
  const rejected = guess.filter(({ status }) => status !== "accepted");
  tokens.forEach((token, i) => {
    const [space, element] = tokenElement(token);
    if (i < tokens.length - 1 || rejected.length === 0) return round.append(space, element);
    round.append(space, make("span", "instead", make("span", "lost", ...rejected.map(lostElement)), element));
  });
  return round;
}

class YouDraft {
  constructor(element, props, server) {
    this.props = props;
    this.server = server;
    this.seed = START;
    this.busy = false;
    this.ready = 0; // when the visitor's turn began
    this.left = null; // when the visitor left the game; null while it is in sight
    this.find = (selector) => element.querySelector(selector);
    this.listen();
    this.begin();
  }

  listen() {
    const on = (selector, event, act) => this.find(selector).addEventListener(event, act);
    on("form", "submit", () => this.propose());
    on(".typed", "input", () => this.drawTyping());
    on(".finish", "click", () => this.finish());
    for (const name of [".opening", ".temperature"]) on(name, "change", () => this.begin());
    on(".anew", "click", () => {
      this.seed = Math.floor(Math.random() * 2 ** 31);
      this.begin();
      this.focus();
      writeAddress();
    });
  }

  // Typing goes into the field. On a touch screen a keyboard would cover the page.
  focus() {
    if (!matchMedia("(pointer: coarse)").matches) this.find(".typed").focus({ preventScroll: true });
  }

  beginTurn() {
    this.ready = performance.now();
    if (this.left !== null) this.left = this.ready;
  }

  // A turn lasts only while the game is in sight.
  inSight(isVisible) {
    const now = performance.now();
    if (this.left !== null) this.ready += now - this.left;
    this.left = isVisible ? null : now;
  }

  get opening() {
    return this.props.openings[Number(this.find(".opening").value) - 1];
  }

  begin() {
    const temperature = Number(this.find(".temperature").value);
    this.game = new Game({ prompt: this.opening, seed: this.seed, temperature }, this.props.length);
    this.find(".tokens").replaceChildren();
    this.find(".prompt").replaceChildren();
    appendText(this.find(".prompt"), this.opening);
    this.find(".typed").value = "";
    this.busy = false;
    this.beginTurn();
    setMessage(this.find(".error-box"), "");
    this.draw();
  }

  // Asks the server. The result is undefined if there is no valid answer or another story has begun.
  async ask(name, question) {
    const { game } = this;
    this.busy = true;
    this.draw();
    const request = this.server[name]({ ...game.story, ...question });
    const answer = (await request.catch(() => null)) ?? { error: BROKEN }; // null: there is no connection
    if (game !== this.game) return undefined; // the answer of an old story must not change the new one's state
    this.busy = false;
    setMessage(this.find(".error-box"), answer.error);
    this.draw();
    return answer.error ? undefined : answer;
  }

  async propose() {
    if (this.busy || this.game.isOver) return;
    const input = this.find(".typed");
    const [typed, seconds] = [input.value, (performance.now() - this.ready) / 1000];
    if (typed === "" && seconds < HASTE) return;
    const answer = await this.ask("guessed", { written: this.game.written, typed });
    if (!answer) return;
    if (document.activeElement === document.body) this.focus(); // the button was pressed, and disabled meanwhile
    const round = { ...answer, seconds };
    this.game.rounds.push(round);
    this.find(".tokens").append(roundElement(round));
    input.value = "";
    this.beginTurn();
    this.draw();
    this.find(".writing").scrollTop = this.find(".writing").scrollHeight;
    if (this.game.isOver) this.finish();
  }

  async finish() {
    if (this.busy) return;
    const { game } = this;
    game.given = true;
    const alone = await this.ask("alone", { length: game.written.length });
    if (!alone) return this.draw();
    game.alone = alone;
    this.draw();
    this.find(".same").scrollIntoView({ block: "nearest" });
  }

  draw() {
    const { game, busy } = this;
    const last = game.rounds.at(-1);
    setText(this.find(".verdict"), busy ? WAITING : last ? guessWords(last) : INVITATION);
    this.find(".writing").setAttribute("aria-busy", String(busy));
    this.find(".propose").disabled = busy || game.isOver;
    this.find(".typed").disabled = game.isOver;
    this.find(".anew").classList.toggle("primary", game.alone !== null);
    // a failed question can be asked again
    this.find(".finish").disabled = busy || game.rounds.length === 0 || game.alone !== null;
    fillTable(this.find(".score tbody"), rows(game));
    setText(this.find(".outcome"), outcome(game));
    const plain = this.find(".plain");
    plain.replaceChildren();
    if (game.alone) appendText(plain, game.story.prompt + game.alone.text);
    this.drawTyping();
  }

  // Typed words appear after the story immediately, as a draft.
  drawTyping() {
    const { value } = this.find(".typed");
    const typing = this.find(".typing");
    typing.replaceChildren();
    const last = this.game.text.slice(-1) || this.opening.slice(-1);
    if (value && !/^\s/.test(value) && !/\s/.test(last)) typing.append(" ");
    const word = make("span", "word");
    appendText(word, value);
    typing.append(word);
    this.find(".writing").scrollTop = this.find(".writing").scrollHeight;
    setText(this.find(".propose"), value.trim() === "" ? "No guess" : "Propose");
  }

  get() {
    return {
      opening: Number(this.find(".opening").value),
      temperature: Number(this.find(".temperature").value),
      seed: this.seed,
    };
  }

  set({ opening, temperature, seed }) {
    this.find(".opening").value = opening;
    this.find(".temperature").value = temperature;
    this.seed = seed;
    this.begin();
  }
}

export function mount(element, props, server) {
  const game = new YouDraft(element, props, server);
  setText(element.querySelector(".pair-line"), pairLine(PLAYING));
  offer("story", { fields: fieldsOf(props), get: () => game.get(), set: (values) => game.set(values) });
  // The focus stays with a visitor who moves through the page's views by keyboard, and with a lesson.
  const isOpen = () => Boolean(openTab()?.contains(element));
  const onOpen = () => {
    game.inSight(isOpen());
    const byKeyboard = document.querySelector("[role=tab]:focus-visible");
    if (isOpen() && !document.body.dataset.lesson && !byKeyboard) game.focus();
  };
  onTab(onOpen);
  onOpen();
  document.addEventListener("visibilitychange", () => game.inSight(isOpen() && !document.hidden));
}
