// The fields of the page's forms: values, errors, and how the address reads and writes them.

import { setMessage } from "../shared/view.js";
import { differing, readAll, written, wrong } from "./setup_fields.js";

const forms = {}; // by form and name: the field's description and element

// Shows the error of a field, or none, beside its controls.
function mark(element, message) {
  const line = element.querySelector(".wrong");
  if (!line) return;
  setMessage(line, message);
  for (const control of element.querySelectorAll("input, select, textarea")) {
    control.setAttribute("aria-invalid", String(message !== ""));
    if (message) control.setAttribute("aria-describedby", line.id);
    else control.removeAttribute("aria-describedby");
  }
}

// Shows a server's message, or none, beside a field, and moves the focus there, but not out of a text being typed.
export function tellBeside(element, message) {
  mark(element, message);
  const isTyping = document.activeElement?.matches("textarea, [type=text], [type=number], [type=password]");
  if (message && !isTyping && element.checkVisibility()) element.querySelector("input, select, textarea").focus();
}

// One field. described: as components/page/forms.py describes it.
class Field {
  constructor(form, name, described) {
    this.described = described;
    this.element = /** @type {HTMLElement} */ (document.querySelector(`[data-form="${form}"][data-name="${name}"]`));
    this.controls = /** @type {HTMLInputElement[]} */ (
      this.element.matches("input") ? [this.element] : [...this.element.querySelectorAll("input, select, textarea")]
    );
    this.element.addEventListener("input", (event) => this.touched(event));
    this.touched(null);
  }

  get value() {
    const [first] = this.controls;
    const { kind } = this.described;
    if (kind === "flag") return first.checked;
    if (kind === "number") return first.value === "" ? null : first.valueAsNumber;
    if (first.type === "radio") return this.controls.find(({ checked }) => checked)?.value ?? null;
    return first.value;
  }

  set value(value) {
    const { kind } = this.described;
    for (const control of this.controls) {
      if (kind === "flag") control.checked = Boolean(value);
      else if (control.type === "radio") control.checked = control.value === value;
      else if (control.value !== String(value ?? "")) control.value = String(value ?? "");
    }
    this.touched(null);
  }

  // The number and the slider of a field show the same value.
  touched(event) {
    const { target = null } = event ?? {};
    if (this.described.kind === "number" && target)
      for (const control of this.controls) if (control !== target) control.value = target.value;
    this.tell(this.mistake);
  }

  // The error in the typed number, or an empty text.
  get mistake() {
    const [{ value }] = this.controls;
    const isUnused = this.isDisabled || (value === "" && this.described.default === null);
    return this.described.kind === "number" && !isUnused ? wrong(value, this.described) : "";
  }

  // Shows the error beside the field.
  tell(message) {
    mark(this.element, message);
  }

  get isDisabled() {
    return this.controls[0].disabled;
  }

  set isDisabled(is) {
    if (is === this.isDisabled) return;
    for (const control of this.controls) control.disabled = is;
    this.touched(null);
    this.element.toggleAttribute("data-disabled", is);
  }
}

// A field by its form and its name; undefined if the page does not have it.
export const fieldOf = (form, name) => forms[form]?.[name];

// Shows a server's message beside the field that it names: “top-k = -3 is not …”, “target is empty; …” or “The prompt
// is too long …”, and no other one in this form. aliases: the names of fields by other names in messages.
export function tellField(form, message, aliases = {}) {
  const [, name] = message.match(/^(?:[Tt]he )?(\S+) (?:=|is|has) /) ?? [];
  const field = fieldOf(form, aliases[name] ?? name);
  for (const field of Object.values(forms[form] ?? {})) field.tell(field.mistake);
  if (field) tellBeside(field.element, message);
}

// The values of all fields of a form, by name.
export const valuesOf = (form) =>
  Object.fromEntries(Object.entries(forms[form] ?? {}).map(([name, field]) => [name, field.value]));

// Registers the forms of `fields`, { form: { name: description } }, as parts of the address. onChange() is
// called after each change. assign(form, values, isBase) sets some fields of a form. If isBase, these values
// stay out of the address, which names the run that they belong to.
export function mountFields({ fields, alone, follows }, offer, onChange) {
  const base = {}; // base values by form
  const touched = new Set(); // values that the visitor set before this script ran take precedence over the address
  for (const [form, schemas] of Object.entries(fields)) {
    forms[form] = {};
    for (const [name, described] of Object.entries(schemas)) {
      const field = new Field(form, name, described);
      if (written(field.value ?? "") !== written(described.default ?? "") && described.default !== undefined)
        touched.add(field);
      forms[form][name] = field;
      field.element.addEventListener("input", onChange);
    }
  }
  // Values that follow from other fields of their form. If such a value is missing or empty, it is computed again.
  const following = (form) => (form === alone ? Object.entries(follows) : []);

  function write(form, values) {
    for (const [name, value] of Object.entries(values)) {
      const field = forms[form][name];
      if (field && !touched.has(field)) field.value = value;
    }
    onChange();
  }

  function set(form, texts) {
    const name = (key) => (form === alone ? key : `${form}.${key}`);
    const { values, messages } = readAll(texts, fields[form], name);
    for (const [key, sources] of following(form))
      if (texts[key] === undefined && sources.some((other) => texts[other] !== undefined)) values[key] = "";
    write(form, values);
    return messages;
  }

  function assign(form, values, isBase) {
    if (isBase) base[form] = values;
    write(form, values);
    touched.clear(); // the page has opened
  }

  // The values of a form that the address must contain: those that differ from the base, or without a base
  // from the default. Invalid values are left out, because a link must open, and so are unused ones.
  function get(form) {
    const schemas = fields[form];
    const now = valuesOf(form);
    const based = (key) => base[form]?.[key] !== undefined;
    const right = Object.keys(schemas).filter((key) => forms[form][key].mistake === "" && !forms[form][key].isDisabled);
    const plain = right.filter((key) => !based(key));
    const other = right.filter((key) => based(key) && written(now[key]) !== written(base[form][key]));
    const pick = (keys) => Object.fromEntries(keys.map((key) => [key, now[key]]));
    const entries = { ...differing(pick(plain), schemas), ...pick(other) };
    for (const [key] of following(form)) if (entries[key] === "") delete entries[key];
    return entries;
  }

  for (const [form, schemas] of Object.entries(fields)) {
    const names = form === alone ? Object.keys(schemas) : undefined;
    offer(form, { get: () => get(form), set: (texts) => set(form, texts) }, names);
  }
  return { assign };
}
