// The JSON Schemas of results, for the OpenAPI document. The compiler checks that each describes its type, and
// openapi.test.ts that every operation returns what it describes. Responses may have more fields than a schema lists.
// Separate from results.ts, because clients do not need them.

import type { Results } from "./results.ts";
import type { Described } from "./schema.ts";

import { knownHaltedReasons, pendingReasons, sessionStatuses } from "../../core/model/internal.ts";
import { turnStatuses } from "../../core/model/parse/reading.ts";
import { scopes } from "./operation.ts";
import { resultRef } from "./results.ts";
import { about, anyObject, anything, count, decimal, flag, list, orNull, record, text, words } from "./schema.ts";

const failure = orNull(resultRef("Failure"));
const usage = resultRef("Usage");
const limitWait = orNull(record({ limit: words(["engine", "tenant", "key"]), since: count }));
const forkedFrom = about(
  orNull(record({ sessionId: text, at: count })),
  "The session that this one was forked from, and the number of messages that were copied; null if it is no fork.",
);
const frame = record(
  { id: text, to: count, summary: orNull(text), pinned: list(count), undoneAt: orNull(count) },
  "A summary that stands for the messages before `to` in requests, except those at the positions `pinned`; undone: requests contain the messages again.",
);
const tokenAmount = record({ tokens: count, source: words(["counted", "estimated"]) });
const typed = record({ type: text });
/** Quantiles of durations, in milliseconds. */
const children = list(record({ sessionId: text, turnId: orNull(text) }));
const quantiles = record({ "p50 p95 p99": orNull(count) });
/** The fields of a sum over turns. */
const overviewSum = {
  turns: count,
  outcomes: { schema: { type: "object", additionalProperties: count.schema } },
  "inputTokens cachedInputTokens outputTokens": count,
  cost: decimal,
  takeovers: count,
  "duration firstContent": quantiles,
};

/** The JSON Schemas of the results. */
export const resultSchemas: { readonly [N in keyof Results]: Described<Results[N]> } = {
  UserMessage: {
    schema: {
      type: "object",
      description: "A user message: a text, or parts of type text, image and file.",
      properties: {
        role: { const: "user" },
        content: { oneOf: [text.schema, list(anyObject).schema] },
        id: orNull(text).schema,
      },
      required: ["role", "content"],
    },
  },
  Message: record({
    role: text,
    content: { schema: { oneOf: [text.schema, { type: "array" }, { type: "null" }] } },
  }),
  Usage: record({ "inputTokens outputTokens totalTokens": orNull(count) }),
  PendingToolCall: record({ "id name": text, reason: words(pendingReasons) }),
  Failure: record({ "type reason message": text }, "A failure. `reason` is a member of a closed list for each `type`."),
  Error: record({ error: resultRef("Failure") }),
  SessionSummary: record({
    id: text,
    "title engine owner": orNull(text),
    startedBy: list(text),
    status: words(sessionStatuses),
    "version length": count,
    pendingToolCalls: list(resultRef("PendingToolCall")),
    pendingQuestion: orNull(text),
    usage,
    metadata: anyObject,
    turnId: orNull(text),
    turnStatus: orNull(words(turnStatuses)),
    limitWait,
    forkedFrom,
    "createdAt changedAt": count,
  }),
  Compaction: record({ frame: orNull(frame), requested: orNull(record({ instructions: orNull(text) })) }),
  FramePage: record({ items: list(frame), next: orNull(text) }),
  SessionPage: record({ items: list(resultRef("SessionSummary")), next: orNull(text) }),
  MessagePage: record({ items: list(resultRef("Message")), next: orNull(text) }),
  SessionView: record({
    session: record({ status: words(sessionStatuses), thread: anyObject }),
    "version length": count,
    owner: orNull(text),
    startedBy: list(text),
    openTurn: orNull(
      record({
        turnId: text,
        status: words(turnStatuses),
        step: count,
        engine: text,
        base: count,
        failure: anything,
        limitWait,
      }),
    ),
    queuedTurns: list(text),
    forkedFrom,
  }),
  SessionId: record({ id: text }),
  LedgerSum: record({ total: usage, lines: list(anyObject) }),
  Recovered: record({ pickedUp: count, usable: flag, mayRunTwice: list(text) }),
  TurnAccepted: record({ "sessionId turnId": text }, "The turn was accepted and has not ended."),
  TurnEnd: record(
    {
      turnId: orNull(text),
      status: words(["ended", "parked", "waiting"]),
      text,
      output: about(
        anything,
        "The structured output, validated with the schema of the option `output`; null without one.",
      ),
      haltedReason: about(text, `${knownHaltedReasons.join(", ")}, or a reason set by a tool.`),
      outcome: typed,
      steps: count,
      usage,
      failure,
      session: resultRef("SessionSummary"),
    },
    "The result of a turn.",
  ),
  Event: record(
    { turnId: text, sequence: { schema: { type: ["integer", "null"] } }, delta: anything, event: typed },
    "The data of a frame; the id of the frame is the cursor. A turn ends with a frame `end` (data: TurnEnd). If reading fails, the stream ends with a frame `failure` (data: Error).",
  ),
  TurnRecord: record({ everturn: { schema: { const: "turn_record" } }, version: count, data: anyObject }),
  CancelAnswer: record({ result: words(["cancelled", "completion_won", "nothing_open", "stored"]) }),
  SteerAnswer: record({ "inputId turnId": text }),
  WithdrawAnswer: record({
    result: words(["cancelled", "already_claimed", "already_taken", "already_cancelled", "not_found"]),
  }),
  TokenAnswer: record({ "token sessionId toolCallId": text, expiresInMs: count }),
  CompletionAnswer: record({
    result: words(["completed", "already_completed", "revoked", "expired", "unknown"]),
    "sessionId toolCallId": orNull(text),
  }),
  ServerView: record(
    {
      version: text,
      storage: orNull(text),
      durability: words(["durable", "volatile"]),
      "search operator tenants": flag,
      tenant: text,
      allow: list(text),
      records: flag,
      scenarios: list(record({ "name title description": text })),
    },
    "The server, and what the caller may do there.",
  ),
  EngineList: record({
    items: list(
      record({
        name: text,
        "model instructions": orNull(text),
        tools: list(
          record({
            "name description": text,
            inputSchema: anyObject,
            approval: words(["always", "sometimes", "never"]),
            rerun: text,
          }),
        ),
      }),
    ),
  }),
  TurnPage: record({ items: list(resultRef("TurnSummary")), next: orNull(text) }),
  TurnSummary: record({
    turnId: text,
    verb: words(["chat", "step"]),
    engine: text,
    "acceptedAt base": count,
    status: words(turnStatuses),
    step: count,
    end: orNull(record({ haltedReason: text, outcome: typed, steps: count, usage })),
    failure,
    limitWait,
  }),
  Timeline: record({
    turn: resultRef("TurnSummary"),
    now: count,
    claims: list(record({ owner: text, "epoch since": count, takesOver: flag })),
    effects: list(resultRef("TimelineEffect")),
    open: list(record({ "effectId toolCallId": orNull(text), name: text, children })),
    next: orNull(count),
    isJournalRemoved: flag,
  }),
  TimelineEffect: record(
    {
      ordinal: count,
      effectId: orNull(text),
      kind: words([
        "model",
        "count",
        "compaction",
        "tool",
        "code",
        "checkpoint",
        "environment",
        "cancel",
        "failure",
        "restart",
      ]),
      step: count,
      "name toolCallId": orNull(text),
      state: words(["ok", "failed", "denied", "waits", "halted", "cancelled", "superseded"]),
      "startedAt firstAt endedAt": orNull(count),
      owner: orNull(text),
      "epoch attempt": count,
      usage: orNull(usage),
      text,
      failure,
      discarded: list(
        record({ reason: words(["crash", "retry"]), epoch: count, "startedAt endedAt": orNull(count), failure }),
      ),
      frame: orNull(record({ id: text, "from to": count })),
      children,
    },
    "A row of the journal. Times are in milliseconds since 1970-01-01 UTC; null in rows of older releases.",
  ),
  EffectDetail: record({
    ordinal: count,
    effect: anything,
    item: { schema: anyObject.schema },
    "epoch attempt": count,
    timing: orNull(anyObject),
    records: list(record({ name: text, value: anything })),
  }),
  RequestView: record({
    ordinal: count,
    request: anyObject,
    sent: orNull(record({ path: text, body: anyObject })),
    window: record({
      window: orNull(count),
      reserve: count,
      compactAt: orNull(count),
      input: tokenAmount,
      parts: list(
        record({
          name: words(["instructions", "tools", "summary", "history", "results"]),
          tokens: count,
          source: words(["counted", "estimated"]),
        }),
      ),
      free: orNull(tokenAmount),
    }),
    differences: list(text),
  }),
  WorkerList: record({
    items: list(
      record({
        owner: text,
        self: flag,
        turns: count,
        places: orNull(count),
        leases: list(
          record({
            "tenant sessionId turnId": text,
            "epoch expiresAt": count,
            since: orNull(count),
            tookOverFrom: orNull(text),
          }),
        ),
      }),
    ),
  }),
  ScenarioStarted: record({ sessionId: text }),
  Overview: record(
    {
      "from until bucketMs": count,
      buckets: list(record({ at: count, ...overviewSum })),
      total: record(overviewSum),
      "engines tenants": list(record({ name: text, ...overviewSum })),
      tools: list(record({ name: text, "calls failed": count, duration: quantiles })),
    },
    "Sums over the turns that ended in a period.",
  ),
  SearchHitList: record({
    items: list(
      record({
        sessionId: text,
        title: orNull(text),
        position: count,
        role: words(["system", "user", "assistant", "tool", "event"]),
        excerpt: text,
        matches: { schema: { type: "array", items: { ...list(count).schema, minItems: 2, maxItems: 2 } } },
      }),
    ),
  }),
  StoredKey: record({
    "id name": text,
    tenant: orNull(text),
    scopes: orNull(list(words(scopes))),
    engines: orNull(list(text)),
    operator: flag,
    context: anyObject,
    createdAt: count,
    expiresAt: orNull(count),
    state: words(["valid", "expired", "revoked"]),
  }),
  KeyList: record({ items: list(resultRef("StoredKey")) }),
  NewKey: record({ key: resultRef("StoredKey"), token: text }),
  AuditPage: record({
    items: list(record({ at: count, "id action tenant": text, "actor sessionId target digest": orNull(text) })),
    next: orNull(text),
  }),
  TenantPage: record({ items: list(text), next: orNull(text) }),
  DeletedSessions: record({ "sessions keys": count }),
  Health: record({ status: words(["ok"]) }),
};
