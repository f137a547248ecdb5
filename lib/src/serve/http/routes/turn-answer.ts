// How a request that starts a turn is answered. The client chooses one of three forms:
//   `Accept: text/event-stream`   a stream of the turn's events, then a frame `end` with its result
//   `Prefer: wait=n` (RFC 7240)   200 with the result if the turn ends within n seconds, else 202
//   otherwise                     202 at once with `Location`, where the turn can be read
//
// Invariants
//   1. Permits for the turn and for the stream or the wait are acquired before the turn starts: a request that gets 429
//      has started nothing.
//   2. The turn permit is released when the turn ends, not when the response ends. The stream permit is released with
//      the response.
//   3. The turn continues whatever happens to the response (H6).
//   4. A result is rendered in a page permit, which is acquired after the wait. That of a turn that has ended before
//      the request, which a repeated request finds by its idempotency key, is also read in it, and not before the
//      client of a stream has read all events.

import type { Cancelled } from "../../../core/model/internal.ts";
import type { RuntimeEvent, TurnEnd, TurnHandle } from "../../../durable/internal.ts";
import type { LargeText } from "../large-text.ts";
import type { SseSource } from "../sse.ts";
import type { Streamed } from "./permits.ts";
import type { PermittedCall, ResponseHeaders, Route, RouteCall } from "./route.ts";

import { startTimer } from "../../../core/clock/timer.ts";
import { hasRedaction } from "../../../core/engine/internal.ts";
import { RuntimeError } from "../../../core/model/internal.ts";
import { turnOperations } from "../../contract/internal.ts";
import { HttpError, redactedText } from "../failure.ts";
import { frame, onAbort } from "../sse.ts";
import { inPagePermit, inStreamPermit, inTurnPermit, streamed } from "./permits.ts";
import { json } from "./route.ts";

/** Starts a turn with `start` and answers in the form that the client asked for. */
export async function driveTurn(call: PermittedCall, start: () => Promise<TurnHandle>): Promise<Response> {
  const form = responseForm(call);
  const started = () => inTurnPermit(call, () => startTurn(call, start));
  if (form.type === "stream") return inStreamPermit(call, async () => turnStream(call, await started()));
  const { waitMs } = form;
  const wait = async () => startedResponse(call, await started(), waitMs);
  return waitMs > 0 ? inStreamPermit(call, wait) : wait();
}

/** A turn that a request has started, or found under its key. `isOpen`: it has not ended yet. */
type StartedTurn = { readonly turn: TurnHandle; readonly isOpen: boolean };

/**
 * Starts a turn in a page permit: the verb reads the row of the session, which has the text of the newest answer. A
 * request that is repeated under a key finds its turn, which may have ended.
 */
async function startTurn(call: PermittedCall, start: () => Promise<TurnHandle>): Promise<StartedTurn> {
  return inPagePermit(call, async () => {
    const turn = await start();
    return { turn, isOpen: call.key === null || (turn.isOpen ?? (await isTurnOpen(call, turn))) };
  });
}

function turnStream(call: PermittedCall, { turn, isOpen }: StartedTurn): Streamed {
  return streamed(turnSource(call, turn, { isOpen }), turnHeaders(call, turn));
}

type ResponseForm = { readonly type: "stream" } | { readonly type: "json"; readonly waitMs: number };

/** The result of the turn if it ends within `waitMs` milliseconds, otherwise its ids. */
async function startedResponse(call: PermittedCall, { turn, isOpen }: StartedTurn, waitMs: number): Promise<Response> {
  const { sessionId, turnId } = turn;
  if (!isOpen && waitMs > 0) await call.pagePermit();
  // Without a turn id no turn was started (calls are still pending), and the result is available at once.
  const end = turnId === null ? await turn.result : await waitForResult(call, turn.result, waitMs);
  const headers = turnHeaders(call, turn);
  const allHeaders = waitMs > 0 ? { ...headers, "preference-applied": `wait=${waitMs / 1000}` } : headers;
  if (end === null) return json({ sessionId, turnId }, 202, allHeaders);
  await call.pagePermit();
  return json(end, 200, allHeaders);
}

/**
 * Whether a driver may still add events to the turn: it is open, or a queued message will start it. A parked turn gets
 * none until `recover`. Throws 404 if there is no such session.
 */
export async function isTurnOpen(
  { sessions }: Pick<RouteCall, "sessions">,
  { sessionId, turnId }: Pick<TurnHandle, "sessionId" | "turnId">,
): Promise<boolean> {
  const view = await sessions.get(sessionId, { messages: 0 });
  if (view === null) throw noSession(sessionId);
  const { openTurn, queuedTurns } = view;
  if (turnId === null) return false;
  return queuedTurns.includes(turnId) || (openTurn?.turnId === turnId && openTurn.status !== "parked");
}

/** The error for a session that does not exist in the caller's tenant. */
export function noSession(id: string): RuntimeError {
  return new RuntimeError("not_found", { message: `there is no session ${JSON.stringify(id)}` });
}

/** The ids of the turn and its location. Ids are percent-encoded, since header values are limited to ASCII. */
export function turnHeaders({ base }: Pick<RouteCall, "base">, { sessionId, turnId }: TurnHandle): ResponseHeaders {
  const session = encodeURIComponent(sessionId);
  if (turnId === null) return { "everturn-session": session };
  const turn = encodeURIComponent(turnId);
  return {
    location: `${base}/sessions/${session}/turns/${turn}`,
    "everturn-session": session,
    "everturn-turn": turn,
  };
}

/**
 * The events of a turn, followed by a frame `end` with its result. `isOpen`: the turn has not ended yet, and its driver
 * may fail.
 */
export function turnSource(
  call: PermittedCall,
  turn: TurnHandle,
  { events = turn.events, isOpen }: { readonly events?: AsyncIterable<RuntimeEvent>; readonly isOpen: boolean },
): SseSource<RuntimeEvent> {
  const finalFrames = async () => {
    if (isOpen) await turn.result;
    return inPagePermit(call, async () => endFrame(await turn.result));
  };
  return { events, render: eventFrame, finalFrames, ...(isOpen ? { failWith: turn.result } : {}) };
}

/**
 * An event as a frame. The SSE id is the event's cursor: a client that reconnects with `Last-Event-ID` resumes after
 * it.
 */
export function eventFrame({ cursor, turnId, sequence, delta, event }: RuntimeEvent): string | LargeText {
  const data = { turnId, sequence, delta, event };
  // Text deltas are the most frequent events and contain no failures, so they skip the redaction.
  return frame(delta === null || hasRedaction() ? redactedText(data, "event") : JSON.stringify(data), { id: cursor });
}

function endFrame(end: TurnEnd): string | LargeText {
  return frame(redactedText(end, "event"), { event: "end" });
}

/** The responses of a route that cancels a turn. */
export const cancelAnswers: Route["answers"] = turnOperations.cancel.answers.responses;

/** Waits for the end of a cancelled turn, without a stream permit: a cancel must work when all permits are taken. */
export async function cancelResponse(call: PermittedCall, cancelled: Promise<Cancelled>): Promise<Response> {
  const outcome = (await waitForResult(call, cancelled, call.limits.waitSeconds * 1000)) ?? "stored";
  return json({ result: outcome }, outcome === "stored" ? 202 : 200);
}

/**
 * Waits up to `ms` milliseconds for a result. Returns `null` when the time is over, the process shuts down or the
 * client disconnects, and rejects with 401 when the key of the request is not valid any more. Releases the permit of
 * the `requests` limit first, because a waiting request costs no processing time.
 */
async function waitForResult<T>(
  { server: { shutdownSignal, clock }, request, validity: { ended }, releaseRequestPermit }: PermittedCall,
  result: Promise<T>,
  ms: number,
): Promise<T | null> {
  // After a `null` no code awaits the result; a rejection must not become an unhandled one.
  result.catch(() => undefined);
  ended?.throwIfAborted();
  if (ms === 0 || shutdownSignal?.aborted === true || request.signal.aborted) return null;
  releaseRequestPermit();
  const cleanups: (() => void)[] = [];
  const timeout = new Promise<null>((resolve, reject) => {
    if (ended !== null) cleanups.push(onAbort(ended, () => reject(ended.reason)));
    cleanups.push(startTimer(clock, ms, () => resolve(null)));
    for (const signal of [shutdownSignal, request.signal])
      if (signal !== null) cleanups.push(onAbort(signal, () => resolve(null)));
  });
  try {
    return await Promise.race([result, timeout]);
  } finally {
    for (const cleanup of cleanups) cleanup();
  }
}

/**
 * The result of a turn, or 202 if it has not ended within the time that the client asked for. The permit of a wait is
 * one of the stream limits.
 */
export async function turnResponse(call: PermittedCall, turn: TurnHandle): Promise<Response> {
  const { sessionId, turnId } = turn;
  const isOpen = await inPagePermit(call, () => isTurnOpen(call, turn));
  const waitMs = isOpen ? preferredWaitMs(call) : 0;
  const respond = async () => {
    // The permit is acquired after the wait: an open turn may take minutes.
    if (!isOpen) await call.pagePermit();
    const end = isOpen ? await waitForResult(call, turn.result, waitMs) : await turn.result;
    if (end === null) return json({ sessionId, turnId }, 202);
    await call.pagePermit();
    return json(end);
  };
  return waitMs > 0 ? inStreamPermit(call, respond) : respond();
}

/**
 * The `wait` preference of the request (RFC 7240, section 4.3) in milliseconds, at most `waitSeconds`. 0 if there is
 * none.
 */
function preferredWaitMs({ request, limits }: RouteCall): number {
  const seconds = /(?:^|,)\s*wait\s*=\s*"?(\d{1,6})"?\s*(?:$|[,;])/i.exec(request.headers.get("prefer") ?? "")?.[1];
  return Math.min(Number(seconds ?? 0), limits.waitSeconds) * 1000;
}

/** Content negotiation (RFC 9110, section 12.5.1). */
function responseForm(call: RouteCall): ResponseForm {
  const accept = call.request.headers.get("accept") ?? "*/*";
  const stream = accepts(accept, "text/event-stream");
  // A stream needs its exact type: most HTTP clients send `*/*` by default and cannot read a stream.
  if (stream === "named") return { type: "stream" };
  if (accepts(accept, "application/json") === "no") {
    throw new HttpError("not_acceptable", "this route returns text/event-stream or application/json");
  }
  return { type: "json", waitMs: preferredWaitMs(call) };
}

/**
 * Whether an `Accept` header names a media type, matches it by a wildcard, or excludes it. A quality of 0 excludes a
 * range.
 */
function accepts(accept: string, type: string): "named" | "anything" | "no" {
  const [family = ""] = type.split("/");
  let match: "anything" | "no" = "no";
  for (const range of accept.toLowerCase().split(",")) {
    const [name = "", ...parameters] = range.split(";").map((part) => part.trim());
    if (parameters.some((parameter) => /^q=0(?:\.0*)?$/.test(parameter))) continue;
    if (name === type) return "named";
    if (name === "*/*" || name === `${family}/*` || name === "") match = "anything";
  }
  return match;
}
