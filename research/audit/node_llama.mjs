// Serves node-llama-cpp: node node_llama.mjs PACKAGE PORT TARGET [DRAFT]
// POST {prompt, seed, max_tokens, temperature, top_k, top_p} answers {tokens, timings} in llama.cpp's words; every
// GET answers "ok".
import http from "node:http";

const [folder, port, target, draft] = process.argv.slice(2);
const { getLlama, DraftSequenceTokenPredictor } = await import(`${folder}/dist/index.js`);
const llama = await getLlama({ build: "never", gpu: false, maxThreads: 1 });

async function context(modelPath) {
    const model = await llama.loadModel({ modelPath });
    const cache = { experimentalKvCacheKeyType: "F32", experimentalKvCacheValueType: "F32", flashAttention: false };
    return model.createContext({ contextSize: 256, threads: 1, ...cache });
}

const options = {};
if (draft) {
    const drafted = { minTokens: 3, maxTokens: 3, minConfidence: 0 };
    options.tokenPredictor = new DraftSequenceTokenPredictor((await context(draft)).getSequence(), drafted);
}
const sequence = (await context(target)).getSequence(options);

async function completed(request) {
    await sequence.clearHistory();
    const { temperature, top_k: topK, top_p: topP, seed } = request;
    const sampling = { temperature, topK, topP, minP: 0, seed, yieldEogToken: true };
    const tokens = [], before = sequence.tokenPredictions.used;
    for await (const token of sequence.evaluate(request.prompt, sampling)) {
        tokens.push(token);
        if (tokens.length === request.max_tokens) break;
    }
    const accepted = sequence.tokenPredictions.used - before;
    return { tokens, timings: { predicted_n: tokens.length, draft_n_accepted: accepted } };
}

http.createServer(async (request, response) => {
    if (request.method === "GET") return response.end("ok");
    const parts = await request.toArray();
    response.end(JSON.stringify(await completed(JSON.parse(Buffer.concat(parts)))));
}).listen(Number(port), "127.0.0.1");
