// The inspection routes of the HTTP API as functions: what the studio and similar pages read. The server offers these routes with its option `inspect`.

import type {
  EffectDetail,
  EngineView,
  Overview,
  Page,
  SearchHit,
  TurnSummaryView,
  TurnTimeline,
  WorkerView,
} from "../../core/model/internal.ts";
import type { ServerView } from "../contract/internal.ts";
import type { CallOptions, ClientOptions, PageOptions } from "./types.ts";

import { ask, at, post, query, senderOf } from "./requests.ts";
import { readJson } from "./sender.ts";

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
  /** Sums over the turns that ended in a period. Default: the last 24 hours. Times are in milliseconds. */
  readonly overview: (options?: CallOptions & { readonly from?: number; readonly until?: number }) => Promise<Overview>;
  /** The processes that drive turns. Only for operators. */
  readonly workers: (options?: CallOptions) => Promise<readonly WorkerView[]>;
  /** Messages that contain all words of a query, of the newest sessions first. Only if the storage offers it. */
  readonly search: (text: string, options?: CallOptions & { readonly limit?: number }) => Promise<readonly SearchHit[]>;
  /** Starts a prepared conversation of the offline model and returns its session. */
  readonly startScenario: (name: string, options?: CallOptions) => Promise<{ readonly sessionId: string }>;
};

/**
 * Creates a reader of the inspection routes of a server, which offers them with its option `inspect`. It takes the options of `createClient`.
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
  return {
    server: async (options) => ask(sender, "GET", "/server", options, readJson<ServerView>),
    engines: async (options) =>
      (await ask(sender, "GET", "/engines", options, readJson<{ readonly items: readonly EngineView[] }>)).items,
    turns: async (sessionId, { limit, after, ...options } = {}) => {
      const path = at`/sessions/${sessionId}/turns` + query({ limit, after });
      return ask(sender, "GET", path, options, readJson<Page<TurnSummaryView>>);
    },
    timeline: async (sessionId, turnId, { after, limit, ...options } = {}) => {
      const path = at`/sessions/${sessionId}/turns/${turnId}/timeline` + query({ after, limit });
      return ask(sender, "GET", path, options, readJson<TurnTimeline>);
    },
    effect: async (sessionId, turnId, ordinal, options) => {
      const path = at`/sessions/${sessionId}/turns/${turnId}/effects/${`${ordinal}`}`;
      return ask(sender, "GET", path, options, readJson<EffectDetail>);
    },
    overview: async ({ from, until, ...options } = {}) =>
      ask(sender, "GET", `/overview${query({ from, until })}`, options, readJson<Overview>),
    workers: async (options) =>
      (await ask(sender, "GET", "/workers", options, readJson<{ readonly items: readonly WorkerView[] }>)).items,
    search: async (text, { limit, ...options } = {}) => {
      const path = `/search${query({ q: text, limit })}`;
      return (await ask(sender, "GET", path, options, readJson<{ readonly items: readonly SearchHit[] }>)).items;
    },
    startScenario: async (name, options = {}) =>
      post(sender, at`/scenarios/${name}`, {}, options, readJson<{ readonly sessionId: string }>),
  };
}
