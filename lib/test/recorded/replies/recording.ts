// Finds the recorded replies below a folder. The form of a file is recognised by its content, so `*.chunks.txt` (one
// JSON event on each line), `*.sse` (bytes as received), `*.json` (a whole body, or a list of events) and other names
// are all read. `*.request.json` files are requests and are left out.
//
// A file may hold several replies one after the other: recordings of a loop of calls. Each is a reply of its own.

import type { WireApi } from "../../../src/core/wire/internal.ts";
import type { Json, JsonObject } from "everturn";
import type { Frame } from "everturn/advanced";

import { readdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join, relative } from "node:path";

import { isList, isObject, objectOf, objectsOf, stringOf } from "./reading.ts";

export type Api = WireApi;

/** One recorded reply. `name` is the file, with a number if the file holds several replies. */
export type Recording =
  | { readonly form: "stream"; readonly name: string; readonly api: Api; readonly frames: readonly Frame[] }
  | { readonly form: "whole"; readonly name: string; readonly api: Api; readonly body: Json };

/**
 * The recordings below a folder. `unreadable`: files that hold neither JSON nor events, or an API that is not known.
 */
export function recordingsBelow(folder: string): {
  readonly files: number;
  readonly recordings: readonly Recording[];
  readonly unreadable: readonly string[];
} {
  const files = filesBelow(folder);
  const unreadable: string[] = [];
  const recordings = files.flatMap((path) => {
    const found = recordingsOf(relative(folder, path), path, readFileSync(path, "utf8"));
    if (found.length === 0) unreadable.push(path);
    return found;
  });
  return { files: files.length, recordings, unreadable };
}

function filesBelow(path: string): readonly string[] {
  if (statSync(path).isDirectory())
    return readdirSync(path)
      .sort()
      .flatMap((name) => filesBelow(join(path, name)));
  const isReply = /\.(?:txt|json|jsonl|ndjson|sse)$/.test(path) && !path.endsWith(".request.json");
  return isReply ? [path] : [];
}

/** The replies in one file. */
export function recordingsOf(name: string, path: string, text: string): readonly Recording[] {
  const content = contentOf(text.replace(/^\u{FEFF}/u, ""));
  if (content === null) return [];
  const values = content.form === "whole" ? [content.body] : content.frames.map(({ data }) => parsed(data) ?? null);
  const api = apiOfContent(values.flatMap((value) => (isList(value) ? value : [value]))) ?? apiOfFolder(path);
  if (api === null) return [];
  if (content.form === "whole") {
    const events = isList(content.body) && api !== "gemini" ? content.body.filter(isObject) : null;
    if (events === null || !events.some((event) => isStreamed(event)))
      return [{ form: "whole", name, api, body: content.body }];
    return streamsOf(name, api, events.map(frameOf));
  }
  return streamsOf(name, api, content.frames);
}

type Content =
  | { readonly form: "whole"; readonly body: Json }
  | { readonly form: "stream"; readonly frames: readonly Frame[] };

function contentOf(text: string): Content | null {
  if (/^(?:data|event|id|retry|):/m.test(text.trimStart().slice(0, 200)) && !/^\s*[[{]/.test(text))
    return { form: "stream", frames: framesOf(text) };
  const body = parsed(text);
  if (body !== undefined)
    return isStreamed(objectOf(body)) ? { form: "stream", frames: [frameOf(objectOf(body))] } : { form: "whole", body };
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const events = lines.filter((line) => parsed(line) !== undefined);
  return events.length === 0
    ? null
    : { form: "stream", frames: lines.map((data) => ({ event: null, data: data.trim() })) };
}

function parsed(text: string): Json | undefined {
  try {
    const value: Json = JSON.parse(text);
    return value;
  } catch {
    return undefined;
  }
}

/** The JSON object of a frame. An event without a type has that of the frame. */
export function eventsOf({ event, data }: Frame): readonly JsonObject[] {
  const object = objectOf(parsed(data));
  if (Object.keys(object).length === 0) return [];
  return [object["type"] === undefined && event !== null ? { ...object, type: event } : object];
}

/** The frames before the first one that is damaged: that holds neither JSON nor a keep-alive. A reply ends there. */
export function beforeDamage(frames: readonly Frame[]): readonly Frame[] {
  const at = frames.findIndex(
    ({ event, data }) => event !== "error" && !/^(?:|\[DONE\]|ping)$/.test(data.trim()) && parsed(data) === undefined,
  );
  return at === -1 ? frames : frames.slice(0, at);
}

function frameOf(event: JsonObject): Frame {
  return { event: null, data: JSON.stringify(event) };
}

/** Is the object one event of a stream, and no whole body? */
function isStreamed(value: JsonObject): boolean {
  const type = stringOf(value["type"]);
  if (/^response\.|^message_(?:start|delta|stop)$|^content_block_/.test(type)) return true;
  return (
    value["object"] === "chat.completion.chunk" || objectsOf(value["choices"]).some(({ delta }) => isObject(delta))
  );
}

/** The frames of server-sent events (WHATWG HTML, section 9.2). */
function framesOf(text: string): readonly Frame[] {
  const frames: Frame[] = [];
  for (const block of text.split(/(?:\r\n|\r|\n){2,}/)) {
    const lines = block.split(/\r\n|\r|\n/);
    const valuesOf = (field: string) =>
      lines
        .filter((line) => line.startsWith(`${field}:`))
        .map((line) => line.slice(field.length + 1).replace(/^ /, ""));
    const data = valuesOf("data");
    const event = valuesOf("event").at(-1) ?? null;
    // Some recordings lack the blank lines between events: then each line is an event.
    const isEachJson = data.length > 1 && data.every((line) => parsed(line) !== undefined);
    if (isEachJson) frames.push(...data.map((line) => ({ event, data: line })));
    else if (data.length > 0) frames.push({ event, data: data.join("\n") });
  }
  return frames;
}

/** The API of the nearest folder that is named after one, for content that every API could have (an error). */
function apiOfFolder(path: string): Api | null {
  for (let at = dirname(path); at !== dirname(at); at = dirname(at)) {
    const name = basename(at);
    if (name.startsWith("openai-chat")) return "openai-chat";
    if (name === "openai-responses" || name === "anthropic-messages" || name === "gemini") return name;
  }
  return null;
}

/** The API whose fields the first objects have. */
function apiOfContent(values: readonly Json[]): Api | null {
  for (const value of values.map(objectOf)) {
    const type = stringOf(value["type"]);
    if (value["object"] === "response" || type.startsWith("response.")) return "openai-responses";
    if (value["choices"] !== undefined || stringOf(value["object"]).startsWith("chat.completion")) return "openai-chat";
    if (type === "message" || /^message_|^content_block_/.test(type)) return "anthropic-messages";
    if (value["candidates"] !== undefined || value["usageMetadata"] !== undefined) return "gemini";
  }
  return null;
}

/** Splits the frames of a file into replies: where a reply has ended and another begins. */
function streamsOf(name: string, api: Api, frames: readonly Frame[]): readonly Recording[] {
  const replies: Frame[][] = [[]];
  let isOver = false;
  let id = "";
  for (const frame of frames) {
    const event = objectOf(parsed(frame.data));
    const nextId = stringOf(event[api === "gemini" ? "responseId" : "id"]);
    if (isOver && beginsReply(api, event, id)) {
      replies.push([]);
      isOver = false;
      id = "";
    }
    replies.at(-1)?.push(frame);
    if (nextId !== "") id = nextId;
    if (endsReply(api, event)) isOver = true;
  }
  return replies.map((reply, at) => ({
    form: "stream",
    name: replies.length === 1 ? name : `${name} (${at + 1} of ${replies.length})`,
    api,
    frames: reply,
  }));
}

/** Does the event begin a reply after another has ended? `id` is the id of the ended reply. */
function beginsReply(api: Api, event: JsonObject, id: string): boolean {
  switch (api) {
    case "anthropic-messages":
      return event["type"] === "message_start";
    case "openai-responses":
      return event["type"] === "response.created";
    case "openai-chat": {
      const hasContent = objectsOf(event["choices"]).some((choice) => isObject(choice["delta"]));
      return hasContent && stringOf(event["id"]) !== "" && event["id"] !== id;
    }
    case "gemini":
      return stringOf(event["responseId"]) !== "" && event["responseId"] !== id;
  }
}

function endsReply(api: Api, event: JsonObject): boolean {
  switch (api) {
    case "anthropic-messages":
      return event["type"] === "message_stop" || event["type"] === "error";
    case "openai-responses":
      return /^response\.(?:completed|incomplete|failed|cancelled)$/.test(stringOf(event["type"]));
    case "openai-chat":
      return objectsOf(event["choices"]).some((choice) => stringOf(choice["finish_reason"]) !== "");
    case "gemini":
      return objectsOf(event["candidates"]).some((candidate) => stringOf(candidate["finishReason"]) !== "");
  }
}
