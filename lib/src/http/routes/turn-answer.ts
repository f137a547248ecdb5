// How a turn that was accepted is answered: as a stream of what happens in it, as what it came to, for those who wait, or as where to look.

import type { RuntimeEvent, TurnEnd, TurnHandle } from "../../runtime/internal.ts";
import type { SseSource } from "../sse.ts";
import type { Call } from "./route.ts";

import { startTimer } from "../../clock/timer.ts";
import { HttpError, told } from "../failure.ts";
import { frame, onAbort } from "../sse.ts";
import { json, orLeave } from "./route.ts";

/** Begins a turn, and answers with it. A tenant has only so many turns and streams open at a time: places for both are taken first. */
export async function drive(call: Call, begin: () => Promise<TurnHandle>): Promise<Response> {
  const answerAs = wanted(call);
  const leaveTurn = call.door.enterTurn(call.caller);
  return orLeave(leaveTurn, async () => {
    const place = answerAs.type === "stream" || answerAs.waitMs > 0 ? call.door.enterStream(call) : null;
    return orLeave(
      () => place?.leave(),
      async () => {
        const turn = await begin();
        turn.result.then(leaveTurn, leaveTurn);
        const headers = turnHeaders(call, turn);
        if (place !== null && answerAs.type === "stream") return place.answer(turnSource(turn), headers);
        const answer = await answerLater(call, turn, headers, answerAs.type === "json" ? answerAs.waitMs : 0);
        place?.leave();
        return answer;
      },
    );
  });
}

type Wanted = { readonly type: "stream" } | { readonly type: "json"; readonly waitMs: number };

async function answerLater(call: Call, turn: TurnHandle, headers: Headings, waitMs: number): Promise<Response> {
  const { sessionId, turnId } = turn;
  // Where nothing was begun there is nothing to wait for: how the session stands is known.
  const end = turnId === null ? await turn.result : await within(call, turn.result, waitMs);
  const all = waitMs > 0 ? { ...headers, "preference-applied": `wait=${waitMs / 1000}` } : headers;
  return end === null ? json({ sessionId, turnId }, 202, all) : json(end, 200, all);
}

type Headings = { readonly [name: string]: string };

/** Where the turn is, for those who come back. */
function turnHeaders({ door }: Call, { sessionId, turnId }: TurnHandle): Headings {
  const session = encodeURIComponent(sessionId);
  if (turnId === null) return { "everturn-session": session };
  const turn = encodeURIComponent(turnId);
  return {
    location: `${door.base}/sessions/${session}/turns/${turn}`,
    "everturn-session": session,
    "everturn-turn": turn,
  };
}

/** What a turn says, and at the end what it came to. */
export function turnSource(
  turn: TurnHandle,
  events: AsyncIterable<RuntimeEvent> = turn.events,
): SseSource<RuntimeEvent> {
  return { events, of: turn.result, render: eventFrame, last: async () => endFrame(await turn.result) };
}

/** An event as a frame; its cursor is the id, so whoever reconnects goes on behind it. */
export function eventFrame({ cursor, turnId, sequence, delta, event }: RuntimeEvent): string {
  const shown = { turnId, sequence, delta, event };
  // Pieces of text come by the thousand, and have no failures in them.
  return frame(delta === null ? told(shown) : JSON.stringify(shown), { id: cursor });
}

function endFrame(end: TurnEnd): string {
  return frame(told(end), { event: "end" });
}

/** What something came to, if that is known in time; `null`: it is not, or the process stops, or whoever asked has gone. Takes no place among the requests. */
export async function within<T>(
  { door: { stopping, clock }, request, rest }: Call,
  result: Promise<T>,
  ms: number,
): Promise<T | null> {
  // Whatever comes of it when nobody waits any more is nobody's loss.
  result.catch(() => undefined);
  if (ms === 0 || stopping?.aborted === true || request.signal.aborted) return null;
  rest();
  const unwatch: (() => void)[] = [];
  const late = new Promise<null>((resolve) => {
    unwatch.push(startTimer(clock, ms, () => resolve(null)));
    for (const signal of [stopping, request.signal])
      if (signal !== null) unwatch.push(onAbort(signal, () => resolve(null)));
  });
  try {
    return await Promise.race([result, late]);
  } finally {
    for (const stop of unwatch) stop();
  }
}

/** The same, in a place among the streams that is taken for it. */
export async function waited<T>(call: Call, result: Promise<T>, ms: number): Promise<T | null> {
  const place = ms === 0 ? null : call.door.enterStream(call);
  try {
    return await within(call, result, ms);
  } finally {
    place?.leave();
  }
}

/** How long the caller would wait for an answer. */
export function waitFor({ request, door }: Call): number {
  const wait = /(?:^|,)\s*wait\s*=\s*"?(\d{1,6})"?\s*(?:$|[,;])/i.exec(request.headers.get("prefer") ?? "")?.[1];
  return Math.min(Number(wait ?? 0), door.limits.waitSeconds) * 1000;
}

/** What the caller would like: a stream, or JSON, perhaps after waiting. */
function wanted(call: Call): Wanted {
  const accept = call.request.headers.get("accept") ?? "*/*";
  const stream = accepts(accept, "text/event-stream");
  // Only who asks for a stream by its name gets one: `*/*` is what everybody says.
  if (stream === "named") return { type: "stream" };
  if (accepts(accept, "application/json") === "no") {
    throw new HttpError("not_acceptable", "this is answered as text/event-stream or application/json");
  }
  return { type: "json", waitMs: waitFor(call) };
}

function accepts(accept: string, type: string): "named" | "anything" | "no" {
  const [family = ""] = type.split("/");
  let found: "anything" | "no" = "no";
  for (const range of accept.toLowerCase().split(",")) {
    const [name = "", ...parameters] = range.split(";").map((part) => part.trim());
    if (parameters.some((one) => /^q=0(?:\.0*)?$/.test(one))) continue;
    if (name === type) return "named";
    if (name === "*/*" || name === `${family}/*` || name === "") found = "anything";
  }
  return found;
}
