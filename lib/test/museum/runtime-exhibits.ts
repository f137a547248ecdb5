// The samples of the rows of the durable runtime: a value of every table; open and ended turns with their journals; and
// the state of each turn after every journal row.

import type { JournalRow, StoredValues, TurnStart } from "../../src/durable/rows/values.ts";
import type { EffectResponse, Turn, TurnInput, TurnMachineConfig } from "everturn/advanced";
import type { JsonObject, Message } from "everturn";
import type { TurnRecord } from "everturn/runtime";
import type { Cancellation } from "../../src/core/kernel/internal.ts";
import type { JournalItem, Pinned } from "../../src/core/run/internal.ts";
import { advance, cancelTurn, canonicalJson, failTurn, kernelRevision, pendingEffects, startHistory, startTurn, storableTurn, callDecision, codeCalls, toolWaits } from "../../src/core/kernel/internal.ts";
import type { SuspendedCell } from "../../src/core/model/internal.ts";
import { noUsage, runtimeFailure } from "../../src/core/model/internal.ts";


import { chatProtocol, checkpointDelivered, codeFinished, codeProtocol, modelReplied, toolReturned, turnInput, adapterFailure, modelReply, storedVersion, toolCall, toolSpec, usage, jsonSchema } from "everturn/advanced";
import { assistant, newSession, user } from "everturn";

import { configOf } from "../../src/core/run/plan/pinned.ts";
import { sha256 } from "../../src/durable/rows/digest.ts";
import { writeValue } from "../../src/durable/rows/stored.ts";
import { exhibits } from "./exhibits.ts";

const spent = usage({ inputTokens: 12, outputTokens: 5 });
const weather = toolSpec({
  name: "weather",
  description: "Tells the weather.",
  schema: { type: "object" },
  replay: "safe",
});
const pay = toolSpec({ name: "pay", description: "Pays.", schema: { type: "object" }, needsApproval: true });
const sign = toolSpec({ name: "sign", description: "Signs.", schema: { type: "object" }, manual: true });

const chatting: Pinned = {
  environment: {
    instructions: "Be brief.",
    model: "claude",
    tools: [weather, pay, sign],
    providerTools: [],
    params: { temperature: 0 },
  },
  policy: {
    syncEnvironment: false,
    startCheckpoint: false,
    maxTurns: 8,
    maxContextTokens: 200_000,
    turnLimitFinalMessage: "That was the last one.",
    structuredFinalize: null,
  },
  protocol: { type: "chat", mode: "auto", onUnknownTool: "error", stopAfter: null, onEmptyReply: "complete" },
  projector: null,
  limits: { budgets: {}, toolTimeout: 60_000, cancelGraceMs: 50, maxConcurrency: null, maxToolCalls: null, maxToolResultLength: 100_000, onToolError: "continue" },
};
const syncing: Pinned = { ...chatting, policy: { ...chatting.policy, syncEnvironment: true } };
const hooked: Pinned = { ...chatting, policy: { ...chatting.policy, startCheckpoint: true } };
const finalizing: Pinned = {
  ...chatting,
  policy: {
    ...chatting.policy,
    structuredFinalize: { format: jsonSchema("answer", { type: "object" }), nudge: "As JSON, please." },
  },
};
const coding: Pinned = {
  ...chatting,
  protocol: { type: "code", language: "javascript", requireFinish: false, stopAfter: null, onEmptyReply: "error" },
  limits: {
    budgets: { steps: 9, tokens: 1000, cost: 2, timeMs: 60_000, noProgress: 3 },
    toolTimeout: null,
    cancelGraceMs: 7,
    maxConcurrency: 2,
    maxToolCalls: 7,
    maxToolResultLength: 100_000,
    onToolError: null,
  },
};

const guessing: Pinned = {
  ...chatting,
  protocol: { type: "own", name: "guess", version: 3, termination: { word: "rain" }, stopAfter: "step" },
  projector: { name: "short", version: 2 },
};

const call = (name: string, place: number, args: JsonObject = {}) =>
  toolCall({ id: `c${place}`, name, arguments: args });
const reply = (text: string, names: readonly string[] = []) => {
  const toolCalls = names.map((name, place) => call(name, place, { place }));
  const finishReason = names.length > 0 ? "tool_calls" : "stop";
  const message = assistant(text, { toolCalls, finishReason });
  return modelReply({ message, outputText: text, toolCalls, finishReason, usage: spent, model: "claude-1" });
};
const says =
  (text: string, names: readonly string[] = []) =>
  (id: string) =>
    modelReplied(id, reply(text, names));
const note = { name: "guardrails", attempt: 2, action: "blocked", details: { stage: "after" } };
const returns = (value: string) => (id: string) =>
  toolReturned(id, { type: "success", value, control: null }, { content: value, middleware: [note] });
const delivers =
  (...messages: readonly Message[]) =>
  (id: string) =>
    checkpointDelivered(id, { messages, inputs: messages.map((_, place) => `i${place}`) });
const syncs =
  (environment: Pinned["environment"] | null) =>
  (id: string): EffectResponse => ({ type: "environment_synced", id, environment });

const executor = { name: "quickjs", version: "1" };
const waitingCell: SuspendedCell = {
  id: "t0/0/cell",
  language: "javascript",
  code: "print(await sign({ place: 0 }))",
  executor,
  environment: chatting.environment,
  calls: [{ call: call("sign", 0, { place: 0 }), answer: { type: "success", value: "signed", control: null } }],
  ranMs: 1250,
};
const cancelled: Cancellation = {
  evidence: { requestId: "t1", origin: "Ada", reason: "enough" },
  received: assistant("It is"),
  usage: spent,
};

type Answer = readonly [effect: string, response: (id: string) => EffectResponse];
type SampleTurn = {
  readonly name: string;
  readonly pinned: Pinned;
  readonly history: readonly Message[];
  readonly begins?: Partial<Pick<TurnInput, "answers" | "cell" | "messages" | "turnCauses">>;
  readonly items: readonly (Answer | Exclude<JournalItem, { readonly type: "response" }>)[];
};

const asked = [user("What is the weather?")];
const consented = [...asked, assistant("", { toolCalls: [call("pay", 0, { place: 0 })], finishReason: "tool_calls" })];
const stories: readonly SampleTurn[] = [
  { name: "nothing yet", pinned: chatting, history: asked, items: [] },
  {
    name: "tools, input, another environment",
    pinned: syncing,
    history: asked,
    items: [
      ["0/environment", syncs(null)],
      ["0/model", says("Let me look.", ["weather", "weather"])],
      ["0/tool/1", returns("21 °C")],
      ["0/tool/0", returns("19 °C")],
      ["1/after_work", delivers(user("And tomorrow?", { id: "m7" }))],
      ["1/environment", syncs({ ...chatting.environment, instructions: "Be very brief.", tools: [weather] })],
      ["1/model", says("Warm.")],
    ],
  },
  {
    name: "an end that waits for people",
    pinned: chatting,
    history: asked,
    items: [
      ["0/model", says("", ["weather", "pay", "sign"])],
      ["0/tool/1", (id) => toolWaits(id, "approval")],
    ],
  },
  {
    name: "an approved call",
    pinned: chatting,
    history: consented,
    begins: {
      answers: [
        callDecision(
          call("pay", 0, { place: 0 }),
          { type: "approve", arguments: { place: 1 }, by: "Ada" },
          "t0/0/tool/0",
        ),
      ],
    },
    items: [],
  },
  {
    name: "an approved call, and input of beforeTurn that waits for it",
    pinned: hooked,
    history: consented,
    begins: {
      answers: [callDecision(call("pay", 0, { place: 0 }), { type: "approve", arguments: null, by: "Ada" }, "t0/0/tool/0")],
    },
    items: [
      ["0/before_turn", (id) => checkpointDelivered(id, { messages: [user("Today is Monday.")] })],
      ["0/tool/0", returns("paid")],
      ["1/after_work", delivers()],
    ],
  },
  {
    name: "aborted by a hook",
    pinned: hooked,
    history: asked,
    items: [
      [
        "0/before_turn",
        (id) =>
          checkpointDelivered(id, {
            verdict: { type: "abort", evidence: { requestId: "t1", origin: "hook", reason: "the account is locked" } },
          }),
      ],
    ],
  },
  {
    name: "the answer in a schema",
    pinned: finalizing,
    history: asked,
    items: [
      ["0/model", says("Warm.")],
      ["0/before_completion", delivers()],
    ],
  },
  {
    name: "code",
    pinned: coding,
    history: asked,
    items: [
      ["0/model", says("Let me see.\n```javascript\nprint(await weather({ place: 0 }))\n```")],
      ["0/code/0", (id) => codeCalls(id, [call("weather", 0, { place: 0 })], executor, { ranMs: 340 })],
      ["0/cell/0", returns("21 °C")],
      ["0/code/1", (id) => codeFinished(id, { observations: ["21 °C"] })],
    ],
  },
  {
    name: "a cell that waited",
    pinned: coding,
    history: [...asked, assistant(`\`\`\`javascript\n${waitingCell.code}\n\`\`\``)],
    begins: { cell: waitingCell },
    items: [],
  },
  {
    name: "something that happened elsewhere",
    pinned: chatting,
    history: [...asked, assistant("Warm.")],
    begins: {
      turnCauses: [
        {
          id: "w1",
          eventType: "mail.received",
          origin: { type: "plugin", pluginId: "mail", transient: false },
          text: "You have mail.",
        },
      ],
    },
    items: [["0/model", says("So I see.")]],
  },
  { name: "cancelled", pinned: chatting, history: asked, items: [{ type: "cancel", cancellation: cancelled }] },
  {
    name: "broken by a function of the program",
    pinned: chatting,
    history: asked,
    items: [
      ["0/model", says("", ["weather"])],
      { type: "failure", failure: runtimeFailure("callback_failed", { message: "haltWhen threw" }) },
    ],
  },
];

/** A recorded turn: its journal, and its state after every row. */
type Walked = { readonly record: TurnRecord; readonly states: readonly Turn[] };

const turnId = "t1";

async function walk({ pinned, history, begins = {}, items }: SampleTurn): Promise<Walked> {
  const config = machineConfig(pinned);
  const rows: JournalRow[] = [];
  let { turn } = startTurn(config, turnInput(turnId, { history, ...begins }));
  const states = [stored(turn)];
  for (const one of items) {
    const item: JournalItem = "type" in one ? one : { type: "response", response: one[1](`${turnId}/${one[0]}`) };
    const effect = pendingEffects(turn).find(({ id }) => item.type === "response" && id === item.response.id);
    if (item.type === "response" && effect === undefined)
      throw new Error(`no effect is pending with the id ${item.response.id}: ${pendingTexts(turn).join()}`);
    const text = effect === undefined ? null : canonicalJson(effect);
    const startedAt = 1000 * rows.length;
    const timing = { startedAt, firstAt: null, endedAt: startedAt + 500, owner: "one", heldSince: 0, takesOver: false };
    rows.push({ effect: text, hash: text === null ? null : await sha256(text), item, epoch: 1, attempt: 1, timing });
    turn = accepted(config, turn, item);
    states.push(stored(turn));
  }
  const start = await startOf(pinned, history, begins);
  const protocolEvents = [{ protocol: "guess", event: { guess: "snow" } }];
  const data = { sessionId: "s1", turnId, history, protocolEvents, start, pinned, context: { userId: 42 }, rows, end: null };
  return { record: { everturn: "turn_record", version: storedVersion, data }, states };
}

/** The configuration of the machine for a turn of the session `s1`. */
export function machineConfig(pinned: Pinned): TurnMachineConfig {
  const { protocol } = pinned;
  const protocolDriver = protocol.type === "code" ? codeProtocol(protocol) : chatProtocol(protocol.type === "chat" ? protocol : {});
  return { ...configOf(pinned, null, "s1"), protocolDriver };
}

/** A JSON copy, which shares no object with the original. */
function stored(turn: Turn): Turn {
  return JSON.parse(JSON.stringify(storableTurn(turn)));
}

export function accepted(config: TurnMachineConfig, turn: Turn, item: JournalItem): Turn {
  switch (item.type) {
    case "response": {
      const step = advance(config, turn, item.response);
      if (step.status !== "accepted") throw new Error(`${item.response.id} was ${step.status}`);
      return step.turn;
    }
    case "cancel":
      return cancelTurn(config, turn, item.cancellation).turn;
    case "failure":
      return failTurn(config, turn, item.failure).turn;
  }
}

async function startOf(pinned: Pinned, history: readonly Message[], begins: SampleTurn["begins"] = {}): Promise<TurnStart> {
  const { length, digest } = startHistory(history);
  const given = { answers: [], cell: null, messages: [], turnCauses: [], ...begins };
  return {
    verb: "chat",
    engine: "default",
    options: { temperature: 0, waits: { approval: { afterMs: 60_000, onTimeout: "fail_turn" } } },
    context: { userId: 7 },
    startedBy: ["ada"],
    revision: kernelRevision,
    base: length,
    digest,
    protocolEvents: 1,
    pinned: await sha256(canonicalJson(pinned)),
    ...given,
    inputs: given.messages.map((_, place) => `i${place}`),
    spentBefore: spent,
    contextWindow: null,
    acceptedAt: 1_700_000_000_000,
    trace: { traceId: "4bf92f3577b34da6a3ce929d0e0e4736", parentId: "00f067aa0ba902b7", flags: 1, tracestate: "a=1" },
  };
}

const walked = await Promise.all(stories.map(walk));

/** Turns with their journals. Most of them are open. */
export const records: readonly TurnRecord[] = walked.map(({ record }) => record);

/** The states of these turns, and the pending effects of each. */
export const turnStates = walked.flatMap(({ states, record: { data } }) =>
  states.map((turn, place) => ({
    version: storedVersion,
    pinned: data.pinned,
    turn,
    pending: pendingTexts(turn),
    place,
  })),
);

export function pendingTexts(turn: Turn): readonly string[] {
  return pendingEffects(turn).map((effect) => canonicalJson(effect));
}

const [event] = exhibits.event;
if (event === undefined) throw new Error("the museum is empty");
const settles = { effectId: "t1/0/model", epoch: 4, n: 2 };
const failure = runtimeFailure("diverged", { message: "row 2 was recorded for another effect", paths: ["call.name"] });
const progress = { committed: 4, sequence: 9, step: 1, takeovers: 2, discarded: 3, end: null, endedAt: null, failure: null } as const;
const sum = {
  turns: 3,
  outcomes: { completed: 1, waiting: 0, failed: 1, cancelled: 0, parked: 1, limited: 0 },
  inputTokens: 120,
  cachedInputTokens: 20,
  outputTokens: 40,
  nanoCost: 1_500_000,
  takeovers: 1,
  duration: [30, 2, 41, 1],
  firstContent: [12, 3],
} as const;
const rollup = {
  engines: [{ name: "default", ...sum }],
  tools: [{ name: "pay", calls: 2, failed: 1, duration: [0, 1, 9, 1] }],
  tenants: [],
} as const;
const input = { id: "i1", turn: null, epoch: null, at: 1_700_000_000_000, ownTurn: null } as const;

/** One or more values of every table. */
export const storedRows: { readonly [T in keyof StoredValues]: readonly StoredValues[T][] } = {
  frames: [{ id: "t1/2/frame", to: 3, summary: "They talked about order 17.", pinned: [0], undoneAt: 1_790_000_000_000 }],
  sessions: [
    ...exhibits.session.map((one) => ({
      session: { ...one, thread: { ...one.thread, messages: [] } },
      engine: "default",
      owner: "ada",
      startedBy: ["ada", "key:0123456789abcdef"],
      length: one.thread.messages.length,
      digest: startHistory(one.thread.messages).digest,
      turn: "t1",
      lastTurn: "t0",
      sequence: 7,
      createdAt: 1_700_000_000_000,
      changedAt: 1_700_000_000_001,
      title: "Refund of order 17",
      attention: "parked" as const,
      deleted: false,
    })),
    {
      session: newSession({ id: "s1" }),
      engine: null,
      owner: null,
      startedBy: [],
      length: 0,
      digest: startHistory([]).digest,
      turn: null,
      lastTurn: null,
      sequence: 7,
      createdAt: 1,
      changedAt: 2,
      title: null,
      attention: null,
      deleted: true,
    },
  ],
  entries: exhibits.message,
  starts: records.map(({ data }) => data.start),
  turns: [
    { ...progress, status: "queued", committed: 0 },
    { ...progress, status: "running" },
    { ...progress, status: "parked", failure },
    ...exhibits.chat_result.map(({ haltedReason, outcome, finalResponse, steps, usage: cost, metadata }) => ({
      ...progress,
      status: "ended" as const,
      end: { haltedReason, outcome, finalResponse, steps: steps.length, usage: cost, metadata: { ...metadata } },
      endedAt: 1_700_000_000_002,
    })),
  ],
  contents: [chatting, syncing, finalizing, coding, guessing],
  journal: [
    ...records.flatMap(({ data }) => data.rows),
    { effect: null, hash: null, item: { type: "step_restarted", from: 3, step: 1 }, epoch: 0, attempt: 1, timing: null },
  ],
  records: [
    {
      failure: adapterFailure("timeout", { provider: "anthropic" }),
      usage: spent,
      shown: false,
      heard: true,
      reply: null,
      resumed: true,
    },
    { provider: "openai", model: "gpt-5.4", reference: { endpoint: "https://api.openai.com/v1", responseId: "resp_1" } },
    { delayMs: 500, dueAt: 1_700_000_000_500 },
    { type: "ready", arguments: { place: 0 } },
    { type: "waits" },
    { epoch: 4, policy: "never", name: "pay", arguments: { place: 0 } },
    chatting,
  ],
  inbox: [
    { ...input, input: { type: "message", message: user("And tomorrow?") }, state: "pending" },
    {
      ...input,
      input: { type: "message", message: user("Stop. Do this.") },
      state: "pending",
      ownTurn: { id: "t2", engine: "default", options: { maxTurns: 3 }, context: { userId: 8 }, startedBy: ["bob"], interrupts: true, trace: null, pinned: chatting },
    },
    { ...input, input: { type: "transient", message: user("Hurry.") }, state: "claimed", turn: "t1", epoch: 4 },
    {
      ...input,
      input: {
        type: "cause",
        cause: {
          id: "w1",
          eventType: "mail.received",
          origin: { type: "plugin", pluginId: "mail", transient: false },
          text: "You have mail.",
        },
      },
      state: "pending",
    },
  ],
  accepted: [
    { digest: "d1", state: "pending", turn: null },
    { digest: "d2", state: "taken", turn: "t1" },
    { digest: "d3", state: "cancelled", turn: null },
  ],
  cancels: [{ evidence: cancelled.evidence, at: 1_700_000_000_000 }],
  events: exhibits.event.map((one, index) => ({
    turn: "t1",
    ordinal: 2,
    index,
    settles: index === 0 ? settles : null,
    event: one,
  })),
  ledger: [
    { source: "model", model: "claude-1", usage: spent },
    { source: "tool", model: null, usage: spent },
    { source: "cancelled", model: null, usage: noUsage },
  ],
  work: [
    { turn: "t3", onTimeout: "error_as_result" },
    { turn: "t1", onTimeout: "error_as_result" },
    { turn: "t1", onTimeout: "fail_turn" },
  ],
  tokens: [
    { tenant: "", session: "s1", call: "c0", digest: "d1", answers: ["result", "approve", "deny"], usedAt: null },
    { tenant: "acme", session: "s1", call: "c1", digest: "d2", answers: ["answer"], usedAt: 1_700_000_000_000 },
  ],
  open: [
    { turn: "t1", engine: "default", due: 1_700_000_000_000, limitKey: null, limit: null },
    {
      turn: "t2",
      engine: "default",
      due: 1_700_000_000_000,
      limitKey: "user-7",
      limit: { type: "admitted", slots: [{ scope: "tenant:acme", number: 3 }] },
    },
    {
      turn: "t3",
      engine: "default",
      due: 1_700_000_000_000,
      limitKey: "user-7",
      limit: { type: "waiting", scope: 'key:["acme","user-7"]', since: 1_700_000_000_000 },
    },
  ],
  slots: [{ tenant: "acme", session: "s1", turn: "t2" }],
  leases: [{ owner: "process-1", ttlMs: 30_000, released: false, process: "linux/0f8a/4026531836/4026531834/77/1234", since: 1_700_000_000_000, tookOverFrom: "process-0", alone: true }],
  pieces: [
    {
      effectId: "t1/0/model",
      epoch: 4,
      n: 2,
      after: 7,
      items: [
        { part: "text/0", offset: 3, event: { type: "text_delta", id: null, delta: "ny" } },
        { part: null, offset: 0, event },
      ],
    },
  ],
  keys: [
    {
      digest: "d1",
      name: "ada",
      tenant: null,
      scopes: null,
      engines: null,
      operator: false,
      context: {},
      createdAt: 1_700_000_000_000,
      revokedAt: null,
    },
    {
      digest: "d2",
      name: "mia",
      tenant: "acme",
      scopes: ["read", "decide"],
      engines: ["default"],
      operator: true,
      context: { user: 1 },
      createdAt: 1_700_000_000_000,
      revokedAt: 1_700_000_000_001,
    },
  ],
  audit: [
    { action: "approve", actor: "mia", tenant: "acme", session: "s1", target: "c0", digest: "d1" },
    { action: "key_revoke", actor: null, tenant: "", session: null, target: null, digest: null },
  ],
  rollup_lines: [rollup],
  rollups: [rollup, { ...rollup, tenants: [{ name: "acme", ...sum }] }],
};

export const rowTables = Object.keys(storedRows).filter((name): name is keyof StoredValues => name in storedRows);

/** The values in their stored form. */
export function writtenRows<T extends keyof StoredValues>(table: T): readonly unknown[] {
  return storedRows[table].map((value): unknown => JSON.parse(writeValue(table, value)));
}
