// JSON Schemas of responses, for the OpenAPI document. The types of the library are the source; openapi.test.ts checks the
// responses of every operation against these schemas. Responses may have more fields than a schema lists.

import type { JsonObject } from "../../../core/model/internal.ts";
import type { ResponseDescription } from "../routes/route.ts";

import { knownHaltedReasons, pendingReasons, sessionStatuses } from "../../../core/model/internal.ts";
import { turnStatuses } from "../../../core/model/parse/reading.ts";

/** A reference to a schema of this file. */
export function schemaRef(name: keyof typeof schemas): JsonObject {
  return { $ref: `#/components/schemas/${name}` };
}

/** The description of a JSON response. */
export function jsonAnswer(description: string, schema: JsonObject): ResponseDescription {
  return { description, content: { "application/json": schema } };
}

const text = { type: "string" };
const nullableText = { type: ["string", "null"] };
const countType = { type: "integer", minimum: 0 };
const nullableCount = { type: ["integer", "null"], minimum: 0 };
const flag = { type: "boolean" };
const data = { type: "object" };
const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` });

/** Quantiles of durations, in milliseconds. */
const quantiles = objectWith({ p50: nullableCount, p95: nullableCount, p99: nullableCount });
/** The fields of a sum over turns. */
const overviewSum = {
  turns: countType,
  outcomes: { type: "object", additionalProperties: countType },
  inputTokens: countType,
  cachedInputTokens: countType,
  outputTokens: countType,
  cost: { type: "number" },
  takeovers: countType,
  duration: quantiles,
  firstContent: quantiles,
};

/** An object that has all these fields, and possibly more. */
function objectWith(properties: JsonObject, description?: string): JsonObject {
  const descriptionField = description === undefined ? {} : { description };
  return { type: "object", ...descriptionField, properties, required: Object.keys(properties) };
}

const forkedFrom = {
  oneOf: [{ type: "null" }, objectWith({ sessionId: text, at: countType })],
  description:
    "The session that this one was forked from, and the number of messages that were copied; null if it is no fork.",
};
const limitWait = {
  oneOf: [{ type: "null" }, objectWith({ limit: { enum: ["engine", "tenant", "key"] }, since: countType })],
};

export const schemas = {
  UserMessage: {
    type: "object",
    description: "A user message: a text, or parts of type text, image and file.",
    properties: {
      role: { const: "user" },
      content: { oneOf: [text, { type: "array", items: data }] },
      id: nullableText,
    },
    required: ["role", "content"],
  },
  Message: objectWith({ role: text, content: { oneOf: [text, { type: "array" }, { type: "null" }] } }),
  Usage: objectWith({ inputTokens: nullableCount, outputTokens: nullableCount, totalTokens: nullableCount }),
  PendingToolCall: objectWith({ id: text, name: text, reason: { enum: [...pendingReasons] } }),
  Failure: objectWith(
    { type: text, reason: text, message: text },
    "A failure. `reason` is a member of a closed list for each `type`.",
  ),
  Error: objectWith({ error: ref("Failure") }),
  SessionSummary: objectWith({
    id: text,
    title: nullableText,
    engine: nullableText,
    owner: nullableText,
    startedBy: { type: "array", items: text },
    status: { enum: [...sessionStatuses] },
    version: countType,
    length: countType,
    pendingToolCalls: { type: "array", items: ref("PendingToolCall") },
    pendingQuestion: nullableText,
    usage: ref("Usage"),
    metadata: data,
    turnId: nullableText,
    turnStatus: { oneOf: [{ type: "null" }, { enum: [...turnStatuses] }] },
    limitWait,
    forkedFrom,
    createdAt: countType,
    changedAt: countType,
  }),
  SessionPage: objectWith({ items: { type: "array", items: ref("SessionSummary") }, next: nullableText }),
  MessagePage: objectWith({ items: { type: "array", items: ref("Message") }, next: nullableText }),
  SessionView: objectWith({
    session: objectWith({ status: { enum: [...sessionStatuses] }, thread: data }),
    version: countType,
    length: countType,
    owner: nullableText,
    startedBy: { type: "array", items: text },
    openTurn: {
      oneOf: [
        { type: "null" },
        objectWith({
          turnId: text,
          status: { enum: [...turnStatuses] },
          step: countType,
          engine: text,
          base: countType,
          failure: {},
          limitWait,
        }),
      ],
    },
    queuedTurns: { type: "array", items: text },
    forkedFrom,
  }),
  SessionId: objectWith({ id: text }),
  LedgerSum: objectWith({ total: ref("Usage"), lines: { type: "array", items: data } }),
  Recovered: objectWith({
    pickedUp: countType,
    usable: { type: "boolean" },
    mayRunTwice: { type: "array", items: text },
  }),
  TurnAccepted: objectWith({ sessionId: text, turnId: text }, "The turn was accepted and has not ended."),
  TurnEnd: objectWith(
    {
      turnId: nullableText,
      status: { enum: ["ended", "parked", "waiting"] },
      text,
      output: {
        description: "The structured output, validated with the schema of the option `output`; null without one.",
      },
      haltedReason: { ...text, description: `${knownHaltedReasons.join(", ")}, or a reason set by a tool.` },
      outcome: objectWith({ type: text }),
      steps: countType,
      usage: ref("Usage"),
      failure: { oneOf: [{ type: "null" }, ref("Failure")] },
      session: ref("SessionSummary"),
    },
    "The result of a turn.",
  ),
  Event: {
    type: "object",
    description:
      "The data of a frame; the id of the frame is the cursor. A turn ends with a frame `end` (data: TurnEnd). If reading fails, the stream ends with a frame `failure` (data: Error).",
    properties: { turnId: text, sequence: { type: ["integer", "null"] }, delta: {}, event: objectWith({ type: text }) },
    required: ["turnId", "sequence", "delta", "event"],
  },
  TurnRecord: objectWith({ everturn: { const: "turn_record" }, version: countType, data }),
  CancelAnswer: objectWith({ result: { enum: ["cancelled", "completion_won", "nothing_open", "stored"] } }),
  SteerAnswer: objectWith({ inputId: text, turnId: text }),
  WithdrawAnswer: objectWith({
    result: { enum: ["cancelled", "already_claimed", "already_taken", "already_cancelled", "not_found"] },
  }),
  TokenAnswer: objectWith({ token: text }),
  CompletionAnswer: objectWith({ result: { enum: ["completed", "already_completed", "revoked", "unknown"] } }),
  ServerView: objectWith(
    {
      version: text,
      storage: nullableText,
      durability: { enum: ["durable", "volatile"] },
      search: flag,
      operator: flag,
      tenant: text,
      allow: { type: "array", items: text },
      records: flag,
      scenarios: { type: "array", items: objectWith({ name: text, title: text, description: text }) },
    },
    "The server, and what the caller may do there.",
  ),
  EngineList: objectWith({
    items: {
      type: "array",
      items: objectWith({
        name: text,
        model: nullableText,
        instructions: nullableText,
        tools: {
          type: "array",
          items: objectWith({
            name: text,
            description: text,
            inputSchema: data,
            approval: { enum: ["always", "sometimes", "never"] },
            rerun: text,
          }),
        },
      }),
    },
  }),
  TurnPage: objectWith({ items: { type: "array", items: ref("TurnSummary") }, next: nullableText }),
  TurnSummary: objectWith({
    turnId: text,
    verb: { enum: ["chat", "step"] },
    engine: text,
    acceptedAt: countType,
    base: countType,
    status: { enum: [...turnStatuses] },
    step: countType,
    end: {
      oneOf: [
        { type: "null" },
        objectWith({ haltedReason: text, outcome: objectWith({ type: text }), steps: countType, usage: ref("Usage") }),
      ],
    },
    failure: { oneOf: [{ type: "null" }, ref("Failure")] },
    limitWait,
  }),
  Timeline: objectWith({
    turn: ref("TurnSummary"),
    now: countType,
    claims: {
      type: "array",
      items: objectWith({ owner: text, epoch: countType, since: countType, takesOver: flag }),
    },
    effects: { type: "array", items: ref("TimelineEffect") },
    next: nullableCount,
    isJournalRemoved: flag,
  }),
  TimelineEffect: objectWith(
    {
      ordinal: countType,
      effectId: nullableText,
      kind: { enum: ["model", "tool", "code", "checkpoint", "environment", "cancel", "failure", "restart"] },
      step: countType,
      name: nullableText,
      toolCallId: nullableText,
      state: { enum: ["ok", "failed", "waits", "halted", "cancelled", "superseded"] },
      startedAt: nullableCount,
      firstAt: nullableCount,
      endedAt: nullableCount,
      owner: nullableText,
      epoch: countType,
      attempt: countType,
      usage: { oneOf: [{ type: "null" }, ref("Usage")] },
      text,
      failure: { oneOf: [{ type: "null" }, ref("Failure")] },
      discarded: {
        type: "array",
        items: objectWith({
          reason: { enum: ["crash", "retry"] },
          epoch: countType,
          startedAt: nullableCount,
          endedAt: nullableCount,
          failure: { oneOf: [{ type: "null" }, ref("Failure")] },
        }),
      },
      children: { type: "array", items: objectWith({ sessionId: text, turnId: nullableText }) },
    },
    "A row of the journal. Times are in milliseconds since 1970-01-01 UTC; null in rows of older releases.",
  ),
  EffectDetail: objectWith({
    ordinal: countType,
    effect: {},
    item: data,
    epoch: countType,
    attempt: countType,
    timing: { oneOf: [{ type: "null" }, data] },
    records: { type: "array", items: objectWith({ name: text, value: {} }) },
  }),
  WorkerList: objectWith({
    items: {
      type: "array",
      items: objectWith({
        owner: text,
        self: flag,
        turns: countType,
        leases: {
          type: "array",
          items: objectWith({
            tenant: text,
            sessionId: text,
            turnId: text,
            epoch: countType,
            expiresAt: countType,
            since: nullableCount,
            tookOverFrom: nullableText,
          }),
        },
      }),
    },
  }),
  ScenarioStarted: objectWith({ sessionId: text }),
  Overview: objectWith(
    {
      from: countType,
      until: countType,
      bucketMs: countType,
      buckets: { type: "array", items: objectWith({ at: countType, ...overviewSum }) },
      total: objectWith(overviewSum),
      engines: { type: "array", items: objectWith({ name: text, ...overviewSum }) },
      tenants: { type: "array", items: objectWith({ name: text, ...overviewSum }) },
      tools: {
        type: "array",
        items: objectWith({ name: text, calls: countType, failed: countType, duration: quantiles }),
      },
    },
    "Sums over the turns that ended in a period.",
  ),
  SearchHitList: objectWith({
    items: {
      type: "array",
      items: objectWith({
        sessionId: text,
        title: nullableText,
        position: countType,
        role: { enum: ["system", "user", "assistant", "tool", "event"] },
        excerpt: text,
        matches: { type: "array", items: { type: "array", items: countType, minItems: 2, maxItems: 2 } },
      }),
    },
  }),
  Health: objectWith({ status: { enum: ["ok"] } }),
} as const satisfies { readonly [name: string]: JsonObject };

/** The responses of routes that start a turn (routes/turn-answer.ts). */
export const turnAnswers: { readonly [status: string]: ResponseDescription } = {
  200: {
    description: "A stream of events if the client accepts `text/event-stream`; otherwise the result of the turn.",
    content: { "text/event-stream": ref("Event"), "application/json": ref("TurnEnd") },
  },
  202: jsonAnswer("The turn was accepted and has not ended. `Location` is its URL.", ref("TurnAccepted")),
};
