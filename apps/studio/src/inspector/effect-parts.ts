// The parts of a stored row of the journal that the inspector shows. The row is JSON of the server, which may be of a
// newer or older release, so fields are looked up and not assumed.

import type { Json, JsonObject } from "everturn";
import type { EffectDetail, TimelineEffect } from "everturn/advanced";

import { isObject } from "../parts/json.ts";

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
