// What the laboratories' views have in common.

// Round numbers from 0 to `end`, about `count` of them.
export function ticks(end, count) {
  const rough = end / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  return Array.from({ length: Math.floor(end / step + 1e-9) + 1 }, (_, i) => Number((i * step).toPrecision(6)));
}

// Calls `draw(width)` now and whenever the element's width changes; never while it is hidden.
export function onWidth(element, draw) {
  let width = 0;
  new ResizeObserver(() => {
    if (element.clientWidth === width || element.clientWidth === 0) return;
    width = element.clientWidth;
    draw(width);
  }).observe(element);
}

export const reducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;
