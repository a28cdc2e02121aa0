// The pair of models that is shown, and the pair that Generate would use if that is another one.

import { state, subscribe } from "../shared/store.js";
import { onFrame, setText } from "../shared/view.js";
import { isLoadActive, onModels } from "./models.js";

const OURS = {
  "smollm2/draft": { family: "SmolLM2", size: "4M" },
  "stories/target": { family: "Story models", size: "15M" },
  "stories/draft": { family: "Story models", size: "0.7M" },
};
// A last part of a name that says no size.
const FORMAT = /(\.gguf|[-._](i?q\d\w*|b?f16|f32)|[-_](instruct|chat|it|gguf))$/i;

// A model's name without its folder, format and training: { family, size }, both for people.
function partsOf(name) {
  if (OURS[name]) return OURS[name];
  let rest = name.split("/").at(-1);
  while (FORMAT.test(rest)) rest = rest.replace(FORMAT, "");
  const size = rest.match(/[-_](\d+(\.\d+)?[bm])(?![a-z])/i);
  const family = size ? rest.replace(size[0], "") : rest;
  return {
    family: family.replace(/(^|-)[a-z]/g, (letter) => letter.toUpperCase()),
    size: size?.[1].toUpperCase() ?? "",
  };
}

// A pair in words: “Qwen2.5-Coder 1.5B checks, 0.5B guesses”.
/** @param {{ role: string, name: string }[]} models */
export function pairWords(models) {
  const [target, draft] = ["target", "draft"].map((role) => models.find((model) => model.role === role));
  if (!target) return "";
  const [large, small] = [target, draft].map((model) => model && partsOf(model.name));
  const named = ({ family, size }) => `${family} ${size}`.trim();
  if (!small) return `${named(large)} alone`;
  const isFamily = small.family === large.family && small.size !== "";
  return `${named(large)} checks, ${isFamily ? small.size : named(small)} guesses`;
}

// Where the shown run comes from. For a file, the machine is unknown.
function origin({ recorded, run, setup }) {
  if (!setup || !recorded) return run === "kept" ? "your earlier run on this server" : "this server, now";
  return recorded.name === "file" ? "from a file" : "recorded on two CPU cores";
}

export function mountPair(element) {
  document.getElementById("generate")?.setAttribute("aria-describedby", "next-pair");
  const [shown, next] = [".shown", ".next"].map((selector) => element.querySelector(selector));
  let news = { models: [], status: "rest" };
  const draw = onFrame(() => {
    const here = pairWords(news.models);
    const words = pairWords(state.setup?.models ?? []) || here;
    setText(shown, words && `${words} · ${origin(state)}`);
    const loads = isLoadActive(news) ? `${news.title} is being loaded` : "";
    const runs = here && here !== words ? `Generate runs ${here}` : "";
    setText(next, [runs, loads].filter(Boolean).join("; "));
  });
  onModels((now) => {
    news = now;
    draw();
  });
  subscribe(draw);
}
