// `npm run bench:restarts`: what a reader of a chat sees when its server is stopped as in a deploy (SIGTERM), or killed
// (SIGKILL), in the middle of a reply, and started again: with Everturn, and with the AI SDK alone. Both have the chat
// of the AI SDK, the same provider and the same script. It prints a table; docs/guide/http.md has it with the versions.
//
// The page does nothing but what its transport does. `reload`: the reply is complete, and the chat is usable, only
// after the person does something.

import type { ChildProcess } from "node:child_process";

import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";

import { DefaultChatTransport } from "ai";
import { chatTransport } from "everturn/client";

import { TestChat } from "../../lib/test/ui-client.ts";
import { startProvider, wordCount } from "./provider.ts";

const folder = mkdtempSync(join(tmpdir(), "everturn-restarts-"));
const children = new Set<ChildProcess>();
/** How long the page is watched after the server is back, in milliseconds. */
const patienceMs = 15_000;

async function start(file: string, argv: readonly string[]): Promise<ChildProcess> {
  const child = fork(join(import.meta.dirname, file), argv, { execArgv: ["--import", "tsx", "--conditions=source"] });
  children.add(child);
  await once(child, "message");
  return child;
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  const exited = once(child, "exit");
  child.kill(signal);
  await exited;
}

async function freePort(): Promise<string> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  return String(typeof address === "object" ? address?.port : "");
}

type Contender = {
  readonly name: string;
  readonly server: string;
  readonly chat: (url: string) => TestChat;
};

const contenders: readonly Contender[] = [
  {
    name: "Everturn, chatTransport",
    server: "everturn-server.ts",
    chat: (url) => new TestChat({ id: "chat", transport: chatTransport({ url }) }),
  },
  {
    name: "Everturn, DefaultChatTransport",
    server: "everturn-server.ts",
    chat: (url) => new TestChat({ id: "chat", transport: new DefaultChatTransport({ api: `${url}/ui/chat` }) }),
  },
  {
    name: "AI SDK alone",
    server: "ai-sdk-server.ts",
    chat: (url) => new TestChat({ id: "chat", transport: new DefaultChatTransport({ api: `${url}/ui/chat` }) }),
  },
];

const wordsOf = ({ messages }: TestChat): readonly string[] => {
  const reply = messages.findLast(({ role }) => role === "assistant");
  const text = reply?.parts.map((part) => (part.type === "text" ? part.text : "")).join("") ?? "";
  return text.match(/w\d+\./g) ?? [];
};

async function measure({ name, server, chat }: Contender, signal: NodeJS.Signals, provider: string) {
  const port = await freePort();
  const argv = [port, provider, join(folder, `${port}.db`)];
  const first = await start(server, argv);
  const page = chat(`http://127.0.0.1:${port}`);
  void page.sendMessage({ text: "Go" });
  const changes: number[] = [];
  let count = 0;
  const watch = async (isOver: () => boolean): Promise<void> => {
    while (!isOver()) {
      const shown = wordsOf(page).length;
      if (shown !== count) changes.push(performance.now());
      count = shown;
      await setTimeout(5);
    }
  };
  await watch(() => count >= 15);
  const stoppedAt = performance.now();
  const restarted = end(first, signal).then(() => start(server, argv));
  let downMs = 0;
  void restarted.then(() => (downMs = Math.round(performance.now() - stoppedAt)));
  const isEnded = () => count >= wordCount && page.status !== "streaming";
  await watch(() => isEnded() || (downMs > 0 && performance.now() - stoppedAt - downMs > patienceMs));
  const second = await restarted;
  const words = wordsOf(page);
  const isComplete = new Set(words).size === wordCount;
  const gaps = changes.slice(1).map((at, index) => at - (changes[index] ?? at));
  const row = {
    "server and transport": name,
    signal,
    "words lost": wordCount - new Set(words).size,
    "shown twice": words.length - new Set(words).size,
    status: page.status,
    "reload needed": !isComplete || page.status === "error",
    "without a server (ms)": downMs,
    "longest gap (ms)": isComplete ? Math.round(Math.max(...gaps)) : "never continued",
  };
  await page.stop();
  await end(second, "SIGKILL");
  return row;
}

const provider = await startProvider();
try {
  const rows = [];
  for (const contender of contenders) {
    for (const signal of ["SIGTERM", "SIGKILL"] as const) rows.push(await measure(contender, signal, provider.url));
  }
  const { version } = JSON.parse(readFileSync(new URL(import.meta.resolve("ai/package.json")), "utf8"));
  console.log(`ai ${version}, Node ${process.version}, load ${loadavg()[0]?.toFixed(1) ?? ""}`);
  console.table(rows);
} finally {
  provider.close();
  for (const child of children) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
}
process.exit();
