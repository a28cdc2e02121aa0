// Lessons: a few sentences, then predict and reveal. The bar stays in sight; each step opens a set-up of the page.

import { copyText, show, tell } from "../page/setup.js";
import { misfit } from "../page/setup_fields.js";
import { observable } from "../shared/observable.js";
import { isActive } from "../shared/store.js";
import { make, onFrame, setText } from "../shared/view.js";
import { answer, answerOf, forget, onProgress } from "./progress.js";
import { ask, feedback, isRight } from "./question.js";

const PATIENCE = 60_000; // milliseconds until what is to be looked at must be there
const BUSY = "Your own run is still going on. Stop it, then press “Show it again”.";
let lessons = [];
let bar = null;
let hall = null; // of a class that predicts instead of this visitor: { isShown(lesson, step) }
const steps = observable(); // told of each step that is opened, and of the end
let arrive;
const arrived = new Promise((done) => (arrive = done)); // the bar, with all lessons

// Where the visitor is: a lesson, its step, and whether that asks something; null in none.
export const place = () => bar?.lesson && { lesson: bar.lesson.id, step: bar.step, asks: Boolean(bar.question) };
export const onStep = steps.subscribe;

// Lets a class predict, whose answers whoever leads it shows; null: this visitor again.
export function teach(wanted) {
  hall = wanted;
  if (bar?.lesson) refresh();
}

export function refresh() {
  bar.draw();
  bar.setUp();
}

export async function goTo(lesson, step) {
  await arrived;
  bar.open(lesson, step);
}

const find = (id) => lessons.findIndex((lesson) => lesson.id === id);

function inAddress(lesson, step) {
  const url = new URL(location.href);
  url.searchParams.delete("lesson");
  url.searchParams.delete("step");
  if (lesson) url.searchParams.set("lesson", lesson.id);
  if (lesson && step > 0) url.searchParams.set("step", step + 1);
  history.replaceState(history.state, "", url);
}

const isBelow = () => matchMedia("(max-width: 1079px)").matches; // the bar covers the foot of the page

// Waits until the element is drawn, then brings it into sight and frames it.
let newest = null;
function lookAt(selector) {
  for (const element of document.querySelectorAll(".lesson-look")) element.classList.remove("lesson-look");
  const until = performance.now() + PATIENCE;
  const asked = (newest = Symbol(selector));
  const wait = () => {
    if (asked !== newest || performance.now() > until) return;
    const element = document.querySelector(selector);
    if (!element?.getBoundingClientRect().height) return requestAnimationFrame(wait);
    element.classList.add("lesson-look");
    element.scrollIntoView({ block: isBelow() ? "start" : "nearest" });
  };
  if (selector) wait();
}

class Bar {
  constructor(element) {
    this.element = element.querySelector(".lesson");
    this.lesson = null;
    this.step = 0;
    this.find = (selector) => element.querySelector(selector);
    const on = (selector, event, act) => this.find(selector).addEventListener(event, act);
    on(".close", "click", () => this.close());
    on(".back", "click", () => this.open(this.lesson.id, this.step - 1));
    on(".next", "click", () => this.next());
    on(".show", "click", () => this.setUp());
    on(".share", "click", () => this.share());
    on(".answer", "submit", (event) => {
      event.preventDefault();
      this.reveal();
    });
  }

  get question() {
    return this.lesson.questions[this.step - 1];
  }

  get isEnd() {
    return this.step > this.lesson.questions.length;
  }

  get given() {
    return this.question && !hall ? answerOf(this.lesson.id, this.step - 1) : undefined;
  }

  // Whether there is a question whose answer is not to be seen yet.
  get isAsked() {
    const known = hall ? hall.isShown(this.lesson.id, this.step) : this.given !== undefined;
    return Boolean(this.question) && !known;
  }

  // step: 0 reads, 1 ... ask, the last one ends.
  open(id, step = 0) {
    this.lesson = lessons[find(id)];
    this.step = Math.min(Math.max(step, 0), this.lesson.questions.length + 1);
    this.element.hidden = false;
    document.body.dataset.lesson = id;
    dispatchEvent(new Event("resize")); // the page has less room now
    inAddress(this.lesson, this.step);
    this.draw();
    this.setUp();
    this.find(".body").scrollTop = 0;
    this.find("#lesson-title").focus({ preventScroll: true });
    steps.notify();
  }

  close() {
    this.element.hidden = true;
    this.lesson = null;
    delete document.body.dataset.lesson;
    delete document.body.dataset.predict;
    lookAt(null);
    dispatchEvent(new Event("resize"));
    inAddress(null);
    show({ tab: "lessons" });
    steps.notify();
  }

  next() {
    if (!this.isEnd) return this.open(this.lesson.id, this.step + 1);
    const following = lessons[find(this.lesson.id) + 1];
    if (following) this.open(following.id);
    else this.close();
  }

  // What the page shows at this step: what comes before a prediction gives no answer away.
  setUp() {
    const asked = this.isAsked;
    const before = this.question?.before ?? this.lesson.open;
    const wanted = this.isEnd ? null : this.question && !asked ? this.question.after : before;
    document.body.toggleAttribute("data-predict", !this.isEnd && (asked || !this.question));
    if (wanted) show(wanted);
    lookAt(wanted?.look ?? null);
    if (wanted?.parts.run && isActive()) this.find(".outcome").append(make("p", "note", BUSY));
  }

  reveal() {
    answer(this.lesson.id, this.step - 1, this.read());
    this.draw();
    this.setUp();
    const [body, outcome] = [this.find(".body"), this.find(".outcome")];
    body.scrollTop += outcome.getBoundingClientRect().top - body.getBoundingClientRect().top - 8; // where it is short
  }

  draw() {
    const { lesson, step, question, given } = this;
    setText(
      this.find(".place"),
      `Lesson ${find(lesson.id) + 1} of ${lessons.length}, step ${step + 1} of ${lesson.questions.length + 2}`,
    );
    setText(this.find("#lesson-title"), lesson.title);
    const words = question ? question.ask : this.isEnd ? this.summary() : lesson.read;
    this.find(".words").replaceChildren(...words.split("\n").map((text) => make("p", "", text)));
    this.drawQuestion(question, given);
    this.find(".back").disabled = step === 0;
    this.find(".show").hidden = this.isEnd;
    const following = lessons[find(lesson.id) + 1];
    const last = following ? "Next lesson" : "All lessons";
    const next = this.find(".next");
    const open = this.isAsked;
    setText(next, this.isEnd ? last : open ? "Skip" : "Next");
    next.classList.toggle("skip", open); // the answer is the main thing
  }

  drawQuestion(question, given) {
    const form = this.find(".answer");
    form.hidden = !question || hall !== null;
    this.find(".outcome").replaceChildren();
    if (this.isEnd) this.find(".outcome").append(...this.goingOn());
    if (question && hall && !this.isAsked) this.find(".outcome").append(make("p", "", question.why));
    if (!question || hall) return;
    const button = this.find(".reveal");
    button.disabled = true;
    this.read = ask(this.find(".options"), question, given, () => (button.disabled = false));
    const known = given !== undefined;
    form.querySelector("fieldset").disabled = known;
    button.hidden = known;
    if (!known) return;
    const verdict = make("p", `verdict ${isRight(question, given) ? "right" : "off"}`, feedback(question, given));
    this.find(".outcome").append(verdict, make("p", "", question.why));
  }

  summary() {
    const { id, questions, goal } = this.lesson;
    if (hall) return `That was it: ${goal}`;
    const given = questions.map((_, i) => answerOf(id, i));
    const answered = given.filter((value) => value !== undefined).length;
    const right = questions.filter((question, i) => given[i] !== undefined && isRight(question, given[i])).length;
    return `That was it: ${goal}\nYou predicted ${right} of ${answered} right${answered < questions.length ? `; ${questions.length - answered} of ${questions.length} were skipped` : ""}.`;
  }

  // What can be done at the end of a lesson.
  goingOn() {
    const { id, more } = this.lesson;
    const again = () => {
      forget(id);
      this.open(id);
    };
    const choices = [
      ...(hall ? [] : [["Predict once more", again]]),
      ...(more ? [[more.label, () => show(more)]] : []),
    ];
    return choices.map(([label, act]) => {
      const button = Object.assign(make("button", "more", label), { type: "button" });
      button.addEventListener("click", act);
      return button;
    });
  }

  async share() {
    const url = new URL("?", location.href);
    url.searchParams.set("lesson", this.lesson.id);
    const copied = await copyText(url.href);
    setText(this.find(".share"), copied ? "Copied" : "See the address");
    setTimeout(() => setText(this.find(".share"), "Copy link"), 1500);
  }
}

export function mountLesson(element, props) {
  lessons = props.lessons;
  bar = new Bar(element);
  arrive();
  const asked = new URLSearchParams(location.search);
  const wanted = asked.get("lesson");
  if (wanted === null) return;
  if (find(wanted) < 0) return tell([misfit("lesson", wanted, `one of ${lessons.map(({ id }) => id).join(", ")}`)]);
  const [step, last] = [asked.get("step") ?? "1", lessons[find(wanted)].questions.length + 2];
  const fits = /^\d+$/.test(step) && Number(step) >= 1 && Number(step) <= last;
  if (!fits) tell([misfit("step", step, `a whole number from 1 to ${last}`)]);
  bar.open(wanted, fits ? Number(step) - 1 : 0);
}

function card(lesson, number) {
  const item = make("li", "card");
  const start = Object.assign(make("button", "start"), { type: "button" });
  start.addEventListener("click", () => bar.open(lesson.id));
  item.append(make("h3", "", `${number + 1}. ${lesson.title}`), make("p", "", lesson.goal), make("p", "note"), start);
  return item;
}

// The list of lessons, and how far this visitor is.
export async function mountLessons(element) {
  await arrived;
  const items = lessons.map(card);
  element.querySelector(".lessons").append(...items);
  const again = element.querySelector(".forget");
  again.addEventListener("click", () => forget());
  const draw = onFrame(() => {
    const done = lessons.map(({ id, questions }) => questions.filter((_, i) => answerOf(id, i) !== undefined).length);
    lessons.forEach((lesson, i) => {
      const [note, start] = items[i].querySelectorAll(".note, .start");
      setText(note, `${done[i]} of ${lesson.questions.length} questions answered`);
      setText(start, done[i] === 0 ? "Start" : done[i] < lesson.questions.length ? "Go on" : "Read again");
      start.setAttribute("aria-label", `${start.textContent}: ${lesson.title}`);
    });
    again.hidden = done.every((count) => count === 0);
  });
  onProgress(draw);
}
