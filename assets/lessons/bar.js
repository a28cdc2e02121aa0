// The bar of the current lesson, which is always visible. Each step opens a set-up of the page.

import { copyText, lend, show } from "../page/setup.js";
import { toAddress } from "../page/setup_fields.js";
import { isActive } from "../shared/store.js";
import { make, makeButton, setText, setTextFor, zoomOf } from "../shared/view.js";
import { follow } from "./notes.js";
import { answer, answerOf, forget } from "./progress.js";
import { answerWords, ask, feedback, isRight, textOf } from "./question.js";
import { lastStep, opening, outcomes, questionAt, result, setupAt, summary } from "./steps.js";
import { lecturesOf, minutesUntil } from "./times.js";

const PATIENCE = 60_000; // milliseconds after which the element to look at must exist
const SETTLED = 700; // milliseconds after which the parts above the element have their final height
const LONG = ["long", "longer"];
const LEAST = 4; // pixels; less of a text can be cut without cutting a letter
const BUSY = "Your own run is still in progress. Stop it, then press “Show it again”.";
// These elements use Page Up and Page Down for themselves.
const OWN_KEYS = "input, textarea, select, [role=slider], [role=listbox], [contenteditable], .scroll";

const onProjector = () => document.body.hasAttribute("data-projector");
// On narrow screens the bar covers the lower part of the page.
const isBelow = () => matchMedia("(max-width: 67.4375em)").matches && !onProjector();

// Waits until the element that a step points at is drawn, then scrolls to it and draws a frame around it.
let newest = null;
function lookAt(selector) {
  for (const element of document.querySelectorAll(".lesson-look")) element.classList.remove("lesson-look");
  const end = performance.now() + PATIENCE;
  const request = (newest = Symbol(selector));
  const wait = () => {
    if (request !== newest || performance.now() > end) return;
    const element = document.querySelector(selector);
    if (!element?.getBoundingClientRect().height) {
      element?.dispatchEvent(new Event("look", { bubbles: true })); // the element may be on another slide
      return requestAnimationFrame(wait);
    }
    element.classList.add("lesson-look");
    scrollTo(0, 0); // show as much as possible of what is above the element
    if (getComputedStyle(document.querySelector(".lesson")).position === "static") return; // above the page: it is read first
    element.closest(".tabitem")?.scrollTo(0, 0); // on a projector the tab scrolls, not the page
    const bring = () => request === newest && element.scrollIntoView({ block: isBelow() ? "start" : "nearest" });
    bring();
    setTimeout(bring, SETTLED);
  };
  if (selector) wait();
  else scrollTo(0, 0);
}

// Presses or focuses a button as soon as it is visible and enabled: then the fields have the step's values.
function whenUsable(selector, act) {
  const request = newest;
  const wait = () => {
    if (request !== newest) return;
    /** @type {HTMLButtonElement | null} */
    const button = document.querySelector(selector);
    if (button?.checkVisibility() && !button.disabled) act(button);
    else requestAnimationFrame(wait); // the script of its tab is still being loaded
  };
  wait();
}

// Hides elements that would reveal the answer to an open question, or that do not belong to a shown answer.
const veil = document.createElement("style");
function hide(selector) {
  veil.textContent = selector ? `${selector}, ${selector} * { visibility: hidden !important; }` : "";
  document.body.toggleAttribute("data-veil", Boolean(selector));
  document.head.append(veil);
}

export class Bar {
  // The bar. It calls onMove() when a step opens and when the lesson ends.
  constructor(element, lessons, onMove) {
    this.element = element.querySelector(".lesson");
    this.lessons = lessons;
    this.lectures = lecturesOf(lessons);
    this.lecture = null; // the lecture in progress, one of these
    this.moved = onMove;
    this.hall = null; // if a class predicts instead of this visitor: { isShown(lesson, step), show() }, otherwise null
    this.lesson = null;
    this.step = 0;
    this.shown = false; // whether the answer is shown although nothing was predicted
    this.find = (selector) => element.querySelector(selector);
    const on = (selector, event, act) => this.find(selector).addEventListener(event, act);
    on(".close", "click", () => this.close());
    on(".back", "click", () => this.back());
    on(".next", "click", () => (this.lecture ? this.advance() : this.next()));
    on(".show", "click", () => this.setUp());
    on(".share", "click", () => this.share());
    on(".answer", "submit", () => this.predict());
    document.addEventListener("keydown", (event) => this.key(event));
    addEventListener("resize", () => this.lesson && this.fit());
  }

  numberOf(id) {
    return this.lessons.findIndex((lesson) => lesson.id === id);
  }

  get question() {
    return questionAt(this.lesson, this.step);
  }

  get isEnd() {
    return this.step === lastStep(this.lesson);
  }

  get given() {
    return this.question && !this.hall ? answerOf(this.lesson.id, this.step - 1) : undefined;
  }

  get revealed() {
    if (this.hall) return this.hall.isShown(this.lesson.id, this.step);
    return this.shown || this.given !== undefined;
  }

  // The place of the lesson in the current lecture.
  get stop() {
    return this.lecture?.stops.find(({ lesson }) => lesson === this.lesson);
  }

  get following() {
    const stops = (this.lecture ?? this.lectures[1]).stops;
    return stops[stops.findIndex(({ lesson }) => lesson === this.lesson) + 1]?.lesson;
  }

  begin(lecture) {
    this.lecture = lecture;
    this.open(lecture.stops[0].lesson.id);
  }

  // Opens a step of a lesson. isRevealed: whether the answer is shown even if there is no prediction.
  open(id, step = 0, isRevealed = false) {
    this.lesson = this.lessons[this.numberOf(id)];
    this.step = Math.min(Math.max(step, 0), lastStep(this.lesson));
    this.shown = isRevealed;
    if (!this.stop) this.lecture = null; // the lesson is not part of the lecture
    this.element.hidden = false;
    document.body.dataset.lesson = id;
    dispatchEvent(new Event("resize")); // now the page has less room
    const number = this.step > 0 ? this.step + 1 : null;
    toAddress({ lecture: this.lecture?.minutes ?? null, lesson: id, step: number });
    this.draw();
    this.setUp();
    this.find(".body").scrollTop = 0;
    this.find("#lesson-title").focus({ preventScroll: true });
    this.tell();
  }

  close() {
    const { id } = this.lesson;
    this.element.hidden = true;
    this.lesson = this.lecture = null;
    delete document.body.dataset.lesson;
    delete document.body.dataset.predict;
    hide(null);
    lend({});
    lookAt(null);
    dispatchEvent(new Event("resize"));
    toAddress({ lecture: null, lesson: null, step: null });
    show({ tab: "lessons" });
    whenUsable(`#start-${id}`, (button) => button.focus());
    this.tell();
  }

  tell() {
    follow(this);
    this.moved();
  }

  next() {
    if (!this.isEnd) return this.open(this.lesson.id, this.step + 1);
    if (this.following) this.open(this.following.id);
    else this.close();
  }

  back() {
    if (this.step > 0) this.open(this.lesson.id, this.step - 1);
  }

  // The keys of a presenter's remote control. On a projector they first scroll the text to its end.
  key(event) {
    const forward = event.key === "PageDown";
    if (!this.lesson || !(forward || event.key === "PageUp")) return;
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest?.(OWN_KEYS)) return;
    event.preventDefault();
    if (onProjector() && this.scrolls(forward ? 1 : -1)) return;
    if (forward) this.advance();
    else this.back();
  }

  // Scrolls the text down (1) or up (-1), and returns whether there was more of it in this direction.
  scrolls(direction) {
    const body = this.find(".body");
    const before = body.scrollTop;
    body.scrollTop += direction * 0.8 * body.clientHeight;
    return Math.abs(body.scrollTop - before) > LEAST;
  }

  // Shows the answer if the step asks a question that is still open. Otherwise goes to the next step.
  advance() {
    if (this.question && !this.revealed) this.reveal();
    else this.next();
  }

  setUp() {
    // The summary keeps what the last question showed, but does not press its button again.
    const last = { ...this.lesson.questions.at(-1).after, press: null };
    const setup = setupAt(this.lesson, this.step, this.revealed) ?? last;
    document.body.toggleAttribute("data-predict", !this.isEnd && !(this.question && this.revealed));
    hide(setup.veil);
    lend(setup.parts);
    show(setup);
    lookAt(setup.look);
    if (setup.press) whenUsable(setup.press, (button) => button.click());
    if (setup.parts.run && isActive()) this.find(".outcome").append(make("p", "note", BUSY));
  }

  predict() {
    answer(this.lesson.id, this.step - 1, this.read());
    this.reveal();
  }

  // Shows the answer and the visitor's prediction, if there is one. A class sees its answers together.
  reveal() {
    if (this.hall) return this.hall.show();
    this.shown = true;
    this.draw();
    this.setUp();
    this.bring(this.find(".outcome"));
  }

  // Scrolls to an element of the bar if the window is short.
  bring(element) {
    const body = this.fit();
    const { top } = body.getBoundingClientRect();
    body.scrollTop += (element.getBoundingClientRect().top - top) / zoomOf(body) - 8;
  }

  // Marks a text that is too long for the window: on a projector it gets smaller gaps, then smaller letters.
  fit() {
    const body = this.find(".body");
    body.classList.remove(...LONG);
    for (const name of LONG) if (body.scrollHeight > body.clientHeight) body.classList.add(name);
    return body;
  }

  draw() {
    const { lesson, step, question } = this;
    const steps = lastStep(lesson) + 1;
    const minute = this.lecture
      ? ` · minute ${this.stop.from + minutesUntil(lesson, step - 1)} of ${this.lecture.minutes}`
      : "";
    setText(this.find(".place"), `Lesson ${this.numberOf(lesson.id)}, step ${step + 1} of ${steps}${minute}`);
    setText(this.find("#lesson-title"), lesson.title);
    const words = question ? [question.ask] : this.isEnd ? this.summary() : opening(lesson);
    this.find(".words").replaceChildren(...words.map((text) => make("p", "", text)));
    this.drawQuestion(question);
    this.find(".back").disabled = step === 0;
    this.find(".share").hidden = Boolean(this.lecture); // the minute of the lecture takes the room of this element
    this.find(".show").hidden = this.isEnd;
    const next = this.find(".next");
    const open = question && !this.revealed;
    setText(next, this.isEnd ? this.onward() : open && !this.lecture ? "Skip" : "Next");
    next.classList.toggle("skip", Boolean(open)); // the answer needs the room of this button
    this.fit();
  }

  // The label of the Next button at the end of a lesson.
  onward() {
    if (this.lecture) return this.following ? "Next" : "End of the lecture";
    return this.following ? "Next lesson" : "All lessons";
  }

  // A class's predictions are shown in its own histograms.
  summary() {
    const words = summary(this.lesson, this.outcomes());
    return this.hall ? words.slice(0, 1) : words;
  }

  outcomes() {
    return outcomes(this.lesson, answerOf);
  }

  drawQuestion(question) {
    const form = this.find(".answer");
    form.hidden = !question || Boolean(this.hall);
    this.find(".outcome").replaceChildren();
    if (this.isEnd) this.find(".outcome").append(...(this.hall ? [] : [this.results()]), ...this.goingOn());
    if (question && this.hall && this.revealed) this.find(".outcome").append(make("p", "", question.why));
    if (!question || this.hall) return;
    const button = this.find(".answer .reveal");
    button.disabled = true;
    this.read = ask(this.find(".options"), question, this.given, () => (button.disabled = false));
    form.querySelector("fieldset").disabled = this.revealed;
    button.hidden = this.revealed;
    if (!this.revealed) return;
    const [kind, words] =
      this.given === undefined
        ? ["off", answerWords(textOf(question, question.answer))]
        : [isRight(question, this.given) ? "right" : "off", feedback(question, this.given)];
    this.find(".outcome").append(make("p", `verdict ${kind}`, words), make("p", "", question.why));
  }

  // The outcome of each question. A wrong prediction links to the step that shows the answer.
  results() {
    const linkTo = ({ step }) => this.button("Look again", () => this.open(this.lesson.id, step, true), step);
    const item = (outcome) => make("li", "", result(outcome), outcome.right ? "" : linkTo(outcome));
    return make("ul", "results", ...this.outcomes().map(item));
  }

  // The buttons at the end of a lesson.
  goingOn() {
    const { id, more } = this.lesson;
    const restart = () => {
      forget(id);
      this.open(id);
    };
    const own = this.hall ? [] : [this.button("Predict again", restart)];
    return [...own, ...(more ? [this.button(more.label, () => show(more))] : [])];
  }

  button(label, act, question = null) {
    const button = makeButton("more", label, act);
    if (question) button.setAttribute("aria-label", `${label} at question ${question}`);
    return button;
  }

  async share() {
    const url = new URL("?", location.href);
    url.searchParams.set("lesson", this.lesson.id);
    const text = (await copyText(url.href)) ? "Copied" : "See the address";
    setTextFor(this.find(".share"), text, 1500, "Copy link");
  }
}
