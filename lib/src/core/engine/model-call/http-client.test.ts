// One suite for the two clients: what a request and its response look like, and how each of them ends.

import type { HttpClient, HttpRequest, HttpResponse } from "./http-client.ts";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";

import { once } from "node:events";
import { createServer } from "node:http";
import { createServer as createSocketServer } from "node:net";
import { gzipSync } from "node:zlib";

import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";

import { fetchClient, httpClient } from "./http-client.ts";

type Answer = (request: IncomingMessage, response: ServerResponse, body: string) => void;

const dispatcherKey = Symbol.for("undici.globalDispatcher.1");
const platform: { fetch: typeof fetch; [dispatcherKey]?: unknown } = globalThis;
const platformFetch = platform.fetch;

let answer: Answer = (_, response) => void response.end();
let base = "";
const sockets = new Set<Socket>();
const server = createServer(async (request, response) => {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  answer(request, response, Buffer.concat(chunks).toString());
});
server.on("connection", (socket) => {
  sockets.add(socket);
  socket.on("close", () => sockets.delete(socket));
  socket.on("error", () => undefined);
});

function portOf(listening: { readonly address: () => AddressInfo | string | null }): number {
  const address = listening.address();
  return address !== null && typeof address === "object" ? address.port : 0;
}

beforeAll(async () => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  base = `http://127.0.0.1:${portOf(server)}`;
  // The first request of a process is sent by `fetch`, which then makes the dispatcher.
  answer = (_, response) => void response.end();
  await platformFetch(base);
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});
afterEach(() => {
  platform.fetch = platformFetch;
});

function request(path: string, fields: Partial<HttpRequest> = {}): HttpRequest {
  const { signal } = new AbortController();
  return { method: "POST", url: base + path, headers: {}, body: "{}", signal, ...fields };
}

async function textOf(response: HttpResponse): Promise<string> {
  const reader = response.body();
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const read = await reader?.read();
    if (read?.value === undefined) return text + decoder.decode();
    text += decoder.decode(read.value, { stream: true });
  }
}

const clients: readonly (readonly [string, HttpClient])[] = [
  ["fetch", fetchClient((url, init) => fetch(url, init))],
  ["the dispatcher", httpClient(undefined)],
];

test("the client of the platform does not call fetch on Node", async () => {
  answer = (_, response) => void response.end("ok");
  const calls = vi.fn<typeof fetch>();
  expect(await textOf(await httpClient(undefined)(request("/")))).toBe("ok");
  // The dispatcher hides behind the function of Node; any other function is called.
  platform.fetch = calls.mockImplementation(platformFetch);
  expect(await textOf(await httpClient(undefined)(request("/")))).toBe("ok");
  expect(calls).toHaveBeenCalledOnce();
});

test("a fetch of the program is called, also where the platform has a dispatcher", async () => {
  const own = () => Promise.resolve(new Response("from the program"));
  expect(await textOf(await httpClient(own)(request("/")))).toBe("from the program");
});

test("fetch is called where there is no dispatcher", async () => {
  answer = (_, response) => void response.end("ok");
  const dispatcher = platform[dispatcherKey];
  platform[dispatcherKey] = null;
  try {
    // Node refuses a dispatcher that is none, so an answer would come from another way than `fetch`.
    await expect(httpClient(undefined)(request("/"))).rejects.toThrow();
  } finally {
    platform[dispatcherKey] = dispatcher;
  }
});

describe.each(clients)("%s", (_name, client) => {
  test("sends method, path, headers and body, and returns status, headers and body", async () => {
    answer = ({ method, url, headers }, response, body) => {
      const { "user-agent": agent, "x-own": own, "content-length": length, "transfer-encoding": coding } = headers;
      response.writeHead(
        207,
        [
          ["X-Upper", "A"],
          ["x-twice", "1"],
          ["x-twice", "2"],
          ["x-empty", ""],
        ].flat(),
      );
      response.end(JSON.stringify({ method, url, agent, own, length, coding, body }));
    };
    const response = await client(request("/a/b?c=%20d", { headers: { "x-own": "é" }, body: "grüße" }));
    expect(response.status).toBe(207);
    expect(response.headers.get("x-upper")).toBe("A");
    expect(response.headers.get("x-twice")).toBe("1, 2");
    expect(response.headers.get("x-empty")).toBe("");
    expect(response.headers.get("x-none")).toBeNull();
    const own = [...response.headers].map(([name]) => name).filter((name) => name.startsWith("x-"));
    expect(own).toEqual(["x-empty", "x-twice", "x-upper"]);
    expect(JSON.parse(await textOf(response))).toEqual({
      method: "POST",
      url: "/a/b?c=%20d",
      agent: "node",
      own: "é",
      length: "7",
      body: "grüße",
    });
  });

  test("sends a GET without a body", async () => {
    answer = ({ method, headers }, response, body) => void response.end(`${method} ${headers["content-type"]} ${body}`);
    expect(await textOf(await client(request("/", { method: "GET", body: null })))).toBe("GET undefined ");
  });

  test("an answer without a body ends at once", async () => {
    answer = (_, response) => void response.writeHead(204).end();
    const response = await client(request("/"));
    expect([response.status, await textOf(response)]).toEqual([204, ""]);
  });

  test("follows no redirect", async () => {
    const paths: unknown[] = [];
    answer = ({ url }, response) => {
      paths.push(url);
      response.writeHead(307, { location: `${base}/other` }).end("moved");
    };
    const response = await client(request("/first"));
    expect([response.status, response.headers.get("location")]).toEqual([307, `${base}/other`]);
    await textOf(response);
    expect(paths).toEqual(["/first"]);
  });

  test("an informational response is skipped", async () => {
    answer = (_, response) => {
      response.writeEarlyHints({ link: "</a>; rel=preload" });
      response.writeHead(200).end("final");
    };
    expect(await textOf(await client(request("/")))).toBe("final");
  });

  test("decodes a body that the server compresses although it was not asked to", async () => {
    answer = (_, response) => void response.writeHead(200, { "content-encoding": "gzip" }).end(gzipSync("packed"));
    expect(await textOf(await client(request("/")))).toBe("packed");
  });

  test("uses a connection again after a complete body", async () => {
    const ports = new Set<unknown>();
    answer = ({ socket }, response) => {
      ports.add(socket.remotePort);
      response.end("ok");
    };
    for (let time = 0; time < 5; time += 1) expect(await textOf(await client(request("/")))).toBe("ok");
    expect(ports.size).toBeLessThanOrEqual(2);
  });

  test("closes the connection of a body that is cancelled", async () => {
    const closed: Promise<unknown>[] = [];
    answer = ({ socket }, response) => {
      closed.push(once(socket, "close"));
      response.writeHead(200).write("first");
    };
    const reader = (await client(request("/"))).body();
    expect(await reader?.read()).toMatchObject({ done: false });
    await reader?.cancel();
    await closed[0];
  });

  test.each(["before the headers", "in the body"])("an abort %s rejects with its reason", async (when) => {
    const closed: Promise<unknown>[] = [];
    answer = ({ socket }, response) => {
      closed.push(once(socket, "close"));
      if (when === "in the body") response.writeHead(200).write("first");
    };
    const controller = new AbortController();
    const reason = new Error("the caller has left");
    const sent = client(request("/", { signal: controller.signal }));
    if (when === "before the headers") {
      await vi.waitFor(() => expect(closed).toHaveLength(1));
      controller.abort(reason);
      await expect(sent).rejects.toBe(reason);
    } else {
      const reader = (await sent).body();
      await reader?.read();
      const next = reader?.read();
      controller.abort(reason);
      await expect(next).rejects.toBe(reason);
    }
    await closed[0];
  });

  test("a signal that is aborted before the request rejects, and nothing is sent", async () => {
    let requests = 0;
    answer = (_, response) => {
      requests += 1;
      response.end();
    };
    const reason = new Error("too late");
    await expect(client(request("/", { signal: AbortSignal.abort(reason) }))).rejects.toBe(reason);
    expect(requests).toBe(0);
  });

  test("rejects if the server cannot be reached, and names the cause", async () => {
    const unused = createSocketServer().listen(0, "127.0.0.1");
    await once(unused, "listening");
    const port = portOf(unused);
    unused.close();
    await once(unused, "close");
    const error: unknown = await client(request("", { url: `http://127.0.0.1:${port}/` })).catch((caught) => caught);
    expect(messagesOf(error)).toContain("ECONNREFUSED");
  });

  test("rejects if the server speaks no TLS", async () => {
    await expect(client(request("", { url: base.replace("http:", "https:") }))).rejects.toThrow();
  });

  test("rejects a header that HTTP cannot hold", async () => {
    await expect(client(request("/", { headers: { "x-own": "a\nb" } }))).rejects.toThrow();
  });

  test("a body that breaks off rejects the read after the bytes that arrived", async () => {
    answer = ({ socket }, response) => {
      response.writeHead(200, { "content-length": "100" });
      response.write("first", () => socket.destroy());
    };
    await expect(client(request("/")).then(textOf)).rejects.toThrow();
  });

  test("pauses a server whose bytes are not read", async () => {
    const chunk = "x".repeat(65_536);
    let written = 0;
    answer = (_, response) => {
      response.writeHead(200);
      const write = () => {
        while (written < 600 && !response.destroyed) {
          written += 1;
          if (!response.write(chunk)) return void response.once("drain", write);
        }
        response.end();
      };
      write();
    };
    const response = await client(request("/"));
    let seen = -1;
    await vi.waitFor(() => {
      const before = seen;
      seen = written;
      expect(seen).toBe(before);
    });
    // About 39 MB in all; the buffers of the two sockets hold a few.
    expect(seen).toBeLessThan(300);
    expect(await textOf(response)).toHaveLength(600 * chunk.length);
  });

  test("is sent through the dispatcher that the program has set", async () => {
    answer = (_, response) => void response.end("ok");
    const dispatcher = platform[dispatcherKey];
    const origins: unknown[] = [];
    platform[dispatcherKey] = new Proxy(Object(dispatcher), {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name);
        if (name !== "dispatch" || typeof value !== "function") return value;
        return (options: { readonly origin: unknown }, handler: unknown): unknown => {
          origins.push(String(options.origin));
          return Reflect.apply(value, target, [options, handler]);
        };
      },
    });
    try {
      expect(await textOf(await client(request("/")))).toBe("ok");
    } finally {
      platform[dispatcherKey] = dispatcher;
    }
    expect(origins).toEqual([base]);
  });
});

function messagesOf(error: unknown): string {
  return error instanceof Error ? `${error.message} ${messagesOf(error.cause)}` : "";
}
