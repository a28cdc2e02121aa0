// The settings of a run, in their order. Written by `python -m components.page.settings`.
// biome-ignore-all format: generated

export const SETTINGS = [
 {
  "name": "prompt",
  "kind": "text",
  "default": "",
  "address": "prompt",
  "recorded": true,
  "remote": ""
 },
 {
  "name": "method",
  "kind": "choice",
  "default": "ersd",
  "address": "method",
  "recorded": true,
  "remote": "ersd"
 },
 {
  "name": "topology",
  "kind": "choice",
  "default": "auto",
  "address": "topology",
  "recorded": false,
  "remote": "sequence"
 },
 {
  "name": "k",
  "kind": "number",
  "default": 4,
  "address": "k",
  "recorded": false,
  "remote": 4
 },
 {
  "name": "drafter",
  "kind": "choice",
  "default": "model",
  "address": "drafter",
  "recorded": true,
  "remote": "model"
 },
 {
  "name": "max_new_tokens",
  "kind": "number",
  "default": 64,
  "address": "length",
  "recorded": true,
  "remote": 64
 },
 {
  "name": "temperature",
  "kind": "number",
  "default": 1.0,
  "address": "temperature",
  "recorded": true,
  "remote": 1.0
 },
 {
  "name": "top_k",
  "kind": "number",
  "default": 0,
  "address": "top-k",
  "recorded": true,
  "remote": 0
 },
 {
  "name": "top_p",
  "kind": "number",
  "default": 1.0,
  "address": "top-p",
  "recorded": true,
  "remote": 1.0
 },
 {
  "name": "seed",
  "kind": "number",
  "default": null,
  "address": "seed",
  "recorded": true,
  "remote": 0
 },
 {
  "name": "baseline",
  "kind": "flag",
  "default": true,
  "address": "baseline",
  "recorded": false,
  "remote": false
 },
 {
  "name": "chat",
  "kind": "flag",
  "default": false,
  "address": "chat",
  "recorded": true,
  "remote": false
 },
 {
  "name": "history",
  "kind": "text",
  "default": [],
  "address": "history",
  "recorded": true,
  "remote": ""
 },
 {
  "name": "tree",
  "kind": "text",
  "default": "",
  "address": "tree",
  "recorded": false,
  "remote": ""
 }
];
