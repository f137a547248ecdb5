// The templates with a page in React: the page is built, used in Chromium, and open while its server is stopped
// (SIGTERM) or killed (SIGKILL) in the middle of a reply. Every word is shown once, and the page is not reloaded. It
// prints the longest time in which the page did not change.
//
//   tsx --conditions=source apps/cli/test/long/template-pages.ts react|hono|next
//
// Needs Chromium (EVERTURN_CHROMIUM names another one; EVERTURN_SKIP_BROWSER=1 skips this test) and a network for npm.

import type { Browser } from "./browser.ts";

import assert from "node:assert/strict";

import { templates } from "../../src/commands/templates.ts";
import { withProject } from "./template-project.ts";

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

const template = templates.find((name) => name === process.argv[2]);
if (template === undefined || template === "app") throw new Error("name a template with a page in React");

await withProject(template, async ({ browser, run, serve, end, log }) => {
  run("npm", "run", "--silent", "build");
  log("built");
  await browser.open(await serve());
  await browser.until("document.querySelector('input') !== null");
  await browser.evaluate("globalThis.isFirstPage = true");
  await write(browser, "**hello**");
  await browser.until("document.querySelector('.user strong')?.innerText === 'hello'");
  await browser.until(`${newest}.startsWith('You said: hello')`);
  log("Markdown is rendered");

  await write(browser, "book_table");
  await browser.until("document.querySelector('.approval textarea') !== null");
  await browser.evaluate(`(() => {
    const area = document.querySelector(".approval textarea");
    const { set } = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value");
    set.call(area, area.value.replace('"Ada"', '"Grace"'));
    area.dispatchEvent(new Event("input", { bubbles: true }));
  })()`);
  await browser.until("document.querySelector('.approval textarea').value.includes('Grace')");
  await browser.evaluate("document.querySelector('.approval button').click()");
  await browser.until("document.body.innerText.includes('booked a table for 2 at 20:00, for Grace')");
  log("a call runs with the arguments that were edited");

  // The question of a tool: it is shown with its form, also after a reload, and so are question, answer and result.
  const reload = async (): Promise<void> => {
    await browser.evaluate("globalThis.isBeforeReload = true; location.reload()");
    await browser.until("globalThis.isBeforeReload !== true && document.querySelector('article') !== null");
  };
  const chatText = `[...document.querySelectorAll("article")].map((item) => item.className + ": " + item.innerText).join("\\n")`;
  await write(browser, "suggest_menu");
  const isAsked =
    "document.querySelector('.question input') !== null && document.querySelectorAll('form').length === 1";
  await browser.until(isAsked);
  const choices = "[...document.querySelectorAll('.question button[type=button]')].map((item) => item.innerText)";
  assert.deepEqual(await browser.evaluate(choices), ["everything", "vegetarian", "vegan"]);
  await reload();
  await browser.until(isAsked);
  assert.deepEqual(await browser.evaluate(choices), ["everything", "vegetarian", "vegan"]);
  await browser.evaluate("document.querySelector('.question input').focus()");
  await browser.type("only soup");
  await browser.until(`${newest}.split('The menu of the day, only soup.').length === 3`);
  await browser.until("document.querySelector('.question') === null");
  const live = String(await browser.evaluate(chatText));
  assert.match(live, /What do you eat\?\nuser: only soup\nassistant: The menu of the day, only soup\./);
  await reload();
  await browser.until(`${newest}.split('The menu of the day, only soup.').length === 3`);
  assert.equal(await browser.evaluate(chatText), live, "the page shows the same after a reload");
  assert.equal(await browser.evaluate("document.querySelector('.question')"), null);
  await browser.evaluate("globalThis.isFirstPage = true");
  log("a question is answered, and shown the same after a reload");

  const rows = [];
  for (const signal of ["SIGTERM", "SIGKILL"] as const) {
    const words = Array.from({ length: 60 }, (_, index) => `${signal}-${index}.`);
    await browser.evaluate(recorder);
    await write(browser, words.join(" "));
    await browser.until(`${newest}.includes('${words[10] ?? ""}')`);
    const endedAt = Date.now();
    await end(signal);
    await serve();
    const downMs = Date.now() - endedAt;
    await browser.until(`${newest}.includes('${words[59] ?? ""}')`);
    const text = String(await browser.evaluate(newest));
    assert.deepEqual(text.match(/SIG[A-Z]+-\d+\./g), words, text);
    const changes = await browser.evaluate("changes");
    assert.ok(Array.isArray(changes) && changes.length > 10);
    const gapMs = Math.round(Math.max(...changes.slice(1).map((at, index) => Number(at) - Number(changes[index]))));
    rows.push({ template, signal, downMs, gapMs });
    // After a kill, the next process first has to see that the other one has ended.
    const [waitedMs, limitMs] = signal === "SIGKILL" ? [gapMs - downMs, 5000] : [gapMs, 2000];
    assert.ok(waitedMs < limitMs, `${signal}: no change for ${gapMs} ms, of which ${downMs} ms without a server`);
  }
  assert.equal(await browser.evaluate("isFirstPage"), true, "the page was not loaded again");
  console.table(rows);

  const studio = String(await browser.evaluate("document.querySelector('header a[href$=\"/studio/\"]').href"));
  if (template !== "react") {
    const command = ["node_modules/everturn/bin/everturn.js", "serve", "--no-token", "--config", "everturn.config.ts"];
    await serve([...command, "--port", new URL(studio).port]);
  }
  await browser.open(studio);
  await browser.until("document.body.innerText.includes('completed')");
  log("the link to the studio shows the session");
});
