// The rules of the options that provider adapters share.

import type { Rule, Rules, Timeouts } from "../engine/internal.ts";
import type { Quirks } from "../wire/internal.ts";
import type { ProviderOptions } from "./http-adapter.ts";

import {
  aFunction,
  anObject,
  anything,
  checkOptions,
  defaultLimits,
  namesOf,
  objectOf,
  oneOf,
  positive,
} from "../engine/internal.ts";
import { invalidArgument } from "../model/internal.ts";

const keySource: Rule = {
  must: "a string or a function",
  fits: (value) => typeof value === "string" || typeof value === "function",
};

const time: Rule = { ...positive, must: "a number of milliseconds above 0" };
const timeOrNull: Rule = { ...time, fits: (value) => value === null || time.fits(value) };

/** The options of every provider adapter. */
const providerRules: Rules<ProviderOptions> = {
  apiKey: keySource,
  authToken: keySource,
  baseURL: anything,
  headers: anObject,
  fetch: aFunction,
  timeouts: objectOf<Timeouts>({ connect: time, firstByte: time, betweenChunks: time, total: timeOrNull }),
  limits: { ...anObject, fields: namesOf(defaultLimits) },
  dotenv: anything,
};

/** How a server deviates from an API of OpenAI. */
export const quirkRules: Rule = objectOf<Quirks>({
  maxTokensField: anything,
  seedField: anything,
  streamUsage: anything,
  systemRole: anything,
  jsonSchema: anything,
  strict: anything,
  audioFormats: anything,
  customCalls: anything,
  without: anything,
  reasoningField: anything,
  replayFields: anything,
  callIds: anything,
});

/** The APIs of OpenAI that an adapter may offer: `responses`, or `chat` for Chat Completions. */
export type OpenAIApi = "responses" | "chat";

export const apiRule = oneOf(["responses", "chat"] satisfies readonly OpenAIApi[]);

/**
 * Checks the options of a provider adapter. Throws `MisuseError`. `more`: the rules of the options that only this
 * adapter has.
 */
export function checkProviderOptions<Options extends ProviderOptions>(
  adapter: string,
  options: Options,
  more: Rules<Omit<Options, keyof ProviderOptions>>,
): void {
  const rules: { readonly [name: string]: Rule } = { ...providerRules, ...more };
  checkOptions(adapter, options, rules);
  if (options.apiKey === undefined || options.authToken === undefined) return;
  throw invalidArgument(`${adapter}: set apiKey or authToken, not both`, ["authToken"]);
}
