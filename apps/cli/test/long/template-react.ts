// The project of `everturn init --template react` as a new user gets it: the package is packed and installed, the project
// is created, type-checked, tested, built and served, and its page is open in Chromium while the server is stopped
// (SIGTERM) or killed (SIGKILL) in the middle of a reply. Every word is shown once, and the page is not reloaded. It
// prints the longest time in which the page did not change.
//
//   tsx --conditions=source apps/cli/test/long/template-react.ts
//
// Needs Chromium (EVERTURN_CHROMIUM names another one; EVERTURN_SKIP_BROWSER=1 skips this test) and a network for npm.

import type { ChildProcess } from "node:child_process";

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { chromium } from "../../../../lib/test/edge/tools.ts";
import { Browser } from "./browser.ts";

const root = resolve(import.meta.dirname, "../../../..");
const folder = mkdtempSync(join(tmpdir(), "template-react-"));
const project = join(folder, "my-app");
const environment = {
  PATH: process.env["PATH"] ?? "",
  HOME: folder,
  XDG_CONFIG_HOME: join(folder, "config"),
  EVERTURN_OFFLINE_PACE: "60",
  npm_config_audit: "false",
  npm_config_fund: "false",
};

const run = (cwd: string, program: string, ...argv: readonly string[]): string =>
  execFileSync(program, argv, {
    cwd,
    env: { ...process.env, ...environment, HOME: process.env["HOME"] ?? folder },
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });

/** Starts the server of the project, with the page that was built. */
async function serve(port: string): Promise<{ readonly child: ChildProcess; readonly link: string }> {
  const command = join(project, "node_modules/everturn/bin/everturn.js");
  const child = spawn(process.execPath, [command, "serve", "--config", "everturn.config.ts", "--port", port], {
    cwd: project,
    env: environment,
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  for await (const chunk of child.stdout) {
    text += String(chunk);
    const link = /The page is at (http:\S+)\n/.exec(text)?.[1];
    if (link !== undefined) return { child, link };
  }
  throw new Error(`the server wrote ${text}`);
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  const exited = once(child, "exit");
  child.kill(signal);
  await exited;
}

/** Records in the page when the text of the newest reply changes. */
const recorder = `(() => {
  globalThis.changes = [];
  let before = "";
  new MutationObserver(() => {
    const text = [...document.querySelectorAll(".assistant")].at(-1)?.innerText ?? "";
    if (text !== before) changes.push(performance.now());
    before = text;
  }).observe(document.body, { subtree: true, childList: true, characterData: true });
})()`;
const newest = "([...document.querySelectorAll('.assistant')].at(-1)?.innerText ?? '')";

async function write(browser: Browser, text: string): Promise<void> {
  await browser.until("![...document.querySelectorAll('button')].some((item) => item.innerText === 'Stop')");
  await browser.evaluate("document.querySelector('input').focus()");
  await browser.type(text);
}

if (process.env["EVERTURN_SKIP_BROWSER"] === "1") console.log("skipped: EVERTURN_SKIP_BROWSER");
else {
  const running: { server: ChildProcess | null; browser: Browser | null } = { server: null, browser: null };
  try {
    const packed = run(join(root, "lib"), "npm", "pack", "--silent", "--pack-destination", folder);
    const library = join(folder, packed.trim().split("\n").at(-1) ?? "");
    writeFileSync(join(folder, "package.json"), "{}");
    run(folder, "npm", "install", "--silent", library);
    run(folder, "npx", "everturn", "init", "my-app", "--template", "react", "--everturn", `file:${library}`);
    run(project, "npm", "install", "--silent");
    run(project, "npm", "run", "--silent", "check");
    assert.match(run(project, "npm", "test", "--silent"), /[#ℹ] pass 1\n[#ℹ] fail 0/);
    run(project, "npm", "run", "--silent", "build");
    console.log("created, installed, type-checked, tested and built");

    const first = await serve("0");
    running.server = first.child;
    const { port } = new URL(first.link);
    const browser = (running.browser = await Browser.start(chromium(), join(folder, "profile")));
    await browser.open(first.link);
    await browser.until("document.querySelector('input') !== null");
    await browser.evaluate("globalThis.isFirstPage = true");
    await write(browser, "**hello**");
    await browser.until("document.querySelector('.user strong')?.innerText === 'hello'");
    await browser.until(`${newest}.includes('--model ollama')`);

    await write(browser, "book_table");
    await browser.until("document.querySelector('.approval textarea') !== null");
    await browser.evaluate(`(() => {
      const area = document.querySelector(".approval textarea");
      const { set } = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value");
      set.call(area, area.value.replace('"Ada"', '"Grace"'));
      area.dispatchEvent(new Event("input", { bubbles: true }));
    })()`);
    await browser.until("!document.querySelector('.approval button').disabled");
    await browser.evaluate("document.querySelector('.approval button').click()");
    await browser.until("document.body.innerText.includes('booked a table for 2 at 20:00, for Grace')");
    console.log("Markdown is rendered, and a call runs with the arguments that were edited");

    const rows = [];
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      const words = Array.from({ length: 60 }, (_, index) => `${signal}-${index}.`);
      await browser.evaluate(recorder);
      await write(browser, words.join(" "));
      await browser.until(`${newest}.includes('${words[10] ?? ""}')`);
      const endedAt = Date.now();
      await end(running.server, signal);
      running.server = (await serve(port)).child;
      const downMs = Date.now() - endedAt;
      await browser.until(`${newest}.includes('${words[59] ?? ""}')`);
      const text = String(await browser.evaluate(newest));
      assert.deepEqual(text.match(/SIG[A-Z]+-\d+\./g), words, text);
      const changes = await browser.evaluate("changes");
      assert.ok(Array.isArray(changes) && changes.length > 10);
      const gapMs = Math.round(Math.max(...changes.slice(1).map((at, index) => Number(at) - Number(changes[index]))));
      rows.push({ signal, downMs, gapMs });
      const waitedMs = signal === "SIGKILL" ? gapMs - downMs : gapMs;
      assert.ok(waitedMs < 2000, `${signal}: no change for ${gapMs} ms`);
    }
    assert.equal(await browser.evaluate("isFirstPage"), true, "the page was not loaded again");
    console.table(rows);
  } finally {
    await running.browser?.close();
    running.server?.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
  }
}
