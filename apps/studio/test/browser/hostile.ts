// Hostile content: messages, tool calls, results, titles, engine names and errors that try to run scripts, to load from
// other servers, to block the page or to break its layout. All of it must be shown as text.

import type { FakeStep, Message } from "everturn";
import type { Browser, Page } from "playwright-core";

import { join } from "node:path";

import { engine, tool, assistant, user } from "everturn";

import { replyWith, withRuntime } from "./generate.ts";
import { sidewaysScroll } from "./looks.ts";
import { Server } from "./server.ts";
import { check, until, WatchedPage } from "./watched-page.ts";

const html = `<img src=x onerror="ran()"><script>ran()</script><svg onload="ran()"><script>ran()</script></svg><iframe srcdoc="<script>parent.ran()</script>"></iframe>`;
const links = [
  "[click](javascript:ran())",
  "[click](JaVaScRiPt:ran())",
  "[click](java\tscript:ran())",
  "[click](data:text/html,<script>ran()</script>)",
  "[click](vbscript:ran())",
  "<javascript:ran()>",
  "[ref]: javascript:ran()",
  "[ref]",
].join("\n\n");
const images = [
  "![x](https://evil.example/x.png)",
  "![x](//evil.example/y.png)",
  "![x](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9InJhbigpIi8+)",
  "<style>@import url(https://evil.example/z.css)</style>",
  '<link rel="stylesheet" href="https://evil.example/z.css">',
].join("\n\n");
const row = `|${" cell |".repeat(50)}\n`;
const table = `${row}|${" --- |".repeat(50)}\n${row.repeat(2000)}`;
const bidi = "left \u202Eright to left\u202C \u2066isolated\u2069 \u200Fmark תוכן العربية \u202Dforced";
const zalgo = [..."zalgo text"].map((letter) => letter + "\u0301\u0316\u0334\u0489".repeat(40)).join("");
const nul = "before\u0000after \u0007\u001B[31mred\u001B[0m \uFEFF\uFFFE";
const megabyte = "x".repeat(1_000_000);
const quotes = `${"> ".repeat(1000)}deep`;
const lists = Array.from({ length: 1000 }, (_, depth) => `${"  ".repeat(depth)}- level ${depth}`).join("\n");
const brackets = "[".repeat(50_000) + "*".repeat(50_000) + "`".repeat(20_000);
const code = "```" + html + "\n" + html + "\n```";

/** Each is the text of a message, of a title, of a tool's result and of an error. */
const contents: { readonly [name: string]: string } = {
  html,
  links,
  images,
  code,
  table,
  bidi,
  zalgo,
  nul,
  megabyte,
  quotes,
  lists,
  brackets,
};

const toolName = "read_page";
const payName = "pay_page";
const hostileEngine = `"><img src=x onerror=ran()>`;

export async function checkHostileContent(browser: Browser, shots: string, only: string): Promise<readonly string[]> {
  await writeHostileDatabase("hostile.db");
  const server = await Server.start({ database: "hostile.db" });
  const faults: string[] = [];
  try {
    for (const name of Object.keys(contents)) {
      if (!name.includes(only)) continue;
      for (const kind of ["messages", "tools", "failure", "approval"]) {
        const began = Date.now();
        const found = await openHostile(browser, server, `${name}-${kind}`, shots);
        console.log(`${found.length === 0 ? "ok    " : "FAILED"} ${name}, ${kind} (${Date.now() - began} ms)`);
        for (const fault of found) console.log(`       ${fault}`);
        faults.push(...found.map((fault) => `${name}, ${kind}: ${fault}`));
      }
    }
  } finally {
    await server.kill();
  }
  return faults;
}

async function openHostile(browser: Browser, server: Server, id: string, shots: string): Promise<readonly string[]> {
  const watched = await WatchedPage.open(browser, server.url);
  const { page } = watched;
  const faults: string[] = [];
  page.on("dialog", (dialog) => {
    faults.push(`a dialog appeared: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.addInitScript("window.runs = 0; window.ran = () => { window.runs += 1; };");
  try {
    await page.goto(server.studio(`s/${id}`));
    await page.locator("article.msg").first().waitFor();
    await page.locator(".timeline-pane [role='option']").first().waitFor();
    await checkInert(page, faults);
    if (id.endsWith("-approval")) await checkApproval(page, faults, shots, id);
    // The inspector shows the request and the response of the last effect.
    await page.locator(".timeline-pane [role='option']").last().click({ force: true });
    const tabs = page.locator(".insp-tabs [role='tab']");
    await tabs.first().waitFor();
    for (const tab of await tabs.all()) await tab.click();
    await checkInert(page, faults);
    // Folded details and cut texts are opened.
    for (const more of (await page.locator("summary, button.more").all()).slice(0, 6))
      await more.click({ timeout: 3000 }).catch(() => undefined);
    await checkInert(page, faults);
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox").waitFor();
    await page.keyboard.press("Escape");
    await page.screenshot({ path: join(shots, `hostile-${id}.png`) });
  } catch (error) {
    faults.push(error instanceof Error ? error.message : String(error));
    await page.screenshot({ path: join(shots, `failed-hostile-${id}.png`) }).catch(() => undefined);
  }
  faults.push(...(await watched.close()));
  return faults;
}

/**
 * The form of an approval shows no character that is invisible or reorders others, and can be decided once all of it is
 * shown.
 */
async function checkApproval(page: Page, faults: string[], shots: string, id: string): Promise<void> {
  const form = page.locator(".approval");
  const approve = form.getByRole("button", { name: /^Approve/ });
  await approve.waitFor();
  await page.screenshot({ path: join(shots, `hostile-${id}-form.png`) });
  const buttons = form.getByRole("button", { name: /^Show all/ });
  if ((await buttons.count()) > 0 && (await approve.isEnabled()))
    faults.push("a call is approved that is not all shown");
  while ((await buttons.count()) > 0) await buttons.first().click();
  await checkInert(page, faults);
  if (!(await approve.isEnabled())) faults.push("the call cannot be approved");
  const fields = await form.locator("textarea, input").all();
  const values = await Promise.all(fields.map(async (field) => field.inputValue()));
  const shown = [await form.innerText(), ...values].join(" ");
  const hidden = /(?![\t\n])\p{Cc}|[\p{Bidi_Control}\u200B\u00AD\uFEFF\u2028\u2029]/u.exec(shown);
  if (hidden !== null) faults.push(`the form contains U+${hidden[0].codePointAt(0)?.toString(16) ?? ""}`);
}

/** No script has run, no link runs one, nothing is loaded, the page answers soon and does not scroll sideways. */
async function checkInert(page: Page, faults: string[]): Promise<void> {
  const began = Date.now();
  await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))");
  const answered = Date.now() - began;
  if (answered > 5000) faults.push(`the page did not draw for ${answered} ms`);
  if ((await page.evaluate<number>("window.runs")) !== 0) faults.push("a script of the content ran");
  const bad = await page.evaluate<readonly string[]>(
    `[...document.querySelectorAll("a[href], img[src], iframe, object, embed, form[action], base, link[href], script")]
       .filter((element) => {
         const address = element.href ?? element.src ?? element.action ?? "";
         if (element.matches("script, link")) return new URL(address, location.href).origin !== location.origin;
         if (element.matches("img")) return !/^data:image\\/(png|jpeg|gif|webp);base64,/.test(address) && new URL(address).origin !== location.origin;
         return !element.matches("a") || !/^(https?|mailto):/.test(address);
       })
       .map((element) => element.outerHTML.slice(0, 200))`,
  );
  for (const element of bad) faults.push(`an element of the content: ${element}`);
  faults.push(...(await sidewaysScroll(page)));
}

async function writeHostileDatabase(database: string): Promise<void> {
  const scripts: FakeStep[][] = [];
  const adapter = replyWith(() => scripts.shift() ?? [{ type: "text", text: "Done." }]);
  let result = "";
  const readPage = tool({
    name: toolName,
    description: html,
    schema: { type: "object" },
    replay: "safe",
    handler: () => result,
  });
  const payPage = tool({
    name: payName,
    description: html,
    schema: { type: "object" },
    needsApproval: true,
    handler: () => result,
  });
  const hostile = engine({ adapter, model: `fake:${html}`, tools: [readPage, payPage] });
  await withRuntime(database, { default: hostile, [hostileEngine]: hostile }, async (runner) => {
    for (const [name, content] of Object.entries(contents)) {
      const metadata = { title: content.slice(0, 20_000) };
      const messages: readonly Message[] = [user(content), assistant(content), user(content)];
      scripts.push([
        { type: "reasoning", text: content },
        { type: "text", text: content },
      ]);
      await (
        await runner.start(messages, { id: `${name}-messages`, engine: hostileEngine, metadata })
      ).result;
      result = content;
      scripts.push([{ type: "tool_call", name: toolName, arguments: { [content.slice(0, 2000)]: content } }]);
      scripts.push([{ type: "text", text: "I have read it." }]);
      await (
        await runner.start("Read the page.", { id: `${name}-tools`, engine: "default", metadata })
      ).result;
      // Lists of sessions contain the arguments of waiting calls, so a server has few of them that are large.
      const note = content.slice(0, 30_000);
      const rows = Array.from({ length: 87 }, (_, index) => `${index} ${content.slice(0, 100)}`);
      const order = { id: "A-1", [content.slice(0, 200)]: note.slice(0, 1000) };
      scripts.push([{ type: "tool_call", name: payName, arguments: { amount: 5, order, rows, note } }]);
      const waits = await (await runner.start("Pay.", { id: `${name}-approval`, engine: "default", metadata })).result;
      check(waits.session.pendingToolCalls.length === 1, "no call waits");
      scripts.push([{ type: "error", reason: "invalid_request", message: content, retryable: false }]);
      const failed = await (await runner.start("Fail.", { id: `${name}-failure`, engine: "default", metadata })).result;
      check(failed.failure !== null, "the turn did not fail");
    }
    await until(
      "all turns have ended",
      async () => scripts.length,
      (left) => left === 0,
      1000,
    );
  });
}
