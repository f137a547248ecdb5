// Messages of the reader: files beside a text, steering with files, a turn that failed and is tried again, and a turn
// that stopped early and is continued.

import type { Flow } from "../flow.ts";

import { button, composer, read, seeEnd, seeText, startSession, talk } from "../flow.ts";
import { check } from "../watched-page.ts";
import { testConfig } from "./waiting-calls.ts";

/** An image of one pixel. */
const png = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
  "base64",
);
const files = [
  { name: "photo.png", mimeType: "image/png", buffer: png },
  { name: "plan.pdf", mimeType: "application/pdf", buffer: Buffer.from("%PDF-1.4 a plan") },
  { name: "note.txt", mimeType: "text/plain", buffer: Buffer.from("The text of the note") },
];
const fileInput = "form.composer input[type=file]";

export const messageFlows: readonly Flow[] = [
  {
    name: "steer a running turn with a text and files",
    run: async ({ open, start }) => {
      const server = await start({ database: "steer.db", config: testConfig });
      const { page } = await open("", server);
      const id = await startSession(page, "Use hold");
      await seeText(page, "holding");
      await page.locator(fileInput).setInputFiles(files);
      await page.getByLabel("Attached files").getByText("plan.pdf").waitFor();
      await composer(page).fill("Look at these files");
      await composer(page).press("Enter");
      await page.getByLabel("Attached files").waitFor({ state: "detached" });
      await seeText(page, "Sent. The turn reads it before its next step.");
      server.signal("let-go");
      await seeText(page, "I have read 2 messages and 1 images, 1 files.");
      await seeEnd(page);
      await seeText(page, "plan.pdf");
      await seeText(page, "The text of the note");
      await talk(page).getByRole("img", { name: "Image in the message" }).waitFor();
      const turns = await read(server, `sessions/${id}/turns`);
      check(turns.split('"turnId"').length === 2, "the message started another turn");
    },
  },
  {
    name: "queue messages and files while a turn runs",
    run: async ({ open, start }) => {
      const server = await start({ database: "queue.db", config: testConfig });
      const { page } = await open("", server);
      const id = await startSession(page, "Use hold");
      await seeText(page, "holding");
      const policy = page.getByLabel("What the message does while the turn runs");
      await policy.selectOption("queue");
      await composer(page).fill("For the next turn");
      await composer(page).press("Enter");
      await seeText(page, "1 message waits for the next turn");
      await page.locator(fileInput).setInputFiles(files);
      await page.getByLabel("Attached files").waitFor();
      check((await policy.inputValue()) === "queue", "files change what the message does");
      await composer(page).fill("With files");
      await composer(page).press("Enter");
      await seeText(page, "2 messages wait for the next turn");
      server.signal("let-go");
      await seeText(page, "The tool answered: let go");
      await seeText(page, "I have read 3 messages and 1 images, 1 files.");
      await seeEnd(page);
      const messages = await read(server, `sessions/${id}/messages`);
      for (const message of ["For the next turn", "With files"])
        check(messages.split(`"${message}"`).length === 2, `“${message}” is not in the session once`);
    },
  },
  {
    name: "attach files to a message, and refuse files that cannot be sent",
    run: async ({ open, start }) => {
      const server = await start({ database: "files.db", config: testConfig });
      const { page } = await open("", server);
      await startSession(page, "Hello");
      await seeText(page, "I have read 1 messages and 0 images, 0 files.");
      await seeEnd(page);
      await page
        .locator(fileInput)
        .setInputFiles({ name: "big.png", mimeType: "image/png", buffer: Buffer.alloc(800 * 1024) });
      await page.getByText("big.png is too large").waitFor();
      await page
        .locator(fileInput)
        .setInputFiles({ name: "music.mp3", mimeType: "audio/mpeg", buffer: Buffer.from("music") });
      await page.getByText("music.mp3: only images, PDFs and texts can be attached").waitFor();
      await page.locator(fileInput).setInputFiles(files);
      await button(page, "Remove note.txt").click();
      await composer(page).fill("Two files");
      await button(page, /^Send/).click();
      await seeText(page, "I have read 2 messages and 1 images, 1 files.");
      await seeEnd(page);
    },
  },
  {
    name: "retry a failed turn, and clear a failure",
    run: async ({ open, start }) => {
      const server = await start({ database: "retry.db", config: testConfig });
      const { page } = await open("", server);
      const id = await startSession(page, "Please fail once and then answer");
      await seeText(page, "The provider rejects the first request.");
      await page.locator(".list-row", { hasText: "failed" }).waitFor();
      await button(talk(page), "Retry").click();
      await seeText(page, "I have read 1 messages");
      await seeEnd(page);
      await button(talk(page), "Retry").waitFor({ state: "detached" });
      const messages = await read(server, `sessions/${id}/messages`);
      check(messages.split("Please fail once").length === 2, "the message was sent twice");
      await composer(page).fill("Now fail once more");
      await composer(page).press("Enter");
      await button(talk(page), "Clear the failure").click();
      await seeText(page, "The last message has no reply yet");
      await composer(page).fill("Another message");
      await composer(page).press("Enter");
      await seeText(page, "I have read 3 messages");
    },
  },
  {
    name: "continue a turn that used all of its model calls",
    run: async ({ open, start }) => {
      const server = await start({ database: "continue.db", config: testConfig });
      server.signal("let-go");
      const { page } = await open("", server);
      await page.getByRole("main").getByLabel("Engine").selectOption("short");
      await startSession(page, "Use hold");
      await seeText(page, "The turn has made as many model calls as allowed");
      await button(talk(page), "Continue").click();
      await seeText(page, "The tool answered: let go");
      await seeEnd(page);
    },
  },
];
