// The rows of a drawn tree: depth to the right, a first child in its parent's row, its siblings below.

// Calls place(node, row) for each node. Returns the largest row and depth. childrenOf(node): the node's
// children, an array. Each subtree is placed in the highest row in which its path of first children is free.
export function placeRows(root, childrenOf, place) {
  const lowest = []; // the lowest used row of each depth
  const straight = (node) => {
    const [first] = childrenOf(node);
    return first ? 1 + straight(first) : 0;
  };
  const below = (depth, reach) => 1 + Math.max(...lowest.slice(depth, depth + reach + 1));
  const visit = (node, depth, row) => {
    lowest[depth] = Math.max(lowest[depth] ?? 0, row);
    place(node, row, depth);
    childrenOf(node).forEach((child, i) => visit(child, depth + 1, i === 0 ? row : below(depth + 1, straight(child))));
  };
  visit(root, 0, 0);
  return { rows: Math.max(...lowest), depth: lowest.length - 1 };
}
