// A visitor's place in the line of those who wait for the model, such as “place 2 of 3, about 10 s”.
export function place({ number, of, seconds }) {
  const line = `place ${number} of ${of}`;
  if (seconds === null) return line;
  const step = seconds < 20 ? 1 : 10;
  return `${line}, about ${Math.max(1, step * Math.round(seconds / step))} s`;
}
