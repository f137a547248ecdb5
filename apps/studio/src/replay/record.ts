// Reads a turn record (a file that `export` wrote) as a timeline, its messages and the stored data of each row. Pure, and without a server: the file is not sent anywhere.
//
// A record has the journal rows, but not the records inside effects: attempts that failed or that a crash ended are not in it. Processes and takeovers follow from the
// timing of the rows.
//
// The file may be damaged or hostile. Everything that is shown is checked: values of the library with its own parser, the rest field by field. A file that is no turn record, and a row that
// cannot be read, are reported with a reason.

import type { EffectDetail, TimelineEffect, TurnClaim, TurnTimeline } from "everturn/client";
import type { Json, JsonObject, Message, StoredType } from "everturn/model";

import { messageText, parse, storedVersion } from "everturn/model";

import { field } from "../inspector/effect-parts.ts";
import { beginning } from "../parts/text.ts";

/** A turn record that was read. */
export type ReplayFile = {
  readonly sessionId: string;
  readonly timeline: TurnTimeline;
  /** The messages before the turn and of the turn, as far as it was recorded. */
  readonly messages: readonly Message[];
  /** What is stored about each row, by ordinal. */
  readonly details: ReadonlyMap<number, EffectDetail>;
  /** The replay policies of the tools, by name. */
  readonly policies: ReadonlyMap<string, string>;
};

/** Why a file cannot be shown. */
export class ReplayFileError extends Error {
  override readonly name = "ReplayFileError";
}

/** Files larger than this are not read, because the page would stop to respond. */
export const maxFileBytes = 64 * 1024 * 1024;
/** Texts in the timeline have this length at most. */
const maxTextLength = 200;

/** Reads the text of a file. Throws {@link ReplayFileError}. */
export function readReplayFile(text: string): ReplayFile {
  const record = recordOf(text);
  const { data } = record;
  const turnId = textOf(data, "turnId");
  const sessionId = textOf(data, "sessionId");
  const start = objectOf(data, "start");
  const acceptedAt = numberOf(start, "acceptedAt");
  const rows = rowsOf(data);
  const end = endOf(field(data, "end"));
  const effects = effectsOf(rows, turnId);
  const lastEnd = effects.reduce((last, { endedAt }) => Math.max(last, endedAt ?? 0), acceptedAt);
  const history = listOf(data, "history").map((message, index) => parsed("message", message, `message ${index + 1}`));
  const base = field(start, "base");
  return {
    sessionId,
    timeline: {
      turn: {
        turnId,
        verb: field(start, "verb") === "step" ? "step" : "chat",
        engine: textOf(start, "engine"),
        acceptedAt,
        base: typeof base === "number" ? Math.min(base, history.length) : history.length,
        status: end === null ? "parked" : "ended",
        step: effects.at(-1)?.step ?? 0,
        end,
        failure: null,
        limitWait: null,
        discarded: 0,
      },
      now: lastEnd,
      claims: claimsOf(rows),
      effects,
      next: null,
      isJournalRemoved: rows.length === 0 && end !== null,
    },
    messages: [...history, ...messagesOf(start, rows)],
    details: new Map(rows.map((row) => [row.ordinal, row])),
    policies: policiesOf(data),
  };
}

/** Checks that a text is a turn record of a version that this release reads. */
function recordOf(text: string): { readonly data: JsonObject } {
  let value: Json;
  try {
    value = JSON.parse(text);
  } catch {
    throw new ReplayFileError("The file is not JSON.");
  }
  if (field(value, "everturn") !== "turn_record") {
    throw new ReplayFileError("The file is JSON, but not a turn record. “Export record” of a turn writes one.");
  }
  const version = field(value, "version");
  if (typeof version !== "number" || version > storedVersion) {
    throw new ReplayFileError(
      `The record was written by a newer release (format version ${String(version)}; this page reads versions up to ${storedVersion}).`,
    );
  }
  return { data: objectOf(value, "data") };
}

/** A row of the journal with its ordinal. */
type Row = EffectDetail;

function rowsOf(data: JsonObject): readonly Row[] {
  return listOf(data, "rows").map((row, index) => {
    const ordinal = index + 1;
    const effect = field(row, "effect");
    const [epoch, attempt] = [field(row, "epoch"), field(row, "attempt")];
    const timing = field(row, "timing");
    return {
      ordinal,
      effect: typeof effect === "string" ? jsonOf(effect, `the effect of row ${ordinal}`) : effect,
      item: objectOf(row, "item"),
      epoch: typeof epoch === "number" ? epoch : 0,
      attempt: typeof attempt === "number" ? attempt : 1,
      timing: isObject(timing) ? timing : null,
      records: [],
    };
  });
}

function effectsOf(rows: readonly Row[], turnId: string): readonly TimelineEffect[] {
  let step = 0;
  const effects = rows.map((row): TimelineEffect => {
    const { ordinal, effect, item, epoch, attempt, timing } = row;
    const id = field(effect, "id");
    const effectId = typeof id === "string" ? id : null;
    step = stepOf(effectId, turnId) ?? step;
    const call = field(effect, "call");
    const toolCallId = field(call, "id");
    const owner = field(timing, "owner");
    return {
      ordinal,
      effectId,
      step,
      toolCallId: typeof toolCallId === "string" ? toolCallId : null,
      startedAt: timeOf(timing, "startedAt"),
      firstAt: timeOf(timing, "firstAt"),
      endedAt: timeOf(timing, "endedAt"),
      owner: typeof owner === "string" ? owner : null,
      epoch,
      attempt,
      usage: null,
      failure: null,
      discarded: [],
      children: [],
      ...meaningOf(item, call, `row ${ordinal}`),
    };
  });
  const superseded = new Set<number>();
  for (const { ordinal, item } of rows) {
    const from = field(item, "type") === "step_restarted" ? field(item, "from") : null;
    if (typeof from !== "number") continue;
    for (let other = Math.max(1, from); other < ordinal; other += 1) superseded.add(other);
  }
  return effects.map((effect) => (superseded.has(effect.ordinal) ? { ...effect, state: "superseded" } : effect));
}

type Meaning = Pick<TimelineEffect, "kind" | "name" | "state" | "text"> &
  Partial<Pick<TimelineEffect, "usage" | "failure">>;

/** What an item of the journal means. Items and responses of a newer release are shown as bookkeeping. */
function meaningOf(item: Json, call: Json, place: string): Meaning {
  const plain = { name: null, state: "ok", text: "" } as const;
  switch (field(item, "type")) {
    case "cancel":
      return { ...plain, kind: "cancel", state: "cancelled", text: "cancelled" };
    case "failure": {
      const failure = parsed("failure", field(item, "failure"), place);
      return { ...plain, kind: "failure", state: "failed", text: cut(failure.message), failure };
    }
    case "step_restarted":
      return { ...plain, kind: "restart", text: "the step was restarted" };
    case "response":
      return responseMeaning(field(item, "response"), call, place);
    default:
      return { ...plain, kind: "checkpoint" };
  }
}

function responseMeaning(response: Json, call: Json, place: string): Meaning {
  const name = field(call, "name");
  const tool = { kind: "tool", name: typeof name === "string" ? name : "tool" } as const;
  const plain = { name: null, state: "ok", text: "" } as const;
  switch (field(response, "type")) {
    case "model_replied": {
      const reply = parsed("reply", field(response, "reply"), place);
      const { route, usage, error } = reply;
      const state = error === null ? "ok" : "failed";
      const model = route === null ? (reply.model ?? "model") : modelName(route.provider, route.model);
      return { kind: "model", name: model, state, text: cut(reply.outputText ?? ""), usage, failure: error };
    }
    case "model_failed": {
      const error = field(response, "error");
      const failure = parsed("failure", field(error, "failure"), place);
      const state = field(error, "terminalReason") === "cancelled" ? "cancelled" : "failed";
      const usage = parsed("usage", field(response, "spent"), place);
      return { kind: "model", name: "model", state, text: cut(failure.message), usage, failure };
    }
    case "tool_returned": {
      const outcome = parsed("tool_outcome", field(response, "outcome"), place);
      switch (outcome.type) {
        case "success":
          return { ...tool, state: "ok", text: cut(valueText(outcome.value)) };
        case "failure":
          return { ...tool, state: "failed", text: cut(outcome.failure.message), failure: outcome.failure };
        case "cancelled":
          return { ...tool, state: "cancelled", text: cut(outcome.message) };
        case "ask_user":
          return { ...tool, state: "waits", text: cut(outcome.question) };
        case "halt":
          return { ...tool, state: "halted", text: cut(outcome.reason) };
      }
      break;
    }
    case "tool_waits": {
      const [question, reason] = [field(response, "question"), field(response, "reason")];
      return { ...tool, state: "waits", text: cut(String(question ?? reason ?? "")) };
    }
    case "code_finished":
    case "code_calls":
      return { ...plain, kind: "code" };
    case "code_failed":
      return { ...plain, kind: "code", state: "failed", text: cut(String(field(response, "message") ?? "")) };
    case "environment_synced":
      return { ...plain, kind: "environment" };
    case "environment_failed":
      return { ...plain, kind: "environment", state: "failed", text: cut(String(field(response, "message") ?? "")) };
    case "checkpoint_delivered":
      return {
        ...plain,
        kind: "checkpoint",
        text: cut(deliveredMessages(response, place).map(messageText).join("\n")),
      };
  }
  return { ...plain, kind: "checkpoint" };
}

function modelName(provider: string, model: string): string {
  return model.startsWith(`${provider}:`) ? model : `${provider}:${model}`;
}

function valueText(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}

function cut(text: string): string {
  return beginning(text, maxTextLength);
}

/** The processes that settled the rows, in order. */
function claimsOf(rows: readonly Row[]): readonly TurnClaim[] {
  const claims = new Map<number, TurnClaim>();
  for (const { epoch, timing } of rows) {
    const [owner, since] = [field(timing, "owner"), field(timing, "heldSince")];
    if (claims.has(epoch) || typeof owner !== "string" || typeof since !== "number") continue;
    claims.set(epoch, { owner, epoch, since, takesOver: field(timing, "takesOver") === true });
  }
  return [...claims.values()].toSorted((a, b) => a.epoch - b.epoch);
}

/** The messages that the turn added, in the order of its commits: input, replies, tool results, steered input. */
function messagesOf(start: JsonObject, rows: readonly Row[]): readonly Message[] {
  const inputs = listOf(start, "messages").map((message) => parsed("message", message, "the input of the turn"));
  const added = rows.flatMap(({ ordinal, effect, item }): readonly Message[] => {
    const response = field(item, "response");
    const place = `row ${ordinal}`;
    switch (field(response, "type")) {
      case "model_replied": {
        const { message } = parsed("reply", field(response, "reply"), place);
        return message === null ? [] : [message];
      }
      case "tool_returned": {
        const call = field(effect, "call");
        const failed = field(field(response, "outcome"), "type") === "failure";
        const message = {
          role: "tool",
          name: field(call, "name"),
          toolCallId: field(call, "id"),
          content: field(response, "content"),
          status: failed ? "failure" : "success",
        };
        return [parsed("message", message, place)];
      }
      case "checkpoint_delivered":
        return deliveredMessages(response, place);
      default:
        return [];
    }
  });
  return [...inputs, ...added];
}

function deliveredMessages(response: Json, place: string): readonly Message[] {
  const delivery = field(response, "delivery");
  return isObject(delivery) ? listOf(delivery, "messages").map((message) => parsed("message", message, place)) : [];
}

function endOf(end: Json): TurnTimeline["turn"]["end"] {
  if (!isObject(end)) return null;
  const steps = field(end, "steps");
  return {
    haltedReason: textOf(end, "haltedReason"),
    outcome: parsed("outcome", field(end, "outcome"), "the outcome of the turn"),
    steps: typeof steps === "number" ? steps : 0,
    usage: parsed("usage", field(end, "usage"), "the usage of the turn"),
  };
}

/** The replay policies of the tools in the pinned configuration. */
function policiesOf(data: JsonObject): ReadonlyMap<string, string> {
  const tools = field(field(field(data, "pinned"), "environment"), "tools");
  if (!Array.isArray(tools)) return new Map();
  return new Map(
    tools.flatMap((tool: Json) => {
      const [name, replay] = [field(tool, "name"), field(tool, "replay")];
      return typeof name === "string" && typeof replay === "string" ? [[name, replay]] : [];
    }),
  );
}

/** The step of an effect, from its id `turn/step/…`. */
function stepOf(effectId: string | null, turnId: string): number | null {
  if (effectId?.startsWith(`${turnId}/`) !== true) return null;
  const match = /^(\d{1,9})\//.exec(effectId.slice(turnId.length + 1));
  return match === null ? null : Number(match[1]);
}

/** Checks a value of the library. */
function parsed<T extends StoredType>(type: T, value: Json, place: string) {
  const result = parse(type, value);
  if (result.ok) return result.value;
  throw new ReplayFileError(`The record is damaged: ${place}: ${result.failure.message}`);
}

function isObject(value: Json): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function objectOf(value: Json, name: string): JsonObject {
  const found = field(value, name);
  if (isObject(found)) return found;
  throw new ReplayFileError(`The record is damaged: “${name}” is missing.`);
}

function listOf(value: Json, name: string): readonly Json[] {
  const found = field(value, name);
  return Array.isArray(found) ? found : [];
}

function textOf(value: Json, name: string): string {
  const found = field(value, name);
  if (typeof found === "string") return found;
  throw new ReplayFileError(`The record is damaged: “${name}” is missing.`);
}

function numberOf(value: Json, name: string): number {
  const found = field(value, name);
  if (typeof found === "number") return found;
  throw new ReplayFileError(`The record is damaged: “${name}” is missing.`);
}

function timeOf(value: Json, name: string): number | null {
  const found = field(value, name);
  return typeof found === "number" && Number.isFinite(found) ? found : null;
}

function jsonOf(text: string, place: string): Json {
  try {
    const value: Json = JSON.parse(text);
    return value;
  } catch {
    throw new ReplayFileError(`The record is damaged: ${place} is not JSON.`);
  }
}
