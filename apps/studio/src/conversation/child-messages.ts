// The messages of a child agent, from the rows of its journal: a child has no conversation of its own in the session.
// Reads the rows of the child turn and of the earlier turns of its conversation, which ended to wait for an answer.

import type { CallTime, CallTimes } from "./message-row.tsx";
import type { Failure, Json, Message } from "everturn";
import type { EffectDetail, TimelineEffect } from "everturn/advanced";
import type { Inspector } from "everturn/client";

import { parse } from "everturn";
import { effectRequest } from "everturn/advanced";
import { readTimeline } from "everturn/client";

import { field, isReply } from "../inspector/effect-parts.ts";
import { isObject } from "../parts/json.ts";
import { isInnerTurn } from "../timeline/turns.ts";
import { callTimes } from "./use-selection.ts";

/** A message of a child and the row that recorded it, or the failure of a row. */
export type ChildEntry = { readonly turnId: string; readonly ordinal: number } & (
  | { readonly type: "message"; readonly message: Message }
  | { readonly type: "failure"; readonly failure: Failure }
);

export type Transcript = {
  /** The call in which the child ran; `null`: its turn does not list the child. */
  readonly call: {
    readonly turnId: string;
    /** The row of the call; while it runs, the row of the reply that made it. */
    readonly ordinal: number;
    readonly name: string;
    readonly arguments: Json;
  } | null;
  readonly entries: readonly ChildEntry[];
  readonly times: CallTimes;
  /** The ids of the calls of the newest reply that run now. */
  readonly running: readonly string[];
  /** Rows after those that were read. */
  readonly rest: number;
  /** Whether rows may follow. */
  readonly isOpen: boolean;
};

/** How many rows are read at the same time. */
const readsAtOnce = 4;

/** What rows have added to a conversation, by the turn and the number of the row. Rows never change. */
export type KnownEntries = Map<string, readonly ChildEntry[]>;

/**
 * Reads the first `count` rows with messages of a child turn and of those before it in its conversation, except rows
 * that are `known`, to which they are added.
 */
export async function readTranscript(
  inspector: Inspector,
  sessionId: string,
  turnId: string,
  count: number,
  known: KnownEntries,
): Promise<Transcript> {
  const end = turnId.lastIndexOf("/");
  const turnIds = Array.from(
    { length: Number(turnId.slice(end + 1)) + 1 },
    (_, index) => `${turnId.slice(0, end)}/${index}`,
  );
  const timelines = await Promise.all(turnIds.map(async (id) => readTimeline(inspector, sessionId, id)));
  const rows = timelines.flatMap(({ turn, effects }) =>
    effects.filter(isShown).map((effect) => ({ turnId: turn.turnId, effect })),
  );
  const entries: ChildEntry[] = [];
  for (let from = 0; from < Math.min(count, rows.length); from += readsAtOnce) {
    const group = rows.slice(from, Math.min(from + readsAtOnce, count));
    const found = await Promise.all(
      group.map(async ({ turnId: id, effect }) => {
        const key = `${id} ${effect.ordinal}`;
        const row = known.get(key) ?? entryOf(id, effect, await inspector.effect(sessionId, id, effect.ordinal));
        known.set(key, row);
        return row;
      }),
    );
    entries.push(...found.flat());
  }
  const newest = timelines.at(-1);
  return {
    call: await readCall(inspector, sessionId, turnId),
    entries,
    running: newest?.open.flatMap(({ toolCallId }) => toolCallId ?? []) ?? [],
    times: new Map(timelines.flatMap((timeline): [string, CallTime][] => [...callTimes(timeline)])),
    rest: Math.max(0, rows.length - count),
    isOpen: newest?.turn.status !== "ended",
  };
}

/** Whether a row is part of the conversation: a reply, the result of a tool, or a failure. */
function isShown(effect: TimelineEffect): boolean {
  return isReply(effect) || hasResult(effect) || (effect.failure !== null && effect.state !== "superseded");
}

function hasResult({ kind, state }: TimelineEffect): boolean {
  return kind === "tool" && state !== "waits" && state !== "superseded";
}

/** What a row adds to the conversation. The row is JSON of the server, so what is no message is left out. */
export function entryOf(turnId: string, effect: TimelineEffect, { item }: EffectDetail): readonly ChildEntry[] {
  const { ordinal, toolCallId, failure } = effect;
  const response = field(item, "response");
  const value = hasResult(effect) ? toolMessageOf(response, toolCallId) : field(field(response, "reply"), "message");
  const message = isObject(value) ? parse("message", value) : null;
  if (message?.ok === true) return [{ turnId, ordinal, type: "message", message: message.value }];
  return failure === null ? [] : [{ turnId, ordinal, type: "failure", failure }];
}

/** The message that answers a call, as the model reads it; `null`: the response is no result. */
function toolMessageOf(response: Json, toolCallId: string | null): Json {
  const content = field(response, "content");
  const outcome = field(response, "outcome");
  if (content === null || toolCallId === null) return null;
  const type = field(outcome, "type");
  return {
    role: "tool",
    toolCallId,
    content,
    status: type === "success" || type === "cancelled" ? type : "failure",
    code: field(field(outcome, "failure"), "code"),
    ranArguments: field(response, "ranArguments"),
  };
}

/** Finds the call in which a child ran, and its arguments. */
async function readCall(inspector: Inspector, sessionId: string, turnId: string): Promise<Transcript["call"]> {
  const parent = parentTurn(turnId);
  const { effects, open } = await readTimeline(inspector, sessionId, parent);
  const hasChild = ({ children }: Pick<TimelineEffect, "children">): boolean =>
    children.some((child) => child.turnId === turnId);
  const running = open.find(hasChild);
  if (running !== undefined) {
    const reply = effects.findLast(isReply);
    if (reply === undefined) return null;
    const detail = await inspector.effect(sessionId, parent, reply.ordinal);
    const { name, toolCallId } = running;
    return { turnId: parent, ordinal: reply.ordinal, name, arguments: argumentsOfCall(detail, toolCallId) };
  }
  const effect = effects.find(hasChild);
  if (effect === undefined) return null;
  const detail = await inspector.effect(sessionId, parent, effect.ordinal);
  const request = effectRequest(detail);
  const { ordinal, name } = effect;
  return { turnId: parent, ordinal, name: name ?? "tool", arguments: field(request, "arguments") ?? request };
}

/** The arguments of a call as its reply has them; `null`: the reply does not have the call. */
function argumentsOfCall({ item }: EffectDetail, toolCallId: string | null): Json {
  const calls = field(field(field(item, "response"), "reply"), "toolCalls");
  const call = Array.isArray(calls) ? calls.find((other: Json) => field(other, "id") === toolCallId) : undefined;
  return call === undefined ? null : field(call, "arguments");
}

/**
 * The turn in which a child turn runs. The id of a child is that of the call, `child`, and three numbers; the id of the
 * call begins with that of its turn.
 */
export function parentTurn(turnId: string): string {
  const call = turnId.replace(/\/child\/\d+\/\d+\/\d+$/, "");
  const nested = /^.*\/child\/\d+\/\d+\/\d+/.exec(call)?.[0];
  if (nested !== undefined && isInnerTurn(nested)) return nested;
  return call.slice(0, call.indexOf("/"));
}
