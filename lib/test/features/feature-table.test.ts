// Tries every cell of the feature table in docs/guide/providers.md: makes the call of its case (cases.ts) with an
// adapter of the API and a `fetch` that records the request, and derives the word of the cell from what happened. A row
// without a case fails, and a case without a row.

import type { Api, Asked, FeatureCase } from "./cases.ts";
import type { JsonObject } from "everturn";
import type { StrictProvider } from "everturn/testing";

import { readFileSync } from "node:fs";
import { join } from "node:path";

import { AdapterError, anthropic, engine, gemini, MisuseError, openai, step, ValidationError, user } from "everturn";
import { strictProvider } from "everturn/testing";
import { describe, expect, test } from "vitest";

import { apis, cases, providerOf } from "./cases.ts";

type Word = "typed" | "passed through" | "reported" | "impossible";

/**
 * Known defects: features whose requests a provider refuses. An entry that is no longer refused fails its test and has
 * to be removed.
 */
const acceptedUntilFixed: { readonly [feature: string]: readonly string[] } = {};

const guide = readFileSync(join(import.meta.dirname, "../../../docs/guide/providers.md"), "utf8");
const rows = rowsOf(guide);

describe("the feature table of the providers guide", () => {
  test("has the columns of the four APIs and about 40 features", () => {
    expect(rows[0]?.cells).toEqual([...apis]);
    expect(rows.length).toBeGreaterThan(40);
  });

  test("has a case for every feature, and no other", () => {
    expect(Object.keys(cases).sort()).toEqual(
      rows
        .slice(1)
        .map(({ feature }) => feature)
        .sort(),
    );
  });

  test.each(rows.slice(1).filter(({ feature }) => Object.hasOwn(cases, feature)))(
    "$feature",
    async ({ feature, cells }) => {
      const featureCase = cases[feature];
      if (featureCase === undefined) throw new Error(`${feature} has no case`);
      const cellsTried = await Promise.all(apis.map((api) => tried(api, featureCase)));
      const words = cellsTried.map(({ word }) => word);
      expect(Object.fromEntries(apis.map((api, index) => [api, words[index]]))).toEqual(
        Object.fromEntries(apis.map((api, index) => [api, cells[index]])),
      );
      const refused = apis.flatMap((api, index) =>
        (cellsTried[index]?.refusals ?? []).map((rule) => `${api}: ${rule}`),
      );
      expect(refused, "rules of the providers that the requests violate").toEqual(acceptedUntilFixed[feature] ?? []);
    },
  );
});

/** The rows of the table with the column "feature", the head first. */
function rowsOf(text: string): readonly { readonly feature: string; readonly cells: readonly string[] }[] {
  const lines = text.split("\n");
  const start = lines.findIndex((line) => /^\| feature +\|/.test(line));
  const end = lines.findIndex((line, index) => index > start && !line.startsWith("|"));
  return lines
    .slice(start, end === -1 ? undefined : end)
    .filter((line) => !line.startsWith("| ---"))
    .map((line) => {
      const [feature = "", ...cells] = line
        .slice(1, -1)
        .split("|")
        .map((cell) => cell.trim());
      return { feature, cells: cells.slice(0, apis.length) };
    });
}

/** The word of a cell, and the rules of the provider that the requests of its case violate. */
type Tried = { readonly word: Word; readonly refusals: readonly string[] };

/** What happens to a feature on an API. */
async function tried(api: Api, featureCase: FeatureCase): Promise<Tried> {
  const { asked, sent = {}, received, path, wrong } = featureCase;
  const own = asked(api);
  if (own === null) {
    // There is no way to ask. What asks other providers has no effect here.
    for (const other of apis.filter((name) => providerOf[name] !== providerOf[api])) {
      const marker = sent[other];
      const foreign = asked(other);
      if (foreign !== null && marker !== undefined) expect((await call(api, foreign)).request).not.toContain(marker);
    }
    return { word: "impossible", refusals: [] };
  }
  const { request, reply, warnings, refusals } = await call(api, own);
  const is = (word: Word): Tried => ({ word, refusals });
  if (received !== undefined) return is(reply.includes(received[api] ?? "absent") ? "typed" : "impossible");
  const marker = sent[api];
  if (marker !== undefined && request.includes(marker)) {
    const isTyped = featureCase.isAutomatic === true || (await refuses(api, own, wrong));
    return is(isTyped ? "typed" : "passed through");
  }
  return is(path !== undefined && warnings.some((warned) => warned.startsWith(path)) ? "reported" : "impossible");
}

/** Is a wrong value of the feature refused before a request is made? */
async function refuses(api: Api, asked: Asked, wrong: FeatureCase["wrong"]): Promise<boolean> {
  try {
    if (typeof wrong === "function") {
      wrong(api);
      return false;
    }
    const { tools = [], ...options } = asked.options ?? {};
    const json = JSON.stringify({ ...asked, options });
    const [right, replacement] = wrong ?? [null, ""];
    if (right === null || !json.includes(right)) return false;
    const changed: Asked = JSON.parse(json.replace(right, () => replacement));
    await call(api, { ...changed, options: { ...changed.options, tools } });
    return false;
  } catch (error) {
    if (error instanceof MisuseError || error instanceof ValidationError) return true;
    throw error;
  }
}

/**
 * What a call showed: its request (headers and body), the library's reply as JSON, the paths of the warnings, and what
 * the provider refused.
 */
type Called = {
  readonly request: string;
  readonly reply: string;
  readonly warnings: readonly string[];
  /** The rules of the provider that the requests violate. */
  readonly refusals: readonly string[];
};

/** Makes one model call, or two if the case has a reply. Content that the adapter refuses gives no request. */
async function call(api: Api, { messages = [user("Hi.")], options = {}, reply = null }: AskedCall): Promise<Called> {
  let request = "";
  const provider = strictProvider({ reply: async () => Response.json(reply ?? replies[api]) });
  const fetch = (url: string, init: RequestInit): Promise<Response> => {
    request = `${JSON.stringify(init.headers)}\n${String(init.body)}`;
    return provider.fetch(url, init);
  };
  const settings = { apiKey: "unused", fetch };
  const adapters = {
    "OpenAI Responses": () => openai(settings),
    "OpenAI Chat": () => openai({ ...settings, api: "chat" }),
    Anthropic: () => anthropic(settings),
    Gemini: () => gemini(settings),
  };
  const agent = engine({ adapter: adapters[api](), model: models[api], retry: false });
  try {
    const { response, thread } = await step(agent, messages, options);
    if (reply !== null) await step(agent, [...thread.messages, user("Go on.")], options);
    const warnings = response.warnings.map(({ path }) => path);
    return { request, reply: JSON.stringify(response), warnings, refusals: rulesOf(provider) };
  } catch (error) {
    if (error instanceof AdapterError && error.reason === "unsupported_feature")
      return { request: "", reply: "", warnings: [], refusals: rulesOf(provider) };
    throw error;
  }
}

function rulesOf({ refusals }: StrictProvider): readonly string[] {
  return [...new Set(refusals.map(({ rule }) => rule))];
}

type AskedCall = Omit<Asked, "reply"> & { readonly reply?: JsonObject | null };

const models: { readonly [A in Api]: string } = {
  "OpenAI Responses": "gpt-5.4",
  "OpenAI Chat": "gpt-5.4",
  Anthropic: "claude-opus-5",
  Gemini: "gemini-3-flash",
};

const replies: { readonly [A in Api]: JsonObject } = {
  "OpenAI Responses": {
    id: "resp_1",
    status: "completed",
    output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text: "{}" }] }],
  },
  "OpenAI Chat": { choices: [{ message: { role: "assistant", content: "{}" }, finish_reason: "stop" }] },
  Anthropic: { type: "message", role: "assistant", content: [{ type: "text", text: "{}" }], stop_reason: "end_turn" },
  Gemini: { candidates: [{ content: { role: "model", parts: [{ text: "{}" }] }, finishReason: "STOP" }] },
};
