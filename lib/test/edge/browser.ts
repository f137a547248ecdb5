// Runs a bundle in Chromium: a page on the loopback loads it, runs the scenes, and posts the results. The page has a
// strict Content Security Policy: scripts and workers of its own origin only, and no `eval`. The sandbox needs
// WebAssembly, which has a keyword of its own.

import type { Bundle } from "./bundle.ts";
import type { SceneResults } from "./scenes.ts";
import type { ChildProcess } from "node:child_process";
import type { Server } from "node:http";

import { spawn } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { createServer } from "node:http";

export type PageServer = {
  readonly origin: string;
  /** Resolves with the results that the page posts. */
  readonly results: Promise<SceneResults>;
  readonly close: () => Promise<void>;
};

const longestMs = 60_000;

const html = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Everturn</title><link rel="icon" href="data:,">
<body><h1>Everturn</h1><pre id="results">…</pre><script type="module" src="/show.js"></script></body></html>`;

/** The script of the page: runs the scenes and posts the results, or the error if the bundle cannot be loaded. */
const show = `
const stage = await (await fetch("/stage.json")).json();
const results = await import("/main.js").then(({ play }) => play(stage)).catch((error) => ({ page: String(error?.stack ?? error) }));
document.getElementById("results").textContent = navigator.userAgent + "\\n" + JSON.stringify(results, null, 2);
await fetch("/results", { method: "POST", body: JSON.stringify(results) });
`;

const policy =
  "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; connect-src 'self' http://127.0.0.1:*; img-src data:";

/** Serves the page. It listens before the bundle exists, because other servers have to allow its origin. */
export async function openPage(content: () => { readonly files: Bundle; readonly stage: object }): Promise<PageServer> {
  const posts = new EventEmitter<{ readonly results: [SceneResults] }>();
  const results = once(posts, "results").then(([first]: SceneResults[]) => first ?? {});
  const server = createServer(async (request, response) => {
    const { files, stage } = content();
    const path = request.url ?? "";
    const send = (type: string, body: string) =>
      void response.writeHead(200, { "content-type": type, "content-security-policy": policy }).end(body);
    if (path === "/results") {
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(Buffer.from(chunk));
      response.writeHead(204).end();
      return void posts.emit("results", JSON.parse(Buffer.concat(chunks).toString("utf8")));
    }
    if (path === "/") return send("text/html", html);
    if (path === "/show.js") return send("text/javascript", show);
    if (path === "/stage.json") return send("application/json", JSON.stringify(stage));
    const file = files.find(({ name }) => path === `/${name}`);
    if (file !== undefined) return send("text/javascript", file.code);
    return void response.writeHead(404).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { origin: originOf(server), results, close: () => closed(server) };
}

/**
 * Opens the page in a headless browser until it has posted its results. The browser writes into the given folder only.
 */
export async function visit(page: PageServer, executable: string, profile: string): Promise<SceneResults> {
  const flags = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"];
  const quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync"];
  // Chromium has no sandbox for root, and the page is trusted.
  const sandbox = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  const browser = spawn(executable, [...flags, ...quiet, ...sandbox, `--user-data-dir=${profile}`, `${page.origin}/`], {
    stdio: ["ignore", "ignore", "pipe"],
    // Chromium has several processes: they are one process group and are ended together.
    detached: true,
  });
  let said = "";
  browser.stderr.on("data", (text: Buffer) => (said = (said + text.toString("utf8")).slice(-4000)));
  const exited = new Promise<string>((resolve) => {
    browser.once("error", (error) => resolve(error.message));
    browser.once("close", (code) => resolve(`it ended with ${code}`));
  });
  const end = () => endGroup(browser);
  process.once("exit", end);
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<string>((resolve) => {
    timer = setTimeout(() => resolve(`nothing came of the page within ${longestMs} ms`), longestMs);
  });
  try {
    const first = await Promise.race([page.results, exited, late]);
    if (typeof first === "string") throw new Error(`${executable}: ${first}; it said: ${said}`);
    return first;
  } finally {
    clearTimeout(timer);
    end();
    await exited;
    process.off("exit", end);
  }
}

function endGroup({ pid }: ChildProcess): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // The process has already ended.
  }
}

function originOf(server: Server): string {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the page has no port");
  return `http://127.0.0.1:${address.port}`;
}

async function closed(server: Server): Promise<void> {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
}
