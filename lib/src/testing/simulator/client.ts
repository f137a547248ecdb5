// The clients of the simulator: perform the operations of a script against the processes, over a network that loses
// answers and delivers calls twice. A client that gets no answer, or one that says that the storage failed, calls again
// with the same idempotency key, perhaps at another process.

import type { PendingToolCall, Waits } from "../../core/model/internal.ts";
import type { Runtime, TurnHandle } from "../../durable/internal.ts";
import type { Observer } from "./observer.ts";
import type { SimulatedProcess } from "./process.ts";
import type { Random } from "./random.ts";
import type { Operation, SimulatedSession } from "./script.ts";
import type { World } from "./world.ts";

import { isEverturnError, MisuseError, validateSession } from "../../core/model/internal.ts";
import { randomStream } from "./random.ts";
import { ReaderCheck } from "./reader.ts";
import { nameOfSession } from "./script.ts";

/** A process that serves clients. */
export type Server = { readonly process: SimulatedProcess; readonly runtime: Runtime };

/**
 * A message that a client has sent to a session, by name. `accepted`: a process answered that it was accepted;
 * `withdrawn`: that it was withdrawn.
 */
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
  /** Counts a verb that reached a process. */
  readonly called: () => void;
  readonly messages: SentMessage[];
  /** What was accepted under each key. */
  readonly keys: Map<string, string>;
  readonly answers: Map<string, number>;
};

/**
 * How often a client calls, how often it waits for a process that is down, and how long it waits for an answer, in
 * milliseconds.
 */
const maxCalls = 4;
const maxWaits = 40;
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
  "session_in_error_state",
  "unknown_tool_call_id",
]);

/** Verbs that are called with a key, and never with other content under it. */
const keyedVerbs: ReadonlySet<string> = new Set(["start", "reply", "send", "steer", "continue", "step"]);

/** Performs one operation. Resolves when the client has its answer or gives up. */
export async function perform(context: ClientContext, operation: Operation): Promise<void> {
  const { observer, world } = context;
  const random = randomStream(context.seed, `operation ${operation.call}`);
  const { plan, number, verb } = operation;
  const { id } = operation.session;
  const name = nameOfSession(operation.session);
  const key = `k${number}`;
  const call: Call = (act) => callUntilAnswered(context, operation, random, act);
  world.log(() => `client calls ${verb} ${name} (${key})`);
  switch (verb) {
    case "start":
      return sending(context, operation, random, call, (runtime) =>
        runtime.start(plan, { id, key, ...waitsOf(context, number) }),
      );
    case "reply":
      return sending(context, operation, random, call, (runtime) =>
        runtime.reply(id, plan, { key, ...waitsOf(context, number) }),
      );
    case "send": {
      const whenBusy = random.pick(["steer", "queue", "interrupt", "reject"]);
      if (whenBusy === "interrupt") observer.resets(name);
      return sending(context, operation, random, call, (runtime) => runtime.send(id, plan, { key, whenBusy }));
    }
    case "steer": {
      const message = sent(context, operation.session, plan);
      const steered = await call((runtime) => runtime.steer(id, plan, { id: key }));
      if (steered?.type === "answer") accepted(context, operation.session, key, message);
      return;
    }
    case "withdraw": {
      const message = sent(context, operation.session, plan);
      const steered = await call((runtime) => runtime.steer(id, plan, { id: key }));
      if (steered?.type === "answer") accepted(context, operation.session, key, message);
      await world.sleep(random.whole(0, 300));
      const withdrawn = await call((runtime) => runtime.withdraw(id, key));
      const isWithdrawn = withdrawn?.type === "answer" && /^(?:already_)?cancelled$/.test(withdrawn.value);
      if (isWithdrawn) message.withdrawn = true;
      // Otherwise it may be withdrawn or not: without an answer, and also after one, if the network delivers the call
      // twice and the claim of the input has ended before the second time.
      else message.accepted = false;
      return;
    }
    case "continue":
      await call(async (runtime) =>
        startedUnder(context, operation.session, key, await runtime.continue(id, null, { key })),
      );
      return;
    case "step":
      await call(async (runtime) => startedUnder(context, operation.session, key, await runtime.step(id, { key })));
      return;
    case "cancel":
      return cancelOpen(context, operation, random, call);
    case "answer": {
      const [first, ...rest] = await openCalls(context, operation, random, call);
      if (first === undefined) return;
      await answerCall(context, operation, random.pick([first, ...rest]), random, call);
      // The turn that the answer has started is cancelled, perhaps before it used the answer.
      if (random.chance(0.25)) await cancelOpen(context, operation, random, call);
      return;
    }
    case "compact":
    case "undo":
      return changeWindow(context, operation, random, call);
    case "fork":
      return fork(context, operation, random, call);
    case "reuse":
      return reuse(context, operation, random, call);
    case "delete": {
      const deleted = await call((runtime) => runtime.delete(id));
      // Another session under this id: processes that have cached the old one may continue it.
      if (deleted?.type !== "answer" || random.chance(0.3)) return;
      const message = sent(context, operation.session, plan);
      const started = await call((runtime) => runtime.start(plan, { id, key }));
      if (started?.type === "answer") message.accepted = true;
      return;
    }
    case "get": {
      const view = await call((runtime) => runtime.get(id, { messages: "all" }));
      if (view?.type !== "answer" || view.value === null) return;
      const valid = validateSession(view.value.session);
      if (!valid.ok) observer.violation(`S2: the session ${name} is not valid: ${JSON.stringify(valid.failure)}`);
      return;
    }
    case "list": {
      const page = await call((runtime) => runtime.list());
      if (page?.type !== "answer") return;
      for (const listed of page.value.items) {
        const listedName = nameOfSession({ tenant: operation.session.tenant, id: listed.id });
        if (!observer.sessions.has(listedName))
          observer.violation(`tenants: ${listedName} is listed, and does not exist`);
      }
      return;
    }
    case "recover": {
      const isOne = random.chance(0.6);
      if (isOne) observer.resets(name);
      await call((runtime) => runtime.recover(isOne ? id : undefined));
      return;
    }
    case "drive": {
      const deadlineMs = random.pick([0, 200, 2000]);
      await call((runtime) => {
        observer.drives(name, deadlineMs);
        return runtime.drive(id, { deadlineMs });
      });
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
      await answerOf(context, operation, server, random, (runtime) => runtime.close({ graceMs }));
      context.restart(server);
      return;
    }
  }
}

/** The calls of the session that wait for an answer. A client that finds none looks again a few times. */
async function openCalls(
  { world }: ClientContext,
  { session }: Operation,
  random: Random,
  call: Call,
): Promise<readonly PendingToolCall[]> {
  for (let left = random.pick([0, 2, 6]); ; left -= 1) {
    const view = await call((runtime) => runtime.get(session.id));
    const pending = view?.type === "answer" ? (view.value?.session.pendingToolCalls ?? []) : [];
    const open = pending.filter(({ decision }) => decision === null);
    if (open.length > 0 || left <= 0) return open;
    await world.sleep(random.whole(50, 600));
  }
}

/** Forks the session, with all its messages or the first of them, and sends a message to the fork. */
async function fork(context: ClientContext, operation: Operation, random: Random, call: Call): Promise<void> {
  const { number, plan, session } = operation;
  const forked = { tenant: session.tenant, id: `f${number}` };
  const view = random.chance(0.5) ? await call((runtime) => runtime.get(session.id, { messages: "all" })) : null;
  const length = view?.type === "answer" ? (view.value?.session.thread.messages.length ?? 0) : 0;
  const at = view === null ? {} : { at: random.whole(0, length) };
  const answer = await call((runtime) => runtime.fork(session.id, { id: forked.id, ...at }));
  if (answer?.type !== "answer" || random.chance(0.3)) return;
  await context.world.sleep(random.whole(0, 500));
  const message = sent(context, forked, plan);
  const key = `k${number}`;
  const sentTo = await call((runtime) => runtime.send(forked.id, plan, { key, whenBusy: "queue" }));
  if (sentTo?.type === "answer") accepted(context, forked, key, message);
}

/** How often a client asks again for a compaction, or its undo, while a turn is open. */
const maxRefusals = 8;

/**
 * Asks for a compaction, or undoes the newest one, and sends a message, whose turn requests the summary or shows what
 * requests contain. A turn that is open refuses both.
 */
async function changeWindow(context: ClientContext, operation: Operation, random: Random, call: Call): Promise<void> {
  const { number, plan, session, verb } = operation;
  const key = `w${number}`;
  const change = () =>
    call((runtime) =>
      verb === "compact" ? runtime.compact(session.id, { key }) : runtime.undoCompaction(session.id, { key }),
    );
  let changed = await change();
  for (let left = maxRefusals; left > 0 && changed?.type === "rejected" && changed.reason === "conflict"; left -= 1) {
    await context.world.sleep(random.whole(50, 700));
    changed = await change();
  }
  if (changed?.type !== "answer") return;
  // A repeated call has no further effect.
  if (random.chance(0.3)) await change();
  // A new frame follows the one that was undone.
  if (verb === "undo" && random.chance(0.6))
    await call((runtime) => runtime.compact(session.id, { key: `${key} again` }));
  if (random.chance(0.2)) return;
  const message = sent(context, session, plan);
  const sentTo = await call((runtime) => runtime.send(session.id, plan, { key: `k${number}`, whenBusy: "queue" }));
  if (sentTo?.type === "answer") accepted(context, session, `k${number}`, message);
}

/** Uses one key for two contents: at most one of them is accepted. */
async function reuse(context: ClientContext, operation: Operation, random: Random, call: Call): Promise<void> {
  const { number, plan, session } = operation;
  const key = `k${number}`;
  for (const text of [plan, `#${number + 500} look`]) {
    const message = sent(context, session, text);
    const answer = await call((runtime) => runtime.send(session.id, text, { key, whenBusy: "queue" }));
    if (answer?.type === "answer") accepted(context, session, key, message);
    await context.world.sleep(random.whole(0, 400));
  }
}

/** A message was accepted under a key. Other content under the same key must not be. */
function accepted(
  { observer, keys }: ClientContext,
  session: SimulatedSession,
  key: string,
  message: SentMessage,
): void {
  message.accepted = true;
  const name = nameOfSession(session);
  const other = keys.get(`${name} ${key}`);
  if (other !== undefined && other !== message.text && !observer.of(name).wasDeleted) {
    observer.violation(
      `keys: ${key} of ${name} was accepted with ${JSON.stringify(other)} and ${JSON.stringify(message.text)}`,
    );
  }
  keys.set(`${name} ${key}`, message.text);
}

/** A process has answered a verb that starts a turn. All calls with one key have the same turn. */
function startedUnder(
  { observer, keys }: ClientContext,
  session: SimulatedSession,
  key: string,
  { turnId }: TurnHandle,
): void {
  const name = nameOfSession(session);
  const other = keys.get(`turn ${name} ${key}`);
  if (turnId === null || observer.of(name).wasDeleted) return;
  if (other !== undefined && other !== turnId) {
    observer.violation(`keys: ${key} of ${name} has started the turns ${other} and ${turnId}`);
  }
  keys.set(`turn ${name} ${key}`, turnId);
}

/** Sometimes deadlines for calls that wait for a client: the same for all calls with one key. */
function waitsOf({ seed }: ClientContext, number: number): { readonly waits?: Waits } {
  const random = randomStream(seed, `waits ${number}`);
  if (!random.chance(0.2)) return {};
  return { waits: { manual: { afterMs: random.whole(200, 3000) }, approval: { afterMs: random.whole(200, 3000) } } };
}

/** Cancels the open turn of the session, if there is one. */
async function cancelOpen(context: ClientContext, { session }: Operation, random: Random, call: Call): Promise<void> {
  const { id } = session;
  const name = nameOfSession(session);
  const view = await call((runtime) => runtime.get(id));
  const turnId = view?.type === "answer" ? view.value?.openTurn?.turnId : undefined;
  if (turnId === undefined) return;
  context.observer.resets(name);
  const waitMs = random.pick([0, 500, 60_000]);
  const cancelled = await call((runtime) => runtime.cancel(id, { turnId, waitMs }));
  if (cancelled?.type === "answer") context.observer.cancelled(name, turnId, cancelled.value);
}

type Call = <T>(act: (runtime: Runtime) => Promise<T>) => Promise<Answer<T> | null>;

/** The message of a text. Calls that repeat another one send the same message. */
function sent({ messages }: ClientContext, session: SimulatedSession, text: string): SentMessage {
  const name = nameOfSession(session);
  const existing = messages.find((message) => message.session === name && message.text === text);
  if (existing !== undefined) return existing;
  const message = { session: name, text, accepted: false, withdrawn: false };
  messages.push(message);
  return message;
}

async function sending(
  context: ClientContext,
  operation: Operation,
  random: Random,
  call: Call,
  act: (runtime: Runtime) => Promise<TurnHandle>,
): Promise<void> {
  const { session, plan, number, verb } = operation;
  const message = sent(context, session, plan);
  // The client that sent the message may leave at any time; the turn must not depend on it (H6).
  const isWatched = random.chance(0.5);
  const answer = await call(async (runtime) => {
    const handle = await act(runtime);
    // A message that steers a turn is accepted by the turn that is open then.
    if (verb !== "send") startedUnder(context, session, `k${number}`, handle);
    if (isWatched) void watchTurn(context, nameOfSession(operation.session), handle, random.whole(1, 6));
  });
  if (answer?.type === "answer") accepted(context, session, `k${number}`, message);
  // Only a session that is usable accepts messages.
  if (answer?.type === "rejected" && answer.reason === "session_in_error_state" && random.chance(0.6)) {
    context.observer.resets(nameOfSession(operation.session));
    await call((runtime) => runtime.recover(operation.session.id));
  }
}

/**
 * Reads a few events of a turn, leaves, and checks the result of the turn (H2). Runs in the process that accepted the
 * turn.
 */
async function watchTurn(
  { observer }: ClientContext,
  name: string,
  { turnId, events, result }: TurnHandle,
  count: number,
): Promise<void> {
  if (turnId === null) return;
  try {
    let left = count;
    for await (const _ of events) if ((left -= 1) <= 0) break;
    const end = await result;
    if (end.status === "ended") observer.resulted(name, turnId, end.outcome.type);
  } catch (error) {
    // The process has lost the turn, or the storage failed.
    const reason = errorReason(error);
    if (!expectedReasons.has(reason) && !reason.startsWith("storage_")) {
      observer.violation(`the result of ${turnId} rejected with ${reason}: ${String(error)}`);
    }
  }
}

async function answerCall(
  { observer }: ClientContext,
  { session: of, number }: Operation,
  { id, reason }: PendingToolCall,
  random: Random,
  call: Call,
): Promise<void> {
  const session = of.id;
  const options = { key: `k${number}`, ...(random.chance(0.2) ? { continue: false } : {}) };
  if ("continue" in options) observer.rests(nameOfSession(of));
  const decision = random.chance(0.7) ? ({ type: "approve" } as const) : ({ type: "deny", reason: "no" } as const);
  const isApproval = reason === "approval";
  if (random.chance(0.2)) {
    const token = await call((runtime) => runtime.token(session, id));
    if (token?.type !== "answer") return;
    const answer = isApproval ? decision : ({ type: "result", value: `answer ${number}` } as const);
    let completions = 0;
    const complete = () =>
      call(async (runtime) => {
        const isLater = completions > 0;
        const { type } = await runtime.complete(token.value, answer);
        if (type === "completed") completions += 1;
        if (completions > 1) observer.violation(`tokens: the token of call ${id} was completed ${completions} times`);
        // The tokens of a deleted session are removed.
        if (observer.of(nameOfSession(of)).wasDeleted) return;
        if (isLater && type !== "already_completed" && type !== "completed") {
          observer.violation(`tokens: the token of call ${id}, which was completed, is ${type}`);
        }
      });
    await complete();
    if (random.chance(0.5)) await complete();
  } else if (isApproval) await call((runtime) => runtime.decide(session, id, decision, options));
  else await call((runtime) => runtime.submitToolResults(session, [[id, `answer ${number}`]], options));
}

/** Calls until there is an answer that is not a failure of the storage; `null`: there was none. */
async function callUntilAnswered<T>(
  context: ClientContext,
  operation: Operation,
  random: Random,
  act: (runtime: Runtime) => Promise<T>,
): Promise<Answer<T> | null> {
  const { world } = context;
  const { process: place, verb, session } = operation;
  for (let [calls, waits] = [0, 0]; calls < maxCalls && waits < maxWaits;) {
    const server = context.server((place + calls + waits) % context.places);
    if (server === null) {
      waits += 1;
      await world.sleep(random.whole(50, 500));
      continue;
    }
    calls += 1;
    const answer = await answerOf(context, operation, server, random, act);
    world.log(
      () => `client has from ${server.process.name} for ${verb} ${nameOfSession(session)}: ${describe(answer)}`,
    );
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

/** One call over the network, which may deliver it twice, at two processes; `null`: no answer arrived. */
function answerOf<T>(
  context: ClientContext,
  { session, process: place, verb, number }: Operation,
  server: Server,
  random: Random,
  act: (runtime: Runtime) => Promise<T>,
): Promise<Answer<T> | null> {
  const { world, observer, hasFaults } = context;
  const isAnswerLost = random.chance(0.08) && hasFaults();
  const repeatedAfterMs = random.chance(0.06) && hasFaults() ? random.whole(1, 500) : null;
  const other = context.server((place + 1) % context.places);
  return new Promise((resolve) => {
    const timer = world.schedule(answerMs, null, () => resolve(null));
    const answer = (value: Answer<T>) => {
      if (isAnswerLost) return;
      world.schedule(random.whole(1, 10), null, () => {
        timer.cancelled = true;
        resolve(value);
      });
    };
    const deliver = ({ process, runtime }: Server, afterMs: number, reply: (value: Answer<T>) => void) => {
      world.schedule(afterMs, process, () => {
        context.called();
        const [name, key] = [nameOfSession(session), `k${number}`];
        // What was accepted before the call must be found by it.
        const isRepeated = keyedVerbs.has(verb) && observer.isAccepted(name, key);
        act(runtime.tenant(session.tenant)).then(
          (value) => reply({ type: "answer", value }),
          (error: unknown) => {
            const reason = errorReason(error);
            if (!expectedReasons.has(reason) && !reason.startsWith("storage_")) {
              observer.violation(`a verb rejected with ${reason}: ${String(error)}`);
            }
            if (isRepeated && reason === "conflict" && !observer.of(name).wasDeleted) {
              observer.violation(
                `keys: ${verb} of ${name} was refused, and ${key} was accepted before: ${String(error)}`,
              );
            }
            reply({ type: "rejected", reason });
          },
        );
      });
    };
    deliver(server, random.whole(1, 10), answer);
    if (repeatedAfterMs !== null && other !== null) deliver(other, repeatedAfterMs, () => undefined);
  });
}

function errorReason(error: unknown): string {
  if (isEverturnError(error) || error instanceof MisuseError) return error.reason;
  return error instanceof Error ? error.name : typeof error;
}

function describe(answer: Answer<unknown> | null): string {
  if (answer === null) return "nothing";
  if (answer.type === "rejected") return answer.reason;
  const { value } = answer;
  // A word such as `cancelled`. Tokens are random.
  return typeof value === "string" && value.length < 32 ? value : "an answer";
}

/** Reads the events of a session until the script is over, with several connections. */
async function follow(context: ClientContext, { session, process }: Operation, random: Random): Promise<void> {
  const { world, observer } = context;
  const check = new ReaderCheck(observer, nameOfSession(session));
  context.called();
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
  { tenant, id }: SimulatedSession,
  check: ReaderCheck,
  random: Random,
): Promise<void> {
  const ended = process.ended.then(() => null);
  const after = check.cursor === null ? {} : { after: check.cursor };
  const events = runtime.tenant(tenant).events(id, after)[Symbol.asyncIterator]();
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
    const reason = errorReason(error);
    if (reason !== "not_found" && !reason.startsWith("storage_")) {
      observer.violation(`events rejected with ${reason}: ${String(error)}`);
    }
  } finally {
    if (process.state !== "killed") void events.return?.();
  }
}
