// Finds the parts of a text that are code: those between two lines that begin with three backticks (fences).

const isFence = (line) => /^ {0,3}```/.test(line);

// Reads a text that comes in pieces of any size.
export class Fences {
  line = ""; // the current line so far
  isOpen = false;

  // Whether the next piece of the text is code. The fences count as code.
  /** @param {string} piece */
  next(piece) {
    const wasOpen = this.isOpen;
    piece.split("\n").forEach((part, i) => {
      const line = i === 0 ? this.line : "";
      this.line = line + part;
      if (isFence(this.line) && !isFence(line)) this.isOpen = !this.isOpen;
    });
    return wasOpen || this.isOpen;
  }
}

// The lines of a text, and for each line whether it is code.
/** @param {string} text */
export function linesOf(text) {
  const fences = new Fences();
  return text.split(/(?<=\n)/).map((line) => ({ line, isCode: fences.next(line) }));
}
