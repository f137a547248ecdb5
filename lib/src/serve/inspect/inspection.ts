// `inspection`: reads what the turns of a storage did, for pages, commands and tests. It is no part of the runtime and
// needs none: a storage is enough.
//
// Invariants
//   1. Nothing of a session is written. `overview` may fold lines of ended turns into sums
//      (`durable/work/fold-rollups.ts`), which changes no number.
//   2. The cost of a call depends on the page or the period that it returns, and not on the length of the session or
//      the turn.

import type { Clock } from "../../core/clock/clock.ts";
import type { Engine } from "../../core/engine/internal.ts";
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
import type { HostStorage, TurnRecord } from "../../durable/internal.ts";
import type { InspectionContext } from "./context.ts";
import type { TurnRecordPart } from "./export-turn.ts";
import type { OverviewOptions } from "./overview.ts";
import type { TimelineOptions } from "./read-timeline.ts";
import type { SearchOptions } from "./search.ts";
import type { TurnPageOptions } from "./turn-list.ts";

import { systemClock } from "../../core/engine/internal.ts";
import { storageClock, withFormat, withLargeValues } from "../../durable/internal.ts";
import { engineViews } from "./engine-views.ts";
import { exportParts, exportTurn } from "./export-turn.ts";
import { overview } from "./overview.ts";
import { readEffect, readTimeline } from "./read-timeline.ts";
import { requestView } from "./request-view.ts";
import { search } from "./search.ts";
import { listTurns } from "./turn-list.ts";
import { listWorkers } from "./workers.ts";

/** What {@link inspection} reads. `source` of a `Runtime` is one. */
type InspectionSource = {
  /** The storage. */
  readonly host: HostStorage;
  /** The tenant whose sessions are read. Default: the empty string. */
  readonly tenant?: string;
  /** The engines that `engines` describes. Default: none. */
  readonly engines?: { readonly [name: string]: Engine };
  /** The name of this process in leases, which `workers` marks as `self`. Default: none is marked. */
  readonly owner?: () => string;
  /**
   * How many turns the workers of this process drive at once; `null`: it runs none. Lists this process in `workers`
   * also while it is idle. Default: it is listed while it drives turns.
   */
  readonly places?: () => number | null;
  /** The clock of this process. Default: the system clock. */
  readonly clock?: Clock;
};

/**
 * A reader of the turns of one tenant. {@link inspection} makes one. Its functions reject with `RuntimeError`
 * (`not_found`, `storage_…`) or throw `MisuseError`.
 */
export type Inspection = {
  /** The engines with their models, instructions and tools. Performs no I/O. */
  readonly engines: () => readonly EngineView[];
  /**
   * Returns a page of the turns of a session, newest first: at most `limit` (default 50, at most 100). `after` is the
   * cursor `next` of the previous page. Queued input is no turn until its turn starts.
   */
  readonly turns: (id: string, options?: TurnPageOptions) => Promise<Page<TurnSummaryView>>;
  /**
   * Returns what a turn did and when, from its journal: up to `limit` rows (default 500, which is the maximum) after
   * the row `after`. A page is bounded in characters too, so it may have fewer rows; `next` is the `after` of the next
   * page. Also for turns that are open, and for turns inside tool calls, whose ids are in `children`.
   */
  readonly timeline: (id: string, turnId: string, options?: TimelineOptions) => Promise<TurnTimeline>;
  /**
   * Returns everything that is stored about one row of the journal of a turn. `ordinal`: the number of the row, from 1.
   */
  readonly effect: (id: string, turnId: string, ordinal: number) => Promise<EffectDetail>;
  /**
   * Returns the request of a model call, which the journal does not hold: it is rebuilt from the pinned configuration,
   * the history and the rows before the call, and compared with the recorded digests. Reads the turn up to the row
   * `ordinal`. Rejects with `not_found` if the row is no model call, and for turns inside tool calls.
   */
  readonly request: (id: string, turnId: string, ordinal: number) => Promise<RequestView>;
  /**
   * Returns the processes that drive turns, of all tenants, as the leases of open turns show them, and this process if
   * it runs a worker. Other processes without a turn are not known: nothing is stored about them. Examines at most
   * 10,000 open turns.
   */
  readonly workers: () => Promise<readonly WorkerView[]>;
  /**
   * Sums over the turns that ended in a period, by default in the last 24 hours: outcomes, latencies, tokens and cost,
   * by engine, tool and tenant. Sums are kept for 90 days; deleting a session does not change them. Sums of the last 24
   * hours are exact to five minutes, older ones to the hour. A turn that was parked counts when it is parked, and again
   * when it ends. The cost of the call depends on the period, not on the number of turns.
   */
  readonly overview: (options?: OverviewOptions) => Promise<Overview>;
  /**
   * Finds messages that contain all words of a text, in their own texts and in the names of the tools that they call,
   * of the most recently changed sessions first. The last word may be
   * the beginning of a word; case and diacritics are ignored. Rejects with `not_found` if the storage cannot search
   * (`canSearch`).
   */
  readonly search: (text: string, options?: SearchOptions) => Promise<readonly SearchHit[]>;
  /** Whether the storage can search: `sqliteStorage` and `postgresStorage` with the option `search`. */
  readonly canSearch: boolean;
  /**
   * Returns a turn as one JSON value: the open one, the latest, or the given one. `replayTurn` runs it again
   * offline.
   */
  readonly export: (id: string, turnId?: string) => Promise<TurnRecord>;
  /**
   * Returns a turn like `export`, in parts: first the record without its messages and rows, then these in pages of
   * about 64 KiB. A page is read from the storage when it is asked for, so a long turn needs the memory of one page.
   * Rejects with `not_found` if the session or the journal of the turn is removed meanwhile.
   */
  readonly exportParts: (id: string, turnId?: string) => AsyncGenerator<TurnRecordPart, void>;
  /** Whether written rows outlive the process. */
  readonly durability: HostStorage["durability"];
  /** Returns the same reader for one tenant. `workers` concerns all tenants. The default tenant is the empty string. */
  readonly tenant: (name: string) => Inspection;
};

/**
 * Makes a reader of a storage: turns, their timelines, search and sums. For a runtime, pass its `source`;
 * `createHandler` does it for the inspection routes. Performs no I/O.
 *
 * @example
 * ```ts
 * import { engine, fake } from "everturn";
 * import { memoryStorage } from "everturn/runtime";
 * import { inspection } from "everturn/http";
 * import { runtime } from "everturn/runtime";
 *
 * const host = memoryStorage();
 * const agent = engine({ adapter: fake({ script: [{ type: "text", text: "Hello!" }] }), model: "fake:m" });
 * const turn = await runtime({ host, engines: { default: agent } }).start("hi", { id: "s1" });
 * await turn.result;
 * const reader = inspection({ host });
 * const [latest] = (await reader.turns("s1")).items;
 * const { effects } = await reader.timeline("s1", latest?.turnId ?? "");
 * effects.find(({ kind }) => kind === "model")?.text; // => "Hello!"
 * ```
 */
export function inspection({
  host,
  tenant = "",
  engines = {},
  owner,
  places,
  clock = systemClock,
}: InspectionSource): Inspection {
  const { storage, clock: storageTime } = storageClock(host, clock);
  return inspectionOf({
    storage: withFormat(withLargeValues(storage)),
    clock: storageTime,
    tenant,
    engines,
    owner: owner ?? null,
    places: places ?? (() => null),
  });
}

function inspectionOf(context: InspectionContext): Inspection {
  const { storage } = context;
  return {
    engines: () => engineViews(context.engines),
    turns: (...args) => listTurns(context, ...args),
    timeline: (...args) => readTimeline(context, ...args),
    effect: (...args) => readEffect(context, ...args),
    request: (...args) => requestView(context, ...args),
    workers: () => listWorkers(context),
    overview: (...args) => overview(context, ...args),
    search: (...args) => search(context, ...args),
    canSearch: storage.search !== undefined,
    export: (...args) => exportTurn(context, ...args),
    exportParts: (...args) => exportParts(context, ...args),
    durability: storage.durability,
    tenant: (name) => inspectionOf({ ...context, tenant: name }),
  };
}
