// The codec laboratory's setup in the page's address: the sentence and the Tunstall code.

const CODE = ["weights", "k", "word"];

// sentence: { get(), set(number, seed) }, with numbers from 0; code: its inputs by name, and ask().
export function setupOf(count, sentence, code) {
  const text = (name) => ({ kind: "text", default: code.inputs[name].defaultValue });
  const { min, max, defaultValue } = code.inputs.k;
  const fields = {
    sentence: { kind: "number", default: sentence.get().number + 1, least: 1, most: count, whole: true },
    seed: { kind: "number", default: null, least: 0, whole: true },
    weights: text("weights"),
    k: { kind: "number", default: Number(defaultValue), least: Number(min), most: Number(max), whole: true },
    word: text("word"),
  };
  return {
    fields,
    get() {
      const { number, seed } = sentence.get();
      const typed = Object.fromEntries(CODE.map((name) => [name, code.inputs[name].value]));
      return { sentence: number + 1, seed, ...typed };
    },
    set(values) {
      sentence.set(values.sentence - 1, values.seed);
      for (const name of CODE) code.inputs[name].value = values[name];
      code.ask();
    },
  };
}
