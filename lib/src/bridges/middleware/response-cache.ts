// Answers a model call from a storage if the same request was answered before.
//
// The key is a SHA-256 digest of the canonical JSON of the tenant, the request, the provider, its server and the
// settings of the adapter. Left out is what does not reach the model and differs between equal requests: the session,
// ids and metadata of messages, prices and limits of the model.
//
// A reply belongs to the session whose turn caused it: it is a row of that session (table `large`), so that deleting
// the session deletes it. The table `shared` has its place by key, in the period (of the length of the time to live) in
// which it was stored; a place whose reply is gone is a miss. The write checks the lease token that the lookup has
// read, which a deletion increases: a reply that arrives after the deletion is not stored. In a storage other than that
// of the runtime there is neither a lease nor a deletion, and replies stay until they expire. Replies to calls outside
// of a session are in `shared` themselves.
//
// A lookup reads the current period and the one before it. Writes remove expired rows of other periods, at most a few
// pages each, until none is left, so the table does not grow with what has expired. Rows of later periods exist if the
// time to live was shorter before.
//
// A hit costs nothing, with one exception: a process that takes over may find the reply that its predecessor paid for
// and could not record. The entry names the effect and the process that stored it, so that the turn which caused the
// cost is charged for it.
//
// A storage that fails is no reason to fail a call: a failed lookup is a miss, and a reply that could not be stored is
// returned all the same. Both are noted.

import type { Middleware, ModelCall, Rules } from "../../core/engine/internal.ts";
import type { Json, ModelReply } from "../../core/model/internal.ts";
import type { HostStorage, Key, Removal } from "../../durable/rows/internal.ts";

import { anObject, anything, checkOptions, positive } from "../../core/engine/internal.ts";
import { Collector } from "../../core/kernel/internal.ts";
import { canonicalJson, fromTagged, noUsage, parseJson, toTagged } from "../../core/model/internal.ts";
import { isPlainObject } from "../../core/model/parse/reading.ts";
import { sha256 } from "../../durable/rows/internal.ts";
import { modelOf, plainJson } from "./call-model.ts";
import { replyEvents } from "./reply-events.ts";

/**
 * Where {@link responseCache} keeps replies, for a program that has a cache of its own, for example Redis. Values are
 * JSON text. They stay until they expire, also if the session is deleted whose turn has stored them.
 */
export type ReplyStore = {
  /** Returns the value, or `null` if there is none or it has expired. */
  readonly get: (key: string) => Promise<string | null>;
  /** Stores a value for this many milliseconds; `null`: for ever. */
  readonly set: (key: string, value: string, ttlMs: number | null) => Promise<void>;
};

/** Options of {@link responseCache}. */
type ResponseCacheOptions = {
  /**
   * Where replies are kept: the storage of a runtime, another storage, or a store of the program. In the storage of the
   * runtime, the replies of a session are deleted with the session; elsewhere they stay until they expire.
   */
  readonly storage: HostStorage | ReplyStore;
  /** How long a reply is used, in milliseconds. Default: 24 hours. `Infinity`: for ever. */
  readonly ttlMs?: number;
  /**
   * Who shares replies. A function separates the calls of a tenant further, for example by user: its text becomes part
   * of the key. `all`: replies are also shared between tenants. Default: all calls of a tenant of the runtime, also
   * those of its chat completions over HTTP. Other calls in memory have no tenant and share replies with each other
   * only.
   */
  readonly scope?: "all" | ((call: ModelCall) => string);
  /**
   * Whether a reply is stored. Called for replies that ended with `stop` or `tool_calls`; others are never stored.
   * Default: all of those.
   */
  readonly shouldStore?: (reply: ModelReply, call: ModelCall) => boolean;
  /** The name of the middleware. Caches with different names share no replies. Default: `response_cache`. */
  readonly name?: string;
};

const optionRules: Rules<ResponseCacheOptions> = {
  storage: { ...anObject, required: true },
  ttlMs: positive,
  scope: { must: 'a function or "all"', fits: (value) => value === "all" || typeof value === "function" },
  shouldStore: anything,
  name: anything,
};

/**
 * Answers a model call with the reply to an earlier, equal request. Such a reply has no usage, because nothing was
 * billed, and `responseCache: "hit"` in its metadata. Place it before a rate limit and after a middleware that changes
 * requests. Throws `MisuseError` for invalid options.
 *
 * @example
 * ```ts
 * import { chat, engine, fake } from "everturn";
 * import { memoryStorage } from "everturn/runtime";
 * import { responseCache } from "everturn/middleware";
 *
 * const adapter = fake({ script: [{ type: "text", text: "Rome" }] });
 * const agent = engine({ adapter, model: "fake:m", middleware: [responseCache({ storage: memoryStorage() })] });
 * await chat(agent, "The capital of Italy?");
 * const again = await chat(agent, "The capital of Italy?");
 * again.finalResponse?.outputText; // => "Rome"
 * adapter.calls.length; // => 1
 * ```
 */
export function responseCache(options: ResponseCacheOptions): Middleware {
  checkOptions("responseCache", options, optionRules);
  const { storage, ttlMs = 24 * 60 * 60 * 1000, scope, shouldStore, name = "response_cache" } = options;
  const sharers = (call: ModelCall): Json => {
    if (scope === "all") return "all";
    return scope === undefined ? [call.tenant] : [call.tenant, String(scope(call))];
  };
  const lifetimeMs = Number.isFinite(ttlMs) ? Math.ceil(ttlMs) : null;
  const owner = crypto.randomUUID();
  const storeOf = "get" in storage ? () => storage : rowStore(storage, name, lifetimeMs);
  return {
    name,
    async *model(call, next) {
      const key = await cacheKey(call, sharers(call));
      const store = storeOf(call);
      const cached = await lookUp(call, store, key);
      if (cached !== null) {
        const { reply, effectId } = cached;
        call.note("hit", { key });
        if (effectId === call.effectId && cached.owner !== owner) call.addUsage(reply.usage);
        const metadata = { ...reply.metadata, responseCache: "hit" };
        yield replyEvents({ ...reply, usage: noUsage, requestId: null, metadata });
        return;
      }
      const collector = new Collector();
      for await (const batch of next(call.request)) {
        for (const event of batch) collector.add(event);
        yield batch;
      }
      const reply = collector.reply();
      const hasEnded = reply.finishReason === "stop" || reply.finishReason === "tool_calls";
      if (!hasEnded || reply.error !== null || reply.message === null) return;
      try {
        if (shouldStore?.(reply, call) === false) return;
        const entry = { owner, effectId: call.effectId, reply: toTagged("reply", reply) };
        await store.set(key, JSON.stringify(entry), lifetimeMs);
      } catch {
        call.note("store_failed");
      }
    },
  };
}

/** The key of a call: equal for requests to which a model would give the same answer. */
async function cacheKey(call: ModelCall, scope: Json): Promise<string> {
  const { stream: _stream, scope: _scope, metadata: _metadata, model: _model, messages, ...settings } = call.request;
  const contents = messages.map(({ id: _id, metadata: _own, ...message }) => message);
  const text = canonicalJson(
    plainJson({
      version: 3,
      scope,
      model: modelOf(call),
      endpoint: call.endpoint,
      options: call.options,
      messages: contents,
      settings,
    }),
  );
  return sha256(text);
}

/** A stored reply, with the effect and the process that caused it. */
type Entry = { readonly owner: string; readonly effectId: string; readonly reply: ModelReply };

/** The stored reply; `null`: there is none, or it cannot be read, for example because a newer release wrote it. */
async function lookUp(call: ModelCall, store: ReplyStore, key: string): Promise<Entry | null> {
  try {
    const text: unknown = await store.get(key);
    const entry = typeof text === "string" ? parseJson(text)?.value : null;
    if (!isPlainObject(entry)) return null;
    const reply = fromTagged(entry["reply"], { as: "reply" });
    if (!reply.ok || reply.value.message === null) return null;
    return { owner: String(entry["owner"]), effectId: String(entry["effectId"]), reply: reply.value };
  } catch {
    call.note("lookup_failed");
    return null;
  }
}

/** The place of a reply: the key of its row in `large`. */
type Place = { readonly at: Key };

/**
 * A store in a storage, for the session of a call. The clock of the call selects the period; the storage decides
 * whether a row has expired.
 */
function rowStore(
  storage: HostStorage,
  name: string,
  lifetimeMs: number | null,
): (call: Pick<ModelCall, "clock" | "tenant" | "sessionId">) => ReplyStore {
  const table = "shared";
  const scope = `response_cache/${name}`;
  let cleanedPeriod = -1;
  return ({ clock, tenant, sessionId }) => {
    const period = lifetimeMs === null ? 0 : Math.max(1, Math.floor(clock.now() / lifetimeMs));
    const session: Key | null = tenant === null || sessionId === null ? null : [tenant, sessionId];
    let token: number | null = null;
    return {
      get: async (key) => {
        const periods = lifetimeMs === null ? [0] : [period, period - 1];
        const read = await storage.read([
          ...periods.map((number) => ({ table, prefix: [scope, number, key] }) as const),
          ...(session === null ? [] : [{ table: "leases", prefix: session } as const]),
        ]);
        token = read[periods.length]?.[0]?.tag ?? null;
        for (const { value, remainingMs } of read.slice(0, periods.length).flat()) {
          if (remainingMs !== null && remainingMs <= 0) continue;
          const place = placeIn(value);
          if (place === null) return value;
          const [[reply] = []] = await storage.read([{ table: "large", prefix: place.at }]);
          if (reply !== undefined) return reply.value;
        }
        return null;
      },
      set: async (key, value, ttlMs) => {
        const at: Key | null = session === null ? null : [...session, `${scope}/${period}/${key}`];
        const shared = { table, key: [scope, period, key], tag: 0, ttlMs } as const;
        const place = at === null ? value : JSON.stringify({ at } satisfies Place);
        await storage.write({
          checks: session === null ? [] : [{ table: "leases", key: session, tag: token }],
          removals: [],
          puts: [
            { ...shared, value: place },
            ...(at === null ? [] : [{ table: "large", key: at, tag: 0, value, ttlMs } as const]),
          ],
          lasting: false,
        });
        if (lifetimeMs === null || cleanedPeriod === period) return;
        // A failure is no failure of the store: the next write tries again.
        if (await removeExpired(period).catch(() => false)) cleanedPeriod = period;
      },
    };
  };

  /**
   * Removes expired rows of other periods, and returns whether there are no more. Does a bounded part of the work,
   * because a call waits for it.
   */
  async function removeExpired(period: number): Promise<boolean> {
    const page = { table, prefix: [scope], limit: 250, maxLength: 1_000_000 } as const;
    for (let pages = 0; pages < 4; pages += 1) {
      const read = await storage.read([
        { ...page, after: 0, before: period - 1 },
        { ...page, after: period },
      ]);
      const removals = read
        .flat()
        .filter(({ remainingMs }) => remainingMs !== null && remainingMs <= 0)
        .flatMap(({ key, value }): readonly Removal[] => {
          const place = placeIn(value);
          return [{ table, prefix: key }, ...(place === null ? [] : [{ table: "large", prefix: place.at } as const])];
        });
      if (removals.length === 0) return true;
      await storage.write({ checks: [], removals, puts: [], lasting: false });
    }
    return false;
  }
}

/** The place that a row of `shared` names; `null`: the row holds the reply itself. */
function placeIn(value: string): Place | null {
  const parsed = value.startsWith('{"at":') ? parseJson(value)?.value : null;
  const at = isPlainObject(parsed) ? parsed["at"] : null;
  return Array.isArray(at) && at.every((part) => typeof part === "string") ? { at } : null;
}
