// The parts of a stored row of the journal that the inspector and the timeline show: the request, the response and the
// attempts. The row is JSON of the server, which may be of a newer or older release, so fields are looked up and not
// assumed.

import type { Json, JsonObject } from "everturn";
import type { EffectDetail, TimelineEffect } from "everturn/advanced";

import { isObject } from "../parts/json.ts";

/**
 * What was ordered: a model call with its options, or a tool call with its arguments. A model call that logs its
 * request body shows that.
 */
export function requestOf({ effect, item }: EffectDetail): Json {
  const body = field(field(item, "response"), "requestBody");
  if (typeof body === "string") return parsed(body);
  const call = field(effect, "call");
  return call === null ? effect : call;
}

/** What was recorded: the reply, the result of the tool, or the item. */
export function responseOf({ item }: EffectDetail): Json {
  const response = field(item, "response");
  if (response === null) return item;
  return field(response, "reply") ?? field(response, "outcome") ?? field(response, "error") ?? response;
}

/** The row as it is shown in the tab Journal: everything but the two values that have tabs of their own. */
export function journalOf(detail: EffectDetail): JsonObject {
  const { ordinal, effect, item, epoch, attempt, timing } = detail;
  const response = field(item, "response");
  return {
    ordinal,
    effect,
    outcome: field(response, "type") ?? field(item, "type"),
    epoch,
    attempt,
    ...(timing === null ? {} : { timing }),
    records: detail.records.map(({ name }) => name),
  };
}

/** A field of a JSON object; `null`: absent, or not an object. */
export function field(value: Json, name: string): Json {
  return isObject(value) && Object.hasOwn(value, name) ? (value[name] ?? null) : null;
}

function parsed(text: string): Json {
  try {
    const value: Json = JSON.parse(text);
    return value;
  } catch {
    return text;
  }
}

/** The class of the tag of an effect, which gives it the colour of its kind. */
export function tagOf({ kind, state }: TimelineEffect): string {
  if (state === "waits" || state === "denied") return "wait";
  if (state === "failed" || kind === "failure" || kind === "cancel") return "crash";
  return kind === "model" ? "model" : kind === "tool" || kind === "code" ? "tool" : "";
}

/** Returns whether the effect is a model call whose reply is a message. */
export function isReply({ kind, state }: TimelineEffect): boolean {
  return kind === "model" && state !== "failed" && state !== "superseded" && state !== "cancelled";
}
