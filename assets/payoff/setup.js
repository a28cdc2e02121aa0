// The panel's values in the page's address. Other parts of the page link to the panel with such addresses,
// too:
//
//   ?tab=payoff&payoff.preset=here&payoff.acceptance=0.7&payoff.draft_step=0.2
//
// preset: `here`, the pair that is loaded (default), or smollm2, paper, laptop, gpu. acceptance: of the first drafted
// token, 0.01 to 1. draft_step, rest: in target calls, 0 to 4. rows: the times of target calls over 2, 4, 8, 16, 32 and 64
// rows, with commas between them. texts: 1 to 256. shape: best, sequence or batch. Values without a preset change the
// example's.

// panel: { here, example, presets, limits, state(): { preset, changes }, load(preset, changes) }. limits:
// [least, most] by the name of a value.
export function setupOf(panel) {
  const number = (name) => {
    const [least, most] = panel.limits[name];
    return { kind: "number", default: null, least, most };
  };
  const fields = {
    preset: { kind: "choice", default: null, choices: panel.presets },
    acceptance: number("acceptance"),
    draft_step: number("draft_step"),
    rest: number("rest"),
    rows: { ...number("rows"), kind: "list", fewest: panel.rows, longest: panel.rows },
    texts: { ...number("texts"), whole: true },
    shape: { kind: "choice", default: null, choices: panel.shapes },
  };
  return {
    fields,
    get() {
      const { preset, changes } = panel.state();
      const isDefault = preset === panel.here && Object.keys(changes).length === 0;
      return { ...changes, preset: isDefault ? null : preset };
    },
    set({ preset, ...others }) {
      const changes = Object.fromEntries(Object.entries(others).filter(([, value]) => value !== null));
      panel.load(preset ?? (Object.keys(changes).length > 0 ? panel.example : panel.here), changes);
    },
  };
}
