// The handlers that accept input for a session: the verbs of the runtime, for callers inside Restate (client.ts) and
// for scheduled input.
//
// Each accepts its turn as a recorded step and sends `drive` with the id of the turn as idempotency key. The verb
// itself has the id of the invocation as its key, so a step that is repeated because its process died accepts the input
// once. The handlers are shared: `cancel` and `steer` work while a turn runs.

import type { Cancelled, JsonObject, Message, TurnEnd, UserMessage } from "../../core/model/internal.ts";
import type { DecisionInput } from "../../core/session/internal.ts";
import type { AnswerOptions, DurableOptions, MessageOptions, Runtime, StartOptions, SteerInput } from "../internal.ts";
import type { Invocation } from "./invocation.ts";
import type { ServiceContext } from "./service-context.ts";

import { httpStatusOf, isEverturnError, MisuseError } from "../../core/model/internal.ts";
import { isPlainObject } from "../../core/model/parse/reading.ts";
import { continuationKey, driveRequest, resumeRequest } from "./drive-handlers.ts";
import { RefusedCall } from "./invocation.ts";
import { sessionOfKey } from "./names.ts";

/** The options of a verb as JSON: a schema is a plain JSON Schema. */
type AsJson<Options> = Omit<Options, "output"> & { readonly output?: JsonObject };

/** The input of each verb. */
export type VerbInputs = {
  readonly start: {
    readonly input: string | UserMessage | readonly Message[];
    readonly options?: AsJson<Omit<StartOptions, "id">>;
  };
  readonly reply: { readonly text: string | UserMessage; readonly options?: AsJson<MessageOptions> };
  readonly send: { readonly text: string | UserMessage; readonly options?: AsJson<MessageOptions> };
  readonly continue: { readonly message?: Message | null; readonly options?: AsJson<DurableOptions> };
  readonly step: { readonly options?: AsJson<DurableOptions> };
  readonly submitToolResults: {
    readonly results: readonly (readonly [toolCallId: string, content: unknown])[];
    readonly options?: AsJson<AnswerOptions>;
  };
  readonly decide: {
    readonly toolCallId: string;
    readonly decision: DecisionInput;
    readonly options?: AsJson<AnswerOptions>;
  };
  readonly steer: {
    readonly input: SteerInput;
    readonly options?: { readonly engine?: string; readonly turnContext?: JsonObject };
  };
};

/** A turn that was accepted. */
export type AcceptedTurn = {
  readonly sessionId: string;
  /** `null` if no turn was started because tool calls of the session are still pending. */
  readonly turnId: string | null;
  /** What the session waits for, if no turn was started; otherwise `null`. */
  readonly end: TurnEnd | null;
};

type Accept<Input> = (
  sessions: Runtime,
  id: string,
  input: Input,
  key: string,
) => Promise<{ readonly turnId: string | null; readonly result?: Promise<TurnEnd> }>;

const verbs: { readonly [Verb in keyof VerbInputs]: Accept<VerbInputs[Verb]> } = {
  start: (sessions, id, { input, options }, key) => sessions.start(input, { key, ...options, id }),
  reply: (sessions, id, { text, options }, key) => sessions.reply(id, text, { key, ...options }),
  send: (sessions, id, { text, options }, key) => sessions.send(id, text, { key, ...options }),
  continue: (sessions, id, { message = null, options }, key) => sessions.continue(id, message, { key, ...options }),
  step: (sessions, id, { options }, key) => sessions.step(id, { key, ...options }),
  submitToolResults: (sessions, id, { results, options }, key) =>
    sessions.submitToolResults(id, results, { key, ...options }),
  decide: (sessions, id, { toolCallId, decision, options }, key) =>
    sessions.decide(id, toolCallId, decision, { key, ...options }),
  steer: async (sessions, id, { input, options }, key) => {
    // A repeated call names no turn if its input was accepted by a turn that has ended.
    const { turnId } = await sessions.steer(id, input, { id: key, ...options });
    return { turnId: turnId === "" ? null : turnId };
  },
};

/** The names of the handlers that accept a turn. */
export type VerbName = keyof VerbInputs;

/** What the fields of the input of each verb must be. The verbs of the runtime validate the rest. */
const fieldChecks: { readonly [Verb in VerbName]: { readonly [field: string]: (value: unknown) => boolean } } = {
  start: { input: (value) => isText(value) || Array.isArray(value) || (isPlainObject(value) && "role" in value) },
  reply: { text: isTextOrObject },
  send: { text: isTextOrObject },
  continue: { message: (value) => value === undefined || value === null || isPlainObject(value) },
  step: {},
  submitToolResults: {
    results: (value) => Array.isArray(value) && value.every((pair) => Array.isArray(pair) && isText(pair[0])),
  },
  decide: { toolCallId: isText, decision: isPlainObject },
  steer: { input: isTextOrObject },
};

function isText(value: unknown): boolean {
  return typeof value === "string";
}

function isTextOrObject(value: unknown): boolean {
  return isText(value) || isPlainObject(value);
}

/** Validates the input of a verb. Throws `RefusedCall`. */
export function checkVerbInput(verb: VerbName, input: { readonly [field: string]: unknown }): void {
  const checks = { ...fieldChecks[verb], options: (value: unknown) => value === undefined || isPlainObject(value) };
  const invalid = Object.entries(checks).find(([field, isValid]) => !isValid(input[field]));
  if (invalid === undefined) return;
  throw new RefusedCall(`${verb}: the field ${JSON.stringify(invalid[0])} is missing or invalid`, 400);
}

/** The handler of a verb. */
export async function accept<Verb extends VerbName>(
  context: ServiceContext,
  invocation: Invocation,
  verb: Verb,
  input: VerbInputs[Verb],
): Promise<AcceptedTurn> {
  const { sessions, sessionId } = target(context, invocation);
  const accepted = await invocation.run("accept", () =>
    refusing(async (): Promise<AcceptedTurn> => {
      const handle = await verbs[verb](sessions, sessionId, input, `restate ${invocation.id}`);
      const { turnId } = handle;
      return { sessionId, turnId, end: turnId === null ? ((await handle.result) ?? null) : null };
    }),
  );
  const { turnId } = accepted;
  if (turnId !== null) {
    invocation.send(driveRequest(context, invocation.key, { turnId }, continuationKey(turnId, 0)));
  }
  return accepted;
}

/** The handler `cancel`: stores the cancel, and lets a process drive the turn to its end. */
export async function cancel(context: ServiceContext, invocation: Invocation): Promise<Cancelled> {
  const { sessions, sessionId } = target(context, invocation);
  const { cancelled, now } = await invocation.run("cancel", () =>
    refusing(async () => {
      const cancelled = await sessions.cancel(sessionId, { waitMs: 0 });
      return { cancelled, now: context.clock.now() };
    }),
  );
  if (cancelled === "stored") invocation.send(resumeRequest(context, invocation.key, now));
  return cancelled;
}

/** The handler `result`: how a turn ended; `null`: it is still open. */
export async function result(
  context: ServiceContext,
  invocation: Invocation,
  { turnId }: { readonly turnId: string },
): Promise<TurnEnd | null> {
  const { sessions, sessionId } = target(context, invocation);
  return invocation.run("result", () =>
    refusing(async () => {
      const view = await sessions.get(sessionId, { messages: 0 });
      const open = view?.openTurn?.turnId === turnId ? view.openTurn : null;
      const isOpen = open !== null && open.status !== "parked";
      if (isOpen || view?.queuedTurns.includes(turnId) === true) return null;
      return sessions.attach(sessionId, turnId).result;
    }),
  );
}

function target({ sessions }: ServiceContext, { key }: Invocation) {
  const name = sessionOfKey(key);
  if (name === null) throw new RefusedCall(`${JSON.stringify(key)} is not the key of a session`, 400);
  return { sessions: sessions.tenant(name.tenant), sessionId: name.sessionId };
}

/**
 * Converts errors that a repeated call would meet again. Errors of the storage are thrown as they are: Restate repeats
 * the call.
 */
async function refusing<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof MisuseError) throw new RefusedCall(error.message, 400, { cause: error });
    if (!isEverturnError(error)) throw error;
    const status = httpStatusOf(error.failure.type, error.failure.reason);
    if (status >= 500) throw error;
    throw new RefusedCall(error.message, status, { cause: error });
  }
}
