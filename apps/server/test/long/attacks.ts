// Attacks by clients of one tenant, or without a key, on one server: the peak memory of the server, and the response times of another tenant meanwhile.
//
//   readers   300 clients follow a session with an event log of about 21 MB and never read
//   bodies    512 clients of a tenant, and 512 without a key, send requests whose bodies never end
//   pages     300 clients request the messages of that session, as a page, a session view and a chat, and never read
//   chats     300 clients of another process request the chat of a session whose messages have 1 MB each, and read it as fast as they can
//   views     the same with the session view

import type { PageReadersPlan } from "./page-readers.ts";
import type { Socket } from "node:net";

import { connect } from "node:net";
import { join } from "node:path";

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
};

const get = (path: string, head = "") => `GET ${path} HTTP/1.1\r\nhost: x\r\n${head}${attacker}\r\n`;
const getOnce = (path: string) => get(path, "connection: close\r\n");
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
  { name: "chats", requests: repeated(300, [getOnce("/ui/chat/big")]), reads: true, turn: largePace },
  { name: "views", requests: repeated(300, [getOnce("/sessions/big?messages=200")]), reads: true, turn: largePace },
];

function repeated(count: number, requests: readonly string[]): readonly string[] {
  return Array.from({ length: count }, (_, index) => requests[index % requests.length] ?? "");
}

/** Runs every attack against a server of its own. */
export async function attack(): Promise<readonly AttackResult[]> {
  const results: AttackResult[] = [];
  for (const { name, requests, reads = false, turn = pace } of attacks) {
    const file = join(folder, `${name.replace(" ", "-")}.db`);
    const server = await Listening.start("server", { file, keys });
    const url = `http://127.0.0.1:${server.port}`;
    const headers = { ...innocent, authorization: "Bearer the-token-of-the-attacker", prefer: "wait=60" };
    const big = JSON.stringify({ id: "big", input: JSON.stringify(turn) });
    await (await fetch(`${url}/sessions`, { method: "POST", headers, body: big })).text();
    await ask(url, "warm-up", []);
    const before = (await server.measure("measure_collected")).rss;
    const sockets = reads ? [] : requests.map((request) => stalledSocket(server.port, request));
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
    const closed = sockets.filter(({ destroyed }) => destroyed).length;
    for (const socket of sockets) socket.destroy();
    await server.stop();
    const sorted = times.toSorted((one, other) => one - other);
    const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0;
    results.push({
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
    });
  }
  return results;
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
 * The requests of the other tenant: it starts a session, reads it and lists its sessions. Adds their response times to `times`, and returns whether all of them
 * succeeded.
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
