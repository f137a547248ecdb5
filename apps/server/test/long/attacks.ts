// Attacks by clients of one tenant, or without a key, on one server: the peak memory of the server, and the response
// times of another tenant meanwhile.
//
//   readers   300 clients follow a session with an event log of about 21 MB and never read
//   bodies    512 clients of a tenant, and 512 without a key, send requests whose bodies never end
//   pages     300 clients request the messages of that session, as a page, a session view and a chat, and never read
//   trial     300 clients request that session from an operation and a route that declare nothing, and never read
//   chats     300 clients of another process request the chat of a session whose messages have 1 MB each, and read it
//             as fast as they can
//   views     the same with the session view
//   forks     300 clients fork that session
//   turns     300 clients follow the events of that turn, whose last one is its result, and never read
//   results   300 clients repeat the request that started that turn, under its idempotency key, and read the result
//   heads     300 clients send requests whose heads never end, a header at a time, and 300 send heads that are too
//             large
//   chunks    300 clients of a tenant send chunked bodies that never end, and 300 send chunk extensions that never end
//   idle      2,000 clients connect and send nothing
//
// Attacks that depend on the storage also run with Postgres.

import type { PageReadersPlan } from "./page-readers.ts";
import type { Socket } from "node:net";

import { connect } from "node:net";
import { join } from "node:path";

import { startPostgres } from "../../../../lib/test/postgres-server.ts";
import { trialPaths } from "../../../../lib/test/trial-dialect.ts";
import { pause } from "./paced-model.ts";
import { folder, Listening, Program } from "./programs.ts";

export type AttackResult = {
  readonly name: string;
  readonly clients: number;
  /** Resident set size of the server, in MiB: before the attack, and the largest during it. */
  readonly before: number;
  readonly peak: number;
  /** Response times of the other tenant, in milliseconds. */
  readonly p50: number;
  readonly p99: number;
  /** Requests of the other tenant, and those that failed. */
  readonly requests: number;
  readonly failed: number;
  /** Connections that the server has closed at the end of the attack. */
  readonly closed: number;
  /** Pages that clients have read completely. */
  readonly pages: number;
};

const keys = [
  { tenant: "attacker", token: "the-token-of-the-attacker" },
  { tenant: "innocent", token: "the-token-of-the-innocent" },
];
const attacker = "authorization: Bearer the-token-of-the-attacker\r\n";
const innocent = { authorization: "Bearer the-token-of-the-innocent", "content-type": "application/json" };

const attackMs = 8000;

/** Each text is stored about four times in the event log. */
const pace = { words: 16, bytes: 8192, everyMs: 0, replies: 40, gated: false };

/** Two replies of 1 MiB each. */
const largePace = { ...pace, bytes: 65_536, replies: 2 };

type Attack = {
  readonly name: string;
  readonly requests: readonly string[];
  /** The clients read the responses, in a process of their own. */
  readonly reads?: boolean;
  /** The turn whose messages are requested. */
  readonly turn?: typeof pace;
  /** What the clients send every 100 ms after the request. */
  readonly drip?: string;
  readonly storage?: "postgres";
};

const get = (path: string, head = "") => `GET ${path} HTTP/1.1\r\nhost: x\r\n${head}${attacker}\r\n`;
const getOnce = (path: string) => get(path, "connection: close\r\n");
const post = (path: string, body: string, head = "") =>
  `POST ${path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n${attacker}${head}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
const unfinished = (path: string, head: string) =>
  `POST ${path} HTTP/1.1\r\nhost: x\r\n${head}content-type: application/json\r\ncontent-length: 1000\r\n\r\n{`;

const attacks: readonly Attack[] = [
  { name: "no attack", requests: [] },
  { name: "readers", requests: repeated(300, [get("/sessions/big/events")]) },
  {
    name: "bodies",
    requests: [
      ...repeated(512, [unfinished("/sessions/big/reply", attacker)]),
      ...repeated(512, [unfinished("/complete", "")]),
    ],
  },
  {
    name: "pages",
    requests: repeated(300, [
      get("/sessions/big/messages?limit=200"),
      get("/sessions/big?messages=200"),
      get("/ui/chat/big"),
    ]),
  },
  {
    name: "trial",
    requests: repeated(
      300,
      trialPaths.map((path) => get(path)),
    ),
  },
  { name: "chats", requests: repeated(300, [getOnce("/ui/chat/big")]), reads: true, turn: largePace },
  { name: "views", requests: repeated(300, [getOnce("/sessions/big?messages=200")]), reads: true, turn: largePace },
  ...([undefined, "postgres"] as const).flatMap((storage): readonly Attack[] => {
    const [suffix, options] = storage === undefined ? ["", {}] : [" pg", { storage }];
    const forks = { requests: repeated(300, [post("/sessions/big/fork", "{}")]), reads: true, turn: largePace };
    const repeat = post("/sessions", startBody(largePace), "idempotency-key: big\r\nprefer: wait=60\r\n");
    const followTurn = get("/sessions/big/turns/TURN/events");
    return [
      ...(storage === undefined
        ? []
        : [
            {
              name: `chats${suffix}`,
              requests: repeated(300, [getOnce("/ui/chat/big")]),
              reads: true,
              turn: largePace,
              ...options,
            },
          ]),
      { name: `forks${suffix}`, ...forks, ...options },
      { name: `turns${suffix}`, requests: repeated(300, [followTurn]), turn: largePace, ...options },
      { name: `results${suffix}`, requests: repeated(300, [repeat]), reads: true, turn: largePace, ...options },
    ];
  }),
  {
    name: "heads",
    requests: repeated(600, [
      "GET /sessions HTTP/1.1\r\nhost: x\r\n",
      `GET /sessions HTTP/1.1\r\nhost: x\r\n${`x-a: ${"a".repeat(500)}\r\n`.repeat(60)}`,
    ]),
    drip: "x-b: b\r\n",
  },
  {
    name: "chunks",
    requests: repeated(600, [chunked("1\r\n{\r\n"), chunked("1")]),
    drip: "1;a=b\r\n \r\n",
  },
  { name: "idle", requests: repeated(2000, [""]) },
];

/** The request that starts the session `big`. */
function startBody(turn: typeof pace): string {
  return JSON.stringify({ id: "big", input: JSON.stringify(turn) });
}

function chunked(body: string): string {
  return `POST /sessions/big/reply HTTP/1.1\r\nhost: x\r\n${attacker}content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n${body}`;
}

function repeated(count: number, requests: readonly string[]): readonly string[] {
  return Array.from({ length: count }, (_, index) => requests[index % requests.length] ?? "");
}

/** Runs every attack, or those of these names and the measurement without one, against a server of its own. */
export async function attack(names: readonly string[]): Promise<readonly AttackResult[]> {
  const [calm, ...others] = attacks;
  const selected = names.length === 0 ? others : others.filter(({ name }) => names.includes(name));
  const all = calm === undefined ? selected : [calm, ...selected];
  const postgres = all.some(({ storage }) => storage === "postgres") ? await startPostgres() : null;
  try {
    const results: AttackResult[] = [];
    for (const one of all) {
      const isPostgres = one.storage === "postgres" && postgres !== null;
      const file = isPostgres ? await postgres.createDatabase() : join(folder, `${one.name.replace(" ", "-")}.db`);
      results.push(await attackOne(one, file));
    }
    return results;
  } finally {
    await postgres?.close();
  }
}

async function attackOne(
  { name, requests: patterns, reads = false, turn = pace, drip }: Attack,
  file: string,
): Promise<AttackResult> {
  const server = await Listening.start("server", { file, keys });
  const url = `http://127.0.0.1:${server.port}`;
  const headers = {
    ...innocent,
    authorization: "Bearer the-token-of-the-attacker",
    prefer: "wait=60",
    "idempotency-key": "big",
  };
  const started = await fetch(`${url}/sessions`, { method: "POST", headers, body: startBody(turn) });
  const turnId = started.headers.get("everturn-turn") ?? "";
  await started.text();
  const requests = patterns.map((request) => request.replace("TURN", turnId));
  await ask(url, "warm-up", []);
  const before = (await server.measure("measure_collected")).rss;
  const sockets = reads ? [] : requests.map((request) => stalledSocket(server.port, request));
  const dripping = setInterval(() => {
    for (const socket of sockets) if (drip !== undefined && socket.writable) socket.write(drip);
  }, 100);
  const plan: PageReadersPlan = { port: server.port, requests };
  const readers = reads ? new Program("page-readers", JSON.stringify(plan)) : null;
  const times: number[] = [];
  let [peak, failed] = [0, 0];
  const until = Date.now() + attackMs;
  const measuring = (async () => {
    while (Date.now() < until) {
      peak = Math.max(peak, (await server.measure()).rss);
      await pause(100);
    }
  })();
  for (let count = 0; Date.now() < until; count += 1) {
    if (!(await ask(url, `s${count}`, times))) failed += 1;
    await pause(10);
  }
  await measuring;
  const pages = (await readers?.ask<{ readonly answered: number }>({}))?.answered ?? 0;
  await readers?.kill();
  clearInterval(dripping);
  const closed = sockets.filter(({ destroyed }) => destroyed).length;
  for (const socket of sockets) socket.destroy();
  await server.stop();
  const sorted = times.toSorted((one, other) => one - other);
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
  return {
    name,
    clients: requests.length,
    before: mib(before),
    peak: mib(peak),
    p50: at(0.5),
    p99: at(0.99),
    requests: times.length,
    failed,
    closed,
    pages,
  };
}

function mib(bytes: number): number {
  return bytes / 1024 / 1024;
}

/** A client that sends a request and never reads the response. */
function stalledSocket(port: number, request: string): Socket {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => undefined);
  socket.once("connect", () => {
    socket.pause();
    socket.write(request);
  });
  return socket;
}

/**
 * The requests of the other tenant: it starts a session, reads it and lists its sessions. Adds their response times to
 * `times`, and returns whether all of them succeeded.
 */
async function ask(url: string, id: string, times: number[]): Promise<boolean> {
  const timed = async (path: string, init: RequestInit) => {
    const since = performance.now();
    const response = await fetch(`${url}${path}`, init);
    await response.text();
    times.push(performance.now() - since);
    return response.status === 200;
  };
  try {
    const input = JSON.stringify({ words: 1, bytes: 8, everyMs: 0, replies: 1, gated: false });
    const body = JSON.stringify({ id, input });
    const started = await timed("/sessions", { method: "POST", headers: { ...innocent, prefer: "wait=10" }, body });
    const read = await timed(`/sessions/${id}`, { headers: innocent });
    const listed = await timed("/sessions?limit=1", { headers: innocent });
    return started && read && listed && (await timed("/health", {}));
  } catch {
    return false;
  }
}
