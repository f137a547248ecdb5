// The durable runtime: the verbs of a session over a storage. A verb that drives is accepted by one write and then driven at once, here or by
// whichever process gets to it; what it gives back can be read, left and come back to from anywhere.

import type {
  Cancelled,
  JsonObject,
  LedgerSum,
  Message,
  Page,
  Recovered,
  RuntimeEvent,
  Session,
  SessionSummary,
  SessionView,
  Withdrawn,
} from "../model/internal.ts";
import type { DecisionInput } from "../session/internal.ts";
import type { RuntimeContext, VerbContext } from "./context.ts";
import type { DurableOptions, EventOptions, RuntimeOptions, StartOptions, SteerInput, TurnHandle } from "./types.ts";
import type { CancelOptions } from "./verbs/cancel.ts";
import type { TurnRecord } from "./verbs/record.ts";
import type { Completion, TokenAnswer } from "./verbs/tokens.ts";

import { systemClock } from "../engine/internal.ts";
import { MisuseError } from "../model/internal.ts";
import { checkedStorage } from "./context.ts";
import { ActiveTurns } from "./drive/active-turns.ts";
import { CancelWatch } from "./drive/cancel-watch.ts";
import { Histories } from "./histories.ts";
import { Hub } from "./read/hub.ts";
import { PieceWriter, pieceTimings } from "./read/pieces.ts";
import { randomText } from "./rows/digest.ts";
import { checkedTimings, leaseTimings, longestMs } from "./rows/lease.ts";
import { decide, submitToolResults } from "./verbs/answers.ts";
import { getSession, listMessages, listSessions, usageOf } from "./verbs/browse.ts";
import { cancel } from "./verbs/cancel.ts";
import { deleteSession } from "./verbs/delete.ts";
import { continueSession, reply, start, step } from "./verbs/drive-verbs.ts";
import { fork } from "./verbs/fork.ts";
import { attach, watch } from "./verbs/handles.ts";
import { exportTurn } from "./verbs/record.ts";
import { recover } from "./verbs/recover.ts";
import { send } from "./verbs/send.ts";
import { steer, withdraw } from "./verbs/steer.ts";
import { complete, token } from "./verbs/tokens.ts";
import { work } from "./verbs/work.ts";

/**
 * Durable sessions over a storage. Verbs that start a turn are accepted by one atomic write; any process that
 * shares the storage can drive the turn.
 */
export type Runtime = {
  // Verbs that drive. Each is accepted durably, runs at once, and gives back the turn.

  /** Begins a session with words, messages or a whole session, and drives it. */
  readonly start: (
    input: string | readonly Message[] | Session<JsonObject>,
    options?: StartOptions,
  ) => Promise<TurnHandle>;
  /** Says something to a session and lets it answer: its question, if it has one, or whatever comes next. */
  readonly reply: (id: string, text: string, options?: DurableOptions) => Promise<TurnHandle>;
  /** Goes on, with a message or without one. */
  readonly continue: (id: string, message?: Message | null, options?: DurableOptions) => Promise<TurnHandle>;
  /** One reply and its tools. */
  readonly step: (id: string, options?: DurableOptions) => Promise<TurnHandle>;
  /** Gives results of calls that wait. The one that answers the last of them lets the session go on, unless `continue` is `false`. Options are laid over those of the turn that asked. */
  readonly submitToolResults: (
    id: string,
    results: readonly (readonly [toolCallId: string, content: unknown])[],
    options?: DurableOptions & { readonly continue?: boolean },
  ) => Promise<TurnHandle>;
  /** Consents to a call that waits for it, perhaps with other arguments, or refuses it. The last answer lets the session go on. Options are laid over those of the turn that asked. */
  readonly decide: (
    id: string,
    toolCallId: string,
    decision: DecisionInput,
    options?: DurableOptions & { readonly continue?: boolean },
  ) => Promise<TurnHandle>;
  /** Says something: `reply`, or, while a turn runs, `steer`. */
  readonly send: (id: string, text: string, options?: DurableOptions) => Promise<TurnHandle>;

  // What is said to a turn that runs.

  /** Says something to the turn that runs, at its next checkpoint, or else to the next one. Returns the turn that takes it, as things are. */
  readonly steer: (
    id: string,
    input: SteerInput,
    options?: { readonly id?: string; readonly engine?: string },
  ) => Promise<{ readonly inputId: string; readonly turnId: string }>;
  /** Takes back what was said to a turn, if nobody has taken it in. */
  readonly withdraw: (id: string, inputId: string) => Promise<Withdrawn>;
  /** Ends the turn that runs, for good: the command is stored, and survives whoever runs it. Says who won. */
  readonly cancel: (id: string, options?: CancelOptions) => Promise<Cancelled>;

  // Looking at sessions.

  /** The session at its last boundary, and the turn that is open; `null` when there is none of that name. */
  readonly get: (id: string, options?: { readonly messages?: number | "all" }) => Promise<SessionView | null>;
  /** Messages of a session: from behind the one of that number, counted from 0, or from where the last page's `next` said. */
  readonly messages: (
    id: string,
    options?: { readonly after?: number | string; readonly limit?: number },
  ) => Promise<Page<Message>>;
  /** Sessions, those that changed last first. One whose head cannot be read is left out: asking for it by its id says why. */
  readonly list: (options?: { readonly limit?: number; readonly after?: string }) => Promise<Page<SessionSummary>>;
  /**
   * Ends a session and forgets it, also one that cannot be read any more: only that it was there is kept, so that nobody who still holds it can bring
   * it back. What is not found by the session goes later or says little: marks of journals to remove go when they are due, tokens hold ids and digests
   * only, and what turns were pinned to (instructions, tools, settings) is kept by its content, which other sessions may share.
   */
  readonly delete: (id: string) => Promise<void>;
  /**
   * A session of its own that begins like this one: with all its messages, or with the first so many. Returns its id. What somebody consented to is not
   * consented to twice: while a turn uses it, the call waits again in the fork, and each call there has a key of its own.
   */
  readonly fork: (id: string, options?: { readonly id?: string; readonly at?: number }) => Promise<string>;
  /** What a session has cost, by what it was paid for and by model. */
  readonly usage: (id: string) => Promise<LedgerSum>;

  // Watching.

  /** What happens in a session, from its first event or from behind a cursor, for as long as somebody reads. */
  readonly events: (id: string, options?: EventOptions) => AsyncIterable<RuntimeEvent>;
  /** A turn, from any process: the one that is open, or that one. */
  readonly attach: (id: string, turnId?: string | null) => TurnHandle;

  /** A turn as one JSON value, for a file: the open one, the newest, or that one. `replayTurn` runs it again, offline. A fork has none of its own at first. */
  readonly export: (id: string, turnId?: string) => Promise<TurnRecord>;

  // Completion from outside.

  /** A token that completes this one call, or answers this one question, once, and only while it waits as it does now. Give it to whoever is to answer. */
  readonly token: (id: string, toolCallId: string) => Promise<string>;
  /** Completes the call a token is for, with the arguments it has. Whoever is first has answered; later ones are told so, and nothing changes. */
  readonly complete: (token: string, answer: TokenAnswer) => Promise<Completion>;

  // Keeping turns going.

  /**
   * Without an id: picks up every turn that nobody drives, and says how many. With one: drives its open turn; makes a session that failed usable
   * again; ends a turn that is parked. `from: "step"` starts the open step of a parked turn again instead, and names what may run twice.
   */
  readonly recover: (id?: string, options?: { readonly from?: "step" }) => Promise<Recovered>;
  /** Drives whatever nobody drives, until the signal says stop: turns of processes that died, and turns that were only accepted. */
  readonly work: (options: { readonly concurrency?: number; readonly signal: AbortSignal }) => Promise<void>;
  /** Lets every turn go that is driven here: each at its next commit, or after the grace in the middle. Nothing fails; others go on. */
  readonly close: (options?: { readonly graceMs?: number }) => Promise<void>;

  /**
   * The same runtime for one tenant: by its id nobody gets to see a session of another. `work`, `close`, `recover` without an id and `complete`, which
   * takes a token for a key, are about the whole runtime.
   */
  readonly tenant: (name: string) => Runtime;
};

/**
 * Builds a runtime over a storage. Throws `MisuseError` without an engine, `RuntimeError` (`volatile_storage`) if
 * `durability: "durable"` is required and the storage is volatile.
 *
 * @example
 * ```ts
 * import { engine, fake } from "everturn";
 * import { memoryStorage } from "everturn/host/memory";
 * import { runtime } from "everturn/runtime";
 *
 * const agent = engine({ adapter: fake({ script: [{ type: "text", text: "Hello!" }] }), model: "fake:m" });
 * const sessions = runtime({ host: memoryStorage(), engines: { default: agent } });
 * const turn = await sessions.start("hi", { id: "s1" });
 * (await turn.result).text; // => "Hello!"
 * (await sessions.get("s1"))?.session.status; // => "completed"
 * ```
 */
export function runtime(options: RuntimeOptions): Runtime {
  const { engines, clock = systemClock, lease = {}, live = {} } = options;
  const storage = checkedStorage(options.host, options.durability ?? null);
  if (Object.keys(engines).length === 0) {
    throw new MisuseError("invalid_argument", "a runtime needs an engine: { engines: { default: engine({ … }) } }", {
      path: ["engines"],
    });
  }
  let { owner } = options;
  const timings = live === false ? null : { ...pieceTimings, ...live };
  const context: RuntimeContext = {
    storage,
    engines,
    // Times are parts of keys, which are whole.
    clock: { ...clock, now: () => Math.floor(clock.now()) },
    // Created when it is needed: some platforms have no random numbers before the first request.
    owner: () => (owner ??= `process-${randomText(8)}`),
    lease: checkedTimings({ ...leaseTimings, ...lease }),
    retentionMs: checkedRetention(options.retentionMs),
    hub: new Hub(),
    pieces: new PieceWriter(storage, clock, timings),
    cancels: new CancelWatch(storage, clock),
    histories: new Histories(),
  };
  return runtimeOf({ ...context, turns: new ActiveTurns(context), tenant: "", drives: options.drive ?? true });
}

function runtimeOf(context: VerbContext): Runtime {
  return {
    start: (...given) => start(context, ...given),
    reply: (...given) => reply(context, ...given),
    continue: (...given) => continueSession(context, ...given),
    step: (...given) => step(context, ...given),
    submitToolResults: (...given) => submitToolResults(context, ...given),
    decide: (...given) => decide(context, ...given),
    send: (...given) => send(context, ...given),
    steer: (...given) => steer(context, ...given),
    withdraw: (...given) => withdraw(context, ...given),
    cancel: (...given) => cancel(context, ...given),
    get: (...given) => getSession(context, ...given),
    messages: (...given) => listMessages(context, ...given),
    list: (...given) => listSessions(context, ...given),
    delete: (...given) => deleteSession(context, ...given),
    fork: (...given) => fork(context, ...given),
    usage: (...given) => usageOf(context, ...given),
    events: (...given) => watch(context, ...given),
    attach: (...given) => attach(context, ...given),
    export: (...given) => exportTurn(context, ...given),
    token: (...given) => token(context, ...given),
    complete: (...given) => complete(context, ...given),
    recover: (...given) => recover(context, ...given),
    work: (...given) => work(context, ...given),
    close: async ({ graceMs = 10_000 } = {}) => {
      await context.turns.close(graceMs);
      context.pieces.flush();
    },
    tenant: (name) => runtimeOf({ ...context, tenant: name }),
  };
}

/** How long journals are kept: a time, or for ever. */
function checkedRetention(retentionMs: number | undefined): number | null {
  if (retentionMs === undefined || retentionMs === Number.POSITIVE_INFINITY) return null;
  if (typeof retentionMs === "number" && retentionMs >= 0 && retentionMs <= longestMs) return retentionMs;
  throw new MisuseError(
    "invalid_argument",
    `retentionMs has to be a time of less than ten years, not ${String(retentionMs)}`,
    {
      path: ["retentionMs"],
    },
  );
}
