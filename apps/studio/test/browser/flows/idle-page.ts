// What an idle page costs: the requests of a minute, and that it still shows what others do.

import type { Flow } from "../flow.ts";

import { seeEnd, seeText, startSession } from "../flow.ts";
import { check } from "../watched-page.ts";

/** How long the page is watched. */
const watchedMs = 60_000;
/** It was 105 when each view had a timer of its own. */
const maxRequests = 15;

export const idleFlows: readonly Flow[] = [
  {
    name: "a session that is started at once on an empty server is listed",
    run: async ({ open, start }) => {
      const { page } = await open("", await start({ database: "empty.db" }));
      await startSession(page, "The very first");
      await page.locator(".list-row", { hasText: "The very first" }).waitFor({ timeout: 10_000 });
    },
  },
  {
    name: "an idle page sends few requests, and shows what another browser does",
    run: async ({ open, start }) => {
      const server = await start({ database: "idle.db" });
      const watched = await open("", server);
      const { page } = watched;
      const id = await startSession(page, "A question");
      await seeText(page, "You said: A question");
      await seeEnd(page);
      // The first seconds after a change belong to the reader.
      await page.waitForTimeout(15_000);
      const before = watched.requested.length;
      await page.waitForTimeout(watchedMs);
      const count = watched.requested.length - before;
      console.log(`       ${count} requests in a minute of an idle page`);
      check(count <= maxRequests, `an idle page sent ${count} requests in a minute`);
      const answer = await fetch(`${server.url}/sessions/${id}/send`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ text: "From elsewhere" }),
      });
      check(answer.ok, `the message was answered with ${answer.status}`);
      await seeText(page, "You said: From elsewhere", 20_000);
    },
  },
];
