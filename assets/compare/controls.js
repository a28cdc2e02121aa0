// The controls of one column: method, draft, topology and k.

import { make } from "../shared/view.js";

const LABELS = { method: "Method", draft: "Draft", topology: "Topology", k: "k" };

const select = (options) => make("select", "", ...options.map(([label, value]) => new Option(label, value)));

export class Controls {
  // column: the column's settings, which the controls change. onChange: called after each change.
  constructor(column, { choices, withoutK, mostDrafted }, onChange) {
    this.column = column;
    this.withoutK = withoutK;
    this.onChange = onChange;
    this.element = make("div", "choices");
    const k = Object.assign(make("input"), { type: "number", min: 1, max: mostDrafted, step: 1 });
    const [method, draft, topology] = [choices.method, choices.draft, choices.topology].map(select);
    this.inputs = { method, draft, topology, k };
    for (const [name, input] of Object.entries(this.inputs)) {
      this.element.append(make("label", name, make("span", "", LABELS[name]), input));
      input.addEventListener("change", () => this.take());
    }
    Object.assign(this.inputs.topology.dataset, { term: "topology" });
    Object.assign(k.dataset, { term: "k" });
    this.show();
  }

  take() {
    for (const name of ["method", "draft", "topology"]) this.column[name] = this.inputs[name].value;
    this.column.k = this.inputs.k.valueAsNumber;
    this.show();
    this.onChange();
  }

  show() {
    const { column, inputs } = this;
    for (const name of ["method", "draft", "topology"]) inputs[name].value = column[name];
    inputs.method.dataset.term = this.method;
    if (Number.isFinite(column.k)) inputs.k.valueAsNumber = column.k;
    for (const name of ["draft", "topology", "k"]) inputs[name].disabled = column.method === "ar";
    if (this.withoutK.includes(column.topology)) inputs.k.disabled = true;
  }

  get method() {
    return this.inputs.method.selectedOptions[0].textContent;
  }

  get draft() {
    return this.inputs.draft.selectedOptions[0].textContent;
  }
}
