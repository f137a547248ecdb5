// Settings of model calls by model. It changes requests only, so it needs no record of its own: the notes of the call
// name the fields that it set.

import type { Middleware } from "../../core/engine/internal.ts";
import type { ModelRequest } from "../../core/model/internal.ts";

import { MisuseError, request as modelRequest } from "../../core/model/internal.ts";
import { modelOf } from "./call-model.ts";

/** The settings that {@link defaultSettings} can set. */
type CallSettings = Partial<
  Pick<
    ModelRequest,
    | "temperature"
    | "topP"
    | "maxTokens"
    | "stopSequences"
    | "seed"
    | "toolChoice"
    | "parallelToolCalls"
    | "options"
    | "providerOptions"
  >
> & {
  /** Fields that are left out are those of the provider. */
  readonly reasoning?: Partial<NonNullable<ModelRequest["reasoning"]>> | null;
  /** `{}` turns it on. */
  readonly promptCache?: Partial<NonNullable<ModelRequest["promptCache"]>> | null;
};

const settingNames: { readonly [Name in keyof CallSettings]-?: true } = {
  temperature: true,
  topP: true,
  maxTokens: true,
  stopSequences: true,
  seed: true,
  reasoning: true,
  promptCache: true,
  toolChoice: true,
  parallelToolCalls: true,
  options: true,
  providerOptions: true,
};

/** Settings by a pattern of the model's name. */
type SettingsByModel = { readonly [pattern: string]: CallSettings };

/**
 * Sets what a request does not set itself, by its model. A key is a model as `provider:model`, or only the model; `*`
 * stands for any text. Of several keys that match, the first one that has a setting decides. `options` and
 * `providerOptions` are merged key by key. Throws `MisuseError` for an unknown setting.
 *
 * @example
 * ```ts
 * import { chat, engine, fake } from "everturn";
 * import { defaultSettings } from "everturn/middleware";
 *
 * const adapter = fake({ script: [{ type: "text", text: "Hello." }] });
 * const middleware = [defaultSettings({ "fake:m*": { temperature: 0 }, "*": { maxTokens: 500 } })];
 * await chat(engine({ adapter, model: "fake:m1", middleware }), "Hi!", { maxTokens: 20 });
 * adapter.calls[0]?.request.temperature; // => 0
 * adapter.calls[0]?.request.maxTokens; // => 20
 * ```
 */
export function defaultSettings(
  settings: SettingsByModel,
  { name = "default_settings" }: { readonly name?: string } = {},
): Middleware {
  const rules = Object.entries(settings).map(([pattern, values]) => {
    for (const field of Object.keys(values)) {
      if (Object.hasOwn(settingNames, field)) continue;
      throw new MisuseError("unknown_field", `defaultSettings: "${pattern}": there is no setting "${field}"`, {
        path: [pattern, field],
      });
    }
    // Fills in the fields of nested settings, and throws for a wrong type.
    const complete = modelRequest([], values);
    return { matches: matcherOf(pattern), names: Object.keys(values), complete };
  });
  return {
    name,
    model: (call, next) => {
      const model = modelOf(call);
      const request = rules
        .filter(({ matches }) => matches(model))
        .reduce((changed, { names, complete }) => withDefaults(changed, names, complete), call.request);
      return next(request);
    },
  };
}

/** Matches a pattern with `*` against the whole name, with and without its provider. */
function matcherOf(pattern: string): (model: string) => boolean {
  const source = pattern.split("*").map(escaped).join(".*");
  const whole = new RegExp(`^(?:[^:]*:)?${source}$`, "i");
  const named = new RegExp(`^${source}$`, "i");
  return (model) => named.test(model) || whole.test(model);
}

function escaped(text: string): string {
  return text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
}

/** The request with those settings that it does not have. Returned unchanged if it has all of them. */
function withDefaults(request: ModelRequest, names: readonly string[], defaults: ModelRequest): ModelRequest {
  const missing = names.filter((name) => name === "options" || name === "providerOptions" || isUnset(request, name));
  const set = Object.fromEntries(missing.map((name) => [name, Reflect.get(defaults, name)]));
  const options = names.includes("options") ? { options: { ...defaults.options, ...request.options } } : {};
  const providerOptions = names.includes("providerOptions")
    ? { providerOptions: mergedByProvider(request, defaults) }
    : {};
  return missing.length === 0 ? request : { ...request, ...set, ...options, ...providerOptions };
}

function mergedByProvider(request: ModelRequest, defaults: ModelRequest): ModelRequest["providerOptions"] {
  const merged = Object.entries(defaults.providerOptions).map(([provider, fields]) => [
    provider,
    { ...fields, ...Object.entries(request.providerOptions).find(([name]) => name === provider)?.[1] },
  ]);
  return { ...defaults.providerOptions, ...request.providerOptions, ...Object.fromEntries(merged) };
}

function isUnset(request: ModelRequest, name: string): boolean {
  const value: unknown = Reflect.get(request, name);
  return value === null || value === undefined || (Array.isArray(value) && value.length === 0);
}
