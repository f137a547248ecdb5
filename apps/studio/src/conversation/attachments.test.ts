import { expect, test } from "vitest";

import { messageContent, readAttachment } from "./attachments.ts";

async function attached(name: string, type: string, data: string) {
  const attachment = await readAttachment(new File([data], name, { type }), []);
  if (typeof attachment === "string") throw new Error(attachment);
  return attachment;
}

test("a text file becomes a text part, an image an image part, and the text of the message comes last", async () => {
  const files = [await attached("note.txt", "text/plain", "a note"), await attached("dot.png", "image/png", "png")];
  expect(messageContent("look", files)).toEqual([
    { type: "text", text: "File note.txt:\n\na note" },
    { type: "image", image: { source: { type: "base64", data: "cG5n" }, mimeType: "image/png" } },
    { type: "text", text: "look" },
  ]);
});

test("rejects files that are too large together, and files of other types", async () => {
  const large = await attached("large.txt", "text/plain", "x".repeat(700 * 1024));
  expect(await readAttachment(new File(["y"], "more.txt", { type: "text/plain" }), [large])).toMatch(/too large/);
  expect(await readAttachment(new File(["y"], "a.zip", { type: "application/zip" }), [])).toMatch(/only images/);
});
