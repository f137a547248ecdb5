// `npm run test:recorded -- DIR`: decodes every recorded file below DIR with the codec of its folder. A stream (`.chunks.txt`, one JSON event on each line;
// `.sse`, as received) or a body (`.json`) must give exactly one terminal event, and the text, calls and usage of the recording.

import type { WireApi } from "../../src/wire/internal.ts";
import type { Json, JsonObject, ModelEvent } from "everturn/model";
import type { Codec, Frame, WireContext } from "everturn/wire";

import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";

import { Collector } from "everturn/kernel";
import { isEvent, messageText } from "everturn/model";
import {
  anthropicMessages,
  frameReader,
  geminiGenerateContent,
  noQuirks,
  openaiChat,
  openaiResponses,
} from "everturn/wire";

import { objectOf, said } from "./walk.ts";

const [folder] = process.argv.slice(2);
if (folder === undefined || !existsSync(folder)) {
  console.log(
    `skipped: ${folder === undefined ? "no folder of recordings was given" : `there is no folder ${folder}`}`,
  );
  process.exit(folder === undefined ? 2 : 0);
}

const codecs: { readonly [A in WireApi]: Codec } = {
  "openai-chat": openaiChat,
  "openai-responses": openaiResponses,
  "anthropic-messages": anthropicMessages,
  gemini: geminiGenerateContent,
};
const total = { files: 0, replies: 0, understood: 0, opaque: 0, unknown: 0 };
const complaints: string[] = [];

for (const path of filesBelow(folder)) {
  const api = apiOf(path);
  if (api === null) continue;
  total.files += 1;
  try {
    check(api, path);
  } catch (error) {
    complaints.push(`${path}: threw ${error instanceof Error ? error.stack : String(error)}`);
  }
}

for (const complaint of complaints) console.log(complaint);
const counts = `${total.understood} understood, ${total.opaque} kept opaque, ${total.unknown} unknown`;
console.log(`${total.files} files, ${total.replies} replies, ${complaints.length} complaints; events: ${counts}`);
process.exit(complaints.length === 0 && total.files > 0 ? 0 : 1);

function filesBelow(path: string): readonly string[] {
  if (!statSync(path).isDirectory()) return /\.(?:chunks\.txt|json|sse)$/.test(path) ? [path] : [];
  return readdirSync(path)
    .sort()
    .flatMap((name) => filesBelow(join(path, name)));
}

/** The codec of the nearest folder that is named after an API. */
function apiOf(path: string): WireApi | null {
  for (let at = dirname(path); at !== dirname(at); at = dirname(at)) {
    const name = basename(at);
    if (name.startsWith("openai-chat")) return "openai-chat";
    if (name === "openai-responses" || name === "anthropic-messages" || name === "gemini") return name;
  }
  return null;
}

function check(api: WireApi, path: string): void {
  const text = readFileSync(path, "utf8");
  const route = { provider: "recorded", endpoint: api, model: "recorded" };
  const quirks = api === "openai-chat" ? { ...noQuirks, reasoningField: "reasoning_content" as const } : noQuirks;
  const context: WireContext = { route, rawChunks: false, quirks };
  if (path.endsWith(".json")) {
    total.replies += 1;
    const body: Json = JSON.parse(text);
    judge(path, api, codecs[api].decodeReply(body, context), [objectOf(body)]);
    return;
  }
  for (const frames of repliesOf(api, framesOf(path, text))) {
    total.replies += 1;
    const decoder = codecs[api].decoder(context);
    const events = [...frames.flatMap((frame) => decoder.push([frame])), ...decoder.end()];
    total.understood += decoder.counts.understood;
    total.opaque += decoder.counts.opaque;
    total.unknown += decoder.counts.unknown;
    judge(path, api, events, frames.flatMap(chunkOf));
  }
}

function framesOf(path: string, text: string): readonly Frame[] {
  if (path.endsWith(".sse")) {
    const reader = frameReader();
    return [...reader.push(text), ...reader.end()];
  }
  return text
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((data) => ({ event: null, data }));
}

function chunkOf({ data }: Frame): readonly JsonObject[] {
  try {
    const value: Json = JSON.parse(data);
    return [objectOf(value)];
  } catch {
    return [];
  }
}

/** Splits recordings that contain several replies. */
function repliesOf(api: WireApi, frames: readonly Frame[]): readonly (readonly Frame[])[] {
  const begins =
    api === "anthropic-messages" ? "message_start" : api === "openai-responses" ? "response.created" : null;
  const ends =
    api === "anthropic-messages" ? ["message_stop"] : ["response.completed", "response.incomplete", "response.failed"];
  const replies: Frame[][] = [[]];
  let over = false;
  for (const frame of frames) {
    const type = chunkOf(frame)[0]?.["type"];
    if (over && begins !== null && type === begins) {
      replies.push([]);
      over = false;
    }
    replies.at(-1)?.push(frame);
    if (typeof type === "string" && ends.includes(type)) over = true;
  }
  return replies;
}

function judge(path: string, api: WireApi, events: readonly ModelEvent[], chunks: readonly JsonObject[]): void {
  const complain = (what: string) => complaints.push(`${path}: ${what}`);
  const ends = events.filter(({ type }) => type === "message_completed" || type === "error");
  const [end] = ends;
  if (ends.length !== 1 || end === undefined) return void complain(`${ends.length} ends`);
  const strange = events.find((event) => !isEvent(event));
  if (strange !== undefined) complain(`no event: ${strange.type}`);
  const collector = new Collector();
  for (const event of events) collector.add(event);
  const expected = said(api, chunks);
  if (end.type === "error") {
    const refused = chunks.some(
      (chunk) => "error" in chunk || chunk["type"] === "error" || chunk["type"] === "response.failed",
    );
    const broken = chunks.length === 0 || end.error.reason === "interrupted";
    if (!refused && !broken)
      complain(`an error that is not in the recording: ${end.error.reason} ${end.error.message}`);
    return;
  }
  const reply = collector.reply();
  const spoken = events.reduce((text, event) => (event.type === "text_delta" ? text + event.delta : text), "");
  // Some recordings lack deltas. Then the text of the completed message is right and the sum of the deltas is not, so one match is enough.
  const heard = [spoken, collector.text, reply.message === null ? "" : messageText(reply.message)];
  if (!heard.some((text) => squeezed(text) === squeezed(expected.text))) {
    complain(
      `text: ${JSON.stringify(collector.text.slice(0, 80))} instead of ${JSON.stringify(expected.text.slice(0, 80))}`,
    );
  }
  const calls = reply.toolCalls.map(({ name }) => name);
  const cut = reply.finishReason === "length" || reply.finishReason === "content_filter";
  if (!cut && calls.join() !== expected.calls.join())
    complain(`calls: ${calls.join()} instead of ${expected.calls.join()}`);
  const { outputTokens } = reply.usage;
  if (expected.outputTokens !== null && (outputTokens ?? -1) < expected.outputTokens) {
    complain(`output tokens: ${String(outputTokens)} instead of ${expected.outputTokens}`);
  }
}

/** Removes white space: the comparison ignores the separators between text blocks. */
function squeezed(text: string): string {
  return text.replaceAll(/\s+/g, "");
}
