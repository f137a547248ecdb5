// Embeddings and reranking against an HTTP server on the loopback interface: wire formats, division into requests,
// order, retries, prices, failures.

import type { JsonObject } from "everturn";
import type { IncomingHttpHeaders } from "node:http";

import { createServer } from "node:http";

import { AdapterError, isEverturnError, MisuseError } from "everturn";
import { usage } from "everturn/advanced";
import {
  compatibleEmbeddings,
  compatibleReranker,
  cosineSimilarity,
  embed,
  embedMany,
  fakeEmbeddings,
  fakeReranker,
  geminiEmbeddings,
  openaiEmbeddings,
  rerank,
} from "everturn/middleware";
import { afterEach, describe, expect, test } from "vitest";

const apiKey = "sk-secret-4711";
const noWait = { baseDelayMs: 0, jitterMs: 0 } as const;

type Received = { readonly path: string; readonly headers: IncomingHttpHeaders; readonly body: JsonObject };
type Answer = { readonly status?: number; readonly body: unknown };

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

/** A server that answers each request. */
async function serve(answer: (received: Received, number: number) => Answer | Promise<Answer>) {
  const received: Received[] = [];
  const server = createServer((incoming, outgoing) => {
    void (async () => {
      const chunks: Buffer[] = [];
      for await (const chunk of incoming) chunks.push(Buffer.from(chunk));
      const body: JsonObject = JSON.parse(Buffer.concat(chunks).toString());
      const one = { path: incoming.url ?? "", headers: incoming.headers, body };
      received.push(one);
      const { status = 200, body: sent } = await answer(one, received.length);
      outgoing.writeHead(status, { "content-type": "application/json", "x-request-id": `r${received.length}` });
      outgoing.end(typeof sent === "string" ? sent : JSON.stringify(sent));
    })();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closers.push(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return { received, baseURL: `http://127.0.0.1:${address.port}/v1` };
}

const textsOf = ({ body }: Received): readonly string[] => {
  const { input } = body;
  return Array.isArray(input) ? input.map(String) : [];
};

/** The embedding of a text on the server: its length and 1. */
const base64Of = (text: string) => Buffer.from(new Float32Array([text.length, 1]).buffer).toString("base64");

/** Answers in OpenAI's format, in reverse order. */
const openaiAnswer = (received: Received): Answer => {
  const isBase64 = received.body["encoding_format"] === "base64";
  const data = textsOf(received).map((text, index) => ({
    object: "embedding",
    index,
    embedding: isBase64 ? base64Of(text) : [text.length, 1],
  }));
  const tokens = textsOf(received).length * 10;
  return { body: { object: "list", data: data.reverse(), usage: { prompt_tokens: tokens, total_tokens: tokens } } };
};

describe("OpenAI", () => {
  test("one text: request, embedding, tokens and price", async () => {
    const { received, baseURL } = await serve(openaiAnswer);
    const model = openaiEmbeddings({ model: "text-embedding-3-small", apiKey, baseURL });
    const { embedding, usage } = await embed(model, "four", { dimensions: 2, options: { user: "u1" } });
    expect(embedding).toEqual([4, 1]);
    expect(usage).toMatchObject({ inputTokens: 10, totalTokens: 10, totalCost: (10 * 0.02) / 1_000_000 });
    expect(received).toMatchObject([
      {
        path: "/v1/embeddings",
        headers: { authorization: `Bearer ${apiKey}` },
        body: {
          model: "text-embedding-3-small",
          input: ["four"],
          dimensions: 2,
          encoding_format: "base64",
          user: "u1",
        },
      },
    ]);
  });

  test("5,000 texts become three requests, at most two at a time, and keep their order", async () => {
    let open = 0;
    let most = 0;
    const { received, baseURL } = await serve(async (one) => {
      open += 1;
      most = Math.max(most, open);
      await new Promise<void>((resolve) => setImmediate(resolve));
      open -= 1;
      return openaiAnswer(one);
    });
    const model = openaiEmbeddings({ model: "text-embedding-3-large", apiKey, baseURL });
    const texts = Array.from({ length: 5000 }, (_, index) => "x".repeat((index % 50) + 1));
    const { embeddings, usage, requests } = await embedMany(model, texts, { maxConcurrency: 2 });
    expect(embeddings.map(([length]) => length)).toEqual(texts.map(({ length }) => length));
    expect(requests).toBe(3);
    expect(received.map((one) => textsOf(one).length).sort((a, b) => b - a)).toEqual([2048, 2048, 904]);
    expect(most).toBeLessThanOrEqual(2);
    expect(usage).toMatchObject({ inputTokens: 50_000, totalCost: expect.closeTo(0.0065) });
  });

  test("requests are divided by bytes, and a text that is too long alone is sent alone", async () => {
    const { received, baseURL } = await serve(openaiAnswer);
    const model = openaiEmbeddings({ model: "text-embedding-3-small", apiKey, baseURL });
    await embedMany(model, ["ü".repeat(100_000), "ü".repeat(60_000), "x".repeat(400_000), "y"], { maxConcurrency: 1 });
    expect(received.map((one) => textsOf(one).map(({ length }) => length))).toEqual([
      [100_000],
      [60_000],
      [400_000],
      [1],
    ]);
  });

  test("a rate limit and a server error are retried; the usage is that of the success", async () => {
    const { received, baseURL } = await serve((one, number) =>
      number === 1
        ? { status: 429, body: { error: { message: "slow down" } } }
        : number === 2
          ? { status: 500, body: "oops" }
          : openaiAnswer(one),
    );
    const model = openaiEmbeddings({ model: "text-embedding-3-small", apiKey, baseURL });
    const { usage } = await embed(model, "hi", { retry: noWait });
    expect(received).toHaveLength(3);
    expect(usage.inputTokens).toBe(10);
    await expect(embed(model, "hi", { retry: false })).resolves.toBeDefined();
  });

  test("an error of the server has its reason, request id and no key", async () => {
    const { received, baseURL } = await serve(() => ({
      status: 401,
      body: { error: { message: `Incorrect API key provided: ${apiKey}`, code: "invalid_api_key" } },
    }));
    const model = openaiEmbeddings({ model: "text-embedding-3-small", apiKey, baseURL });
    const error = await embed(model, "hi").catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(AdapterError);
    expect(error).toMatchObject({ reason: "authentication_failed", failure: { status: 401, requestId: "r1" } });
    expect(JSON.stringify(isEverturnError(error) ? error.failure : null)).not.toContain(apiKey);
    expect(received).toHaveLength(1);
  });

  test.each<readonly [what: string, body: unknown, message: RegExp]>([
    ["too few embeddings", { data: [{ index: 0, embedding: [1] }] }, /1 embeddings for 2 texts/],
    ["an index twice", { data: [0, 0].map((index) => ({ index, embedding: [1] })) }, /does not belong to a text/],
    ["an index beyond the texts", { data: [0, 2].map((index) => ({ index, embedding: [1] })) }, /does not belong/],
    ["different lengths", { data: [[1], [1, 2]].map((embedding, index) => ({ index, embedding })) }, /same length/],
    ["text in place of numbers", { data: [0, 1].map((index) => ({ index, embedding: ["1"] })) }, /list of numbers/],
    ["base64 of 3 bytes", { data: [0, 1].map((index) => ({ index, embedding: "AAAA" })) }, /list of numbers/],
    ["no list", { object: "list" }, /0 embeddings for 2 texts/],
    ["no JSON", "<html>", /not a JSON object/],
  ])("an answer with %s is a malformed response", async (_, body, message) => {
    const { baseURL } = await serve(() => ({ body }));
    const model = openaiEmbeddings({ model: "text-embedding-3-small", apiKey, baseURL });
    const failed = expect(embedMany(model, ["a", "b"], { retry: false })).rejects;
    await failed.toMatchObject({ reason: "malformed_response", message: expect.stringMatching(message) });
  });

  test("a failure aborts the other requests of the call, and a signal all of them", async () => {
    let aborted = 0;
    const model = {
      ...fakeEmbeddings({ maxTexts: 1 }),
      embed: ({ texts }: { readonly texts: readonly string[] }, { signal }: { readonly signal: AbortSignal }) =>
        texts[0] === "bad"
          ? Promise.reject(new AdapterError("invalid_request", { message: "bad" }))
          : new Promise<never>((_, reject) => {
              signal.addEventListener("abort", () => {
                aborted += 1;
                reject(new Error("aborted"));
              });
            }),
    };
    await expect(embedMany(model, ["a", "bad", "b"], { maxConcurrency: 3 })).rejects.toMatchObject({ message: "bad" });
    expect(aborted).toBe(2);
    const leaving = new AbortController();
    const embedding = embedMany(model, ["a", "b"], { signal: leaving.signal });
    leaving.abort();
    await expect(embedding).rejects.toThrow("aborted");
    expect(aborted).toBe(4);
  });

  test("an adapter that ignores the signal sends no requests after a failure or an abort", async () => {
    const sent: string[] = [];
    const model = {
      ...fakeEmbeddings({ maxTexts: 1 }),
      embed: async ({ texts }: { readonly texts: readonly string[] }) => {
        sent.push(...texts);
        await Promise.resolve();
        if (texts.includes("bad")) throw new AdapterError("invalid_request", { message: "bad" });
        return { embeddings: [[1]], usage: usage({}), requestId: null };
      },
    };
    const texts = ["bad", ...Array.from({ length: 50 }, (_, index) => `text ${index}`)];
    await expect(embedMany(model, texts, { maxConcurrency: 2 })).rejects.toMatchObject({ message: "bad" });
    const sentBefore = sent.length;
    expect(sentBefore).toBeLessThan(10);
    await new Promise((resolve) => setImmediate(resolve));
    expect(sent).toHaveLength(sentBefore);
    await expect(embedMany(model, ["a"], { signal: AbortSignal.abort() })).rejects.toThrow(/abort/i);
    expect(sent).toHaveLength(sentBefore);
  });

  test("a model whose name is that of a property of every object has no list price", () => {
    expect(openaiEmbeddings({ model: "constructor", apiKey }).price).toBeNull();
    expect(geminiEmbeddings({ model: "toString", apiKey }).price).toBeNull();
  });
});

test("Gemini: one request for each text in a batch of at most 100, with task and dimensions", async () => {
  const { received, baseURL } = await serve(({ body }) => ({
    body: {
      embeddings: (Array.isArray(body["requests"]) ? body["requests"] : []).map((_, index) => ({ values: [index, 1] })),
      usageMetadata: { promptTokenCount: 7 },
    },
  }));
  const model = geminiEmbeddings({ model: "gemini-embedding-001", apiKey, baseURL });
  const texts = Array.from({ length: 101 }, (_, index) => `text ${index}`);
  const { embeddings, usage } = await embedMany(model, texts, { task: "document", dimensions: 2, maxConcurrency: 1 });
  expect(embeddings).toHaveLength(101);
  expect(usage).toMatchObject({ inputTokens: 14, totalCost: (14 * 0.15) / 1_000_000 });
  expect(received.map(({ path }) => path)).toEqual(Array(2).fill("/v1/models/gemini-embedding-001:batchEmbedContents"));
  expect(received[1]).toMatchObject({
    headers: { "x-goog-api-key": apiKey },
    body: {
      requests: [
        {
          model: "models/gemini-embedding-001",
          content: { parts: [{ text: "text 100" }] },
          taskType: "RETRIEVAL_DOCUMENT",
          outputDimensionality: 2,
        },
      ],
    },
  });
});

test("a compatible server needs no key, and returns decimal numbers", async () => {
  const { received, baseURL } = await serve(openaiAnswer);
  const model = compatibleEmbeddings({ name: "Own Server", model: "nomic", baseURL, price: 1, maxTexts: 2 });
  const { requests, usage } = await embedMany(model, ["a", "bb", "ccc"]);
  expect({ requests, cost: usage.totalCost }).toEqual({ requests: 2, cost: expect.closeTo(0.00003, 9) });
  expect(received[0]?.headers.authorization).toBeUndefined();
  expect(received[0]?.body["encoding_format"]).toBe("float");
});

describe("reranking", () => {
  test("returns the best documents first, with tokens and price", async () => {
    const { received, baseURL } = await serve(() => ({
      body: {
        results: [
          { index: 0, relevance_score: 0.1 },
          { index: 2, relevance_score: 0.9 },
        ],
        usage: { total_tokens: 1000 },
      },
    }));
    const model = compatibleReranker({ name: "jina", model: "reranker", baseURL, apiKey, price: 2 });
    const { ranking, usage } = await rerank(model, "rain", ["sun", "snow", "rain"], { top: 2 });
    expect(ranking).toEqual([
      { index: 2, document: "rain", score: 0.9 },
      { index: 0, document: "sun", score: 0.1 },
    ]);
    expect(usage.totalCost).toBe(0.002);
    expect(received).toMatchObject([
      { path: "/v1/rerank", body: { model: "reranker", query: "rain", documents: ["sun", "snow", "rain"], top_n: 2 } },
    ]);
  });

  test.each<readonly [what: string, results: unknown, message: RegExp]>([
    ["an unknown document", [{ index: 7, relevance_score: 1 }], /document 7 of the answer does not exist/],
    [
      "a document twice",
      [0, 0].map((index) => ({ index, relevance_score: 1 })),
      /document 0 of the answer is there twice/,
    ],
    ["a missing document", [{ index: 0, relevance_score: 1 }], /1 documents instead of 2/],
    ["no score", [{ index: 0 }, { index: 1 }], /no index or no score/],
  ])("an answer with %s is a malformed response", async (_, results, message) => {
    const { baseURL } = await serve(() => ({ body: { results } }));
    const model = compatibleReranker({ model: "reranker", baseURL });
    const failed = expect(rerank(model, "q", ["a", "b"], { retry: false })).rejects;
    await failed.toMatchObject({ reason: "malformed_response", message: expect.stringMatching(message) });
  });

  test("no documents need no request; the fake ranks by words in common", async () => {
    const model = fakeReranker();
    expect(await rerank(model, "q", [])).toMatchObject({ ranking: [] });
    const { ranking } = await rerank(model, "rain in Rome", ["the price of tea", "heavy rain in Rome"], { top: 1 });
    expect(ranking).toMatchObject([{ index: 1 }]);
  });
});

test("wrong arguments are rejected before a request", async () => {
  const model = fakeEmbeddings();
  const broken: unknown = JSON.parse("7");
  const wrongText = typeof broken === "string" ? broken : "";
  await expect(embed(model, wrongText)).rejects.toBeInstanceOf(MisuseError);
  await expect(embedMany(model, ["a", ""])).rejects.toMatchObject({ message: "embedMany: texts.1 is empty" });
  await expect(embed(model, "a", { dimensions: 0 })).rejects.toMatchObject({ path: ["dimensions"] });
  await expect(embedMany(model, ["a"], { maxConcurrency: 0.5 })).rejects.toMatchObject({ path: ["maxConcurrency"] });
  await expect(rerank(fakeReranker(), "q", ["a"], { top: -1 })).rejects.toMatchObject({ path: ["top"] });
  const misspelt: object = { dimension: 3 };
  await expect(embed(model, "a", misspelt)).rejects.toMatchObject({ reason: "unknown_field" });
  expect(() => openaiEmbeddings({ model: "" })).toThrow(/model must be the name of a model/);
  expect(() => openaiEmbeddings({ model: "m", price: -1 })).toThrow(/price must be a number of 0 or more/);
  expect(await embedMany(model, [])).toMatchObject({ embeddings: [], requests: 0 });
});

test("similarity: 1 for the same direction, -1 for the opposite, 0 without a direction, and only for equal lengths", () => {
  expect(cosineSimilarity([1, 2], [2, 4])).toBeCloseTo(1);
  expect(cosineSimilarity([1, 0], [-1, 0])).toBe(-1);
  expect(cosineSimilarity([0, 0], [1, 0])).toBe(0);
  expect(() => cosineSimilarity([1], [1, 2])).toThrow(RangeError);
});
