// What a page that is opened later shows about attempts that were thrown away: it comes from stored data, because their
// events are not sent again.

import type { Flow } from "../flow.ts";

import { composer, seeEnd, seeText, startScenario } from "../flow.ts";

export const storedNoteFlows: readonly Flow[] = [
  {
    name: "another browser shows failed attempts, also after a later turn",
    run: async ({ open }) => {
      const { page } = await open();
      const id = await startScenario(page, "Retries and a failing tool");
      await seeText(page, "The invoices need a decision");
      await seeEnd(page);
      const path = `s/${encodeURIComponent(id)}`;
      await seeText((await open(path)).page, /Attempt 1 failed.*Attempt 2 failed.*I will read the tickets/);
      await composer(page).fill("And now?");
      await composer(page).press("Enter");
      await seeText(page, "You said: And now?");
      await seeEnd(page);
      await seeText((await open(path)).page, /Attempt 1 failed.*Attempt 2 failed.*And now\?/);
    },
  },
  {
    name: "another browser shows a takeover and the text that was thrown away",
    run: async ({ open }) => {
      const { page } = await open();
      const id = await startScenario(page, "Crash and recovery");
      await seeText(page, "reported and fixed these problems");
      await seeEnd(page);
      const { page: other } = await open(`s/${encodeURIComponent(id)}`);
      await seeText(other, /died · .* continued/);
      await other.locator("details.note summary", { hasText: "died" }).click();
      await other.locator("details.note del", { hasText: "Version 2.4" }).waitFor();
    },
  },
];
