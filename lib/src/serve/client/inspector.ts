// The inspection routes of the HTTP API as functions: what the studio and similar pages read. The server offers these
// routes with its option `inspect`.

import type {
  EffectDetail,
  EngineView,
  Overview,
  Page,
  RequestView,
  SearchHit,
  TurnSummaryView,
  TurnTimeline,
  WorkerView,
} from "../../core/model/internal.ts";
import type { ServerView } from "../contract/internal.ts";
import type { CallOptions, ClientOptions, PageOptions } from "./types.ts";

import { adminOperations, inspectionOperations, recordOperations } from "../contract/internal.ts";
import { call, senderOf } from "./requests.ts";

/** Reads what a server knows about its turns, engines and workers. {@link createInspector} creates it. */
export type Inspector = {
  /** The server, and what the caller may do there. */
  readonly server: (options?: CallOptions) => Promise<ServerView>;
  /** The engines that the caller may use, with their tools. */
  readonly engines: (options?: CallOptions) => Promise<readonly EngineView[]>;
  /** A page of the turns of a session, newest first. */
  readonly turns: (sessionId: string, options?: PageOptions) => Promise<Page<TurnSummaryView>>;
  /** What a turn did and when. `after` is `next` of the previous page. */
  readonly timeline: (
    sessionId: string,
    turnId: string,
    options?: CallOptions & { readonly after?: number; readonly limit?: number },
  ) => Promise<TurnTimeline>;
  /** Everything that is stored about one row of the journal of a turn. */
  readonly effect: (sessionId: string, turnId: string, ordinal: number, options?: CallOptions) => Promise<EffectDetail>;
  /** The request of a model call, rebuilt. Only if `records` of {@link ServerView} says so. */
  readonly request: (sessionId: string, turnId: string, ordinal: number, options?: CallOptions) => Promise<RequestView>;
  /** Sums over the turns that ended in a period. Default: the last 24 hours. Times are in milliseconds. */
  readonly overview: (options?: CallOptions & { readonly from?: number; readonly until?: number }) => Promise<Overview>;
  /** The processes that drive turns. Only for operators. */
  readonly workers: (options?: CallOptions) => Promise<readonly WorkerView[]>;
  /** A page of the tenants that have sessions. Only if `tenants` of {@link ServerView} says so. */
  readonly tenants: (options?: PageOptions) => Promise<Page<string>>;
  /** Messages that contain all words of a query, of the newest sessions first. Only if the storage offers it. */
  readonly search: (text: string, options?: CallOptions & { readonly limit?: number }) => Promise<readonly SearchHit[]>;
  /** Starts a prepared conversation of the offline model and returns its session. */
  readonly startScenario: (name: string, options?: CallOptions) => Promise<{ readonly sessionId: string }>;
};

/**
 * Creates a reader of the inspection routes of a server, which offers them with its option `inspect`. It takes the
 * options of `createClient`.
 *
 * @example
 * ```ts
 * import { createInspector } from "everturn/client";
 *
 * const inspector = createInspector({ url: "http://localhost:4242", token: "a-secret-bearer-token" });
 * typeof inspector.timeline; // => "function"
 * ```
 */
export function createInspector(options: ClientOptions): Inspector {
  const sender = senderOf(options);
  const operations = inspectionOperations;
  return {
    server: async (options) => call(sender, operations.getServer, [], options),
    engines: async (options) => (await call(sender, operations.listEngines, [], options)).items,
    turns: async (sessionId, options) => call(sender, operations.listTurns, [sessionId], options),
    timeline: async (sessionId, turnId, options) => call(sender, operations.getTimeline, [sessionId, turnId], options),
    effect: async (sessionId, turnId, ordinal, options) =>
      call(sender, operations.getEffect, [sessionId, turnId, `${ordinal}`], options),
    request: async (sessionId, turnId, ordinal, options) =>
      call(sender, recordOperations.getRequest, [sessionId, turnId, `${ordinal}`], options),
    overview: async (options) => call(sender, operations.getOverview, [], options),
    workers: async (options) => (await call(sender, operations.listWorkers, [], options)).items,
    tenants: async (options) => call(sender, adminOperations.listTenants, [], options),
    search: async (text, options) => (await call(sender, operations.searchMessages, [], { q: text, ...options })).items,
    startScenario: async (name, options) => call(sender, operations.startScenario, [name], options),
  };
}
