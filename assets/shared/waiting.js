// The place in the waiting line of the model, in words. Long waits are rounded.
export function place({ number, of, seconds }) {
  const line = `place ${number} of ${of}`;
  if (seconds === null) return line;
  const step = seconds < 20 ? 1 : 10;
  return `${line}, about ${Math.max(1, step * Math.round(seconds / step))} s`;
}
