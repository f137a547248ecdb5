// Child agents: their conversation, and their lanes in the timeline of the turn that called them.

import type { Flow } from "../flow.ts";

import { button, seeEnd, seeText, startScenario, startSession, talk, text } from "../flow.ts";
import { check, until } from "../watched-page.ts";
import { testConfig } from "./waiting-calls.ts";

export const childFlows: readonly Flow[] = [
  {
    name: "child agents while they run: nested lanes that grow, and a transcript from the running call",
    run: async ({ open, start }) => {
      const server = await start({ database: "running-child.db", config: testConfig });
      const { page } = await open("", server);
      await startSession(page, "Use delegate_hold");
      const lanes = page.getByRole("listbox", { name: /^Effects of turn 1/ });
      const inner = lanes.locator(".everturn-tl-lane[data-depth='1'] .everturn-tl-bar");
      await until(
        "the child has its reply and its running tool",
        async () => inner.count(),
        (bars) => bars === 2,
        15_000,
      );
      const widthOf = async (): Promise<number> => (await inner.last().boundingBox())?.width ?? 0;
      const before = await widthOf();
      await until("the bar of the running tool grows", widthOf, (width) => width > before, 5000);
      await talk(page).getByRole("link", { name: "Open the child agent" }).click();
      await seeText(page, "Please hold for me");
      await seeText(page, "I call hold.");
      await talk(page).getByRole("region", { name: "Tool hold, running" }).waitFor({ timeout: 8000 });
      await seeText(page, "The child agent waits for its tools.");
      // The transcript follows the child to its end without a click.
      server.signal("let-go");
      await seeText(page, "The tool answered: let go", 15_000);
      await talk(page).getByRole("link", { name: "Back to the conversation" }).click();
      await seeText(page, "The tool answered: The tool answered: let go");
      await seeEnd(page);
      check((await inner.count()) === 3, "the child has not two replies and a tool");
    },
  },
  {
    name: "child agents: a transcript from the call, nested lanes, and the way back",
    run: async ({ open }) => {
      const { page } = await open();
      await startScenario(page, "Child agents");
      await seeText(page, "so start with SQLite");
      await seeEnd(page);
      const lanes = page.getByRole("listbox", { name: /^Effects of turn 1/ });
      // Each researcher has a lane for its model and one for its tool, below the lane of its call.
      await until(
        "the timeline has the lanes of both children",
        async () => lanes.locator(".everturn-tl-lane[data-depth='1']").count(),
        (lanesOfChildren) => lanesOfChildren === 4,
      );
      const outside = await lanes.evaluate((list) => {
        const calls = [...list.querySelectorAll(".everturn-tl-bar[data-kind='agent']")].map((bar) =>
          bar.getBoundingClientRect(),
        );
        const left = Math.min(...calls.map((box) => box.left));
        const right = Math.max(...calls.map((box) => box.right));
        const bars = [...list.querySelectorAll("[data-depth='1'] .everturn-tl-bar")].map((bar) =>
          bar.getBoundingClientRect(),
        );
        return bars.filter((box) => box.left < left - 1 || box.right > right + 3).length;
      });
      check(outside === 0, `${outside} bars of the children are outside of their calls`);

      await talk(page).getByRole("link", { name: "Open the child agent" }).first().click();
      await seeText(page, "Postgres for an event log");
      await seeText(page, "Looking for sources.");
      await seeText(page, "Postgres accepts writes from many machines");
      await seeText(page, "search_documents");
      check(!(await text(talk(page))).includes("SQLite is a file"), "the transcript has messages of the other child");
      // The timeline stays that of the whole turn.
      await lanes.waitFor();

      // A bar of the other child opens its transcript, with the row in the inspector.
      const shown = new URL(page.url()).searchParams.get("turn") ?? "";
      const sqlite = lanes
        .locator(`.everturn-tl-lane[data-depth='1'] .everturn-tl-bar[data-kind='model']:not([data-turn="${shown}"])`)
        .first();
      const turnId = (await sqlite.getAttribute("data-turn")) ?? "";
      await sqlite.click();
      await page.waitForURL((url) => url.searchParams.get("turn") === turnId && url.searchParams.has("effect"));
      check((await sqlite.getAttribute("aria-selected")) === "true", "the bar of the child is not selected");
      await page.locator("article.msg.sel", { hasText: "Looking for sources." }).waitFor();
      await seeText(page, "SQLite is a file");
      await page.getByRole("complementary", { name: "Inspector" }).getByText("step 1 · researcher").waitFor();

      // The same after a reload, and back to the conversation with the call selected.
      await page.reload();
      await seeText(page, "Looking for sources.");
      await page.locator("article.msg.sel").waitFor();
      await page.getByRole("link", { name: "Back to the conversation" }).click();
      await seeText(page, "so start with SQLite");
      check(new URL(page.url()).searchParams.get("turn") === turnId.split("/")[0], "the turn is not that of the call");
      await page.keyboard.press("Escape");
      await button(page, "rows").click();
    },
  },
];
