// The template `app` in Chromium: a message, an approval, a `kill -9` of the server while the page is open, and a
// reload.
//
//   tsx --conditions=source apps/cli/test/long/template.ts [FOLDER]
//
// FOLDER receives screenshots; default: none. Needs Chromium (EVERTURN_CHROMIUM names another one;
// EVERTURN_SKIP_BROWSER=1 skips this test) and a network for npm.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";

import { withProject } from "./template-project.ts";

const [screenshots] = process.argv.slice(2);

await withProject("app", async ({ browser, serve, end, log }) => {
  const picture = async (name: string): Promise<void> => {
    if (screenshots === undefined) return;
    mkdirSync(screenshots, { recursive: true });
    await browser.screenshot(join(screenshots, `${name}.png`));
  };
  await browser.open(await serve());
  await browser.evaluate("document.querySelector('#input').focus()");
  await browser.type("hello");
  await browser.until("document.querySelector('.assistant')?.innerText.startsWith('You said: hello')");
  await picture("1-streams");
  const streamed = String(await browser.evaluate("document.querySelector('.assistant').innerText"));
  await browser.until("document.body.innerText.includes('--model ollama')");
  assert.ok(!streamed.includes("--model ollama"), "the text was shown while it arrived");
  await browser.type("book_table");
  await browser.until("document.querySelector('.approval') !== null");
  await picture("2-asks");
  log("the page streams a reply and asks for an approval");

  await end("SIGKILL");
  await serve();
  await browser.open(String(await browser.evaluate("location.href")));
  await browser.evaluate("globalThis.isBeforeReload = true; location.reload()");
  await browser.until("globalThis.isBeforeReload !== true && document.querySelector('.approval button') !== null");
  await picture("3-after-kill");
  await browser.evaluate("document.querySelector('.approval button').click()");
  await browser.until("document.body.innerText.includes('booked a table for 2 at 20:00, for Ada')");
  await browser.until("document.querySelector('.approval') === null");
  log("the approval survives kill -9 of the server and a reload");

  // The server dies while it streams, and the page is not reloaded.
  await browser.evaluate("document.querySelector('#input').focus()");
  await browser.type("help me to see a long reply");
  await browser.until("[...document.querySelectorAll('.assistant')].at(-1).innerText.startsWith('You said: help')");
  await end("SIGKILL");
  await serve();
  await browser.until(
    "[...document.querySelectorAll('.assistant')].at(-1).innerText.trim().endsWith('--model ollama:llama3.3`.')",
  );
  const shown = await browser.evaluate("[...document.querySelectorAll('.user')].map((item) => item.innerText)");
  assert.deepEqual(shown, ["hello", "book_table", "help me to see a long reply"]);
  await picture("4-continued");
  log("a reply that was cut by kill -9 is completed in the open page");
});
