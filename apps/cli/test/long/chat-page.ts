// A page in React, open in Chromium while its server ends in the middle of a reply: stopped as in a deploy (SIGTERM),
// or killed (SIGKILL), and started again on the same port. Every word of the reply is shown once and the page is not
// reloaded. It prints the longest time in which the page did not change.
//
//   tsx --conditions=source apps/cli/test/long/chat-page.ts
//
// Needs Chromium (EVERTURN_CHROMIUM names another one; EVERTURN_SKIP_BROWSER=1 skips this test).

import type { ChildProcess } from "node:child_process";

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { build } from "vite";

import { chromium } from "../../../../lib/test/edge/tools.ts";
import { setup } from "../../../../tools/test/build.ts";
import { Browser } from "./browser.ts";

const root = resolve(import.meta.dirname, "../../../..");
const folder = mkdtempSync(join(tmpdir(), "chat-page-"));
const port = 10_000 + Math.floor(Math.random() * 20_000);
const url = `http://127.0.0.1:${port}`;
const words = Array.from({ length: 60 }, (_, index) => `word${index}`);

async function serve(): Promise<ChildProcess> {
  const flags = ["--port", `${port}`, "--no-token", "--database", "chat.db", "--static", join(folder, "page")];
  const child = spawn(process.execPath, [join(root, "lib/bin/everturn.js"), "serve", ...flags], {
    cwd: folder,
    env: { PATH: process.env["PATH"] ?? "", HOME: folder, XDG_CONFIG_HOME: folder, EVERTURN_OFFLINE_PACE: "60" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  for await (const chunk of child.stdout) {
    text += String(chunk);
    if (/http:\S+\n/.test(text)) return child;
  }
  throw new Error(`the server wrote ${text}`);
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  const exited = once(child, "exit");
  child.kill(signal);
  await exited;
}

async function buildPage(): Promise<void> {
  const page = join(import.meta.dirname, "chat-page/page.mjs");
  await build({
    configFile: false,
    logLevel: "error",
    define: { "process.env.NODE_ENV": '"development"' },
    resolve: { conditions: ["source", "module", "browser", "development"], dedupe: ["react", "react-dom"] },
    build: {
      outDir: join(folder, "page"),
      minify: false,
      lib: { entry: page, formats: ["es"], fileName: () => "page.js" },
    },
  });
  writeFileSync(
    join(folder, "page/index.html"),
    '<!doctype html><title>chat</title><body></body><script type="module" src="page.js"></script>',
  );
}

type Row = {
  readonly page: string;
  readonly signal: string;
  readonly downMs: number;
  readonly gapMs: number;
  readonly status: string;
};

if (process.env["EVERTURN_SKIP_BROWSER"] === "1") console.log("skipped: EVERTURN_SKIP_BROWSER");
else {
  const running: { server: ChildProcess | null; browser: Browser | null } = { server: null, browser: null };
  try {
    setup();
    await buildPage();
    running.server = await serve();
    const browser = (running.browser = await Browser.start(chromium(), join(folder, "profile")));
    const rows: Row[] = [];
    for (const page of ["transport", "conversation", "sdk"]) {
      for (const signal of ["SIGTERM", "SIGKILL"] as const) {
        await browser.open(`${url}/?with=${page}&id=${page}-${signal}`);
        await browser.until("typeof shown === 'object' && shown.status !== '' && shown.status !== 'loading'");
        await browser.evaluate(`shown.send(${JSON.stringify(words.join(" "))})`);
        await browser.until("shown.text.split('You said')[1]?.includes('word10') === true");
        const endedAt = Date.now();
        await end(running.server, signal);
        running.server = await serve();
        const downMs = Date.now() - endedAt;
        const isOver = "shown.status === 'ready' && shown.text.includes('ollama')";
        await browser.until(page === "sdk" ? `shown.status === 'error' || (${isOver})` : isOver);
        const text = String(await browser.evaluate("shown.text"));
        const changes = await browser.evaluate("shown.changes");
        assert.ok(Array.isArray(changes));
        const gaps = changes.slice(1).map((at, index) => Number(at) - Number(changes[index]));
        const status = String(await browser.evaluate("shown.status"));
        const gapMs = Math.round(Math.max(...gaps));
        rows.push({ page, signal, downMs, gapMs, status });
        if (page === "sdk") continue;
        // A server that stops lets its readers receive the reply, so that its pages do not wait for the next process.
        const waitedMs = signal === "SIGKILL" ? gapMs - downMs : gapMs;
        assert.ok(
          waitedMs < 2000,
          `${page} ${signal}: no change for ${gapMs} ms, of which the server was down for ${downMs} ms`,
        );
        const reply = text.slice(text.lastIndexOf("You said"));
        assert.deepEqual(reply.match(/word\d+/g), words, `${page} ${signal}: ${text}`);
        assert.equal(text.split("You said").length, 2, text);
      }
    }
    console.table(rows);
  } finally {
    await running.browser?.close();
    running.server?.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
  }
}
