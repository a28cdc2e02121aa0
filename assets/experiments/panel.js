// Shows the experiments' figures and findings, which the server sends as plain data, as text.

import { offer } from "../page/setup.js";
import { Asker } from "../shared/lab_view.js";
import { Plot } from "../shared/plot.js";
import { fillTable, make, makeButton, setText } from "../shared/view.js";

const SIGNS = { true: "✔", false: "✘", null: "–" };

function drawFindings(body, findings) {
  const row = ({ found, verdict, statement, words, place }) => [`${SIGNS[found]} ${verdict}`, statement, words, place];
  fillTable(body, findings.map(row));
  findings.forEach(({ found }, i) => (body.rows[i].className = `verdict-${found}`));
}

export function mount(element, props, server) {
  const fields = { method: { kind: "choice", default: "ersd", choices: props.methods } };

  const find = (selector) => element.querySelector(selector);
  const plots = new Map();
  let view = null;
  let method = fields.method.default;

  function draw() {
    const figures = view.figures.filter((figure) => !figure.method || figure.method === method);
    for (const figure of figures) {
      if (!plots.has(figure.id)) plots.set(figure.id, new Plot(props.plotly));
      plots.get(figure.id).show(figure);
    }
    find(".plots").replaceChildren(...figures.map(({ id }) => plots.get(id).element));
    contents(figures);
  }

  // Draws the list of contents: buttons, not links, because the address needs its fragment for something else.
  function contents(figures) {
    const entries = figures.map(({ id, title }) => [title, plots.get(id).element]);
    if (view.findings.length > 0) entries.push(["Findings", find(".findings")]);
    const items = entries.map(([title, target]) => {
      target.dataset.slide = title;
      const bring = () => {
        target.scrollIntoView({ block: "start" });
        const heading = Object.assign(target.querySelector("h3"), { tabIndex: -1 });
        heading.focus({ preventScroll: true });
      };
      return make("li", "", makeButton("", title, bring));
    });
    find(".contents ol").replaceChildren(...items);
    dispatchEvent(new Event("slides"));
  }

  function choices() {
    const buttons = view.methods.map(([id, name]) => {
      const radio = { type: "radio", name: "experiments-method", value: id, checked: id === method };
      const input = Object.assign(make("input"), radio);
      input.addEventListener("change", () => {
        method = id;
        draw();
        setText(find(".shown"), `The figures show ${name}.`);
      });
      return make("label", "choice", input, ` ${name}`);
    });
    find(".choices").replaceChildren(...buttons);
  }

  function take(answer) {
    view = answer;
    const methods = view.methods.map(([id]) => id);
    if (!methods.includes(method)) method = methods[0];
    setText(find(".about"), [view.about, view.note].filter(Boolean).join(" "));
    choices();
    find(".findings").hidden = view.findings.length === 0;
    draw();
    drawFindings(find(".findings tbody"), view.findings);
  }

  new Asker(find(".message"), [element]).ask(() => server.shipped({}), take);
  offer("experiments", {
    fields,
    get: () => ({ method }),
    set: (values) => {
      method = values.method;
      if (view) [choices, draw].forEach((step) => step());
    },
  });
}
