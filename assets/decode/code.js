// Which parts of a text are code: what stands between two lines that begin with three backticks.

const isFence = (line) => /^ {0,3}```/.test(line);

// Reads a text in pieces, however it is cut.
export class Fences {
  line = ""; // so far
  isOpen = false;

  // Whether the next piece of the text belongs to code; the fences do too.
  /** @param {string} piece */
  next(piece) {
    const before = this.isOpen;
    piece.split("\n").forEach((part, i) => {
      const line = i === 0 ? this.line : "";
      this.line = line + part;
      if (isFence(this.line) && !isFence(line)) this.isOpen = !this.isOpen;
    });
    return before || this.isOpen;
  }
}

// The lines of a text, each with whether it is code.
/** @param {string} text */
export function linesOf(text) {
  const fences = new Fences();
  return text.split(/(?<=\n)/).map((line) => ({ line, isCode: fences.next(line) }));
}
