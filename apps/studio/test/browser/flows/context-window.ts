// Long conversations: the marks of summaries in the conversation, what they open to, undo, the state while a summary is
// written, and the bar that shows what fills the context window.

import type { Flow } from "../flow.ts";
import type { Locator, Page } from "playwright-core";

import { join } from "node:path";

import { button, composer, read, seeEnd, seeText, startSession, talk, text } from "../flow.ts";
import { check, until } from "../watched-page.ts";

const contextConfig = join(import.meta.dirname, "../context.config.ts");

/** Sends a message, and waits for the end of the turn. */
async function say(page: Page, message: string): Promise<void> {
  await composer(page).fill(message);
  await composer(page).press("Enter");
  await seeText(page, message);
  await page
    .getByText(/I have looked it up/)
    .last()
    .waitFor();
  await seeEnd(page);
}

/** Starts a session with so many turns that a summary stands for its first messages. */
async function summarizedSession(page: Page): Promise<string> {
  const id = await startSession(page, "Where is parcel 1?");
  await seeEnd(page);
  for (let parcel = 2; parcel <= 8; parcel += 1) await say(page, `Where is parcel ${parcel}?`);
  return id;
}

const usedMark = (page: Page): Locator => talk(page).locator(".frame-mark.used");

type Frame = { readonly id: string; readonly to: number; readonly undoneAt: number | null };
type Frames = { readonly items: readonly Frame[] };

async function framesOf(server: { readonly url: string }, id: string): Promise<Frames["items"]> {
  const page: Frames = JSON.parse(await read(server, `sessions/${id}/frames`));
  return page.items;
}

/** The number of a row of the table of the context window. */
async function tokensOf(page: Page, label: string): Promise<number> {
  const row = page.getByRole("region", { name: "Context window" }).getByRole("row", { name: new RegExp(`^${label} `) });
  const cell = await row.getByRole("cell").first().innerText();
  return Number(cell.replaceAll(",", ""));
}

export const contextFlows: readonly Flow[] = [
  {
    name: "a long conversation shows all messages, and where summaries stand for them",
    run: async ({ open, start }) => {
      const server = await start({ database: "frames.db", config: contextConfig });
      const { page } = await open("", server);
      const id = await summarizedSession(page);
      const frames = await framesOf(server, id);
      check(frames.length > 0, "the session has no frame");
      await usedMark(page).waitFor();
      const whole = await text(talk(page));
      check(/\d+ earlier messages are summarized for the model/.test(whole), `no mark: ${whole}`);
      check(whole.includes("Where is parcel 8?"), "the newest message is not shown");
      await usedMark(page).locator("summary").press("Enter");
      await until(
        "the mark shows the summary, its range and its usage",
        async () => text(usedMark(page)),
        (shown) =>
          /Parcel 17 was seen in Lisbon/.test(shown) && /messages 1 to \d+/.test(shown) && /in [\d,]+/.test(shown),
      );
      await usedMark(page)
        .getByRole("link", { name: /step \d/ })
        .click();
      await page.getByRole("complementary", { name: "Inspector" }).getByText("compaction", { exact: true }).waitFor();
      // Every frame has a mark, and the messages before it are still there.
      for (const { to } of frames) {
        const { page: other } = await open(`s/${encodeURIComponent(id)}?message=${to}`, server);
        await seeText(other, new RegExp(`${to} earlier messages (are|were) summarized for the model`));
      }
      const { page: first } = await open(`s/${encodeURIComponent(id)}?message=0`, server);
      await seeText(first, "Where is parcel 1?");
    },
  },
  {
    name: "a summary is undone from its mark, and the mark says so",
    run: async ({ open, start }) => {
      const server = await start({ database: "undone.db", config: contextConfig });
      const { page } = await open("", server);
      const id = await summarizedSession(page);
      const before = await framesOf(server, id);
      await usedMark(page).locator("summary").click();
      await button(usedMark(page), "Undo the summary").click();
      await seeText(page, /The summary of \d+ earlier messages was undone/);
      const after = await framesOf(server, id);
      check(after.length === before.length, "the undone frame is not listed");
      check(typeof after.at(-1)?.undoneAt === "number", "the newest frame is not undone");
      const { page: other } = await open(`s/${encodeURIComponent(id)}`, server);
      await seeText(other, /The summary of \d+ earlier messages was undone/);
      const line = other.locator(".frame-mark.undone").last();
      await line.locator("summary").click();
      await until(
        "the mark says when",
        async () => text(line),
        (shown) => /undone \w/.test(shown),
      );
      check((await button(line, "Undo the summary").count()) === 0, "an undone summary can be undone");
    },
  },
  {
    name: "a summary that is requested and written is shown as it happens",
    run: async ({ open, start }) => {
      const server = await start({ database: "summarizing.db", config: contextConfig });
      const { page } = await open("", server);
      const id = await startSession(page, "Where is parcel 1?");
      await seeEnd(page);
      await say(page, "And parcel 2?");
      await button(page, "Actions on the session").click();
      await page.getByRole("menuitem", { name: "Summarize older messages for the model" }).click();
      await seeText(page, "The next turn begins with a summary of the older messages");
      await composer(page).fill("Look slowly for parcel 3.");
      await composer(page).press("Enter");
      await seeText(page, /Summarizing messages 1 to \d+ for the model/);
      const bar = page.getByRole("region", { name: "Timeline" }).getByRole("option", { name: /^compaction/ });
      await bar.waitFor();
      // A page that is opened meanwhile shows it too.
      const { page: other } = await open(`s/${encodeURIComponent(id)}`, server);
      await seeText(other, /Summarizing messages 1 to \d+ for the model/);
      server.signal("let-go");
      for (const each of [page, other]) {
        await seeText(each, /\d+ earlier messages are summarized for the model/);
        await seeEnd(each);
        check(!(await text(talk(each))).includes("Summarizing"), "the page still says that it summarizes");
      }
      await bar.waitFor();
    },
  },
  {
    name: "the bar of the context window has the tokens of the request, and its parts add up",
    run: async ({ open, start }) => {
      const server = await start({ database: "window.db", config: contextConfig });
      const { page } = await open("", server);
      await summarizedSession(page);
      const inspector = page.getByRole("complementary", { name: "Inspector" });
      await button(inspector, "Show what fills the context window").click();
      const region = inspector.getByRole("region", { name: "Context window" });
      await region.waitFor();
      const shown = await text(region);
      const [, used = "0", whole = "0"] = /([\d,]+) of ([\d,]+) tokens counted/.exec(shown) ?? [];
      check(whole === "3,000", `the window is ${whole}: ${shown}`);
      const names = ["Instructions", "Tools", "Summary", "Messages", "Tool results"];
      let sum = 0;
      for (const name of names) {
        const tokens = await tokensOf(page, name);
        check(tokens > 0, `${name}: ${tokens}`);
        sum += tokens;
      }
      check(sum === Number(used.replaceAll(",", "")), `the parts are ${sum} tokens, the request ${used}`);
      const rest = (await tokensOf(page, "Reserved for the reply")) + (await tokensOf(page, "Free"));
      check(sum + rest === 3000, `the rows add up to ${sum + rest}`);
      check(shown.includes("summarized at 2,000 tokens"), `nothing says when: ${shown}`);
      // The tab Request of a call has the bar of that call.
      await page
        .getByRole("region", { name: "Timeline" })
        .getByRole("option", { name: /step 1/ })
        .first()
        .click();
      await page.getByRole("tab", { name: "Request" }).click();
      await inspector.getByText("same digests").waitFor();
      await inspector.getByRole("region", { name: "Context window" }).waitFor();
    },
  },
];
