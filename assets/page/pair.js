// The line about the models: the pair that wrote the shown run, that of Generate, and the one being loaded.

import { INVARIANT } from "../shared/catalogue.js";
import { spoken } from "../shared/labels.js";
import { state, subscribe } from "../shared/store.js";
import { onFrame, setText } from "../shared/view.js";
import { isLoadActive, onModels } from "./models.js";

const OURS = {
  "smollm2/draft": { family: "SmolLM2", size: "4M" },
  "stories/target": { family: "Story models", size: "15M" },
  "stories/draft": { family: "Story models", size: "0.7M" },
};
// Parts at the end of a model's name that say nothing about its family or size.
const FORMAT = /(\.gguf|[-._](i?q\d\w*|b?f16|f32)|[-_](instruct|chat|it|gguf))$/i;

// A model's name without its folder, format and training: { family, size }, both for people.
function partsOf(name) {
  if (OURS[name]) return OURS[name];
  let words = name.split("/").at(-1);
  while (FORMAT.test(words)) words = words.replace(FORMAT, "");
  const size = words.match(/[-_](\d+(\.\d+)?[bm])(?![a-z])/i);
  const family = size ? words.replace(size[0], "") : words;
  return {
    family: family.replace(/(^|-)[a-z]/g, (letter) => letter.toUpperCase()),
    size: size?.[1].toUpperCase() ?? "",
  };
}

const nameOf = ({ family, size }) => `${family} ${size}`.trim();
const pairOf = (models) =>
  ["target", "draft"]
    .map((role) => models.find((model) => model.role === role))
    .map((each) => each && partsOf(each.name));

// A pair in words: “Qwen2.5-Coder 1.5B checks, 0.5B guesses”.
/** @param {{ role: string, name: string }[]} models */
export function pairWords(models) {
  const [large, small] = pairOf(models);
  if (!large) return "";
  if (!small) return `${nameOf(large)} alone`;
  const isFamily = small.family === large.family && small.size !== "";
  return `${nameOf(large)} checks, ${isFamily ? small.size : nameOf(small)} guesses`;
}

const HERE = "this server, now";
export const RECORDED = "recorded on two CPU cores";

// A pair, and where it runs or ran.
export function pairLine(models, origin = HERE) {
  const words = pairWords(models);
  return words && `${words} · ${origin}`;
}

// Whether a pair writes code. Its example prompts ask for programs.
/** @param {{ name: string }[] | undefined} models */
export const writesCode = (models) => /coder/i.test(models?.[0]?.name ?? "");

// Whether Generate would use another pair than the shown one. models: the server's.
export function isOther(models) {
  const [loaded, ofRun] = [models, state.setup?.models ?? []].map(pairWords);
  return loaded !== "" && ofRun !== "" && loaded !== ofRun;
}

// Where the shown run comes from. For a file, the machine is unknown.
function origin({ recorded, run, setup }) {
  if (!setup || !recorded) return run === "kept" ? "your earlier run on this server" : HERE;
  return recorded.name === "file" ? "from a file" : RECORDED;
}

// The question of a run on this server, which is then no longer in the prompt field.
const questionOf = ({ recorded, setup }) => (setup?.chat && !recorded ? spoken(setup.prompt) : "");

export function mountPair(element) {
  document.getElementById("generate")?.setAttribute("aria-describedby", "next-pair");
  const parts = [".shown", ".question", ".next", ".loads"];
  const [pair, question, next, loads] = parts.map((selector) => element.querySelector(selector));
  const promise = document.querySelector("#claim .promise");
  const families = document.querySelectorAll("#prompts .family");
  let news = { models: [], status: "rest" };
  const draw = onFrame(() => {
    const loaded = pairWords(news.models);
    setText(pair, pairLine(state.setup?.models ?? [], origin(state)) || pairLine(news.models, origin(state)));
    setText(question, isOther(news.models) ? "" : questionOf(state));
    setText(next, isOther(news.models) ? `Generate uses: ${loaded}` : "");
    setText(loads, isLoadActive(news) ? `${news.title.split(":")[0]} is loading` : "");
    const isSame = !state.setup || INVARIANT.includes(state.setup.method);
    if (promise) setText(promise, isSame ? "same text" : "same distribution of texts");
    promise?.classList.toggle("long", !isSame);
    for (const family of loaded ? families : []) setText(family, pairOf(news.models)[0].family);
  });
  onModels((now) => {
    news = now;
    draw();
  });
  subscribe(draw);
}
