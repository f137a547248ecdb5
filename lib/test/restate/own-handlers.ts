// Handlers of the user's own that call sessions, and callers that call the handlers of the library in unusual ways,
// with a real Restate server.
//
//   sessions    unusual ids, of a tenant; the service process and the server are killed while a handler waits
//   repeated    requests that are sent many times, with one idempotency key and without, also after a restart of the
//               server
//   refused     keys and bodies that can never be accepted: the response comes at once, and Restate does not repeat the
//               call
//   visible     turn, step and outcome in the state and the results that the user interface shows; the timeouts of the
//               handlers

import type { Deployed } from "./deployed.ts";
import type { RestateNode } from "./restate-server.ts";

import { faultsOf, performedAgain, ranTwice, resting } from "../long/oracles.ts";
import { readLog } from "../long/world.ts";
import { deploy } from "./deployed.ts";
import { kill, stop } from "./programs.ts";
import { patienceMs, report, until } from "./report.ts";

const tenant = "tenant/é";
/** Ids that are hard to write in a URL, a header or a key. */
const unusualIds = ["a/b", "..", "%2F", "é 漢 😀", "?delay=1h#", "\ud800", "x".repeat(500)];
const weekMs = 7 * 86_400_000;

type Conversation = {
  readonly turns: readonly string[];
  readonly statuses: readonly string[];
  readonly texts: readonly string[];
  readonly cancelled: string;
};

/** Timeouts of a service or a handler, as the admin API shows them. */
type Timeouts = { readonly inactivity_timeout?: string; readonly abort_timeout?: string };

/** Returns the violations. */
export async function ownHandlersTest(): Promise<readonly string[]> {
  const deployed = await deploy(1, 1, "own-service");
  try {
    const [node] = deployed.restate.nodes;
    if (node === undefined) throw new Error("there is no node");
    const service = await deployed.startService(0);
    await deployed.register();
    await deployed.register();
    const said = new Map<string, string>();
    const sessions = await conversations(deployed, node, service, said);
    const repeated = await repeatedRequests(deployed, node, said);
    const refused = await refusedCalls(node);
    const visible = await whatIsVisible(node, sessions.turns);
    const scheduled = await scheduledInput(deployed, node, said);
    await resting(deployed.storage, Date.now() + patienceMs);
    await stop(sessions.service);
    const lines = readLog(deployed.log);
    const ids = [...new Set(said.values())];
    const { faults } = await faultsOf(deployed.web.tenant(tenant), deployed.storage, ids, said);
    return [
      ...sessions.violations,
      ...repeated,
      ...refused,
      ...visible,
      ...scheduled,
      ...faults,
      ...performedAgain(lines),
      ...ranTwice(lines),
    ];
  } finally {
    await deployed.close();
  }
}

/** A handler of the user's own holds a conversation with each session, while its process and the server are killed. */
async function conversations(
  { startService, log }: Deployed,
  node: RestateNode,
  first: Awaited<ReturnType<Deployed["startService"]>>,
  said: Map<string, string>,
) {
  for (const id of unusualIds) for (const turn of [1, 2]) said.set(`hello ${id} ${turn}`, id);
  const ask = (id: string): Promise<Conversation> =>
    repeatedly(() =>
      call<Conversation>(
        node,
        "Own/converse",
        { tenant, id, text: `hello ${id}` },
        { "idempotency-key": idempotencyKeyFor(id) },
      ),
    );
  const asking = Promise.all(unusualIds.map(ask));
  await until("the first turns begin", () => readLog(log).length > 0);
  await kill(first);
  const service = await startService(0);
  await node.kill();
  await node.start();
  const answers = await asking;
  const again = await Promise.all(unusualIds.map(ask));
  const violations = answers.flatMap(({ turns, statuses, texts, cancelled }, index) => {
    const isComplete = statuses.every((status) => status === "ended") && texts.every((text) => text !== "");
    const isSame = JSON.stringify(again[index]?.turns) === JSON.stringify(turns);
    return isComplete && isSame && cancelled === "nothing_open"
      ? []
      : [`a handler got ${JSON.stringify([turns, statuses, cancelled, again[index]?.turns])}`];
  });
  const turns = answers.flatMap((answer) => answer.turns);
  report(
    `own handlers                  ${answers.length} conversations, ${turns.length} turns, with a kill of the process and of the server`,
  );
  return { service, violations, turns };
}

/** One turn is sent many times. */
async function repeatedRequests(
  { web, storage }: Deployed,
  node: RestateNode,
  said: Map<string, string>,
): Promise<readonly string[]> {
  const id = "repeated";
  said.set(`hello ${id}`, id);
  const key = encodeURIComponent(`${encodeURIComponent(tenant)}/${id}`);
  const turn = await web.tenant(tenant).start(`hello ${id}`, { id });
  const requests = Array.from({ length: 40 }, (_, index) =>
    call<{ readonly status: string }>(
      node,
      `EverturnSession/${key}/${index % 4 === 0 ? "resume" : "drive"}`,
      { turnId: turn.turnId },
      index % 2 === 0 ? {} : { "idempotency-key": turn.turnId ?? "" },
    ),
  );
  const statuses = (await Promise.all(requests)).map(({ status }) => status);
  await resting(storage, Date.now() + patienceMs);
  const end = await turn.result;
  const counts = [...new Set(statuses)].map((status) => `${status} ${statuses.filter((one) => one === status).length}`);
  report(`  repeated requests           ${requests.length} for one turn: ${counts.toSorted().join(", ")}`);
  return end.status === "ended" ? [] : [`a turn that was sent ${requests.length} times ended as ${end.status}`];
}

/** Calls that can never succeed. */
async function refusedCalls(node: RestateNode): Promise<readonly string[]> {
  const existing = encodeURIComponent(`${encodeURIComponent(tenant)}/repeated`);
  const calls = [
    ["EverturnSession/no%20slash/start", { input: "hello" }, 400],
    ["EverturnSession/no%20slash/drive", {}, 400],
    ["EverturnSession/%2F/cancel", {}, 400],
    ["EverturnSession/%2F%2573/reply", { text: "hello" }, 400],
    ["EverturnSession/%2Fmissing/reply", { text: "hello" }, 404],
    [`EverturnSession/${existing}/reply`, { text: 5 }, 400],
    [`EverturnSession/${existing}/reply`, [], 400],
    [`EverturnSession/${existing}/drive`, { turnId: 5 }, 400],
    [`EverturnSession/${existing}/result`, { turnId: "turn-of-another-session" }, 404],
    [`EverturnSession/${existing}/start`, { input: "hello" }, 409],
  ] as const;
  const began = Date.now();
  const violations = await Promise.all(
    calls.map(async ([path, body, expected]) => {
      const { status, text } = await post(node, path, body, {});
      return status === expected ? [] : [`${path} ${JSON.stringify(body)}: status ${status} ${text.slice(0, 200)}`];
    }),
  );
  const took = Date.now() - began;
  const missing = { tenant, id: "missing", text: "hello" };
  const refused = await call<{ readonly name: string; readonly code: number }>(node, "Own/refused", missing);
  const [attempts] = await query<{ readonly most: number }>(
    node,
    "SELECT max(retry_count) AS most FROM sys_invocation WHERE target_service_name = 'EverturnSession' AND status <> 'completed'",
  );
  report(
    `  refused calls               ${calls.length}, all within ${took} ms; a handler gets ${refused.name} ${refused.code}`,
  );
  const isTerminal = refused.name === "TerminalError" && refused.code === 404;
  return [
    ...violations.flat(),
    ...(isTerminal ? [] : [`a handler got ${JSON.stringify(refused)} for a missing session`]),
    ...((attempts?.most ?? 0) > 1 ? [`a refused call was repeated ${attempts?.most} times`] : []),
  ];
}

/** What the user interface and the admin API show. */
async function whatIsVisible(node: RestateNode, turns: readonly string[]): Promise<readonly string[]> {
  const states = await query<{ readonly service_key: string; readonly value_utf8: string }>(
    node,
    "SELECT service_key, value_utf8 FROM state WHERE service_name = 'EverturnSession' AND key = 'progress'",
  );
  const progress = states.map(({ value_utf8: text }): { readonly [name: string]: unknown } => JSON.parse(text));
  const shown = progress.filter(
    ({ status, turnId, step, outcome }) =>
      status === "idle" && turns.includes(String(turnId)) && step === 2 && outcome === "completed",
  );
  const results = await query<{ readonly completion_result: string }>(
    node,
    "SELECT completion_result FROM sys_invocation WHERE target_handler_name = 'drive' AND completion_result = 'success'",
  );
  const service = await get<Timeouts & { readonly handlers: readonly (Timeouts & { readonly name: string })[] }>(
    `${node.admin}/services/EverturnSession`,
  );
  // A handler without timeouts of its own has those of the service.
  const settings = ["drive", "resume", "reply"].map((name) => {
    const handler = { ...service, ...service.handlers.find((one) => one.name === name) };
    return `${name} ${handler.inactivity_timeout}, ${handler.abort_timeout}`;
  });
  report(
    `  visible in Restate          ${shown.length} sessions with turn, step and outcome; ${results.length} results of drive`,
    `  inactivity and abort        ${settings.join("; ")}`,
  );
  const expected = ["drive 1h 1m, 1m", "resume 1h 1m, 1m", "reply 2s 500ms, 2s 500ms"];
  return [
    ...(shown.length === unusualIds.length
      ? []
      : [`progress of ${shown.length} sessions is visible: ${JSON.stringify(progress)}`]),
    ...(results.length >= turns.length ? [] : [`${results.length} results of drive are visible`]),
    ...(JSON.stringify(settings) === JSON.stringify(expected) ? [] : [`the timeouts are ${settings.join("; ")}`]),
  ];
}

/** Input that is sent in a second is accepted once; input that is sent in a week is held. */
async function scheduledInput(
  { web }: Deployed,
  node: RestateNode,
  said: Map<string, string>,
): Promise<readonly string[]> {
  const id = "repeated";
  const sessions = web.tenant(tenant);
  const soon = "soon";
  said.set(soon, id);
  for (let count = 0; count < 3; count += 1) await sessions.sendLater(id, soon, { afterMs: 1000, key: "é 1" });
  await sessions.sendLater(id, "in a week", { afterMs: weekMs, key: "week" });
  await call(node, "Own/later", { tenant, id, text: "in two weeks", afterMs: 2 * weekMs });
  await until("the scheduled input is accepted", async () => {
    const view = await sessions.get(id);
    return view?.openTurn === null && JSON.stringify(view.session.thread.messages).includes(soon);
  });
  const waiting = await query<{ readonly status: string; readonly target_handler_name: string }>(
    node,
    "SELECT status, target_handler_name FROM sys_invocation WHERE target_handler_name = 'send' AND status = 'scheduled'",
  );
  report(`  scheduled input             1 message accepted once, ${waiting.length} held for weeks`);
  return waiting.length === 2 ? [] : [`${waiting.length} messages are scheduled`];
}

function idempotencyKeyFor(id: string): string {
  return `conversation ${unusualIds.indexOf(id)}`;
}

async function post(
  node: RestateNode,
  path: string,
  body: unknown,
  headers: { readonly [name: string]: string },
): Promise<{ readonly status: number; readonly text: string }> {
  const response = await fetch(`${node.ingress}/${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(patienceMs),
  });
  return { status: response.status, text: await response.text() };
}

/** Calls a handler through the ingress, and waits for its result. */
async function call<T>(
  node: RestateNode,
  path: string,
  body: unknown,
  headers: { readonly [name: string]: string } = {},
): Promise<T> {
  const { status, text } = await post(node, path, body, headers);
  if (status >= 300) throw new Error(`${path}: status ${status} ${text}`);
  return JSON.parse(text === "" ? "null" : text);
}

/** Repeats a call until the server can be reached. */
async function repeatedly<T>(work: () => Promise<T>): Promise<T> {
  for (const end = Date.now() + patienceMs; ;) {
    try {
      return await work();
    } catch (error) {
      if (Date.now() > end) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}

/** The rows of a query of the admin API. */
async function query<Row>(node: RestateNode, sql: string): Promise<readonly Row[]> {
  const response = await fetch(`${node.admin}/query`, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json" },
    body: JSON.stringify({ query: sql }),
  });
  const { rows }: { readonly rows: readonly Row[] } = JSON.parse(await response.text());
  return rows;
}

async function get<T>(url: string): Promise<T> {
  const response = await fetch(url);
  return JSON.parse(await response.text());
}
