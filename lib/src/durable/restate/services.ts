// The two virtual objects, built with the SDK: one for each session, and the sweeper.
//
// Settings of the handlers
//   inactivityTimeout   longer than a slice. While a handler drives a session it sends nothing to Restate, which would
//                       otherwise ask it to suspend after one minute, and abort it after `abortTimeout`.
//   abortTimeout        a minute after that, Restate closes the connection of a handler that has not returned. The
//                       session is then handed over. For handlers that drive no session both follow from the lease
//                       (`patienceOf`), so that one that hangs, for example in a paused process, is repeated soon.
//                       Those are idempotent: one that takes longer, for example because the storage is slow, finds
//                       what it has written when it is repeated, or waits for the sweep that still runs. Restate cannot
//                       tell a handler that drives a session in a paused process from one that waits for a model, so
//                       that one hangs, and the sweeper sends another (`drive-handlers.ts`).
//   retryPolicy         an attempt fails if its process ended or cannot be reached. It is repeated for about a minute
//                       and a half, then killed, not paused: a paused invocation would block all later ones of its
//                       session. An invocation that has begun is repeated on the deployment on which it began. If that
//                       is gone for good, the invocation is killed, and the sweeper sends the session to the current
//                       deployment.
//   retentions          the result of `drive` is kept for callers that wait for it and for the user interface. Results
//                       of `resume` and of the sweeper are not kept: their idempotency keys then only cover what is
//                       under way.

import type { Handler, Handlers } from "./handlers.ts";
import type { Invocation } from "./invocation.ts";
import type { Sdk } from "./sdk.ts";
import type { RestateServiceOptions, ServiceContext } from "./service-context.ts";
import type { ObjectContext, ObjectSharedContext } from "@restatedev/restate-sdk";

import { sessionHandlers, sweeperHandlers } from "./handlers.ts";
import { RefusedCall } from "./invocation.ts";
import { loadSdk } from "./sdk.ts";
import { json, unread } from "./serde.ts";
import { serverWaitMs, serviceContext } from "./service-context.ts";

/**
 * A service that Restate can call: pass it to `serve`, `endpoint` or another function of the SDK that takes services.
 */
export type RestateService = { readonly name: string };

/** How an attempt that failed is repeated. The last attempts are a second apart. */
const retryPolicy = {
  initialInterval: 50,
  exponentiationFactor: 2,
  maxInterval: 1000,
  maxAttempts: 100,
  onMaxAttempts: "kill",
} as const;

/** The time between the end of a slice and the moment Restate gives it up, in milliseconds. */
const marginMs = 60_000;

/**
 * The services that drive sessions for Restate: a virtual object for each session, and the sweeper. Rejects with
 * `EngineError` if the SDK is not installed or needs a newer platform, and with `MisuseError` for invalid options.
 */
export async function restateServices(options: RestateServiceOptions): Promise<readonly RestateService[]> {
  const context = serviceContext(options);
  const sdk = await loadSdk();
  return [sessionObject(sdk, context), sweeperObject(sdk, context)];
}

function sessionObject(sdk: Sdk, context: ServiceContext): RestateService {
  return sdk.object({
    name: context.names.session,
    description: "Drives an Everturn session, and accepts input for it.",
    options: objectOptions(context),
    handlers: handlersOf(sdk, context, sessionHandlers(context)),
  });
}

function sweeperObject(sdk: Sdk, context: ServiceContext): RestateService {
  return sdk.object({
    name: context.names.sweeper,
    description: "Finds Everturn turns that no process drives, and applies deadlines and retention.",
    options: objectOptions(context),
    handlers: handlersOf(sdk, context, sweeperHandlers(context)),
  });
}

/**
 * Settings of both objects. The timeouts are those of handlers that drive no session: one that hangs is repeated after
 * `patienceMs`.
 */
function objectOptions({ patienceMs }: ServiceContext) {
  const half = Math.ceil((patienceMs - serverWaitMs) / 2);
  return { retryPolicy, inactivityTimeout: half, abortTimeout: half };
}

function handlersOf(sdk: Sdk, context: ServiceContext, handlers: Handlers) {
  return Object.fromEntries(
    Object.entries(handlers).map(([name, handler]) => [name, handlerOf(sdk, context, handler)]),
  );
}

function handlerOf(sdk: Sdk, { deadlineMs, resultRetentionMs }: ServiceContext, handler: Handler) {
  const { isExclusive, isLong, keepsResult, call } = handler;
  const retention = keepsResult ? resultRetentionMs : 0;
  const options = {
    input: unread,
    idempotencyRetention: retention,
    journalRetention: retention,
    ...(isLong ? { inactivityTimeout: deadlineMs + marginMs, abortTimeout: marginMs } : {}),
  };
  const { exclusive, shared } = sdk.handlers.object;
  return isExclusive
    ? exclusive(options, (ctx: ObjectContext, body: Uint8Array) => terminal(sdk, call(exclusiveOf(sdk, ctx), body)))
    : shared(options, (ctx: ObjectSharedContext, body: Uint8Array) => terminal(sdk, call(sharedOf(sdk, ctx), body)));
}

function exclusiveOf(sdk: Sdk, ctx: ObjectContext): Invocation {
  return { ...sharedOf(sdk, ctx), set: (name, value) => ctx.set(name, value) };
}

function sharedOf(sdk: Sdk, ctx: ObjectSharedContext | ObjectContext): Invocation {
  const { id, attemptCompletedSignal } = ctx.request();
  return {
    key: ctx.key,
    id,
    attemptOver: attemptCompletedSignal,
    run: (name, work) => ctx.run(name, () => terminal(sdk, work())),
    send: ({ service, handler, key, input, idempotencyKey, delayMs }) =>
      void ctx.genericSend({
        service,
        method: handler,
        key,
        parameter: input,
        inputSerde: json(),
        ...(idempotencyKey === null ? {} : { idempotencyKey }),
        ...(delayMs === 0 ? {} : { delay: delayMs }),
      }),
    sleep: (ms) => ctx.sleep(ms),
    get: (name) => ctx.get(name),
    set: (name) => {
      throw new RefusedCall(`a shared handler cannot write the state ${name}`, 500);
    },
  };
}

/** Converts a refused call to the error that Restate does not repeat. */
async function terminal<T>(sdk: Sdk, work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof RefusedCall) throw new sdk.TerminalError(error.message, { errorCode: error.status });
    throw error;
  }
}
