// A TCP proxy on loopback: an address that stays the same while the server at the other end is replaced, as the address
// of a database does in a failover.

import type { Server, Socket } from "node:net";

import { once } from "node:events";
import { connect, createServer } from "node:net";

/** A running proxy. */
export type TcpProxy = {
  readonly port: number;
  /** Ends all connections. New ones lead to this port; `null`: new ones are ended at once. */
  readonly redirect: (port: number | null) => void;
  readonly close: () => Promise<void>;
};

/** Starts a proxy to a port of loopback. */
export async function startTcpProxy(target: number): Promise<TcpProxy> {
  let destination: number | null = target;
  const sockets = new Set<Socket>();
  const keep = (socket: Socket, other: Socket) => {
    sockets.add(socket);
    socket.setNoDelay(true);
    socket.on("error", () => undefined);
    socket.on("close", () => {
      sockets.delete(socket);
      other.destroy();
    });
    socket.pipe(other);
  };
  const endAll = () => {
    for (const socket of sockets) socket.destroy();
  };
  const server = createServer((client) => {
    if (destination === null) return void client.destroy();
    const upstream = connect(destination, "127.0.0.1");
    keep(client, upstream);
    keep(upstream, client);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: portOf(server),
    redirect: (port) => {
      destination = port;
      endAll();
    },
    close: async () => {
      const closed = once(server, "close");
      server.close();
      endAll();
      await closed;
    },
  };
}

function portOf(server: Server): number {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the proxy does not listen on a port");
  return address.port;
}
