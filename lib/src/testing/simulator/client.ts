// The clients of the simulator: perform the operations of a script against the processes, over a network that loses requests and answers. A client that
// gets no answer, or one that says that the storage failed, calls again with the same idempotency key, perhaps at another process.

import type { PendingToolCall } from "../../model/internal.ts";
import type { Runtime } from "../../runtime/internal.ts";
import type { Observer } from "./observer.ts";
import type { SimulatedProcess } from "./process.ts";
import type { Random } from "./random.ts";
import type { Operation } from "./script.ts";
import type { World } from "./world.ts";

import { isEverturnError, MisuseError } from "../../model/internal.ts";
import { randomStream } from "./random.ts";
import { ReaderCheck } from "./reader.ts";

/** A process that serves clients. */
export type Server = { readonly process: SimulatedProcess; readonly runtime: Runtime };

/** A message that a client has sent. `accepted`: a process answered that it was accepted; `withdrawn`: that it was withdrawn. */
export type SentMessage = {
  readonly session: string;
  readonly text: string;
  accepted: boolean;
  withdrawn: boolean;
};

/** What clients work with. */
export type ClientContext = {
  readonly seed: number;
  readonly world: World;
  readonly observer: Observer;
  /** The server in a place; `null`: its process is down. */
  readonly server: (place: number) => Server | null;
  readonly places: number;
  /** `false`: the network between clients and processes loses nothing. */
  readonly hasFaults: () => boolean;
  /** Resolves when the run is over, and readers end. */
  readonly over: Promise<null>;
  readonly isOver: () => boolean;
  /** Replaces the process in a place, after it was closed. */
  readonly restart: (server: Server) => void;
  readonly messages: SentMessage[];
  readonly answers: Map<string, number>;
};

/** How often a client calls, and how long it waits for an answer, in milliseconds. */
const maxCalls = 4;
const answerMs = 3000;

type Answer<T> =
  | { readonly type: "answer"; readonly value: T }
  | { readonly type: "rejected"; readonly reason: string };

/** Errors that a verb may reject with, whatever the state of the session. */
const expectedReasons: ReadonlySet<string> = new Set([
  "conflict",
  "not_found",
  "lease_lost",
  "invalid_argument",
  "invalid_status",
  "unknown_tool_call_id",
]);

/** Performs one operation. Resolves when the client has its answer or gives up. */
export async function perform(context: ClientContext, operation: Operation): Promise<void> {
  const { observer, world } = context;
  const random = randomStream(context.seed, `operation ${operation.number}`);
  const { session, plan, number, verb } = operation;
  const key = `k${number}`;
  const call = <T>(act: (runtime: Runtime) => Promise<T>) => callUntilAnswered(context, operation, random, act);
  world.log(() => `client calls ${verb} ${session} (${key})`);
  switch (verb) {
    case "start":
      return sending(context, operation, call, (runtime) => runtime.start(plan, { id: session, key }));
    case "reply":
      return sending(context, operation, call, (runtime) => runtime.reply(session, plan, { key }));
    case "send": {
      const whenBusy = random.pick(["steer", "queue", "interrupt", "reject"]);
      return sending(context, operation, call, (runtime) => runtime.send(session, plan, { key, whenBusy }));
    }
    case "steer":
      return sending(context, operation, call, (runtime) => runtime.steer(session, plan, { id: key }));
    case "withdraw": {
      const message = sent(context, session, plan);
      const steered = await call((runtime) => runtime.steer(session, plan, { id: key }));
      message.accepted = steered?.type === "answer";
      await world.sleep(random.whole(0, 300));
      const withdrawn = await call((runtime) => runtime.withdraw(session, key));
      // Without an answer the message may be withdrawn or not.
      if (withdrawn?.type !== "answer") message.accepted = false;
      else message.withdrawn = withdrawn.value === "cancelled" || withdrawn.value === "already_cancelled";
      return;
    }
    case "cancel": {
      const view = await call((runtime) => runtime.get(session));
      const turnId = view?.type === "answer" ? view.value?.openTurn?.turnId : undefined;
      if (turnId === undefined) return;
      const waitMs = random.pick([0, 500, 60_000]);
      const cancelled = await call((runtime) => runtime.cancel(session, { turnId, waitMs }));
      if (cancelled?.type === "answer") observer.cancelled(session, turnId, cancelled.value);
      return;
    }
    case "answer": {
      const view = await call((runtime) => runtime.get(session));
      const pending = view?.type === "answer" ? (view.value?.session.pendingToolCalls ?? []) : [];
      const open = pending.filter(({ decision }) => decision === null);
      const [first, ...rest] = open;
      if (first !== undefined) await answerCall(operation, random.pick([first, ...rest]), random, call);
      return;
    }
    case "fork":
      await call((runtime) => runtime.fork(session, { id: `f${number}` }));
      return;
    case "delete":
      await call((runtime) => runtime.delete(session));
      return;
    case "get":
      await call((runtime) => runtime.get(session, { messages: "all" }));
      return;
    case "list":
      await call((runtime) => runtime.list());
      return;
    case "recover": {
      const id = random.chance(0.5) ? session : undefined;
      await call((runtime) => runtime.recover(id));
      return;
    }
    case "drive": {
      const deadlineMs = random.pick([0, 200, 2000]);
      await call((runtime) => runtime.drive(session, { deadlineMs }));
      return;
    }
    case "sweep":
      await call((runtime) => runtime.sweep());
      return;
    case "read":
      return follow(context, operation, random);
    case "close": {
      // A deployment: the process hands its turns over, ends, and is replaced.
      const server = context.server(operation.process);
      if (server === null) return;
      const graceMs = random.pick([0, 500]);
      await answerOf(context, server, random, (runtime) => runtime.close({ graceMs }));
      context.restart(server);
      return;
    }
  }
}

type Call = <T>(act: (runtime: Runtime) => Promise<T>) => Promise<Answer<T> | null>;

function sent({ messages }: ClientContext, session: string, text: string): SentMessage {
  const message = { session, text, accepted: false, withdrawn: false };
  messages.push(message);
  return message;
}

async function sending(
  context: ClientContext,
  { session, plan }: Operation,
  call: Call,
  act: (runtime: Runtime) => Promise<unknown>,
): Promise<void> {
  const message = sent(context, session, plan);
  const answer = await call(act);
  message.accepted = answer?.type === "answer";
}

async function answerCall(
  { session, number }: Operation,
  { id, reason }: PendingToolCall,
  random: Random,
  call: Call,
): Promise<void> {
  const options = { key: `k${number}`, ...(random.chance(0.2) ? { continue: false } : {}) };
  if (reason === "approval") {
    const decision = random.chance(0.7) ? ({ type: "approve" } as const) : ({ type: "deny", reason: "no" } as const);
    await call((runtime) => runtime.decide(session, id, decision, options));
  } else {
    await call((runtime) => runtime.submitToolResults(session, [[id, `answer ${number}`]], options));
  }
}

/** Calls until there is an answer that is not a failure of the storage; `null`: there was none. */
async function callUntilAnswered<T>(
  context: ClientContext,
  { process: place, verb, session }: Operation,
  random: Random,
  act: (runtime: Runtime) => Promise<T>,
): Promise<Answer<T> | null> {
  const { world } = context;
  for (let attempt = 0; attempt < maxCalls; attempt += 1) {
    const server = context.server((place + attempt) % context.places);
    if (server === null) {
      await world.sleep(random.whole(50, 500));
      continue;
    }
    const answer = await answerOf(context, server, random, act);
    world.log(() => `client has from ${server.process.name} for ${verb} ${session}: ${describe(answer)}`);
    if (answer === null || (answer.type === "rejected" && answer.reason.startsWith("storage_"))) {
      await world.sleep(random.whole(10, 800));
      continue;
    }
    const name = `${verb} ${answer.type === "answer" ? "ok" : answer.reason}`;
    context.answers.set(name, (context.answers.get(name) ?? 0) + 1);
    return answer;
  }
  return null;
}

/** One call over the network; `null`: no answer arrived. */
function answerOf<T>(
  { world, observer, hasFaults }: ClientContext,
  { process, runtime }: Server,
  random: Random,
  act: (runtime: Runtime) => Promise<T>,
): Promise<Answer<T> | null> {
  const isAnswerLost = random.chance(0.08) && hasFaults();
  return new Promise((resolve) => {
    const timer = world.schedule(answerMs, null, () => resolve(null));
    const answer = (value: Answer<T>) => {
      if (isAnswerLost) return;
      world.schedule(random.whole(1, 10), null, () => {
        timer.cancelled = true;
        resolve(value);
      });
    };
    world.schedule(random.whole(1, 10), process, () => {
      act(runtime).then(
        (value) => answer({ type: "answer", value }),
        (error: unknown) => {
          const reason = reasonOf(error);
          if (!expectedReasons.has(reason) && !reason.startsWith("storage_")) {
            observer.violation(`a verb rejected with ${reason}: ${String(error)}`);
          }
          answer({ type: "rejected", reason });
        },
      );
    });
  });
}

function reasonOf(error: unknown): string {
  if (isEverturnError(error) || error instanceof MisuseError) return error.reason;
  return error instanceof Error ? error.name : typeof error;
}

function describe(answer: Answer<unknown> | null): string {
  if (answer === null) return "nothing";
  if (answer.type === "rejected") return answer.reason;
  const { value } = answer;
  return typeof value === "string" ? value : "an answer";
}

/** Reads the events of a session until the script is over, with several connections. */
async function follow(context: ClientContext, { session, process }: Operation, random: Random): Promise<void> {
  const { world, observer } = context;
  const check = new ReaderCheck(observer, session);
  for (let place = process; !context.isOver(); place += 1) {
    const server = context.server(place % context.places);
    if (server !== null) await readOnce(context, server, session, check, random);
    await world.sleep(random.whole(5, 400));
  }
}

/** One connection of a reader. It ends with the process, by an error, or after some events. */
async function readOnce(
  { world, observer, isOver, over }: ClientContext,
  { process, runtime }: Server,
  session: string,
  check: ReaderCheck,
  random: Random,
): Promise<void> {
  const ended = process.ended.then(() => null);
  const after = check.cursor === null ? {} : { after: check.cursor };
  const events = runtime.events(session, after)[Symbol.asyncIterator]();
  let left = random.chance(0.3) ? Number.POSITIVE_INFINITY : random.whole(1, 12);
  try {
    while (left > 0 && !isOver()) {
      left -= 1;
      const next = await Promise.race([events.next(), ended, over]);
      if (next === null || next.done === true) return;
      check.take(next.value);
      if (random.chance(0.3)) await world.sleep(random.whole(1, 200));
    }
  } catch (error) {
    // The session does not exist yet, or the storage failed: the reader connects again.
    const reason = reasonOf(error);
    if (reason !== "not_found" && !reason.startsWith("storage_")) {
      observer.violation(`events rejected with ${reason}: ${String(error)}`);
    }
  } finally {
    if (process.state !== "killed") void events.return?.();
  }
}
