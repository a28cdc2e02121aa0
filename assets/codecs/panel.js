// The codec laboratory: a sentence from Alice to Bob, the distributions of its indices, and Tunstall codes.

import { offer } from "../page/setup.js";
import { Asker } from "../shared/lab_view.js";
import { visible } from "../shared/labels.js";
import { headOf, Plot, tableOf } from "../shared/plot.js";
import { fillRows, make, makeButton, makeRowName, setText } from "../shared/view.js";
import { setupOf } from "./setup.js";

// A token's text with visible signs for spaces. The entry that stands for all other tokens is shown as words.
const OTHER = "other tokens";
const shownToken = (text) => (text === OTHER ? text : visible(text));

const options = (select, entries) => select.replaceChildren(...entries.map(([value, name]) => new Option(name, value)));

// Draws Bob's text: each token above its index in bits. Tokens that differ from the recorded text are marked.
function drawReceived(host, tokens, index, choose) {
  const element = () => makeButton("sent");
  fillRows(host, tokens, element, (button, token, i) => {
    button.replaceChildren(make("span", "text", visible(token.text)), make("span", "bits", token.bits));
    button.classList.toggle("other", !token.recorded);
    button.ariaPressed = String(i === index);
    button.ariaLabel = `token ${i + 1}: ${visible(token.text)}, index ${token.index}, bits ${token.bits}`;
    button.onclick = () => choose(i);
  });
}

// Draws the transmission of one token: the proposals that both sides drew, the index, and its bits.
function drawMessage(host, token, number, method) {
  const items = token.proposals.map((text, i) => {
    const isToken = i === token.index;
    const name = make(isToken ? "b" : "s", "", shownToken(text));
    return make("li", isToken ? "taken" : "passed", name, ` index ${i}${isToken ? ", taken" : ""}`);
  });
  if (token.index >= token.proposals.length) {
    items.push(make("li", "", `… ${token.index - token.proposals.length + 1} more; Alice takes the last one`));
  }
  const how =
    method === "greedy_rejection"
      ? "Alice tests the shared proposals one by one, as GSD tests drafted children."
      : "Alice takes the winner of the race under P. The index is the winner's place in the race under Q.";
  host.replaceChildren(
    make("p", "", `Token ${number + 1}. ${how} Alice and Bob have drawn these proposals, in this order:`),
    make("ol", "proposals", ...items),
    make(
      "p",
      "",
      `Alice sends index ${token.index}: ${token.bits.length} bits of Elias γ (ideal length ${token.ideal.toFixed(2)} by Zipf's law); ` +
        `D_KL = ${token.kl.toFixed(2)}, H[index] = ${token.entropy_with.toFixed(2)} bits here. From Q, the shared randomness and the index, ` +
        `Bob finds Alice's token, “${visible(token.text)}”.`,
    ),
  );
}

const TOKEN_CAPTION =
  "Bits sent for each token. H is the entropy of the index of the token that Alice takes, for proposals drawn with and without replacement.";
const TOKEN_COLUMNS = ["#", "token", "index", "bits sent", "ideal, Zipf", "D_KL", "H with", "H without"];

function tokenTable(tokens) {
  const rows = tokens.map((token, i) => [
    String(i + 1),
    visible(token.text),
    String(token.index),
    `${token.bits} (${token.bits.length})`,
    ...[token.ideal, token.kl, token.entropy_with, token.entropy_without].map((bits) => bits.toFixed(2)),
  ]);
  return { caption: TOKEN_CAPTION, columns: TOKEN_COLUMNS, rows };
}

// Draws a table in which P and Q can be edited.
function drawEditor(host, names, p, q, onChange) {
  const rows = names.map((name, i) => {
    const inputs = [p, q].map((probabilities, column) => {
      const value = Number(probabilities[i].toPrecision(4));
      const input = Object.assign(make("input"), { type: "number", min: 0, step: "any", value });
      input.setAttribute("aria-label", `${"PQ"[column]} of ${shownToken(name)}`);
      input.addEventListener("change", onChange);
      return make("td", "", input);
    });
    return make("tr", "", makeRowName(shownToken(name)), ...inputs);
  });
  host.replaceChildren(make("table", "editor", headOf(["token", "P", "Q"]), make("tbody", "", ...rows)));
}

function edited(host) {
  const number = ({ value }) => (value === "" ? null : Number(value));
  const column = (i) => [...host.querySelectorAll(`tbody td:nth-child(${i}) input`)].map(number);
  return { p: column(2), q: column(3) };
}

function mountSentence(element, props, server, onToken) {
  const find = (selector) => element.querySelector(selector);
  const asker = new Asker(find(".message"), [".received", ".message-of-one", ".wrap"].map(find));
  const plot = new Plot(props.plotly, find(".bits-plot"));
  let [view, index, seed] = [null, 0, null];

  function choose(i) {
    index = i;
    drawReceived(find(".received"), view.tokens, index, byHand);
    drawMessage(find(".message-of-one"), view.tokens[i], i, view.method);
  }
  function byHand(i) {
    choose(i);
    onToken(view.tokens[i], i);
  }

  function take(answer) {
    view = answer;
    const different = view.tokens.filter((token) => !token.recorded).length;
    const other = `With seed ${view.seed}, ${different} of ${view.tokens.length} tokens (dotted) differ from the recorded text. P and Q are still those of the recorded text.`;
    const recorded = `The text continues the prompt “${view.prompt}”. The pair of models wrote it with ${view.seed} as the seed of the shared randomness.`;
    setText(find(".note.seed"), seed === null ? recorded : other);
    find("button.recorded").hidden = seed === null;
    tableOf(find(".wrap"), { caption: "The whole sentence", columns: ["", "bits", "per token"], rows: view.totals });
    tableOf(find(".tokens-table"), tokenTable(view.tokens));
    plot.show(view.plot);
    const most = view.tokens.reduce((best, token, i) => (token.index > view.tokens[best].index ? i : best), 0);
    choose(most);
  }

  function fill() {
    const mine = props.sentences
      .map(([method, prompt], i) => [i, prompt, method])
      .filter(([, , method]) => method === find(".codec").value);
    options(find(".sentence"), mine);
  }
  function askWith(newSeed) {
    seed = newSeed;
    asker.ask(() => server.sent({ sentence: Number(find(".sentence").value), seed }), take);
  }
  function list() {
    fill();
    askWith(null);
  }
  function set(number, newSeed) {
    find(".codec").value = props.sentences[number][0];
    fill();
    find(".sentence").value = number;
    askWith(newSeed);
  }
  options(find(".codec"), props.codecs);
  find(".codec").addEventListener("change", list);
  find(".sentence").addEventListener("change", () => askWith(null));
  find(".reseed").addEventListener("click", () => askWith(Math.floor(Math.random() * 2 ** 31)));
  find("button.recorded").addEventListener("click", () => askWith(null));
  list();
  return { get: () => ({ number: Number(find(".sentence").value), seed }), set };
}

function mountDistributions(element, props, server) {
  const find = (selector) => element.querySelector(selector);
  const asker = new Asker(find(".distributions-message"), [find(".distributions-plot")]);
  const plot = new Plot(props.plotly, find(".distributions-plot"));
  const presets = props.presets.map(([name, names, p, q]) => ({ name, names, p, q }));
  const host = find(".distributions-table");
  const question = () => server.distributions({ method: find(".codec").value, ...edited(host) });
  const ask = () => asker.ask(question, (view) => plot.show(view.plot));

  function show({ names, p, q }) {
    drawEditor(host, names, p, q, ask);
    ask();
  }
  function list(number) {
    const entries = presets.map(({ name }, i) => [i, name]);
    options(find(".preset"), entries);
    find(".preset").value = number;
    show(presets[number]);
  }
  find(".preset").addEventListener("change", () => show(presets[Number(find(".preset").value)]));
  find(".codec").addEventListener("change", ask);
  list(1);
  // Adds one more entry to the list: the distributions P and Q of the token that the visitor chose.
  return (token, number) => {
    const name = `token ${number + 1} of the sentence: ${visible(token.text)}`;
    presets[props.presets.length] = { name, names: token.texts, p: token.p, q: token.q };
    list(props.presets.length);
  };
}

function mountTunstall(element, props, server) {
  const find = (selector) => element.querySelector(selector);
  const asker = new Asker(find(".word-message"), [".about-word", ".phrases", ".rate-plot", ".codebook"].map(find));
  const plot = new Plot(props.plotly, find(".rate-plot"));

  function take(view) {
    setText(find(".about-word"), view.sentence);
    const phrases = [["header", view.header], ...view.phrases];
    const draw = (item, [phrase, word], i) =>
      item.replaceChildren(make("span", i ? "text" : "text head", phrase), make("span", "bits", word));
    fillRows(find(".phrases"), phrases, () => make("span", "sent"), draw);
    tableOf(find(".codebook"), view.codebook);
    plot.show(view.plot);
  }
  function ask() {
    const weights = find(".weights")
      .value.split(/[\s,;]+/)
      .filter(Boolean)
      .map((text) => (Number.isNaN(Number(text)) ? text : Number(text)));
    const k = find(".k").value === "" ? null : Number(find(".k").value);
    asker.ask(() => server.tunstall({ weights, k, word: find(".word").value }), take);
  }
  for (const name of [".weights", ".k", ".word"]) find(name).addEventListener("change", ask);
  ask();
  return { inputs: { weights: find(".weights"), k: find(".k"), word: find(".word") }, ask };
}

export function mount(element, props, server) {
  if (props.sentences.length === 0) {
    const missing = "No sentences are recorded in this copy: run python -m components.codecs.record_sentences.";
    return element.querySelector(".part").replaceChildren(make("p", "", missing));
  }
  options(element.querySelector(".codec"), props.codecs);
  const sentence = mountSentence(element, props, server, mountDistributions(element, props, server));
  offer("codec", setupOf(props.sentences.length, sentence, mountTunstall(element, props, server)));
}
