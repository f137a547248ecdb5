// Where an option belongs, for errors about options in the wrong place.

import type { RunOptionName } from "./run-options.ts";

import { isRunOption, runOptionNames, runOptionTable } from "./run-options.ts";

/** Options of provider adapters that programs pass to an engine by mistake. */
const adapterOptions: ReadonlySet<string> = new Set(["baseURL", "headers", "fetch", "timeouts", "limits", "dotenv"]);

/** Fields of an engine that are not options of a call. */
const engineFields: ReadonlySet<string> = new Set([
  "adapter",
  "imageAdapter",
  "fallback",
  "protocol",
  "catalog",
  "clock",
  "whenBusy",
]);

/** Names that other libraries use. */
const otherNames: ReadonlyMap<string, RunOptionName> = new Map([
  ["system", "instructions"],
  ["systemprompt", "instructions"],
  ["maxoutputtokens", "maxTokens"],
  ["maxcompletiontokens", "maxTokens"],
  ["maxsteps", "maxTurns"],
  ["stop", "stopSequences"],
  ["abortsignal", "signal"],
]);

/**
 * Returns how to set an option that was given somewhere else, as the end of an error message; `null`: the name is not
 * known. Letter case, `_` and `-` are ignored: `max_tokens` is `maxTokens`.
 */
export function placeOf(givenName: string): string | null {
  const plainName = plainNameOf(givenName);
  const adapterOption = [...adapterOptions, "apiKey"].find((name) => plainNameOf(name) === plainName);
  if (adapterOption !== undefined) return `it belongs to the adapter: openai({ ${adapterOption}: … })`;
  if (engineFields.has(givenName)) return `it is a field of the engine: engine({ ${givenName}: … })`;
  const name = otherNames.get(plainName) ?? runOptionNames.find((option) => plainNameOf(option) === plainName);
  if (name === undefined) return null;
  const { engine, pinned } = runOptionTable[name];
  if (engine === "field") return `it is a field of the engine: engine({ ${name}: … })`;
  if (pinned === "params") return `it belongs in params: engine({ params: { ${name}: … } })`;
  if (engine === "no") return `it is an option of a call: chat(engine, input, { ${name}: … })`;
  return `it belongs in options: engine({ options: { ${name}: … } })`;
}

/**
 * Returns how to set an option that is not known to a call, as the end of an error message: the option that was meant,
 * or where it belongs. Other names may be settings of a provider.
 */
export function placeInCall(givenName: string): string {
  const plainName = plainNameOf(givenName);
  const name = otherNames.get(plainName) ?? runOptionNames.find((option) => plainNameOf(option) === plainName);
  if (name !== undefined) return `the option is ${name}`;
  return placeOf(givenName) ?? "pass settings of a provider in params";
}

/** Returns whether `options` of an engine may have this name. */
export function isEngineOption(name: string): boolean {
  if (!isRunOption(name)) return false;
  const { engine } = runOptionTable[name];
  return engine === "options" || engine === "both";
}

/**
 * Returns whether a name in `params` is a mistake: an option of the run that is no setting of a model call. It would be
 * sent to the provider, which refuses it. `maxTurns` is read from `params`. `mode` and the settings of a request may
 * also be fields of a provider's API.
 */
export function isMisplacedParam(name: string): boolean {
  if (!isEngineOption(name) || !isRunOption(name) || name === "maxTurns" || name === "mode") return false;
  const { pinned } = runOptionTable[name];
  return pinned !== "params" && pinned !== "environment";
}

function plainNameOf(name: string): string {
  return name.toLowerCase().replaceAll(/[_-]/g, "");
}
