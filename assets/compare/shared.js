// The settings that all columns share: prompt, seed, length and temperature.

// The fields in the notation of the address. Their defaults are those of the form.
export const fieldsOf = (shared, mostTokens) => ({
  prompt: { kind: "text", default: shared.values.prompt },
  seed: { kind: "number", default: shared.values.seed, least: 0, most: Number.MAX_SAFE_INTEGER, whole: true },
  length: { kind: "number", default: shared.values.length, least: 1, most: mostTokens, whole: true },
  temperature: { kind: "number", default: shared.values.temperature, least: 0, most: 2 },
});

const NAMES = ["prompt", "seed", "length", "temperature"];
const orNull = (number) => (Number.isFinite(number) ? number : null);

export class Shared {
  constructor(element, mostTokens, onChange) {
    this.inputs = Object.fromEntries(NAMES.map((name) => [name, element.querySelector(`[name=${name}]`)]));
    this.inputs.length.max = mostTokens;
    for (const input of Object.values(this.inputs)) input.addEventListener("input", onChange);
    element.querySelector(".dice").addEventListener("click", () => {
      this.inputs.seed.valueAsNumber = Math.floor(Math.random() * 2 ** 31);
      onChange();
    });
  }

  get values() {
    const { prompt, ...numbers } = this.inputs;
    const entries = Object.entries(numbers).map(([name, input]) => [name, orNull(input.valueAsNumber)]);
    return { prompt: prompt.value, ...Object.fromEntries(entries) };
  }

  set values(values) {
    for (const name of NAMES) this.inputs[name].value = values[name] ?? "";
  }

  // Shows the seed that the server drew because the field was empty.
  drawn(seed) {
    if (this.inputs.seed.value === "") this.inputs.seed.valueAsNumber = seed;
  }

  // Whether a run has the shared settings of the form.
  fits(run) {
    return run !== null && JSON.stringify(this.values) === JSON.stringify(run);
  }
}
