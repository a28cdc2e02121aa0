// Waiting for the model, in words.

// A place in the line for the model, in words; long waits are known roughly only.
export function place({ number, of, seconds }) {
  const line = `place ${number} of ${of}`;
  if (seconds === null) return line;
  const step = seconds < 20 ? 1 : 10;
  return `${line}, about ${Math.max(1, step * Math.round(seconds / step))} s`;
}
