// One address for several service processes: haproxy with HTTP/2 on both sides. Without haproxy, a proxy in Node with
// the same rules: requests round robin to the processes that can be reached.

import type { ClientHttp2Session, Http2Stream, IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";

import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, constants, createServer } from "node:http2";
import { connect as connectTcp } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { freePort } from "./restate-server.ts";

/** A running proxy. */
export type Http2Proxy = {
  /** `haproxy`, or `node` if it is not installed. */
  readonly kind: "haproxy" | "node";
  readonly url: string;
  readonly close: () => Promise<void>;
};

/** The configuration of the example deployment, whose addresses are replaced. */
const example = join(import.meta.dirname, "../../../examples/restate/haproxy.cfg");

/**
 * Starts a proxy in front of the ports of service processes, which may start later. `node`: the one without checks,
 * also if haproxy is installed.
 */
export async function startHttp2Proxy(
  targets: readonly number[],
  kind: Http2Proxy["kind"] = "haproxy",
): Promise<Http2Proxy> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const binary = kind === "node" ? null : haproxyPath();
  return binary === null ? startNodeProxy(port, url, targets) : startHaproxy(binary, port, url, targets);
}

async function startHaproxy(
  binary: string,
  port: number,
  url: string,
  targets: readonly number[],
): Promise<Http2Proxy> {
  const folder = mkdtempSync(join(tmpdir(), "everturn-haproxy-"));
  const path = join(folder, "haproxy.cfg");
  const lines = readFileSync(example, "utf8").split("\n");
  const server = lines.find((line) => /^\s+server /.test(line)) ?? "";
  const servers = targets.map((target, index) =>
    server.replace(/server \S+ \S+/, `server service-${index + 1} 127.0.0.1:${target}`),
  );
  const config = lines
    .filter((line) => !/^\s+server /.test(line))
    .map((line) => line.replace(/^(\s+bind) \S+/, `$1 127.0.0.1:${port}`))
    .flatMap((line) => (/^\s+balance /.test(line) ? [line, ...servers] : [line]));
  writeFileSync(path, `${config.join("\n")}\n`);
  const child = spawn(binary, ["-db", "-f", path], { stdio: ["ignore", "ignore", "pipe"] });
  const kill = () => void child.kill("SIGKILL");
  process.once("exit", kill);
  let log = "";
  child.stderr.on("data", (chunk: Buffer) => (log = (log + chunk.toString()).slice(-4000)));
  while (!(await accepts(port))) {
    if (child.exitCode !== null) throw new Error(`haproxy did not start: ${log}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return {
    kind: "haproxy",
    url,
    close: async () => {
      process.off("exit", kill);
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The path of haproxy; `null`: it is not installed, or `EVERTURN_HAPROXY` is `none`. */
export function haproxyPath(): string | null {
  const given = process.env["EVERTURN_HAPROXY"] ?? "";
  if (given === "none") return null;
  for (const path of given === "" ? ["haproxy", "/usr/sbin/haproxy"] : [given]) {
    try {
      execFileSync(path, ["-v"], { stdio: "ignore" });
      return path;
    } catch {
      // Not there.
    }
  }
  return null;
}

async function accepts(port: number): Promise<boolean> {
  const socket = connectTcp(port, "127.0.0.1");
  const opened = await Promise.race([
    once(socket, "connect").then(
      () => true,
      () => false,
    ),
    once(socket, "error").then(() => false),
  ]);
  socket.destroy();
  return opened;
}

async function startNodeProxy(port: number, url: string, targets: readonly number[]): Promise<Http2Proxy> {
  const clients = new Map<number, ClientHttp2Session>();
  const clientOf = async (target: number): Promise<ClientHttp2Session | null> => {
    const open = clients.get(target);
    if (open !== undefined && !open.closed && !open.destroyed) return open;
    const client = connect(`http://127.0.0.1:${target}`);
    client.on("error", () => undefined);
    const isOpen = await Promise.race([
      once(client, "connect").then(
        () => true,
        () => false,
      ),
      once(client, "close").then(() => false),
    ]);
    if (!isOpen) return null;
    clients.set(target, client);
    client.once("close", () => clients.delete(target));
    return client;
  };
  let turn = 0;
  const next = async (): Promise<ClientHttp2Session | null> => {
    turn += 1;
    for (let count = 0; count < targets.length; count += 1) {
      const client = await clientOf(targets[(turn + count) % targets.length] ?? 0);
      if (client !== null) return client;
    }
    return null;
  };
  const server = createServer();
  server.on("session", (session) => session.on("error", () => undefined));
  server.on("stream", (stream, headers) => {
    stream.on("error", () => undefined);
    void forward(stream, headers, next());
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return {
    kind: "node",
    url,
    close: async () => {
      for (const client of clients.values()) client.destroy();
      server.close();
    },
  };
}

/**
 * Passes a request on to a process, in both directions. Each side ends only if the other one is complete; otherwise it
 * is reset with a code, so that a caller does not take what it got for the whole response.
 *
 * Never closes a stream with `NO_ERROR`: Node 20 then waits until all is written before it resets the stream, and sends
 * no reset if the stream is destroyed meanwhile. It then sends empty frames of this stream in an endless loop, which
 * blocks the process and takes hundreds of megabytes a second.
 */
async function forward(
  stream: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  choosing: Promise<ClientHttp2Session | null>,
): Promise<void> {
  const client = await choosing;
  if (stream.destroyed) return;
  if (client === null) return stream.respond({ ":status": 503 }, { endStream: true });
  const request = client.request(headers);
  request.on("error", () => undefined);
  request.on("response", (answer) => void (stream.destroyed || stream.respond(answer)));
  passOn(stream, request);
  passOn(request, stream);
}

/** Writes what arrives on one stream to another one, and ends or resets that one like the first one. */
function passOn(from: Http2Stream, to: Http2Stream): void {
  from.pipe(to, { end: false });
  from.once("end", () => void (from.rstCode === constants.NGHTTP2_NO_ERROR && to.end()));
  from.once("close", () => {
    const isComplete = from.rstCode === constants.NGHTTP2_NO_ERROR && to.writableEnded;
    if (!isComplete) to.destroy(new Error("the other side was cut off"));
  });
}
