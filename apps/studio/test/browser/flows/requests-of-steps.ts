// The Request tab: the request of a model call as it was sent, compared with the recorded digests, and what is new
// since the step before.

import type { Flow } from "../flow.ts";
import type { Page } from "playwright-core";

import { createServer } from "node:http";

import { seeEnd, seeText, startSession, text } from "../flow.ts";
import { check, until } from "../watched-page.ts";
import { testConfig } from "./waiting-calls.ts";

export const requestFlows: readonly Flow[] = [
  {
    name: "the request of a step is the body that the provider received, and says what is new",
    run: async ({ open, start, atEnd }) => {
      const bodies: string[] = [];
      const provider = createServer((request, response) => {
        const parts: Buffer[] = [];
        request.on("data", (part: Buffer) => parts.push(part));
        request.on("end", () => {
          bodies.push(Buffer.concat(parts).toString("utf8"));
          response.writeHead(200, { "content-type": "application/json" });
          response.end(
            JSON.stringify({
              id: `reply-${bodies.length}`,
              object: "chat.completion",
              model: "local",
              choices: [
                {
                  index: 0,
                  finish_reason: "stop",
                  message: { role: "assistant", content: `Answer ${bodies.length}` },
                },
              ],
              usage: { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 },
            }),
          );
        });
      });
      await new Promise<void>((resolve) => void provider.listen(0, "127.0.0.1", resolve));
      atEnd(async () => void provider.close());
      const address = provider.address();
      const port = typeof address === "object" && address !== null ? address.port : 0;
      const server = await start({
        database: "requests.db",
        environment: { EVERTURN_MODEL: "ollama:local", OLLAMA_BASE_URL: `http://127.0.0.1:${port}/v1` },
      });
      const { page } = await open("", server);
      await startSession(page, "The first question");
      await seeText(page, "Answer 1");
      await seeEnd(page);
      await openRequest(page);
      const shown = await text(page.getByRole("complementary", { name: "Inspector" }));
      check(bodies.length === 1, `the provider received ${bodies.length} requests`);
      for (const part of ["The first question", "local", "/chat/completions"])
        check(shown.includes(part), `the request does not show ${part}: ${shown}`);
      check(!shown.includes("digest:") && shown.includes("same digests"), `the digests are not compared: ${shown}`);
    },
  },
  {
    name: "the request of a later step shows the messages that are new",
    run: async ({ open, start }) => {
      const { page } = await open("", await start({ database: "new-messages.db", config: testConfig }));
      await startSession(page, "Please take 2 steps");
      await seeText(page, "All 2 steps are taken");
      await seeEnd(page);
      await page
        .getByRole("region", { name: "Timeline" })
        .getByRole("option", { name: /step 2/ })
        .first()
        .click();
      await page.getByRole("tab", { name: "Request" }).click();
      await page.getByRole("button", { name: "Since the step before" }).click();
      const inspector = page.getByRole("complementary", { name: "Inspector" });
      await until(
        "the new messages are shown",
        async () => text(inspector),
        (whole) =>
          /are those of step 1/.test(whole) && whole.includes("New messages: 2") && whole.includes("take_step"),
      );
    },
  },
];

async function openRequest(page: Page): Promise<void> {
  await page
    .getByRole("region", { name: "Timeline" })
    .getByRole("option", { name: /step 1/ })
    .first()
    .click();
  await page.getByRole("tab", { name: "Request" }).click();
  await page.getByText("same digests").waitFor();
}
