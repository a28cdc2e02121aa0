// The settings of a run, in their order. Written by `python -m components.page.settings`.
// biome-ignore-all format: generated

export const SETTINGS = [
 {"name": "prompt", "kind": "text", "default": "", "address": "prompt", "recorded": true, "shapes": false, "unless": {}},
 {"name": "method", "kind": "choice", "default": "ersd", "address": "method", "recorded": true, "shapes": true, "unless": {}},
 {"name": "topology", "kind": "choice", "default": "auto", "address": "topology", "recorded": false, "shapes": true, "unless": {"method": ["ar"], "drafter": ["copies"]}},
 {"name": "k", "kind": "number", "default": 4, "address": "k", "recorded": false, "shapes": true, "unless": {"method": ["ar"], "drafter": ["copies"], "topology": ["simple", "auto"]}},
 {"name": "drafter", "kind": "choice", "default": "model", "address": "drafter", "recorded": true, "shapes": false, "unless": {"method": ["ar"]}},
 {"name": "max_new_tokens", "kind": "number", "default": 64, "address": "length", "recorded": true, "shapes": false, "unless": {}},
 {"name": "temperature", "kind": "number", "default": 1.0, "address": "temperature", "recorded": true, "shapes": true, "unless": {}},
 {"name": "top_k", "kind": "number", "default": 0, "address": "top-k", "recorded": true, "shapes": true, "unless": {}},
 {"name": "top_p", "kind": "number", "default": 1.0, "address": "top-p", "recorded": true, "shapes": true, "unless": {}},
 {"name": "seed", "kind": "number", "default": null, "address": "seed", "recorded": true, "shapes": false, "unless": {}},
 {"name": "baseline", "kind": "flag", "default": true, "address": "baseline", "recorded": false, "shapes": false, "unless": {"method": ["ar"]}},
 {"name": "chat", "kind": "flag", "default": false, "address": "chat", "recorded": true, "shapes": false, "unless": {}},
 {"name": "history", "kind": "text", "default": [], "address": "history", "recorded": true, "shapes": false, "unless": {"chat": [false]}},
 {"name": "tree", "kind": "text", "default": "", "address": "tree", "recorded": false, "shapes": false, "unless": {"method": ["ar"], "drafter": ["copies"]}}
];
