// Checks the names of adapter options at run time, for callers without a compiler: a misspelt option must not be ignored silently.

import type { Quirks } from "../wire/internal.ts";
import type { ProviderOptions } from "./http-adapter.ts";

import { defaultLimits, defaultTimeouts, placeOf } from "../engine/internal.ts";
import { MisuseError } from "../model/internal.ts";

/** All names of an options type; the compiler requires each of them. */
export type NamesOf<Options> = { readonly [Name in keyof Options]-?: true };

/** The options of every provider adapter. */
export const providerOptionNames: NamesOf<ProviderOptions> = {
  apiKey: true,
  authToken: true,
  baseURL: true,
  headers: true,
  fetch: true,
  timeouts: true,
  limits: true,
  dotenv: true,
};

const quirkNames: NamesOf<Quirks> = {
  maxTokensField: true,
  seedField: true,
  streamUsage: true,
  systemRole: true,
  jsonSchema: true,
  strict: true,
  audioFormats: true,
  customCalls: true,
  without: true,
  reasoningField: true,
  replayFields: true,
  callIds: true,
};

/** Checks the options of a provider adapter, also inside `timeouts`, `limits` and `quirks`. Throws `MisuseError` (`unknown_field`). */
export function checkProviderOptions<Options extends ProviderOptions & { readonly quirks?: Quirks }>(
  adapter: string,
  options: Options,
  names: NamesOf<Options>,
): void {
  checkOptionNames(adapter, options, names);
  checkOptionTypes(adapter, options);
  checkOptionNames(adapter, options.timeouts, defaultTimeouts, "timeouts");
  checkOptionNames(adapter, options.limits, defaultLimits, "limits");
  checkOptionNames(adapter, options.quirks, quirkNames, "quirks");
}

/** Throws `MisuseError` (`invalid_argument`) for an option whose wrong type would fail later, in the first call. */
function checkOptionTypes(adapter: string, { apiKey, authToken, fetch, headers }: ProviderOptions): void {
  if (apiKey !== undefined && authToken !== undefined) {
    throw new MisuseError("invalid_argument", `${adapter}: set apiKey or authToken, not both`, { path: ["authToken"] });
  }
  const wrongOption =
    apiKey !== undefined && typeof apiKey !== "string" && typeof apiKey !== "function"
      ? (["apiKey", "a string or a function"] as const)
      : authToken !== undefined && typeof authToken !== "string" && typeof authToken !== "function"
        ? (["authToken", "a string or a function"] as const)
        : fetch !== undefined && typeof fetch !== "function"
          ? (["fetch", "a function"] as const)
          : headers !== undefined && (typeof headers !== "object" || headers === null)
            ? (["headers", "an object"] as const)
            : null;
  if (wrongOption === null) return;
  const [name, type] = wrongOption;
  throw new MisuseError("invalid_argument", `${adapter}: ${name} must be ${type}`, { path: [name] });
}

/** The APIs of OpenAI that an adapter may offer: `responses`, or `chat` for Chat Completions. */
export type OpenAIApi = "responses" | "chat";

/** Throws `MisuseError` (`invalid_argument`) for a value of the option `api` that is not the name of an API. */
export function checkApi(adapter: string, api: OpenAIApi): void {
  if (api === "responses" || api === "chat") return;
  const message = `${adapter}: api must be "responses" or "chat"; it is ${JSON.stringify(api)}`;
  throw new MisuseError("invalid_argument", message, { path: ["api"] });
}

/** Throws `MisuseError` (`unknown_field`) for a name that is not among `names`. `within` is the option that contains the options. */
export function checkOptionNames(
  adapter: string,
  options: object | undefined,
  names: object,
  within: string | null = null,
): void {
  if (options !== undefined && (typeof options !== "object" || options === null)) {
    const message = `${adapter}: ${within ?? "the options"} must be an object`;
    throw new MisuseError("invalid_argument", message, { path: within === null ? [] : [within] });
  }
  const unknownName = Object.keys(options ?? {}).find((name) => !Object.hasOwn(names, name));
  if (unknownName === undefined) return;
  const path = within === null ? [unknownName] : [within, unknownName];
  const similarName = Object.keys(names).find((name) => name.toLowerCase() === unknownName.toLowerCase());
  const place = within === null ? placeOf(unknownName) : null;
  const advice =
    similarName !== undefined
      ? `did you mean ${similarName}?`
      : (place ?? `the options are ${Object.keys(names).join(", ")}`);
  throw new MisuseError("unknown_field", `${adapter}: unknown option "${path.join(".")}"; ${advice}`, { path });
}
