// The model of a call as one name, and checks of options that all middleware of this folder share.

import type { ModelCall } from "../../core/engine/internal.ts";
import type { Json } from "../../core/model/internal.ts";

import { MisuseError } from "../../core/model/internal.ts";

/** The provider and the model of a call, `openai:gpt-5`. A prefix of the model's name that repeats the provider is removed. */
export function modelOf({ provider, request: { model } }: Pick<ModelCall, "provider" | "request">): string {
  const id = typeof model === "string" ? model : (model?.id ?? "");
  const prefix = `${provider}:`;
  return id.toLowerCase().startsWith(prefix.toLowerCase()) ? `${prefix}${id.slice(prefix.length)}` : `${prefix}${id}`;
}

/** The value after a JSON round trip: without undefined properties. */
export function plainJson(value: object): Json {
  const plain: Json = JSON.parse(JSON.stringify(value));
  return plain;
}

/** Throws `MisuseError` for options with a name that the middleware does not have. A misspelt guard must not be ignored. */
export function checkNames(middleware: string, options: object, names: { readonly [name: string]: true }): void {
  const unknownName = Object.keys(options).find((name) => !Object.hasOwn(names, name));
  if (unknownName === undefined) return;
  throw new MisuseError(
    "unknown_field",
    `${middleware}: there is no option "${unknownName}"; its options are ${Object.keys(names).join(", ")}`,
    { path: [unknownName] },
  );
}

/** Throws `MisuseError` unless the value is a number greater than 0, or `Infinity` if `endless` is set. */
export function checkPositive(middleware: string, name: string, value: unknown, endless = false): void {
  if (typeof value === "number" && value > 0 && (Number.isFinite(value) || (endless && value === Infinity))) return;
  throw new MisuseError("invalid_argument", `${middleware}: ${name} has to be a number greater than 0`, {
    path: [name],
  });
}
