// What is answered, described. The types are the library's own; the tests hold what is really answered against these.

import type { JsonObject } from "../../model/internal.ts";
import type { Answer } from "../routes/route.ts";

import { knownHaltedReasons, pendingReasons, sessionStatuses } from "../../model/internal.ts";
import { turnStatuses } from "../../model/parse/reading.ts";

/** A schema by its name. */
export function described(name: keyof typeof schemas): JsonObject {
  return { $ref: `#/components/schemas/${name}` };
}

export function jsonAnswer(description: string, schema: JsonObject): Answer {
  return { description, content: { "application/json": schema } };
}

const text = { type: "string" };
const maybeText = { type: ["string", "null"] };
const whole = { type: "integer", minimum: 0 };
const maybeWhole = { type: ["integer", "null"], minimum: 0 };
const data = { type: "object" };
const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` });

/** An object with at least these fields, all of them there. */
function all(properties: JsonObject, description?: string): JsonObject {
  const about = description === undefined ? {} : { description };
  return { type: "object", ...about, properties, required: Object.keys(properties) };
}

export const schemas = {
  UserMessage: {
    type: "object",
    description: "What a person says: a text, or parts of text, images and files.",
    properties: { role: { const: "user" }, content: { oneOf: [text, { type: "array", items: data }] }, id: maybeText },
    required: ["role", "content"],
  },
  Message: all({ role: text, content: { oneOf: [text, { type: "array" }, { type: "null" }] } }),
  Usage: all({ inputTokens: maybeWhole, outputTokens: maybeWhole, totalTokens: maybeWhole }),
  PendingToolCall: all({ id: text, name: text, reason: { enum: [...pendingReasons] } }),
  Failure: all({ type: text, reason: text, message: text }, "Why something did not work. Reasons are closed lists."),
  Error: all({ error: ref("Failure") }),
  SessionSummary: all({
    id: text,
    status: { enum: [...sessionStatuses] },
    version: whole,
    length: whole,
    pendingToolCalls: { type: "array", items: ref("PendingToolCall") },
    pendingQuestion: maybeText,
    usage: ref("Usage"),
    metadata: data,
    turnId: maybeText,
    createdAt: whole,
    changedAt: whole,
  }),
  SessionPage: all({ items: { type: "array", items: ref("SessionSummary") }, next: maybeText }),
  MessagePage: all({ items: { type: "array", items: ref("Message") }, next: maybeText }),
  SessionView: all({
    session: all({ status: { enum: [...sessionStatuses] }, thread: data }),
    version: whole,
    length: whole,
    openTurn: {
      oneOf: [
        { type: "null" },
        all({ turnId: text, status: { enum: [...turnStatuses] }, step: whole, engine: text, failure: {} }),
      ],
    },
  }),
  SessionId: all({ id: text }),
  LedgerSum: all({ total: ref("Usage"), lines: { type: "array", items: data } }),
  Recovered: all({ pickedUp: whole, usable: { type: "boolean" }, mayRunTwice: { type: "array", items: text } }),
  TurnAccepted: all({ sessionId: text, turnId: text }, "The turn was accepted, and is being driven."),
  TurnEnd: all(
    {
      turnId: maybeText,
      status: { enum: ["ended", "parked", "waiting"] },
      text,
      haltedReason: { ...text, description: `${knownHaltedReasons.join(", ")}, or a tool's own word.` },
      outcome: all({ type: text }),
      steps: whole,
      usage: ref("Usage"),
      failure: { oneOf: [{ type: "null" }, ref("Failure")] },
      session: ref("SessionSummary"),
    },
    "What a turn came to.",
  ),
  Event: {
    type: "object",
    description:
      "A frame of the stream. Its id is the cursor, its data this. At the end of a turn comes a frame `end` with a TurnEnd; where reading fails, a frame `failure` with an Error.",
    properties: { turnId: text, sequence: { type: ["integer", "null"] }, delta: {}, event: all({ type: text }) },
    required: ["turnId", "sequence", "delta", "event"],
  },
  TurnRecord: all({ everturn: { const: "turn_record" }, version: whole, data }),
  CancelAnswer: all({ result: { enum: ["cancelled", "completion_won", "nothing_open", "stored"] } }),
  SteerAnswer: all({ inputId: text, turnId: text }),
  WithdrawAnswer: all({
    result: { enum: ["cancelled", "already_claimed", "already_taken", "already_cancelled", "not_found"] },
  }),
  TokenAnswer: all({ token: text }),
  CompletionAnswer: all({ result: { enum: ["completed", "already_completed", "revoked", "unknown"] } }),
  Health: all({ status: { enum: ["ok"] } }),
} as const satisfies { readonly [name: string]: JsonObject };

/** How a turn that was begun is answered. */
export const turnAnswers: { readonly [status: string]: Answer } = {
  200: {
    description: "A stream of what happens in it, for those who accept one; else what it came to.",
    content: { "text/event-stream": ref("Event"), "application/json": ref("TurnEnd") },
  },
  202: jsonAnswer("It was accepted, and has not ended. `location` is where it is.", ref("TurnAccepted")),
};
