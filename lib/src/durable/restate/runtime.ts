// A runtime whose turns are driven by Restate: its verbs store the turn, then send the session to Restate. Needs no
// SDK, so it also runs where only `fetch` exists.
//
// Correctness does not depend on the request: the turn is stored before it is sent, and the sweeper sends it again if
// the request is lost. So a verb succeeds although its request failed. It waits for the request at most `timeoutMs`: a
// serverless platform may stop the process when the caller has its response.

import type { MessageOptions, Runtime, RuntimeOptions, Swept } from "../internal.ts";
import type { RestateIngress } from "./ingress.ts";
import type { SendRequest } from "./invocation.ts";
import type { ServiceNames, SessionName } from "./names.ts";

import { systemClock } from "../../core/engine/internal.ts";
import { runtime } from "../internal.ts";
import { continuationKey, driveRequest, resumeRequest } from "./drive-handlers.ts";
import { checkIngress, sendThrough } from "./ingress.ts";
import { checkedDelay, encodeText, objectKey, serviceNames } from "./names.ts";
import { patienceOf } from "./service-context.ts";

/** A request to Restate that failed; `onSendFailure` of {@link RestateRuntimeOptions} receives it. */
export type SendFailure = SessionName & {
  /** The turn that was sent; `null`: whatever was open. */
  readonly turnId: string | null;
  /** Why it failed. */
  readonly error: unknown;
};

/** Options of {@link restateRuntime}: those of `runtime` without `drive`, and how to reach Restate. */
export type RestateRuntimeOptions = Omit<RuntimeOptions, "drive"> & {
  /** The Restate server that drives the turns. */
  readonly restate: RestateIngress;
  /**
   * Called when a request to Restate failed. The turn is stored, and the sweeper finds it: for logs and metrics. An
   * error that it throws is ignored. Default: such failures are not reported.
   */
  readonly onSendFailure?: (failure: SendFailure) => void;
};

/** Options of `sendLater`. */
type SendLaterOptions = Omit<MessageOptions, "output"> & {
  /** When the message is sent, in milliseconds from now. */
  readonly afterMs: number;
};

/** A {@link Runtime} whose turns are driven by Restate. */
export type RestateRuntime = Omit<Runtime, "tenant" | "limitedBy" | "calledBy" | "actedBy"> & {
  /**
   * Sends a message to a session later: Restate holds it until then. Then it is sent like `send`. `key` makes the call
   * idempotent. Unlike the verbs, it rejects if Restate cannot be reached, because nothing is stored yet. Throws
   * `MisuseError` for a delay below 0 or above ten years.
   */
  readonly sendLater: (id: string, text: string, options: SendLaterOptions) => Promise<void>;
  /** Returns this runtime for one tenant. */
  readonly tenant: (name: string) => RestateRuntime;
  /** Returns this runtime with a limit key for the turns of its verbs. */
  readonly limitedBy: (limitKey: string) => RestateRuntime;
  /** Returns this runtime for one caller of the tenant. */
  readonly calledBy: (caller: string) => RestateRuntime;
  /** Returns this runtime with the name that the audit log records. */
  readonly actedBy: (actor: string | null) => RestateRuntime;
};

/**
 * Builds a runtime whose verbs store the turn and send its session to Restate, which calls a process with
 * {@link restateServices}. Performs no I/O. Throws `MisuseError` for invalid options.
 */
export function restateRuntime(options: RestateRuntimeOptions): RestateRuntime {
  const { restate, onSendFailure, ...runtimeOptions } = options;
  checkIngress(restate);
  const names = serviceNames(restate.prefix);
  const sessions = runtime({ ...runtimeOptions, drive: false });
  const report = (failure: SendFailure): void => {
    try {
      onSendFailure?.(failure);
    } catch {
      // A function of the program that reports failures must not cause one.
    }
  };
  return runtimeOf({ sessions, tenant: "", names, restate, report });
}

type Context = {
  /** The runtime of the tenant and the limit key. */
  readonly sessions: Runtime;
  readonly tenant: string;
  readonly names: ServiceNames;
  readonly restate: RestateIngress;
  readonly report: (failure: SendFailure) => void;
};

function runtimeOf(context: Context): RestateRuntime {
  const { sessions, tenant, names, restate } = context;
  const { clock = systemClock } = restate;
  /** Sends a request; a failure is only reported. */
  const trySend = async (name: SessionName, turnId: string | null, request: SendRequest): Promise<void> => {
    await sendThrough(restate, request).catch((error: unknown) => context.report({ ...name, turnId, error }));
  };
  const sendTurn = (name: SessionName, turnId: string): Promise<void> =>
    trySend(name, turnId, driveRequest(context, objectKey(name), { turnId }, continuationKey(turnId, 0)));
  const resume = (name: SessionName): Promise<void> =>
    trySend(name, null, resumeRequest({ names, patienceMs: patienceOf(sessions) }, objectKey(name), clock.now()));
  /** Sends the turn that a verb has accepted. */
  const sent = async <H extends { readonly sessionId: string; readonly turnId: string | null }>(
    accepting: Promise<H>,
  ): Promise<H> => {
    const handle = await accepting;
    if (handle.turnId !== null) await sendTurn({ tenant, sessionId: handle.sessionId }, handle.turnId);
    return handle;
  };
  return {
    ...sessions,
    start: (...args) => sent(sessions.start(...args)),
    reply: (...args) => sent(sessions.reply(...args)),
    continue: (...args) => sent(sessions.continue(...args)),
    step: (...args) => sent(sessions.step(...args)),
    submitToolResults: (...args) => sent(sessions.submitToolResults(...args)),
    decide: (...args) => sent(sessions.decide(...args)),
    send: (...args) => sent(sessions.send(...args)),
    steer: async (id, ...args) => {
      const steered = await sessions.steer(id, ...args);
      // A repeated call names no turn if its input was accepted by a turn that has ended.
      if (steered.turnId !== "") await sendTurn({ tenant, sessionId: id }, steered.turnId);
      return steered;
    },
    cancel: async (id, cancelOptions = {}) => {
      const turnId = cancelOptions.turnId ?? (await sessions.get(id, { messages: 0 }))?.openTurn?.turnId;
      const named = { ...cancelOptions, ...(turnId === undefined ? {} : { turnId }) };
      const stored = await sessions.cancel(id, { ...named, waitMs: 0 });
      if (stored !== "stored") return stored;
      // A turn that no process drives is driven to its end.
      await resume({ tenant, sessionId: id });
      return sessions.cancel(id, named);
    },
    complete: async (token, answer) => {
      const completion = await sessions.complete(token, answer);
      if (completion.type !== "completed" || completion.turn.turnId === null) return completion;
      // The token names the session, of any tenant.
      const { sessionId, turnId } = completion.turn;
      await sendTurn({ tenant: completion.tenant, sessionId }, turnId);
      return completion;
    },
    recover: async (id, recoverOptions) => {
      if (id === undefined) {
        const sent = new Set<string>();
        let after: string | null = null;
        do {
          const { due, next }: Swept = await sessions.sweep({ after });
          const others = due.filter((name) => !sent.has(objectKey(name)));
          for (const name of others) await resume(name);
          for (const name of others) sent.add(objectKey(name));
          after = next;
        } while (after !== null);
        return { pickedUp: sent.size, usable: false, mayRunTwice: [] };
      }
      const view = await sessions.get(id, { messages: 0 });
      if (view?.openTurn === null || view === null || view.openTurn.status === "parked") {
        const recovered = await sessions.recover(id, recoverOptions);
        await resume({ tenant, sessionId: id });
        return recovered;
      }
      await resume({ tenant, sessionId: id });
      return { pickedUp: 1, usable: false, mayRunTwice: [] };
    },
    sendLater: async (id, text, { afterMs, ...options }) => {
      await sendThrough(restate, {
        service: names.session,
        handler: "send",
        key: objectKey({ tenant, sessionId: id }),
        input: { text, options },
        // A header, so ASCII.
        idempotencyKey: options.key === undefined ? null : encodeText(options.key),
        delayMs: checkedDelay(afterMs),
      });
    },
    tenant: (name) => runtimeOf({ ...context, sessions: sessions.tenant(name), tenant: name }),
    limitedBy: (limitKey) => runtimeOf({ ...context, sessions: sessions.limitedBy(limitKey) }),
    calledBy: (caller) => runtimeOf({ ...context, sessions: sessions.calledBy(caller) }),
    actedBy: (actor) => runtimeOf({ ...context, sessions: sessions.actedBy(actor) }),
  };
}
