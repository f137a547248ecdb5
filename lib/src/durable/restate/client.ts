// Sessions for handlers of the caller's own in Restate. Every call goes through the context of the handler, so Restate
// records it: a handler that is repeated after a crash sends nothing twice, and a handler that waits for a turn needs
// no process meanwhile.

import type { Cancelled, TurnEnd } from "../../core/model/internal.ts";
import type { DriveInput, DriveResult } from "./drive-handlers.ts";
import type { RestateSerde } from "./serde.ts";
import type { AcceptedTurn, VerbInputs, VerbName } from "./verb-handlers.ts";

import { continuationKey } from "./drive-handlers.ts";
import { checkedDelay, objectKey, serviceNames } from "./names.ts";
import { json } from "./serde.ts";

type CallRequest<Input> = {
  readonly service: string;
  readonly method: string;
  readonly key: string;
  readonly parameter: Input;
  readonly inputSerde: RestateSerde<Input>;
  readonly idempotencyKey?: string;
};

/** What {@link restateSession} needs of the context of a handler: `Context` of the SDK has it. */
export type RestateHandlerContext = {
  /** Calls a handler and waits for its result. */
  readonly genericCall: <Input, Output>(
    call: CallRequest<Input> & { readonly outputSerde: RestateSerde<Output> },
  ) => Promise<Output>;
  /** Sends an invocation, now or after `delay` milliseconds. */
  readonly genericSend: <Input>(call: CallRequest<Input> & { readonly delay?: number }) => unknown;
  /** Waits; Restate continues the handler later. */
  readonly sleep: (ms: number) => Promise<void>;
};

/** A turn that a handler started. */
export type RestateTurn = {
  /** The id of the session. */
  readonly sessionId: string;
  /** The id of the turn; `null` if no turn was started because tool calls of the session are still pending. */
  readonly turnId: string | null;
  /**
   * Waits for the end of the turn. The handler is suspended meanwhile. The result of a session that waits for an answer
   * has the status `waiting`.
   */
  readonly result: () => Promise<TurnEnd>;
};

/** The input of a verb without its options, and the options. */
type Options<Verb extends VerbName> = NonNullable<VerbInputs[Verb]["options"]>;

/** A session as a handler in Restate sees it. The verbs are those of `Runtime`; options are JSON. */
export type RestateSession = {
  /** Creates the session and runs its first turn. */
  readonly start: (input: VerbInputs["start"]["input"], options?: Options<"start">) => Promise<RestateTurn>;
  /** Adds a user message and runs a turn. */
  readonly reply: (message: VerbInputs["reply"]["text"], options?: Options<"reply">) => Promise<RestateTurn>;
  /** Sends a user message like `reply`, but steers an open turn by default. */
  readonly send: (message: VerbInputs["send"]["text"], options?: Options<"send">) => Promise<RestateTurn>;
  /** Sends a user message after `afterMs` milliseconds, at most ten years. Restate holds it until then. */
  readonly sendLater: (
    message: VerbInputs["send"]["text"],
    options: Options<"send"> & { readonly afterMs: number },
  ) => void;
  /** Runs the next turn, with one more message or without. */
  readonly continue: (
    message?: VerbInputs["continue"]["message"],
    options?: Options<"continue">,
  ) => Promise<RestateTurn>;
  /** Runs a turn of one step. */
  readonly step: (options?: Options<"step">) => Promise<RestateTurn>;
  /** Records the results of pending tool calls. The last one starts a turn. */
  readonly submitToolResults: (
    results: VerbInputs["submitToolResults"]["results"],
    options?: Options<"submitToolResults">,
  ) => Promise<RestateTurn>;
  /** Approves or denies a pending tool call. The last decision starts a turn. */
  readonly decide: (
    toolCallId: string,
    decision: VerbInputs["decide"]["decision"],
    options?: Options<"decide">,
  ) => Promise<RestateTurn>;
  /** Adds input to the open turn, or starts one. */
  readonly steer: (input: VerbInputs["steer"]["input"], options?: Options<"steer">) => Promise<RestateTurn>;
  /** Cancels the open turn; `stored`: it ends soon. */
  readonly cancel: () => Promise<Cancelled>;
  /** Waits for the end of a turn that was started elsewhere. */
  readonly result: (turnId: string) => Promise<TurnEnd>;
};

/** Which session a handler calls. */
type RestateSessionName = {
  /** The id of the session. */
  readonly id: string;
  /** Its tenant. Default: the default tenant. */
  readonly tenant?: string;
  /** The prefix of the services. Default: `Everturn`. */
  readonly prefix?: string;
};

/** The pauses while a turn is open that no invocation drives: it is left to the sweeper. */
const pauses = { firstMs: 500, longestMs: 30_000 };

/**
 * A session for a handler in Restate.
 *
 * @example
 * ```ts
 * import * as restate from "@restatedev/restate-sdk";
 * import { restateSession } from "everturn/restate";
 *
 * const support = restate.service({
 *   name: "support",
 *   handlers: {
 *     ask: async (context: restate.Context, question: { readonly customer: string; readonly text: string }) => {
 *       const session = restateSession(context, { id: `support-${question.customer}` });
 *       const turn = await session.start(question.text);
 *       return (await turn.result()).text;
 *     },
 *   },
 * });
 * support.name; // => "support"
 * ```
 */
export function restateSession(context: RestateHandlerContext, name: RestateSessionName): RestateSession {
  const { id, tenant = "", prefix } = name;
  const service = serviceNames(prefix).session;
  const key = objectKey({ tenant, sessionId: id });
  const call = <Input, Output>(method: string, parameter: Input, idempotencyKey?: string): Promise<Output> =>
    context.genericCall<Input, Output>({
      service,
      method,
      key,
      parameter,
      inputSerde: json(),
      outputSerde: json(),
      ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
    });

  const result = async (turnId: string): Promise<TurnEnd> => {
    // Each invocation of `drive` for the turn has a key, so the call waits for the one that was sent.
    for (let continuation = 0, isDriven = turnId !== ""; isDriven; continuation += 1) {
      const input: DriveInput = { turnId, continuation };
      isDriven = await call<DriveInput, DriveResult>("drive", input, continuationKey(turnId, continuation)).then(
        ({ next }) => next !== null,
        (error: unknown) => {
          if (!isTerminal(error)) throw error;
          // Restate has given the invocation up, for example because its deployment is gone. The sweeper sends another
          // one.
          return false;
        },
      );
    }
    for (let pauseMs = pauses.firstMs; ; pauseMs = Math.min(pauses.longestMs, 2 * pauseMs)) {
      const end = await call<{ readonly turnId: string }, TurnEnd | null>("result", { turnId });
      if (end !== null) return end;
      await context.sleep(pauseMs);
    }
  };
  const accept = async <Verb extends VerbName>(verb: Verb, input: VerbInputs[Verb]): Promise<RestateTurn> => {
    const accepted = await call<VerbInputs[Verb], AcceptedTurn>(verb, input);
    const { sessionId, turnId, end } = accepted;
    return { sessionId, turnId, result: async () => end ?? result(turnId ?? "") };
  };
  return {
    start: (input, options = {}) => accept("start", { input, options }),
    reply: (text, options = {}) => accept("reply", { text, options }),
    send: (text, options = {}) => accept("send", { text, options }),
    sendLater: (text, { afterMs, ...options }) => {
      const parameter: VerbInputs["send"] = { text, options };
      context.genericSend({
        service,
        method: "send",
        key,
        parameter,
        inputSerde: json(),
        delay: checkedDelay(afterMs),
      });
    },
    continue: (message = null, options = {}) => accept("continue", { message, options }),
    step: (options = {}) => accept("step", { options }),
    submitToolResults: (results, options = {}) => accept("submitToolResults", { results, options }),
    decide: (toolCallId, decision, options = {}) => accept("decide", { toolCallId, decision, options }),
    steer: (input, options = {}) => accept("steer", { input, options }),
    cancel: () => call<object, Cancelled>("cancel", {}),
    result,
  };
}

/** Whether the call itself failed. Otherwise the calling handler was cancelled, or its attempt is over. */
function isTerminal(error: unknown): boolean {
  return error instanceof Error && error.name === "TerminalError";
}
