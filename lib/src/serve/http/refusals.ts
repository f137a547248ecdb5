// Reports of refused requests and internal errors, for programs that set no `onRefused` and no `onError`: one line to
// `console.warn`. Clients can cause refusals at will, so their lines are limited.

import type { Clock } from "../../core/clock/clock.ts";

import { toCause } from "../../core/model/internal.ts";
import { oneLine } from "../../durable/internal.ts";
import { HttpError } from "./failure.ts";

/** A request that was refused because of its caller or a limit (`onRefused`). */
export type RefusedRequest = {
  readonly status: number;
  /** The reason of the response, for example `forbidden`. */
  readonly reason: string;
  /** The message of the response. */
  readonly message: string;
  readonly method: string;
  /** The path without the query. */
  readonly path: string;
};

/** The statuses that are reported: others tell the client what is wrong with its request. */
const reported: ReadonlySet<number> = new Set([401, 403, 413, 429]);

/** Calls `onRefused` for the errors that it receives. */
export function refusalReporter(
  onRefused: (refused: RefusedRequest) => void,
): (error: unknown, request: Request, status: number) => void {
  return (error, { method, url }, status) => {
    if (!(error instanceof HttpError) || !reported.has(status)) return;
    const { reason, message } = error;
    try {
      onRefused({ status, reason, message, method, path: new URL(url).pathname });
    } catch {
      // A log must not change the response.
    }
  };
}

const linesPerPeriod = 10;
const periodMs = 60_000;

/** Writes a line for each refused request, at most ten in a minute. */
export function refusalWarner(clock: Clock): (refused: RefusedRequest) => void {
  let [until, count] = [0, 0];
  return ({ status, message, method, path }) => {
    const now = clock.now();
    if (now >= until) {
      if (count > linesPerPeriod) console.warn(`everturn: ${count - linesPerPeriod} more requests were refused`);
      [until, count] = [now + periodMs, 0];
    }
    count += 1;
    if (count <= linesPerPeriod)
      console.warn(oneLine(`everturn: ${method} ${path.slice(0, 200)} was refused (${status}): ${message}`));
  };
}

/** Writes a line for an internal error. */
export function warnOfError(error: unknown, request: Request | null): void {
  const where = request === null ? "" : ` of ${request.method} ${new URL(request.url).pathname.slice(0, 200)}`;
  console.warn(oneLine(`everturn: internal error${where}: ${toCause(error)?.message ?? String(error)}`));
}
