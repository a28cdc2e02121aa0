// The whole set-up of the page in its address. components/page/setup.py describes how a part joins.

import { INVARIANT, METHODS } from "../shared/catalogue.js";
import { observable } from "../shared/observable.js";
import { make, makeButton, setTextFor } from "../shared/view.js";
import { mountFields, valuesOf } from "./fields.js";
import { differing, misfit, readAll, unknown, written } from "./setup_fields.js";
import { goToTab } from "./tabs.js";

const LONGEST = 4000; // most characters of an address, because servers refuse longer ones
const SETTLED = 400; // milliseconds after the last input until the address is written
const KEPT = ["tab", "projector", "lecture", "lesson", "step"]; // names in the address that other code writes and reads
const foreign = (name) => KEPT.includes(name) || /^(__|utm_|view$|deep_link$|logs$)/.test(name);

const parts = new Map(); // the registered parts by name
const waiting = new Map(); // values of parts that are not registered yet
const alone = new Map(); // the field names of parts without a prefix
const initial = [...new URLSearchParams(location.search)]; // the address with which the page was opened
// Before "auto" was the default, links to an optimal tree gave its k or its nodes without the topology.
const names = initial.map(([name]) => name);
if (!names.includes("topology") && ["k", "tree"].some((name) => names.includes(name)))
  initial.push(["topology", "optimal"]);
const early = []; // messages that came before the message box existed
let telling = (messages) => void early.push(...messages);
let following = false; // whether the address follows changes

// The key within a part that a name in the address stands for, or undefined if the name belongs to another part.
function keyOf(part, name) {
  if (alone.has(part)) return alone.get(part).includes(name) ? name : undefined;
  return name.startsWith(`${part}.`) ? name.slice(part.length + 1) : undefined;
}

const nameOf = (part, key) => (alone.has(part) ? key : `${part}.${key}`);

function fromAddress(part) {
  const entries = initial.map(([name, text]) => [keyOf(part, name), text]).filter(([key]) => key !== undefined);
  return entries.length > 0 ? Object.fromEntries(entries) : undefined;
}

// Registers a part. fields: descriptions of its values, if they are not texts. names: its names if they have no prefix
// in the address. Returns whether the address had values for the part.
export function offer(part, { get, set, fields = null }, names) {
  if (names) alone.set(part, names);
  const values = waiting.get(part) ?? (parts.has(part) ? undefined : fromAddress(part));
  parts.set(part, fields ? inTexts(part, fields, get, set) : { get, set });
  const isLate = waiting.has(part); // the address may have been written since the link was clicked
  if (values) apply(part, values).then(() => isLate && touched());
  return values !== undefined;
}

// Wraps a part's get and set, so that they use texts in the notation of the address. fields: its values.
const inTexts = (part, fields, get, set) => ({
  get: () => differing(get(), fields),
  set: async (texts) => {
    const { values, messages } = readAll(texts, fields, (key) => nameOf(part, key));
    return [...messages, ...((await set(values)) ?? [])];
  },
});

async function apply(part, values) {
  waiting.delete(part);
  let messages;
  try {
    messages = await parts.get(part).set(values);
  } catch (error) {
    messages = [error.message];
  }
  tell(messages ?? []);
}

// Shows messages about invalid values in the address.
export const tell = (messages) => telling(messages);

// Sets parts, which are given as { part: { key: text } }: now, or as soon as each is registered.
function open(values) {
  for (const [part, texts] of Object.entries(values)) {
    if (parts.has(part)) apply(part, texts);
    else waiting.set(part, texts);
  }
}

// Messages about names in the address that the page does not know, and about an unknown view.
function strangers({ names, views, tabs }) {
  const name = new URLSearchParams(location.search).get("tab");
  const tab = name === null || tabs.includes(name) ? [] : [misfit("tab", name, `one of ${tabs.join(", ")}`)];
  const ours = (name) => names.includes(name) || views.some((part) => name.startsWith(`${part}.`));
  return [...tab, ...initial.filter(([name]) => !foreign(name) && !ours(name)).map(([name]) => unknown(name, names))];
}

// The fields of a run's settings. assign(values, isBase) sets some; now() returns all, or null before they exist.
export const decode = { assign: (values, isBase) => {}, now: () => null };
const heardOf = observable();
// Calls `listener` after each change of any form, and once when the forms are registered.
export function onFields(listener) {
  heardOf.subscribe(listener);
  if (following) listener(null);
}
// Those of these names that the address contained when the page was opened.
export const openedWith = (names) => initial.map(([name]) => name).filter((name) => names.includes(name));

// Opens a view and sets values, as an address would: { tab, parts: { part: { key: text } } }.
export function show({ tab: wanted, parts: values = {} }) {
  if (wanted) goToTab(wanted);
  open(values);
}

// A link of the page to one of its views opens the view with the link's values, without a reload, so a run continues.
function follow(event) {
  const { target, ctrlKey, metaKey, shiftKey } = event;
  const link = target.closest?.('a[href^="?tab="]');
  if (!link || ctrlKey || metaKey || shiftKey) return;
  event.preventDefault();
  const values = {};
  for (const [name, text] of new URLSearchParams(link.getAttribute("href"))) {
    const [part, key] = name.split(".");
    if (key) (values[part] ??= {})[key] = text;
  }
  show({ tab: new URLSearchParams(link.getAttribute("href")).get("tab"), parts: values });
}

// For each part that a lesson changed: its values before the lesson.
const borrowed = new Map();

const now = (part) => {
  const values = parts.has(part) ? Object.entries(parts.get(part).get()) : null;
  if (!values) return waiting.get(part) ?? fromAddress(part) ?? {};
  return Object.fromEntries(values.map(([key, value]) => [key, written(value)]));
};

// Sets `values`, { part: ... }, until the next call. Parts that are no longer among them get their old values
// back. The shown run is not a setting and stays.
export function lend(values) {
  for (const part of Object.keys(values)) if (!borrowed.has(part) && part !== "run") borrowed.set(part, now(part));
  for (const [part, old] of [...borrowed]) {
    if (part in values) continue;
    borrowed.delete(part);
    open({ [part]: old });
  }
}

// Removes the page's longest texts from an address that is too long for servers. Returns their names.
function shorten(url) {
  const size = (name) => encodeURIComponent(url.searchParams.get(name)).length;
  const ours = [...parts.keys()].flatMap((part) =>
    [...url.searchParams.keys()].filter((name) => keyOf(part, name) !== undefined),
  );
  const omitted = [];
  for (const name of ours.sort((a, b) => size(b) - size(a))) {
    if (url.href.length <= LONGEST) break;
    url.searchParams.delete(name);
    omitted.push(name);
  }
  return omitted;
}

// The page's address with the current set-up, and the names of values that are too long for it.
function address() {
  const url = new URL(location.href);
  for (const [part, { get }] of parts) {
    const names = [...url.searchParams.keys()].filter((name) => keyOf(part, name) !== undefined);
    for (const name of names) url.searchParams.delete(name);
    for (const [key, value] of Object.entries(get())) url.searchParams.set(nameOf(part, key), written(value));
  }
  const left = shorten(url);
  url.search = url.search.replaceAll("%2C", ","); // commas stay readable in lists
  return { url, left };
}

// The link to share: the set-up without the sender's own view, such as projector mode.
function link() {
  const { url, left } = address();
  for (const name of ["projector", "lecture", "lesson", "step"]) url.searchParams.delete(name);
  return { text: url.href, left };
}

export function writeAddress() {
  if (!following) return;
  const { url } = address();
  if (url.href !== location.href) history.replaceState(history.state, "", url);
}

// Any input may have changed the set-up. The set-up is therefore read when the inputs have stopped.
let timer = null;
function touched() {
  clearTimeout(timer);
  timer = setTimeout(writeAddress, SETTLED);
}
const TOUCHES = ["input", "change", "click", "keyup", "pointerup"];

// Messages accumulate above the page, where they cover nothing, until the visitor dismisses them. Each is shown only once.
function messenger(box) {
  box.closest("#top")?.before(box);
  const list = box.querySelector("ul");
  box.querySelector(".dismiss").addEventListener("click", () => {
    list.replaceChildren();
    box.hidden = true;
  });
  return (messages) => {
    const texts = new Set([...list.children].map((item) => item.textContent));
    for (const message of new Set(messages)) if (!texts.has(message)) list.append(make("li", "", message));
    box.hidden = list.children.length === 0;
  };
}

export const copyLink = () => copyText(link().text);

// Copies a link and returns whether the browser allowed it. If not, a dialog shows the link as selected text.
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    showText(text);
    return false;
  }
}

function showText(text) {
  const field = Object.assign(make("textarea"), { value: text, readOnly: true, rows: 4 });
  const words = make("p", "", "This browser does not let the page copy the link. Copy it from here:");
  const close = makeButton("", "Close", () => dialog.close());
  const dialog = make("dialog", "copy-text", words, field, close);
  dialog.addEventListener("keydown", (event) => event.stopPropagation());
  dialog.addEventListener("close", () => dialog.remove());
  document.querySelector(".shell").append(dialog);
  dialog.showModal();
  field.select();
}

// The trees of "auto" are not in the link, and the text of some methods depends on them.
function otherText() {
  const { topology, method } = decode.now() ?? {};
  const isKept = topology !== "auto" || INVARIANT.includes(method);
  return isKept
    ? ""
    : ` With this link ${METHODS[method]} may write another text, because auto chooses the trees anew.`;
}

async function copy(status) {
  const { text, left } = link();
  const note = left.length > 0 ? ` The link does not contain ${left.join(", ")}, because it would be too long.` : "";
  setTextFor(status, ((await copyText(text)) ? "Copied." : "") + note + otherText(), 4000);
}

export function mountSetup(element, props) {
  const find = (selector) => element.querySelector(selector);
  telling = messenger(find(".told"));
  following = true;
  tell([...early, ...strangers(props)]);
  const onChange = () => {
    touched(); // the visitor may have touched nothing: a run sets the tree that it measured
    heardOf.notify(null);
  };
  if (props.alone in props.fields) decode.now = () => valuesOf(props.alone);
  const fields = mountFields(props, offer, onChange);
  decode.assign = (values, isBase) => fields.assign(props.alone, values, isBase);
  heardOf.notify(null);
  find(".copy").addEventListener("click", () => copy(find(".copied")));
  document.addEventListener("click", follow);
  for (const name of TOUCHES) document.addEventListener(name, touched, true);
}
