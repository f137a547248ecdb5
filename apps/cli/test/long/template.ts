// The project of `everturn init` as a new user gets it: the package is packed and installed, the project is created
// with `npm create`'s program, tested, served, and used in Chromium: a message, an approval, a `kill -9` of the server
// while the page is open, and a reload.
//
//   tsx --conditions=source apps/cli/test/long/template.ts [FOLDER]
//
// FOLDER receives screenshots; default: none. Needs Chromium (EVERTURN_CHROMIUM names another one;
// EVERTURN_SKIP_BROWSER=1 skips this test) and a network for npm.

import type { ChildProcess } from "node:child_process";

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { chromium } from "../../../../lib/test/edge/tools.ts";
import { writeCreatePackage } from "../../../../tools/package/create-package.ts";
import { Browser } from "./browser.ts";

const root = resolve(import.meta.dirname, "../../../..");
const folder = mkdtempSync(join(tmpdir(), "template-"));
const project = join(folder, "my-app");
const [screenshots] = process.argv.slice(2);
const environment = {
  PATH: process.env["PATH"] ?? "",
  HOME: folder,
  XDG_CONFIG_HOME: join(folder, "config"),
  EVERTURN_OFFLINE_PACE: "60",
  npm_config_audit: "false",
  npm_config_fund: "false",
};
const startedAt = Date.now();

const log = (text: string): void =>
  console.log(`${((Date.now() - startedAt) / 1000).toFixed(1).padStart(6)} s  ${text}`);
const run = (cwd: string, program: string, ...argv: readonly string[]): string =>
  execFileSync(program, argv, {
    cwd,
    env: { ...process.env, ...environment, HOME: process.env["HOME"] ?? folder },
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
const picture = async (browser: Browser, name: string): Promise<void> => {
  if (screenshots === undefined) return;
  mkdirSync(screenshots, { recursive: true });
  await browser.screenshot(join(screenshots, `${name}.png`));
};

/** Starts the server of the project and returns its address, and the link that logs in to its page. */
async function serve(
  port: string,
): Promise<{ readonly child: ChildProcess; readonly url: string; readonly link: string }> {
  const command = join(project, "node_modules/everturn/bin/everturn.js");
  const child = spawn(process.execPath, [command, "serve", "--config", "everturn.config.ts", "--port", port], {
    cwd: project,
    env: environment,
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  for await (const chunk of child.stdout) {
    text += String(chunk);
    const url = /http:\S+/.exec(text)?.[0];
    const link = /The page is at (http:\S+)\n/.exec(text)?.[1];
    if (url !== undefined && link !== undefined) return { child, url, link };
  }
  throw new Error(`the server said ${text}`);
}

async function kill(child: ChildProcess): Promise<void> {
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
}

if (process.env["EVERTURN_SKIP_BROWSER"] === "1") log("skipped: EVERTURN_SKIP_BROWSER");
else {
  const running: { server: ChildProcess | null; browser: Browser | null } = { server: null, browser: null };
  try {
    const packed = (source: string) =>
      join(
        folder,
        run(source, "npm", "pack", "--silent", "--pack-destination", folder).trim().split("\n").at(-1) ?? "",
      );
    const [library, creator] = [packed(join(root, "lib")), packed(writeCreatePackage(join(folder, "creator")))];
    log("packed everturn and create-everturn");
    writeFileSync(join(folder, "package.json"), "{}");
    run(folder, "npm", "install", "--silent", library, creator);
    run(folder, "npx", "create-everturn", "my-app", "--everturn", `file:${library}`);
    run(project, "npm", "install", "--silent");
    log("created my-app and installed its packages");
    run(project, "npm", "run", "--silent", "check");
    assert.match(run(project, "npm", "test", "--silent"), /[#ℹ] pass 1\n[#ℹ] fail 0/);
    log("its types and its test are correct");

    const first = await serve("0");
    running.server = first.child;
    const browser = (running.browser = await Browser.start(chromium(), join(folder, "profile")));
    await browser.open(first.link);
    await browser.evaluate("document.querySelector('#input').focus()");
    await browser.type("hello");
    await browser.until("document.querySelector('.assistant')?.innerText.startsWith('You said: hello')");
    await picture(browser, "1-streams");
    const streamed = String(await browser.evaluate("document.querySelector('.assistant').innerText"));
    await browser.until("document.body.innerText.includes('--model ollama')");
    assert.ok(!streamed.includes("--model ollama"), "the text was shown while it arrived");
    await browser.type("book_table");
    await browser.until("document.querySelector('.approval') !== null");
    await picture(browser, "2-asks");
    log("the page streams a reply and asks for an approval");

    await kill(first.child);
    running.server = (await serve(new URL(first.url).port)).child;
    await browser.open(String(await browser.evaluate("location.href")));
    await browser.evaluate("globalThis.isBeforeReload = true; location.reload()");
    await browser.until("globalThis.isBeforeReload !== true && document.querySelector('.approval button') !== null");
    await picture(browser, "3-after-kill");
    await browser.evaluate("document.querySelector('.approval button').click()");
    await browser.until("document.body.innerText.includes('booked a table for 2 at 20:00, for Ada')");
    await browser.until("document.querySelector('.approval') === null");
    log("the approval survives kill -9 of the server and a reload");

    // The server dies while it streams, and the page is not reloaded.
    await browser.evaluate("document.querySelector('#input').focus()");
    await browser.type("help me to see a long reply");
    await browser.until("[...document.querySelectorAll('.assistant')].at(-1).innerText.startsWith('You said: help')");
    await kill(running.server);
    running.server = (await serve(new URL(first.url).port)).child;
    await browser.until(
      "[...document.querySelectorAll('.assistant')].at(-1).innerText.trim().endsWith('--model ollama:llama3.3`.')",
    );
    const shown = await browser.evaluate("[...document.querySelectorAll('.user')].map((item) => item.innerText)");
    assert.deepEqual(shown, ["hello", "book_table", "help me to see a long reply"]);
    await picture(browser, "4-continued");
    log("a reply that was cut by kill -9 is completed in the open page");
  } finally {
    await running.browser?.close();
    running.server?.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 });
  }
}
