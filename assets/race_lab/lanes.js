// The drawing of the race: for each token two bars, to e / q and e / p, and a ring at e that can be dragged.

import { Drawing, drawAxis, hatching, raceEnd, setAll, svg, ticks } from "../shared/drawing.js";
import { digits, shortened } from "../shared/labels.js";
import { fillRows, placeIn, setText } from "../shared/view.js";
import { arrival, first } from "./model.js";

const AXIS = 42;
const SMALLEST = 0.001;
const STEP = 1.1; // an arrow key multiplies or divides e by this factor

function axisEnd(tokens) {
  const times = tokens.flatMap(({ e, p, q }) => [arrival(e, p), arrival(e, q)]).filter(Number.isFinite);
  const last = Math.max(...["p", "q"].map((side) => Math.min(...tokens.map((token) => arrival(token.e, token[side])))));
  return raceEnd(times, Math.max(2 * last, 1.1 * Math.max(...tokens.map(({ e }) => e))));
}

// The rows share the height of the drawing, which the style sheet sets.
function measures(element, count) {
  const height = Math.min(86, (parseFloat(getComputedStyle(element).maxHeight) - AXIS) / count);
  return { height, bar: Math.min(24, (height - 14) / 2) };
}

function lane() {
  const bar = (side) => svg("rect", { class: `bar-${side}`, rx: 2 });
  const text = (name) => svg("text", { class: name });
  const slider = { role: "slider", tabindex: 0, "aria-valuemin": 0, "aria-orientation": "horizontal" };
  const circles = [svg("circle", { class: "reach", r: 22 }), svg("circle", { class: "ring", r: 8 })];
  const handle = svg("g", { class: "handle", ...slider }, ...circles);
  const bars = [text("name"), bar("q"), bar("p"), text("time-q"), text("time-p")];
  return svg("g", { class: "lane" }, ...bars, svg("line", { class: "shared" }), handle);
}

export class Lanes {
  // onChange(): called after an e was moved by hand.
  constructor(element, tokens, onChange) {
    this.svg = element;
    this.tokens = tokens;
    this.onChange = onChange;
    this.end = 1;
    this.dragged = -1;
    this.axis = svg("g", { class: "grid" });
    this.title = svg("text", { class: "axis" }, "arrival time: earlier is further left");
    this.lanes = svg("g");
    element.append(hatching("lab-hatch"), this.axis, this.title, this.lanes);
    this.drawing = new Drawing(element, (width) => this.drawNow(width));
    this.listen();
  }

  listen() {
    const index = (event) => [...this.lanes.children].indexOf(event.target.closest(".handle")?.parentNode);
    this.svg.addEventListener("pointerdown", (event) => {
      this.dragged = index(event);
      if (this.dragged < 0) return;
      event.preventDefault();
      const handle = event.target.closest(".handle");
      handle.focus();
      handle.setPointerCapture(event.pointerId);
      this.offset = placeIn(this.svg, event).x - this.x(this.tokens()[this.dragged].e);
    });
    this.svg.addEventListener("pointermove", (event) => {
      if (this.dragged < 0) return;
      if (this.dragged >= this.tokens().length) return this.drop(); // the token was removed during the drag
      const x = placeIn(this.svg, event).x - this.offset;
      this.set(this.dragged, ((x - this.left) / this.room) * this.end);
    });
    for (const name of ["pointerup", "pointercancel"]) this.svg.addEventListener(name, () => this.drop());
    this.svg.addEventListener("keydown", (event) => this.key(event, index(event)));
  }

  drop() {
    if (this.dragged < 0) return;
    this.dragged = -1;
    this.draw();
  }

  key(event, i) {
    if (i < 0) return;
    const { e } = this.tokens()[i];
    const steps = {
      ArrowLeft: e / STEP,
      ArrowDown: e / STEP,
      ArrowRight: e * STEP,
      ArrowUp: e * STEP,
      PageDown: e / 2,
      PageUp: e * 2,
      Home: SMALLEST,
      End: this.end,
    };
    if (!(event.key in steps)) return;
    event.preventDefault();
    this.set(i, steps[event.key]);
  }

  // The axis is fixed while a ring is dragged. Otherwise the ring would move under the finger.
  set(i, e) {
    const most = this.dragged < 0 ? 100 : this.end;
    this.tokens()[i].e = Math.min(Math.max(e, SMALLEST), most);
    this.onChange();
  }

  draw() {
    this.drawing.draw();
  }

  x(time) {
    return this.left + (Math.min(time, this.end) / this.end) * this.room;
  }

  drawNow(width) {
    const tokens = this.tokens();
    this.left = Math.min(110, 0.25 * width);
    this.room = width - this.left - 64; // room for the time after the longest bar
    if (this.dragged < 0) this.end = axisEnd(tokens);
    const winners = { q: first(tokens, "q"), p: first(tokens, "p") };
    this.measures = measures(this.svg, tokens.length);
    const bottom = this.measures.height * tokens.length;
    setAll(this.svg, { height: bottom + AXIS, width });
    fillRows(this.lanes, tokens, lane, (group, token, i) => this.drawLane(group, token, i, winners));
    this.drawAxis(bottom + 4);
  }

  drawLane(group, token, i, winners) {
    const { height, bar } = this.measures;
    const middle = (i + 0.5) * height;
    const part = (selector) => group.querySelector(selector);
    const most = Math.max(3, Math.floor((this.left - 10) / 8.5)); // the number of characters that fit
    setText(part(".name"), shortened(token.name, most));
    setAll(part(".name"), { x: this.left - 8, y: middle + 5, "text-anchor": "end" });
    ["q", "p"].forEach((side, row) =>
      this.drawBar(part, side, token, middle - bar - 2 + row * (bar + 4), winners[side] === i),
    );
    const x = this.x(token.e);
    setAll(part(".shared"), { x1: x, x2: x, y1: middle - bar - 6, y2: middle + bar + 6 });
    const words = { e: `e = ${digits(token.e)}`, q: "", p: "" };
    // a question of a lesson may hide the arrivals, because it asks for them
    if (!document.body.hasAttribute("data-veil"))
      for (const side of ["q", "p"]) words[side] = `, e / ${side} = ${digits(finite(arrival(token.e, token[side])))}`;
    setAll(part(".handle"), {
      transform: `translate(${x.toFixed(2)} ${middle.toFixed(1)})`,
      "aria-label": `e of ${token.name}`,
      "aria-valuenow": token.e.toFixed(3),
      "aria-valuemax": 100,
      "aria-valuetext": words.e + words.q + words.p,
    });
  }

  drawBar(part, side, token, y, wins) {
    const time = arrival(token.e, token[side]);
    const isBeyond = time > this.end;
    const x = this.x(time);
    const place = { x: this.left, y, height: this.measures.bar, width: Math.max(x - this.left, 1) };
    setAll(part(`.bar-${side}`), { ...place, class: `bar-${side}${Number.isFinite(time) ? "" : " never"}` });
    const mark = wins ? (side === "q" ? "◆ " : "★ ") : "";
    setText(part(`.time-${side}`), `${mark}${digits(finite(time))}${isBeyond ? " ›" : ""}`);
    const name = `time-${side}${wins ? " wins" : ""}`;
    setAll(part(`.time-${side}`), { x: x + 6, y: y + this.measures.bar / 2 + 4.5, class: name });
  }

  drawAxis(y) {
    const values = ticks(this.end, Math.max(2, Math.floor(this.room / 90)));
    const place = (x, below) => ({ x, y: y + below, "text-anchor": "middle" });
    drawAxis(this.axis, values, (value) => [{}, place(this.x(value), 14)], String);
    setAll(this.title, place(this.left + this.room / 2, 32));
  }
}

const finite = (time) => (Number.isFinite(time) ? time : null);
