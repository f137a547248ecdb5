// A turn as a timeline, from its record and what was told of it. Pure: what happened in which step, in order; how it looks is the renderer's.

import type { Json, JsonObject, Message, TurnOutcome, Usage } from "everturn";
import type { RuntimeEvent, TurnRecord } from "everturn/runtime";

import { messageText } from "everturn/model";

export type Timeline = {
  readonly turnId: string;
  readonly acceptedAt: number;
  /** What was said to begin it. */
  readonly input: readonly string[];
  readonly steps: readonly TimelineStep[];
  /** `null` while it is open. */
  readonly end: {
    readonly haltedReason: string;
    readonly outcome: TurnOutcome;
    readonly steps: number;
    readonly usage: Usage;
  } | null;
  /** The journal is not kept for ever. */
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
      /** Which try it was, and in whose hands the turn was. */
      readonly attempt: number;
      readonly epoch: number;
    }
  | { readonly type: "tool"; readonly call: TimelineCall }
  | { readonly type: "code"; readonly durationMs: number; readonly said: string }
  /** `again`: something was done once more; `heard`: something was said to the turn; `ended`: it was stopped, or broke. */
  | { readonly type: "note"; readonly kind: "again" | "heard" | "ended"; readonly text: string };

export type TimelineCall = {
  readonly name: string;
  readonly arguments: JsonObject;
  readonly state: "ok" | "failed" | "waits" | "asked" | "halted" | "cancelled";
  readonly said: string;
  readonly durationMs: number | null;
  readonly attempt: number;
  readonly epoch: number;
};

type Row = TurnRecord["data"]["rows"][number];

export function timelineOf({ data }: TurnRecord, events: readonly RuntimeEvent[]): Timeline {
  const { rows, start, history, end } = data;
  const steps = new Map<number, TimelineItem[]>();
  const into = (step: number, item: TimelineItem) => steps.set(step, [...(steps.get(step) ?? []), item]);
  let step = 0;
  let epoch = rows[0]?.epoch ?? 0;
  for (const row of rows) {
    step = stepOf(row) ?? step;
    if (row.epoch !== epoch) into(step, { type: "note", kind: "again", text: "another process went on from here" });
    epoch = row.epoch;
    for (const item of itemsOf(row)) into(step, item);
  }
  for (const { step: at, text } of toldOf(events)) into(at, { type: "note", kind: "again", text });
  return {
    turnId: data.turnId,
    acceptedAt: start.acceptedAt,
    input: [...history.slice(-1), ...start.messages].flatMap(heard).concat(start.answers.map(answered)),
    steps: [...steps].toSorted(([one], [other]) => one - other).map(([number, items]) => ({ number, items })),
    end,
    isJournalGone: rows.length === 0 && end !== null,
  };
}

/** Effects are named `turn/step/…`; what runs behind a step belongs to the one it is named after. */
function stepOf({ effect }: Row): number | null {
  if (effect === null) return null;
  const { id }: { readonly id?: unknown } = JSON.parse(effect);
  const found = typeof id === "string" ? /\/(\d+)\/(?:model|tool|code)/.exec(id) : null;
  return found === null ? null : Number(found[1]);
}

function itemsOf({ item, effect, attempt, epoch }: Row): readonly TimelineItem[] {
  switch (item.type) {
    case "cancel":
      return [{ type: "note", kind: "ended", text: "cancelled" }];
    case "failure":
      return [{ type: "note", kind: "ended", text: `failed: ${item.failure.message}` }];
    case "step_restarted":
      return [{ type: "note", kind: "again", text: `step ${item.step + 1} was started again` }];
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
      const said = partial?.outputText ?? "";
      const { spent: usage, durationMs } = response;
      const message = failure.message;
      return [
        {
          type: "model",
          model: "model",
          usage,
          durationMs,
          text: said,
          finishReason: "error",
          failure: message,
          attempt,
          epoch,
        },
      ];
    }
    case "tool_returned": {
      const { outcome, durationMs } = response;
      return [{ type: "tool", call: { ...callOf(effect), ...stateOf(outcome), durationMs, attempt, epoch } }];
    }
    case "tool_waits": {
      const said = response.question ?? response.reason;
      return [{ type: "tool", call: { ...callOf(effect), state: "waits", said, durationMs: null, attempt, epoch } }];
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
      const said = [...delivery.messages, ...delivery.transientMessages].map(messageText);
      const causes = delivery.turnCauses.map(({ eventType, text }) => `${eventType}: ${text}`);
      const stops =
        verdict.type === "budget" ? [`budget of ${verdict.budget}`] : verdict.type === "go_on" ? [] : [verdict.type];
      return [
        ...[...said, ...causes].map((text): TimelineItem => ({ type: "note", kind: "heard", text })),
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

/** As a model is named on the command line. */
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
      return { state: "ok", said: said(outcome.value) };
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

function said(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}

function callOf(effect: string | null): Pick<TimelineCall, "name" | "arguments"> {
  const { call }: { readonly call?: { readonly name?: Json; readonly arguments?: JsonObject | null } } =
    effect === null ? {} : JSON.parse(effect);
  return { name: String(call?.name ?? "tool"), arguments: call?.arguments ?? {} };
}

/** What was said to the model last: by the user, or as the result of a call. */
function heard(message: Message): readonly string[] {
  if (message.role === "user") return [messageText(message)];
  return message.role === "tool" ? [`${message.name ?? "a tool"}: ${messageText(message)}`] : [];
}

function answered(answer: TurnRecord["data"]["start"]["answers"][number]): string {
  const { name } = answer.call;
  return answer.type === "result" ? `${name} was answered` : `${name}: ${answer.decision.type}`;
}

/** What is in no row of the journal: attempts that came to nothing. */
function toldOf(events: readonly RuntimeEvent[]): readonly { readonly step: number; readonly text: string }[] {
  let step = 0;
  return events.flatMap(({ event }) => {
    if (event.type === "step_completed") step += 1;
    if (event.type === "step_reset") return [{ step, text: `began again (${event.reason})` }];
    if (event.type === "retry_scheduled")
      return [{ step, text: `tried again after ${event.delayMs} ms: ${event.error.message}` }];
    return [];
  });
}
