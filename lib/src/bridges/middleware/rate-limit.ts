// A client-side rate limit: at most so many requests and tokens in any 60 seconds, in one process or in all processes
// that share a storage.
//
// Theory of operation
//   The window is a log of what was sent in the last minute: time, requests, tokens. A call is sent when it fits into
//   the window; until then it waits. Before a call its tokens are estimated and reserved; after it the reservation is
//   replaced by the usage that the provider reported. In a storage the log is one row, written by compare-and-swap. All
//   times are the storage's: the row expires, so its expiry and its remaining time give the time at which it was read.
//   Clocks of the processes do not matter.
//
//   The calls of a process wait in one queue for each window, in order of arrival, and only the first of them reads the
//   window. Between processes there is no order.
//
// Invariants
//   1. No 60 seconds contain more requests than the limit, and no more tokens, as far as they were estimated correctly.
//      Entries that are merged to bound the size of the log get the time of the latest one, so merging never allows
//      more.
//   2. A call that is larger than the token limit is sent when the window has no tokens: it would otherwise wait for
//      ever.
//   3. A process that stops after it reserved leaves the reservation, which ends with its minute.
//   4. A window that is not used for an hour is removed, so the number of windows follows from the number of keys in
//      use. A process that adds a window to the storage examines a bounded number of other windows, at a cursor that
//      goes round, and removes those that have expired; in memory, windows are examined when their number has doubled.

import type { Clock } from "../../core/clock/clock.ts";
import type { Middleware, ModelCall, Rules } from "../../core/engine/internal.ts";
import type { ModelRequest, Usage } from "../../core/model/internal.ts";
import type { HostStorage } from "../../durable/rows/internal.ts";

import { anything, checkOptions, numberIn, positive } from "../../core/engine/internal.ts";
import { AdapterError, invalidArgument, parseJson } from "../../core/model/internal.ts";
import { sha256 } from "../../durable/rows/internal.ts";
import { modelOf } from "./call-model.ts";

/** Options of {@link rateLimit}. At least one limit is required. */
type RateLimitOptions = {
  /** Model calls in any 60 seconds. Default: no limit. */
  readonly requestsPerMinute?: number;
  /** Input and output tokens in any 60 seconds. Default: no limit. */
  readonly tokensPerMinute?: number;
  /** Shares the limit between all processes that use this storage. Default: the limit is that of this process. */
  readonly storage?: HostStorage;
  /** The window that a call counts for, as a text. Default: one window for each provider and model. */
  readonly key?: (call: ModelCall) => string;
  /**
   * Estimates the tokens of a call before it is sent. Default: 4 characters a token, 1,000 tokens for an image or a
   * file, and `maxTokens`.
   */
  readonly estimateTokens?: (request: ModelRequest) => number;
  /**
   * A call that would have to wait longer, in milliseconds, fails with `rate_limited`, and the engine's retry policy
   * decides. Default: no limit.
   */
  readonly maxWaitMs?: number;
  /** The name of the middleware. Limits with different names share no windows. Default: `rate_limit`. */
  readonly name?: string;
};

const optionRules: Rules<RateLimitOptions> = {
  requestsPerMinute: numberIn({ least: 1, whole: false }),
  tokensPerMinute: positive,
  storage: anything,
  key: anything,
  estimateTokens: anything,
  maxWaitMs: positive,
  name: anything,
};

const windowMs = 60_000;

/**
 * How long a waiting call sleeps before it reads the window again. Another call may have used fewer tokens than it
 * reserved.
 */
const pollMs = 1000;

/** The log is merged when it has more entries. */
const maxEntries = 240;

/** What was sent, or is about to be sent: time, requests, tokens. */
type Entry = readonly [at: number, requests: number, tokens: number];

/** Changes the window of a key atomically. `now` is the time of the window. */
type Windows = {
  readonly update: <T>(
    key: string,
    clock: Clock,
    change: (entries: readonly Entry[], now: number) => Change<T>,
  ) => Promise<T>;
};
/** `entries` null: nothing changes. */
type Change<T> = { readonly entries: readonly Entry[] | null; readonly result: T };

/**
 * Delays model calls so that no 60 seconds contain more requests or tokens than allowed. A call that waits can be
 * cancelled. Place it after a cache, so that cached replies do not count. Throws `MisuseError` for invalid options.
 *
 * @example
 * ```ts
 * import { chat, engine, fake } from "everturn";
 * import { memoryStorage } from "everturn/runtime";
 * import { rateLimit } from "everturn/middleware";
 *
 * const limit = rateLimit({ requestsPerMinute: 60, tokensPerMinute: 100_000, storage: memoryStorage() });
 * const adapter = fake({ script: [{ type: "text", text: "Hello." }] });
 * const result = await chat(engine({ adapter, model: "fake:m", middleware: [limit] }), "Hi!");
 * result.haltedReason; // => "completed"
 * ```
 */
export function rateLimit(options: RateLimitOptions): Middleware {
  checkOptions("rateLimit", options, optionRules);
  const { requestsPerMinute, tokensPerMinute, storage, key = modelOf, maxWaitMs, name = "rate_limit" } = options;
  const { estimateTokens = estimatedTokens } = options;
  if (requestsPerMinute === undefined && tokensPerMinute === undefined) {
    throw invalidArgument("rateLimit: set requestsPerMinute, tokensPerMinute, or both");
  }
  const limits: Limits = { requests: requestsPerMinute ?? Infinity, tokens: tokensPerMinute ?? Infinity };
  const windows = storage === undefined ? memoryWindows() : storedWindows(storage, name);
  const queues = new Map<string, Promise<unknown>>();

  /** Waits in line, then until the call fits, and reserves its tokens. Returns the time of its entry. */
  async function admit(
    call: ModelCall,
    window: string,
    tokens: number,
  ): Promise<{ readonly at: number; readonly waitedMs: number }> {
    const { clock, signal, provider } = call;
    const startedAt = clock.now();
    const before = queues.get(window);
    const turn = (async () => {
      await before;
      for (;;) {
        signal.throwIfAborted();
        const decision = await windows.update(window, clock, (entries, now) => reserve(entries, now, tokens, limits));
        if (decision.waitMs === 0) return decision.at;
        const waitedMs = clock.now() - startedAt;
        if (maxWaitMs !== undefined && waitedMs + decision.waitMs > maxWaitMs) {
          const message = `the rate limit "${name}" allows the call in ${Math.ceil(decision.waitMs)} ms, which is longer than maxWaitMs`;
          throw new AdapterError("rate_limited", { provider, message, retryAfterMs: Math.ceil(decision.waitMs) });
        }
        // Without a token limit nothing can end the wait earlier.
        const sleepMs = limits.tokens === Infinity ? decision.waitMs : Math.min(decision.waitMs, pollMs);
        await clock.sleep(sleepMs, signal);
      }
    })();
    // The next call in line continues also if this one is cancelled.
    const done = turn.then(
      () => undefined,
      () => undefined,
    );
    queues.set(window, done);
    try {
      return { at: await turn, waitedMs: clock.now() - startedAt };
    } finally {
      if (queues.get(window) === done) queues.delete(window);
    }
  }

  return {
    name,
    async *model(call, next) {
      const window = await windowOf(key(call));
      // A call that is larger than the limit counts as the whole limit until its usage is known; an infinite estimate
      // could not be stored.
      const estimated = limits.tokens === Infinity ? 0 : Math.max(0, Math.ceil(estimateTokens(call.request)) || 0);
      const reserved = Math.min(estimated, Number.MAX_SAFE_INTEGER / maxEntries);
      const { at, waitedMs } = await admit(call, window, reserved);
      if (waitedMs > 0) call.note("waited", { ms: Math.round(waitedMs) });
      let used: number | null = null;
      try {
        for await (const batch of next(call.request)) {
          for (const event of batch) if (event.type === "usage") used = tokensOf(event.usage) ?? used;
          yield batch;
        }
      } finally {
        // Not awaited: the reply is complete, and a reservation that cannot be corrected ends with its minute.
        if (limits.tokens !== Infinity && used !== null && used !== reserved) {
          const difference = used - reserved;
          windows
            .update(window, call.clock, (entries, now) => ({
              entries: corrected(entries, now, at, difference),
              result: null,
            }))
            .catch(() => undefined);
        }
      }
    },
  };
}

/** The name of a window in a storage. A long text is replaced by its digest: storages limit the length of keys. */
async function windowOf(key: string): Promise<string> {
  const text = String(key);
  return text.length <= 200 ? text : sha256(text);
}

type Limits = { readonly requests: number; readonly tokens: number };

/** Adds an entry if it fits; otherwise returns how long it takes until it does. */
function reserve(
  log: readonly Entry[],
  now: number,
  tokens: number,
  limits: Limits,
): Change<{ readonly waitMs: number; readonly at: number }> {
  // An entry from the future is one from before the clock was set back.
  const current = log.filter(([at]) => at > now - windowMs).map(([at, ...rest]): Entry => [Math.min(at, now), ...rest]);
  let requests = 0;
  let used = 0;
  for (const [, count, amount] of current) {
    requests += count;
    used += amount;
  }
  const fits = () => requests + 1 <= limits.requests && (used + tokens <= limits.tokens || used <= 0);
  if (fits()) return { entries: merged([...current, [now, 1, tokens]]), result: { waitMs: 0, at: now } };
  let waitMs = windowMs;
  for (const [at, count, amount] of current) {
    requests -= count;
    used -= amount;
    waitMs = at + windowMs - now;
    if (fits()) break;
  }
  return { entries: null, result: { waitMs: Math.max(1, waitMs), at: now } };
}

/** The log with fewer entries: two neighbours become one, with the time of the later one. */
function merged(log: readonly Entry[]): readonly Entry[] {
  if (log.length <= maxEntries) return log;
  const result: Entry[] = [];
  for (let index = 0; index < log.length; index += 2) {
    const [[at, requests, tokens] = [0, 0, 0], next] = [log[index], log[index + 1]];
    result.push(next === undefined ? [at, requests, tokens] : [next[0], requests + next[1], tokens + next[2]]);
  }
  return result;
}

/**
 * The log with other tokens for the entry of a call: the first entry at or after its time, which may be a merged one,
 * or one of several at that time. Only the sum of such entries counts, so one of them may become negative. `null`: the
 * entry has left the window.
 */
function corrected(log: readonly Entry[], now: number, at: number, difference: number): readonly Entry[] | null {
  const index = at <= now - windowMs ? -1 : log.findIndex((entry) => entry[0] >= at);
  if (index === -1) return null;
  return log.map((entry, position): Entry =>
    position === index ? [entry[0], entry[1], entry[2] + difference] : entry,
  );
}

/** Windows of this process. */
function memoryWindows(): Windows {
  const logs = new Map<string, readonly Entry[]>();
  let sizeAtSweep = minSweepSize;
  return {
    update: (key, clock, change) => {
      const now = clock.now();
      const { entries, result } = change(logs.get(key) ?? [], now);
      if (entries !== null) logs.set(key, entries);
      if (logs.size > sizeAtSweep) {
        for (const [window, log] of logs) if ((log.at(-1)?.[0] ?? 0) <= now - windowMs) logs.delete(window);
        sizeAtSweep = Math.max(minSweepSize, logs.size * 2);
      }
      return Promise.resolve(result);
    },
  };
}

/** Windows in memory are not examined before there are this many. */
const minSweepSize = 1000;

/** How long a window is kept in the storage. It only has to be longer than a minute. */
const rowTtlMs = 60 * 60 * 1000;

/** How many windows are examined when one is added to the storage. */
const sweepRows = 100;

/** Windows in the table `shared`. The tag of a row counts its writes. */
function storedWindows(storage: HostStorage, name: string): Windows {
  const table = "shared";
  const scope = `rate_limit/${name}`;
  /**
   * The window after which the next sweep begins; `null`: at the window that was added, so that processes begin at
   * different places.
   */
  let cursor: string | null = null;

  /** Removes expired windows among the next ones. A window that is used meanwhile stays, by the checks. */
  async function sweep(added: string): Promise<void> {
    const [rows = []] = await storage.read([{ table, prefix: [scope, 0], after: cursor ?? added, limit: sweepRows }]);
    // After the last window the sweep begins again with the first one.
    cursor = rows.length < sweepRows ? "" : String(rows.at(-1)?.key[2] ?? "");
    const expired = rows.filter(({ remainingMs }) => remainingMs !== null && remainingMs <= 0);
    if (expired.length === 0) return;
    const checks = expired.map(({ key, tag, expires }) => ({ table, key, tag, expires }) as const);
    const removals = expired.map(({ key }) => ({ table, prefix: key }) as const);
    await storage.write({ checks, removals, puts: [], lasting: false });
  }

  return {
    update: async (window, clock, change) => {
      const key = [scope, 0, window] as const;
      const put = (tag: number, entries: readonly Entry[]) =>
        ({ table, key, tag, value: JSON.stringify(entries), ttlMs: rowTtlMs }) as const;
      for (let conflicts = 0; ;) {
        const [[row] = []] = await storage.read([{ table, prefix: key }]);
        if (row === undefined) {
          const created = await storage.write({
            checks: [{ table, key, tag: null }],
            removals: [],
            puts: [put(0, [])],
            lasting: false,
          });
          // A sweep that fails is repeated with the next window.
          if (created.ok) await sweep(window).catch(() => undefined);
          continue;
        }
        const now = (row.expires ?? 0) - (row.remainingMs ?? 0);
        const { entries, result } = change(entriesOf(row.value), now);
        if (entries === null) return result;
        const checks = [{ table, key, tag: row.tag }] as const;
        const written = await storage.write({
          checks,
          removals: [],
          puts: [put(row.tag + 1, entries)],
          lasting: false,
        });
        if (written.ok) return result;
        conflicts += 1;
        // Another process was faster. Jitter, so that many of them do not meet again.
        if (conflicts > 2) await clock.sleep(clock.random() * Math.min(200, 5 * conflicts));
      }
    },
  };
}

/** The entries of a row. One that cannot be read is empty: a limit must not stop calls for ever. */
function entriesOf(value: string): readonly Entry[] {
  const parsed = parseJson(value)?.value;
  if (!Array.isArray(parsed)) return [];
  return parsed.flatMap((item: unknown): readonly Entry[] => {
    if (!Array.isArray(item)) return [];
    const [at, requests, tokens]: readonly unknown[] = item;
    const isEntry = typeof at === "number" && typeof requests === "number" && typeof tokens === "number";
    return isEntry ? [[at, requests, tokens]] : [];
  });
}

/** The tokens of a call; `null`: the provider reported none, so the estimate stays. */
function tokensOf({ inputTokens, outputTokens }: Usage): number | null {
  return inputTokens === null && outputTokens === null ? null : (inputTokens ?? 0) + (outputTokens ?? 0);
}

/** A rough number of tokens: 4 characters each, 1,000 for an image or a file, and the longest reply if it is set. */
function estimatedTokens({ messages, tools, maxTokens }: ModelRequest): number {
  let characters = 0;
  let media = 0;
  for (const message of messages) {
    if (typeof message.content === "string") characters += message.content.length;
    else {
      for (const part of message.content) {
        if (part.type === "text") characters += part.text.length;
        else if (part.type === "image" || part.type === "file") media += 1;
      }
    }
    if (message.role !== "assistant") continue;
    for (const call of message.toolCalls)
      characters += (call.rawArguments ?? JSON.stringify(call.arguments ?? {})).length;
  }
  for (const { description, schema } of tools) characters += description.length + JSON.stringify(schema).length;
  return Math.ceil(characters / 4) + media * 1000 + (maxTokens ?? 0);
}
