// What a request of a turn has that the request of the step before has not. Pure.

import type { Json, JsonObject } from "everturn";

import { isList } from "../parts/json.ts";

/** The difference between two requests. */
export type RequestChanges = {
  /** The number of messages at the beginning that are the same. */
  readonly kept: number;
  /** The messages after them, of the earlier and of the later request. */
  readonly removed: readonly Json[];
  readonly added: readonly Json[];
  /** Other fields with another value: model, tools, settings. */
  readonly fields: readonly { readonly name: string; readonly before: Json; readonly after: Json }[];
};

/** Compares two requests in the form of the library. */
export function requestChanges(before: JsonObject, after: JsonObject): RequestChanges {
  const [old, now] = [messagesOf(before), messagesOf(after)];
  let kept = 0;
  while (kept < old.length && kept < now.length && textOf(old[kept]) === textOf(now[kept])) kept += 1;
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((name) => name !== "messages");
  const fields = names
    .map((name) => ({ name, before: before[name] ?? null, after: after[name] ?? null }))
    .filter((field) => textOf(field.before) !== textOf(field.after));
  return { kept, removed: old.slice(kept), added: now.slice(kept), fields };
}

function messagesOf({ messages = null }: JsonObject): readonly Json[] {
  return isList(messages) ? messages : [];
}

function textOf(value: Json | undefined): string {
  return JSON.stringify(value ?? null);
}
