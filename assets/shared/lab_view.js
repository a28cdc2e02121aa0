// Tools that the laboratories' views share.

// Round numbers from 0 to `end`, about `count` of them.
export function ticks(end, count) {
  const rough = end / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  return Array.from({ length: Math.floor(end / step + 1e-9) + 1 }, (_, i) => Number((i * step).toPrecision(6)));
}

// Calls `draw(width, height)` now and whenever the element's size changes; never while it is hidden.
export function onSize(element, draw) {
  let [width, height] = [0, 0];
  new ResizeObserver(() => {
    const { clientWidth, clientHeight } = element;
    if (clientWidth === 0 || (clientWidth === width && clientHeight === height)) return;
    [width, height] = [clientWidth, clientHeight];
    draw(width, height);
  }).observe(element);
}

export const reducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
