// Views of a long conversation: marks of summaries, one of them open, one undone, and the bar of the context window.

import type { Server } from "./server.ts";
import type { View } from "./views.ts";
import type { Page } from "playwright-core";

import { createClient } from "everturn/client";

/** Shows the inspector: on a narrow screen it is opened by a button. */
async function openInspector(page: Page): Promise<void> {
  await page.locator(".everturn-tl-bar").first().waitFor();
  if ((page.viewportSize()?.width ?? 0) <= 1100) await page.getByRole("button", { name: "Details" }).click();
}

/** Runs two long conversations on a server with the engine of context.config.ts, and lists their views. */
export async function contextViews(server: Server): Promise<readonly View[]> {
  const client = createClient({ url: server.url });
  const converse = async (id: string): Promise<void> => {
    for (let parcel = 1; parcel <= 8; parcel += 1) {
      const text = `Where is parcel ${parcel}?`;
      const turn = parcel === 1 ? await client.start(text, { id }) : await client.reply(id, text);
      await turn.result;
    }
  };
  await converse("parcels");
  await converse("parcels-undone");
  await client.undoCompaction("parcels-undone");
  return [
    {
      name: "summaries",
      path: "s/parcels",
      prepare: async (page) => {
        await page.locator(".frame-mark.used summary").click();
        await page.locator(".frame-mark.used dd a").waitFor();
        await page.locator(".frame-mark.used").scrollIntoViewIfNeeded();
      },
      server,
    },
    {
      name: "summary-undone",
      path: "s/parcels-undone",
      prepare: async (page) => {
        await page.locator(".frame-mark.undone summary").last().click();
        await page.locator(".frame-mark.undone dd a").waitFor();
        await page.locator(".frame-mark.undone").last().scrollIntoViewIfNeeded();
      },
      server,
    },
    {
      name: "context-window",
      path: "s/parcels",
      prepare: async (page) => {
        await openInspector(page);
        await page.getByRole("button", { name: "Show what fills the context window" }).click();
        await page.locator(".window-table").waitFor();
        await page.locator(".window").scrollIntoViewIfNeeded();
      },
      server,
    },
  ];
}
