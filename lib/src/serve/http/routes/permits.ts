// Takes and releases the permits of a request: of the pages in memory, the streams and the open turns.
//
// Invariants
//   1. What throws 429 is acquired before anything is started. If it throws, what was acquired before is released.
//   2. The permit of a turn is released when the turn ends, not when the response ends; that of a stream with the
//      response.

import type { TurnHandle } from "../../../durable/internal.ts";
import type { SseSource } from "../sse.ts";
import type { PermittedCall, Respond, ResponseHeaders } from "./route.ts";

/** A stream of events as a response, before it has a permit. */
export type Streamed = (respond: Respond) => Response;

/** Events and the headers of their response. */
export function streamed<T>(source: SseSource<T>, headers: ResponseHeaders = {}): Streamed {
  return (respond) => respond(source, headers);
}

/** Runs `work` in a page permit of its own, for reads before a wait. */
export async function inPagePermit<T>({ server, request, caller }: PermittedCall, work: () => Promise<T>): Promise<T> {
  const release = await server.acquirePage({ request, caller });
  try {
    return await work();
  } finally {
    release();
  }
}

/** Runs `work`; if it rejects, releases the permit that was acquired for it and rethrows. */
export async function releaseOnError<T>(release: () => void, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    release();
    throw error;
  }
}

/** Runs `work` in a permit of the streams, which is released when the response has ended. */
export async function inStreamPermit(call: PermittedCall, work: () => Promise<Response | Streamed>): Promise<Response> {
  const permit = call.server.acquireStream(call);
  return releaseOnError(permit.release, async () => {
    const result = await work();
    if (!(result instanceof Response)) return result(permit.respond);
    permit.release();
    return result;
  });
}

/** Starts a turn in a permit of the open turns, which is released when the turn has ended. `isOpen`: it has not yet. */
export async function inTurnPermit<Started extends { readonly turn: TurnHandle; readonly isOpen?: boolean }>(
  call: PermittedCall,
  start: () => Promise<Started>,
): Promise<Started> {
  const release = call.server.acquireTurn(call.caller);
  const started = await releaseOnError(release, start);
  const { turn, isOpen = true } = started;
  if (isOpen) turn.result.then(release, release);
  else release();
  return started;
}

/** Runs `work`, which has no session, in a permit of the open turns, which is released when the response has ended. */
export async function inRunPermit(
  call: PermittedCall,
  work: () => Promise<Response | Streamed>,
): Promise<Response | Streamed> {
  const release = call.server.acquireTurn(call.caller);
  const result = await releaseOnError(release, work);
  if (!(result instanceof Response)) return whenClosed(result, release);
  release();
  return result;
}

/** The stream with a function that is called when its response has ended. */
function whenClosed(stream: Streamed, closed: () => void): Streamed {
  return (respond) =>
    stream((source, headers) => {
      const onClose = () => {
        source.onClose?.();
        closed();
      };
      return respond({ ...source, onClose }, headers);
    });
}
