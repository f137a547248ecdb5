// What a reader takes out of the page: links to messages and effects, JSON, `curl` commands and replay files. Each is
// used: links are opened in other browsers, commands are run in a shell, and files are opened again.

import type { Flow } from "../flow.ts";
import type { Page } from "playwright-core";

import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

import { createClient } from "everturn/client";

import { button, read, seeEnd, seeText, startScenario, startSession, talk, text } from "../flow.ts";
import { folder } from "../server.ts";
import { check, until } from "../watched-page.ts";

type Effects = {
  readonly effects: readonly { readonly ordinal: number; readonly kind: string; readonly name: string | null }[];
};
type Turns = { readonly items: readonly { readonly turnId: string }[] };
type Messages = { readonly items: readonly { readonly role: string }[] };

/** Copies by a click, and returns the text of the clipboard. */
async function copied(page: Page, click: () => Promise<void>): Promise<string> {
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.evaluate('navigator.clipboard.writeText("")');
  await click();
  return until(
    "the text is copied",
    async () => page.evaluate<string>("navigator.clipboard.readText()"),
    (clipboard) => clipboard !== "",
  );
}

/** Runs a command in a shell, as a reader does who has pasted it. */
async function runInShell(command: string, token = ""): Promise<string> {
  const { stdout } = await promisify(execFile)("bash", ["-c", command], {
    env: { PATH: process.env["PATH"], EVERTURN_TOKEN: token },
    maxBuffer: 10_000_000,
  });
  return stdout;
}

/** Whether two JSON texts are equal, apart from the time at which the server answered. */
function sameJson(left: string, right: string): boolean {
  const [one, other] = [left, right].map((json) => JSON.stringify({ ...JSON.parse(json), now: 0 }));
  return one === other;
}

export const linkFlows: readonly Flow[] = [
  {
    name: "links to every message and every effect open in another browser",
    run: async ({ open, server }) => {
      const { page } = await open();
      const id = await startScenario(page, "Parallel tools");
      await seeText(page, "The room Belém is free");
      await seeEnd(page);
      const turns: Turns = JSON.parse(await read(server, `sessions/${id}/turns`));
      const turnId = turns.items[0]?.turnId ?? "";
      const { effects }: Effects = JSON.parse(await read(server, `sessions/${id}/turns/${turnId}/timeline`));
      check(effects.length >= 7, `the turn has ${effects.length} effects`);
      for (const { ordinal, kind, name } of effects) {
        const { page: other } = await open(`s/${id}?turn=${turnId}&effect=${ordinal}`);
        const heading = other.getByRole("complementary", { name: "Inspector" }).getByRole("heading", { level: 2 });
        await until(
          `the link to effect ${ordinal} shows ${kind} ${name ?? ""}`,
          async () => text(heading),
          (shown) => shown.includes(kind) && shown.includes((name ?? "").split(":").at(-1) ?? ""),
        );
        // Bookkeeping has no bar in the timeline.
        if (kind === "model" || kind === "tool")
          await other.locator(".timeline-pane [role='option'][aria-selected='true']").first().waitFor();
        if (kind === "tool") await other.locator(".tool-card.sel").waitFor();
        await other.close();
      }
      const messages: Messages = JSON.parse(await read(server, `sessions/${id}/messages`));
      for (const [index, { role }] of messages.items.entries()) {
        // Results of tools are shown in the cards of their calls.
        if (role === "tool") continue;
        const { page: other } = await open(`s/${id}?message=${index}`);
        const selected = other.locator("article.msg.sel");
        await selected.waitFor();
        const label = (await selected.getAttribute("aria-label")) ?? "";
        check(label.startsWith(`Message ${index + 1} of`), `the link to message ${index} selects ${label}`);
        await other.close();
      }
    },
  },
  {
    name: "a link to an effect of an old turn shows its message",
    run: async ({ open, start }) => {
      const server = await start({ database: "old-turn.db", paceMs: 0 });
      const client = createClient({ url: server.url });
      const first = await client.start("Message of turn 1");
      await first.result;
      for (let turn = 2; turn <= 30; turn += 1)
        await (
          await client.reply(first.sessionId, `Message of turn ${turn}`)
        ).result;
      const turns: Turns = JSON.parse(await read(server, `sessions/${first.sessionId}/turns?limit=100`));
      const turnId = turns.items.at(-1)?.turnId ?? "";
      const { page } = await open(`s/${first.sessionId}?turn=${turnId}&effect=1`, server);
      await page.getByRole("complementary", { name: "Inspector" }).getByRole("heading", { name: /model/ }).waitFor();
      const selected = page.locator("article.msg.sel", { hasText: "You said: Message of turn 1" });
      await selected.waitFor();
      await until(
        "the message is in view",
        async () => {
          const box = await selected.boundingBox();
          return [box?.y ?? -1, page.viewportSize()?.height ?? 0];
        },
        ([top = 0, height = 0]) => top > 0 && top < height,
      );
    },
  },
  {
    name: "the link that is copied from a message opens it",
    run: async ({ open, server }) => {
      const { page } = await open();
      await startSession(page, "A message to link to");
      await seeEnd(page);
      await talk(page).getByRole("article").first().hover();
      await button(page, "Actions on message 1").click();
      const link = await copied(page, async () => page.getByRole("menuitem", { name: "Copy link" }).click());
      check(link.startsWith(server.studio("s/")), `the link is ${link}`);
      const { page: other } = await open(link.slice(server.studio().length));
      await other.locator("article.msg.sel", { hasText: "A message to link to" }).waitFor();
    },
  },
  {
    name: "copy as JSON and as curl, and run the commands",
    run: async ({ open, start }) => {
      const token = "a-token-that-is-long-enough-0123456789";
      const server = await start({ database: "curl.db", token });
      const watched = await open("", server);
      const { page } = watched;
      watched.allowFailures(/\b401\b/);
      await page.getByLabel("Access token").fill(token);
      await page.keyboard.press("Enter");
      await page.getByRole("link", { name: "Sessions", exact: true }).waitFor();
      watched.problems.length = 0;
      watched.allowFailures(null);
      const id = await startSession(page, "What's 'quoted' $HOME `here`? clock");
      await seeText(page, "clock");
      await seeEnd(page);
      const fetched = async (path: string): Promise<string> =>
        (await fetch(`${server.url}/${path}`, { headers: { authorization: `Bearer ${token}` } })).text();
      const turns: Turns = JSON.parse(await fetched(`sessions/${id}/turns`));
      const turn = `sessions/${id}/turns/${turns.items[0]?.turnId ?? ""}`;
      const compare = async (what: string, command: string, path: string): Promise<void> => {
        check(!command.includes(token), `the command for ${what} contains the token`);
        const answer = await runInShell(command, token);
        check(sameJson(answer, await fetched(path)), `the command for ${what} prints ${answer.slice(0, 300)}`);
      };
      const inspector = page.getByRole("complementary", { name: "Inspector" });
      const ofTurn = await copied(page, async () => button(inspector, "Copy as curl").click());
      await compare("the turn", ofTurn, `${turn}/timeline`);
      await page.locator(".tool-card button.name").first().click();
      await inspector.getByRole("heading", { name: /clock/ }).waitFor();
      const ordinal = new URL(page.url()).searchParams.get("effect") ?? "";
      const ofEffect = await copied(page, async () => button(inspector, "Copy as curl").click());
      await compare("the effect", ofEffect, `${turn}/effects/${ordinal}`);
      await inspector.getByRole("tabpanel").getByText("ordinal").waitFor();
      const json = await copied(page, async () => button(inspector, "Copy as JSON").click());
      check(sameJson(json, await fetched(`${turn}/effects/${ordinal}`)), "the copied JSON is not that of the server");
      const menu = async (item: string | RegExp): Promise<void> => {
        await button(page, "Actions on the session").click();
        await page.getByRole("menuitem", { name: item }).click();
      };
      const ofMessages = await copied(page, async () => menu("Copy as curl"));
      await compare("the messages", ofMessages, `sessions/${id}/messages`);
      const session = await copied(page, async () => menu("Copy the session as JSON"));
      check(session.includes(id), "the copied session has another id");
      check((await copied(page, async () => menu("Copy the id"))) === id, "the copied id is another one");
    },
  },
  {
    name: "copy as curl without a token on the server",
    run: async ({ open, server }) => {
      const { page } = await open();
      const id = await startSession(page, "Copy this session");
      await seeEnd(page);
      await button(page, "Actions on the session").click();
      const command = await copied(page, async () => page.getByRole("menuitem", { name: "Copy as curl" }).click());
      const answer = await runInShell(command);
      check(sameJson(answer, await read(server, `sessions/${id}/messages`)), `the command prints ${answer}`);
    },
  },
  {
    name: "export a turn with a crash from the menu, and open the file again",
    run: async ({ open }) => {
      const { page } = await open();
      await startScenario(page, "Crash and recovery");
      await seeText(page, "Thank you to the 14 people", 90_000);
      await seeEnd(page);
      const bars = page.locator(".timeline-pane [role='option']");
      await bars.first().waitFor();
      await button(page, "Actions on the session").click();
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        page.getByRole("menuitem", { name: "Export the turn as a replay file" }).click(),
      ]);
      const file = join(folder, "crash-record.json");
      await download.saveAs(file);
      JSON.parse(readFileSync(file, "utf8"));
      const { page: other } = await open("replay");
      await other.locator("input[type=file]").setInputFiles(file);
      await until(
        "the replay file is shown",
        async () => text(other.getByRole("main").first()),
        (whole) => whole.includes("Thank you to the 14 people") && whole.includes("read_commits"),
      );
      // The file says the same as the live view: totals, bars with their states, and the processes of the crash.
      for (const selector of [".everturn-tl-totals", ".everturn-tl-crash"]) {
        const [live, replayed] = await Promise.all([page, other].map(async (shown) => text(shown.locator(selector))));
        check(live === replayed, `${selector}: the live view has “${live}”, the file “${replayed}”`);
      }
      const [live, replayed] = [await titlesOf(page), await titlesOf(other)];
      check(live !== "" && live === replayed, `the live view has the bars ${live}, the file ${replayed}`);
      // Each row can be inspected.
      await other.locator("[role='option']").last().click();
      await other.locator(".insp-tabs").waitFor();
    },
  },
];

/** The names of the bars of a timeline. */
async function titlesOf(shown: Page): Promise<string> {
  const bars = shown.getByRole("listbox", { name: /^Effects/ }).getByRole("option");
  const titles = await bars.evaluateAll((options) => options.map((option) => option.getAttribute("aria-label") ?? ""));
  return titles.join("; ");
}
