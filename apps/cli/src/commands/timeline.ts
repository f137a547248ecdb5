// Builds the timeline of a turn from its record (the journal) and its stored events: which model calls, tool calls and notes belong to which step,
// in order. Pure data; timeline-text.ts renders it. `everturn show --json` prints it, so its field names are part of the command's output format.

import type { Json, JsonObject, Message, TurnOutcome, Usage } from "everturn";
import type { ShownCall } from "everturn/model";
import type { RuntimeEvent, TurnRecord } from "everturn/runtime";

import { messageText } from "everturn/model";

export type Timeline = {
  readonly turnId: string;
  readonly acceptedAt: number;
  /** The messages and decisions that started the turn. */
  readonly input: readonly string[];
  readonly steps: readonly TimelineStep[];
  /** `null`: the turn is open. */
  readonly end: {
    readonly haltedReason: string;
    readonly outcome: TurnOutcome;
    readonly steps: number;
    readonly usage: Usage;
  } | null;
  /** Whether the retention time of the journal has passed, so that steps cannot be shown. */
  readonly isJournalGone: boolean;
};

export type TimelineStep = { readonly number: number; readonly items: readonly TimelineItem[] };

export type TimelineItem =
  | {
      readonly type: "model";
      readonly model: string;
      readonly usage: Usage;
      readonly durationMs: number;
      readonly text: string;
      readonly finishReason: string | null;
      readonly failure: string | null;
      /** The number of the attempt, from 1. */
      readonly attempt: number;
      /** The lease epoch; it increases when another process takes the turn over. */
      readonly epoch: number;
    }
  | { readonly type: "tool"; readonly call: TimelineCall }
  | { readonly type: "code"; readonly durationMs: number; readonly said: string }
  /** `again`: a retry, reset or takeover; `heard`: input that arrived during the turn; `ended`: a cancel, limit or failure. */
  | { readonly type: "note"; readonly kind: "again" | "heard" | "ended"; readonly text: string };

export type TimelineCall = {
  readonly name: string;
  /** The arguments the tool ran with, or was called with if it did not run. */
  readonly arguments: JsonObject;
  /** For a call that waits: what runs if it is approved, if that is not the call itself. Otherwise `null`. */
  readonly shown: ShownCall | null;
  readonly state: "ok" | "failed" | "waits" | "asked" | "halted" | "cancelled";
  readonly said: string;
  readonly durationMs: number | null;
  readonly attempt: number;
  readonly epoch: number;
};

type Row = TurnRecord["data"]["rows"][number];

/** Builds the timeline of a turn. */
export function timelineOf({ data }: TurnRecord, events: readonly RuntimeEvent[]): Timeline {
  const { rows, start, history, end } = data;
  const steps = new Map<number, TimelineItem[]>();
  const addTo = (step: number, item: TimelineItem) => steps.set(step, [...(steps.get(step) ?? []), item]);
  let step = 0;
  let epoch = rows[0]?.epoch ?? 0;
  for (const row of rows) {
    step = stepOf(row) ?? step;
    if (row.epoch !== epoch) addTo(step, { type: "note", kind: "again", text: "another process continued from here" });
    epoch = row.epoch;
    for (const item of itemsOf(row)) addTo(step, item);
  }
  for (const { step: at, text } of unrecordedAttempts(events)) addTo(at, { type: "note", kind: "again", text });
  return {
    turnId: data.turnId,
    acceptedAt: start.acceptedAt,
    input: [...history.slice(-1), ...start.messages].flatMap(inputText).concat(start.answers.map(answerText)),
    steps: [...steps].toSorted(([a], [b]) => a - b).map(([number, items]) => ({ number, items })),
    end,
    isJournalGone: rows.length === 0 && end !== null,
  };
}

/** The step of a journal row, from its effect id `turn/step/…`; `null`: the row belongs to the current step. */
function stepOf({ effect }: Row): number | null {
  if (effect === null) return null;
  const { id }: { readonly id?: unknown } = JSON.parse(effect);
  const match = typeof id === "string" ? /\/(\d+)\/(?:model|tool|code)/.exec(id) : null;
  return match === null ? null : Number(match[1]);
}

function itemsOf({ item, effect, attempt, epoch }: Row): readonly TimelineItem[] {
  switch (item.type) {
    case "cancel":
      return [{ type: "note", kind: "ended", text: "cancelled" }];
    case "failure":
      return [{ type: "note", kind: "ended", text: `failed: ${item.failure.message}` }];
    case "step_restarted":
      return [{ type: "note", kind: "again", text: `step ${item.step + 1} was restarted` }];
    case "response":
      break;
  }
  const { response } = item;
  switch (response.type) {
    case "model_replied": {
      const { reply, durationMs } = response;
      const model = modelOf(reply.route) ?? reply.model ?? "model";
      const text = reply.outputText ?? "";
      const failure = reply.error?.message ?? null;
      const { usage, finishReason } = reply;
      return [{ type: "model", model, usage, durationMs, text, finishReason, failure, attempt, epoch }];
    }
    case "model_failed": {
      const { failure, partial } = response.error;
      const partialText = partial?.outputText ?? "";
      const { spent: usage, durationMs } = response;
      const message = failure.message;
      return [
        {
          type: "model",
          model: "model",
          usage,
          durationMs,
          text: partialText,
          finishReason: "error",
          failure: message,
          attempt,
          epoch,
        },
      ];
    }
    case "tool_returned": {
      const { outcome, durationMs, ranArguments } = response;
      const { name, arguments: args } = callOf(effect);
      const call = { name, arguments: ranArguments ?? args, shown: null, ...stateOf(outcome) };
      return [{ type: "tool", call: { ...call, durationMs, attempt, epoch } }];
    }
    case "tool_waits": {
      const said = response.question ?? response.reason;
      const call = { ...callOf(effect), shown: response.shown, state: "waits", said, durationMs: null } as const;
      return [{ type: "tool", call: { ...call, attempt, epoch } }];
    }
    case "code_finished":
      return [
        { type: "code", durationMs: response.durationMs, said: response.error ?? response.observations.join(" ") },
      ];
    case "code_calls":
      return [
        {
          type: "code",
          durationMs: response.durationMs,
          said: `calls ${response.calls.map(({ name }) => name).join(", ")}`,
        },
      ];
    case "code_failed":
      return [{ type: "code", durationMs: response.durationMs, said: response.message }];
    case "checkpoint_delivered": {
      const { delivery, verdict } = response;
      const messages = [...delivery.messages, ...delivery.transientMessages].map(messageText);
      const causes = delivery.turnCauses.map(({ eventType, text }) => `${eventType}: ${text}`);
      const stops =
        verdict.type === "budget" ? [`budget of ${verdict.budget}`] : verdict.type === "go_on" ? [] : [verdict.type];
      return [
        ...[...messages, ...causes].map((text): TimelineItem => ({ type: "note", kind: "heard", text })),
        ...stops.map((text): TimelineItem => ({ type: "note", kind: "ended", text: `stopped: ${text}` })),
      ];
    }
    case "environment_synced":
      return response.environment === null
        ? []
        : [{ type: "note", kind: "heard", text: "model, instructions or tools changed" }];
    case "environment_failed":
      return [{ type: "note", kind: "ended", text: `failed: ${response.message}` }];
  }
}

/** The model as `provider:model`. */
function modelOf(route: Reply["route"]): string | null {
  if (route === null) return null;
  const { provider, model } = route;
  return model.startsWith(`${provider}:`) ? model : `${provider}:${model}`;
}

type Reply = NonNullable<NonNullable<TurnRecord["data"]["end"]>["finalResponse"]>;

type ToolResponse = Extract<
  Extract<Row["item"], { readonly type: "response" }>["response"],
  { readonly type: "tool_returned" }
>;

function stateOf(outcome: ToolResponse["outcome"]): Pick<TimelineCall, "state" | "said"> {
  switch (outcome.type) {
    case "success":
      return { state: "ok", said: valueText(outcome.value) };
    case "failure":
      return { state: "failed", said: outcome.failure.message };
    case "cancelled":
      return { state: "cancelled", said: outcome.message };
    case "ask_user":
      return { state: "asked", said: outcome.question };
    case "halt":
      return { state: "halted", said: outcome.reason };
  }
}

function valueText(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}

function callOf(effect: string | null): Pick<TimelineCall, "name" | "arguments"> {
  const { call }: { readonly call?: { readonly name?: Json; readonly arguments?: JsonObject | null } } =
    effect === null ? {} : JSON.parse(effect);
  return { name: String(call?.name ?? "tool"), arguments: call?.arguments ?? {} };
}

/** The text of a user message or a tool result; empty for other messages. */
function inputText(message: Message): readonly string[] {
  if (message.role === "user") return [messageText(message)];
  return message.role === "tool" ? [`${message.name ?? "a tool"}: ${messageText(message)}`] : [];
}

function answerText(answer: TurnRecord["data"]["start"]["answers"][number]): string {
  const { name } = answer.call;
  return answer.type === "result" ? `${name} was answered` : `${name}: ${answer.decision.type}`;
}

/** Resets and retries. Failed attempts have no journal row of the turn; only events report them. */
function unrecordedAttempts(
  events: readonly RuntimeEvent[],
): readonly { readonly step: number; readonly text: string }[] {
  let step = 0;
  return events.flatMap(({ event }) => {
    if (event.type === "step_completed") step += 1;
    if (event.type === "step_reset") return [{ step, text: `started again (${event.reason})` }];
    if (event.type === "retry_scheduled")
      return [{ step, text: `retried after ${event.delayMs} ms: ${event.error.message}` }];
    return [];
  });
}
