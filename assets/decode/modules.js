// A module with all that it imports, to be taken along where there is no server.

const IMPORTED = /\b(from\s*|import\s*\(?\s*)"(\.{1,2}\/[^"]+\.js)"/g;

const imported = (source, address) => [...source.matchAll(IMPORTED)].map(([, , path]) => new URL(path, address).href);

// The sources of the module at `address` and of all below it, by address; `read(address)` gives one.
export async function collected(address, read, found = new Map()) {
  if (found.has(address)) return found;
  found.set(address, ""); // on its way
  const source = await read(address);
  found.set(address, source);
  await Promise.all(imported(source, address).map((below) => collected(below, read, found)));
  return found;
}

// What an import map calls the module: its place below `root`, so that no two have one name.
export function nameOf(address, root) {
  if (!address.startsWith(root)) throw new Error(`${address} does not lie below ${root}`);
  return address.slice(root.length);
}

export const withNames = (source, address, root) =>
  source.replaceAll(IMPORTED, (_, words, path) => `${words}"${nameOf(new URL(path, address).href, root)}"`);
