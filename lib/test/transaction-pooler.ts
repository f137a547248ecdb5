// A transaction pooler in front of a Postgres server, as PgBouncer with `pool_mode = transaction`: it speaks the
// protocol of Postgres on loopback, and gives each transaction of a client one of its connections to the server. A
// connection is free again when the server reports the end of the transaction (`ReadyForQuery` with the status `I`,
// after as many of them as the client has sent `Query` and `Sync`).
//
// Named statements work as in PgBouncer from 1.21 on: the pooler prepares a statement on each server connection that
// has not prepared it yet. All users of the pooler are one user on one database, and the server trusts loopback.

import type { Server, Socket } from "node:net";

import { once } from "node:events";
import { connect, createServer } from "node:net";

/** A running pooler. */
export type TransactionPooler = {
  readonly port: number;
  /** Closes the connections to the server that no transaction uses, as a pooler does with those that are old. */
  readonly closeIdle: () => void;
  readonly close: () => Promise<void>;
};

/**
 * Which of the free connections a transaction gets: the one that was used last, as by default in PgBouncer, or the one
 * that was used first (`server_round_robin`).
 */
type Order = "last" | "round_robin";

type Message = { readonly type: string; readonly bytes: Buffer };

/** A connection to the server. */
type Backend = {
  readonly socket: Socket;
  readonly prepared: Set<string>;
  /** How many `ParseComplete` are answers to the pooler and not to the client. */
  hidden: number;
  client: Client | null;
};

type Client = {
  readonly socket: Socket;
  readonly statements: Map<string, Buffer>;
  /** Messages that wait for a connection. */
  queue: Message[];
  backend: Backend | null;
  /** How many `ReadyForQuery` the server owes. */
  owed: number;
};

/** Starts a pooler. `size`: how many connections to the server it opens at most. */
export async function startTransactionPooler(
  target: { readonly port: number; readonly user: string; readonly database: string },
  { order = "last", size = 20 }: { readonly order?: Order; readonly size?: number } = {},
): Promise<TransactionPooler> {
  const free: Backend[] = [];
  const waiting: Client[] = [];
  const sockets = new Set<Socket>();
  let opened = 0;
  const keep = (socket: Socket) => {
    sockets.add(socket);
    socket.setNoDelay(true);
    socket.on("error", () => undefined);
    socket.on("close", () => sockets.delete(socket));
  };

  const openBackend = (): Backend => {
    const socket = connect(target.port, "127.0.0.1");
    keep(socket);
    const backend: Backend = { socket, prepared: new Set(), hidden: 0, client: null };
    opened += 1;
    socket.write(startup(target.user, target.database));
    let isStarted = false;
    onMessages(socket, false, ({ type, bytes }) => {
      if (!isStarted) {
        isStarted = type === "Z";
        return;
      }
      answer(backend, type, bytes);
    });
    socket.on("close", () => {
      opened -= 1;
      if (free.includes(backend)) free.splice(free.indexOf(backend), 1);
      backend.client?.socket.destroy();
    });
    return backend;
  };
  const answer = (backend: Backend, type: string, bytes: Buffer) => {
    const { client } = backend;
    if (type === "1" && backend.hidden > 0) {
      backend.hidden -= 1;
      return;
    }
    client?.socket.write(bytes);
    if (type !== "Z" || client === null) return;
    client.owed -= 1;
    if (client.owed > 0 || bytes.at(5) !== "I".charCodeAt(0)) return;
    client.backend = null;
    backend.client = null;
    const next = waiting.shift();
    if (next === undefined) free.push(backend);
    else link(next, backend);
  };
  const link = (client: Client, backend: Backend) => {
    client.backend = backend;
    backend.client = client;
    const messages = client.queue;
    client.queue = [];
    for (const message of messages) forward(client, backend, message);
  };
  const forward = (client: Client, backend: Backend, { type, bytes }: Message) => {
    if (type === "Q" || type === "S") client.owed += 1;
    const name = type === "P" ? textAt(bytes, 5) : type === "B" ? textAt(bytes, 5 + textAt(bytes, 5).length + 1) : "";
    if (name !== "") {
      if (type === "P") client.statements.set(name, bytes);
      const parse = client.statements.get(name);
      if (backend.prepared.has(name)) {
        if (type === "P") return void client.socket.write(Buffer.from([0x31, 0, 0, 0, 4]));
      } else if (parse !== undefined) {
        backend.prepared.add(name);
        if (type === "B") {
          backend.hidden += 1;
          backend.socket.write(parse);
        }
      }
    }
    backend.socket.write(bytes);
  };
  const request = (client: Client, message: Message) => {
    if (client.backend !== null) return forward(client, client.backend, message);
    client.queue.push(message);
    if (client.queue.length > 1) return;
    const backend = order === "last" ? free.pop() : free.shift();
    if (backend !== undefined) link(client, backend);
    else if (opened < size) link(client, openBackend());
    else waiting.push(client);
  };

  let keys = 1_000_000;
  const server = createServer((socket) => {
    keep(socket);
    const client: Client = { socket, statements: new Map(), queue: [], backend: null, owed: 0 };
    let isStarted = false;
    onMessages(socket, true, (message) => {
      if (message.type === "X") return void socket.end();
      if (isStarted) return request(client, message);
      isStarted = true;
      keys += 1;
      socket.write(greeting(keys));
    });
    socket.on("close", () => {
      if (waiting.includes(client)) waiting.splice(waiting.indexOf(client), 1);
      // A connection whose transaction has not ended is not given to another client.
      client.backend?.socket.destroy();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: portOf(server),
    closeIdle: () => {
      for (const { socket } of free.splice(0)) socket.destroy();
    },
    close: async () => {
      const closed = once(server, "close");
      server.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

/** Calls back with each message of a stream. The first one of a client has no type. */
function onMessages(socket: Socket, hasStartup: boolean, receive: (message: Message) => void): void {
  let rest = Buffer.alloc(0);
  let untyped = hasStartup;
  socket.on("data", (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk]);
    for (;;) {
      const start = untyped ? 0 : 1;
      if (rest.length < start + 4) return;
      const length = start + rest.readInt32BE(start);
      if (rest.length < length) return;
      const bytes = rest.subarray(0, length);
      rest = rest.subarray(length);
      const type = untyped ? "" : String.fromCharCode(bytes[0] ?? 0);
      untyped = false;
      receive({ type, bytes });
    }
  });
}

function startup(user: string, database: string): Buffer {
  const parameters = Buffer.from(`user\0${user}\0database\0${database}\0\0`);
  const head = Buffer.alloc(8);
  head.writeInt32BE(8 + parameters.length, 0);
  head.writeInt32BE(196_608, 4);
  return Buffer.concat([head, parameters]);
}

/**
 * Accepts a client: `AuthenticationOk`, `BackendKeyData` and `ReadyForQuery`. The key is the pooler's own, as no server
 * connection belongs to the client.
 */
function greeting(key: number): Buffer {
  const bytes = Buffer.alloc(28);
  bytes.write("R", 0);
  bytes.writeInt32BE(8, 1);
  bytes.write("K", 9);
  bytes.writeInt32BE(12, 10);
  bytes.writeInt32BE(key, 14);
  bytes.write("Z", 22);
  bytes.writeInt32BE(5, 23);
  bytes.write("I", 27);
  return bytes;
}

/** The text at a position, which ends with a zero byte. */
function textAt(bytes: Buffer, start: number): string {
  return bytes.toString("latin1", start, bytes.indexOf(0, start));
}

function portOf(server: Server): number {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the pooler does not listen on a port");
  return address.port;
}
