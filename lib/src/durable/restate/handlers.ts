// The handlers of the two virtual objects, without the SDK: `services.ts` gives them to the SDK, and the tests to an
// implementation of Restate in memory. So both call the same handlers with the same settings.
//
// Anything that reaches the ingress of Restate can call a handler with any body and any key. Each handler therefore
// validates its input before it does anything, and throws `RefusedCall` for input that can never be accepted: an error
// of another class would make Restate repeat the call.

import type { Invocation } from "./invocation.ts";
import type { ServiceContext } from "./service-context.ts";
import type { VerbInputs, VerbName } from "./verb-handlers.ts";

import { isPlainObject } from "../../core/model/parse/reading.ts";
import { checkedDriveInput, drive, resume } from "./drive-handlers.ts";
import { RefusedCall } from "./invocation.ts";
import { startSweeper, sweepOnce, tick } from "./sweeper-handlers.ts";
import { accept, cancel, checkVerbInput, result } from "./verb-handlers.ts";

/** A handler and its settings. */
export type Handler = {
  /** Restate runs one exclusive handler at a time for each key. Other handlers run at any time. */
  readonly isExclusive: boolean;
  /** Drives a session, so it may take as long as a slice. Other handlers are given up after a short time. */
  readonly isLong: boolean;
  /** Restate keeps the result, so that a later request with the same idempotency key is answered with it. */
  readonly keepsResult: boolean;
  /**
   * `body` is that of the request. Rejects with `RefusedCall` if the call can never succeed; after any other error
   * Restate repeats it.
   */
  readonly call: (invocation: Invocation, body: Uint8Array) => Promise<unknown>;
};

/** Handlers by name. */
export type Handlers = { readonly [name: string]: Handler };

/** The handlers of the virtual object of a session. */
export function sessionHandlers(context: ServiceContext): Handlers {
  const shared = { isExclusive: false, isLong: false, keepsResult: true };
  const verb = <Verb extends VerbName>(name: Verb): Handler => ({
    ...shared,
    call: async (on, body) => {
      checkVerbInput(name, parseInput(body));
      return accept(context, on, name, jsonOf<VerbInputs[Verb]>(body));
    },
  });
  return {
    drive: {
      isExclusive: true,
      isLong: true,
      keepsResult: true,
      call: async (on, body) => drive(context, on, checkedDriveInput(parseInput(body))),
    },
    resume: { ...shared, isLong: true, keepsResult: false, call: (on) => resume(context, on) },
    start: verb("start"),
    reply: verb("reply"),
    send: verb("send"),
    continue: verb("continue"),
    step: verb("step"),
    submitToolResults: verb("submitToolResults"),
    decide: verb("decide"),
    steer: verb("steer"),
    cancel: { ...shared, call: (on) => cancel(context, on) },
    result: {
      ...shared,
      call: async (on, body) => {
        const { turnId } = parseInput(body);
        if (typeof turnId !== "string" || turnId === "") throw new RefusedCall("turnId must be the id of a turn", 400);
        return result(context, on, { turnId });
      },
    },
  };
}

/** The handlers of the sweeper. */
export function sweeperHandlers(context: ServiceContext): Handlers {
  const exclusive = { isExclusive: true, isLong: false, keepsResult: false };
  return {
    start: { ...exclusive, call: (on) => startSweeper(context, on) },
    tick: {
      ...exclusive,
      call: async (on, body) => {
        const { generation } = parseInput(body);
        return typeof generation === "number" ? tick(context, on, { generation }) : null;
      },
    },
    sweep: { ...exclusive, isExclusive: false, call: (on) => sweepOnce(context, on) },
  };
}

/** The body of a request as an object; an empty body is an empty object. */
function parseInput(body: Uint8Array): { readonly [field: string]: unknown } {
  const value = jsonOf<unknown>(body);
  if (isPlainObject(value)) return value;
  throw new RefusedCall("the body must be a JSON object", 400);
}

/** The body of a request. The caller has validated that it has this type. */
function jsonOf<T>(body: Uint8Array): T {
  try {
    return JSON.parse(body.length === 0 ? "{}" : new TextDecoder().decode(body));
  } catch (cause) {
    throw new RefusedCall("the body must be a JSON object", 400, { cause });
  }
}
