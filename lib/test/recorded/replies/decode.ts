// Decodes a recorded reply with the codec of its API: frame by frame, or from bytes that are cut at random places, as a
// socket delivers them.

import type { Api, Recording } from "./recording.ts";
import type { Json } from "everturn";
import type { ModelEvent, Codec, Frame, WireContext } from "everturn/advanced";

import {
  anthropicMessages,
  frameReader,
  geminiGenerateContent,
  noQuirks,
  openaiChat,
  openaiResponses,
} from "everturn/advanced";

export const codecs: { readonly [A in Api]: Codec } = {
  "openai-chat": openaiChat,
  "openai-responses": openaiResponses,
  "anthropic-messages": anthropicMessages,
  gemini: geminiGenerateContent,
};

export const provider = "recorded";

export function contextOf(api: Api): WireContext {
  const quirks = api === "openai-chat" ? { ...noQuirks, reasoningField: "reasoning_content" as const } : noQuirks;
  return { route: { provider, endpoint: api, model: "recorded" }, rawChunks: false, quirks };
}

export function decodeWhole(api: Api, body: Json): readonly ModelEvent[] {
  return codecs[api].decodeReply(body, contextOf(api));
}

export function decodeFrames(api: Api, frames: readonly Frame[]): readonly ModelEvent[] {
  const decoder = codecs[api].decoder(contextOf(api));
  return [...frames.flatMap((frame) => decoder.push([frame])), ...decoder.end()];
}

/**
 * How the codecs treat the events of recorded streams. An unknown event shows what a new version of an API has added.
 */
export function countEvents(recordings: readonly Recording[]): ReturnType<Codec["decoder"]>["counts"] {
  const sum = { understood: 0, opaque: 0, unknown: 0 };
  for (const recording of recordings) {
    if (recording.form === "whole") continue;
    const { counts, push } = codecs[recording.api].decoder(contextOf(recording.api));
    push(recording.frames);
    sum.understood += counts.understood;
    sum.opaque += counts.opaque;
    sum.unknown += counts.unknown;
  }
  return sum;
}

/** Where the cuts of one decoding were, for the report. */
export type Cuts = { total: number; insideCharacter: number; insideCrlf: number };

/**
 * Decodes the bytes of the frames in random pieces. The same seed cuts at the same places. Line ends are LF, CRLF or
 * CR, by the seed.
 */
export function decodeBytes(api: Api, frames: readonly Frame[], seed: number, cuts: Cuts): readonly ModelEvent[] {
  const random = randomNumbers(seed);
  const lineEnd = ["\n", "\r\n", "\r"][seed % 3] ?? "\n";
  const bytes = new TextEncoder().encode(frames.map((frame) => sseText(frame, lineEnd)).join(""));
  const longest = Math.max(1, Math.ceil(bytes.length / 2000), Math.floor(random() ** 3 * 400));
  const text = new TextDecoder();
  const reader = frameReader();
  const decoder = codecs[api].decoder(contextOf(api));
  const events: ModelEvent[] = [];
  for (let at = 0; at < bytes.length;) {
    const next = at + 1 + Math.floor(random() * longest);
    countCut(bytes, next, cuts);
    events.push(...decoder.push(reader.push(text.decode(bytes.subarray(at, next), { stream: true }))));
    at = next;
  }
  events.push(...decoder.push(reader.push(text.decode())), ...decoder.push(reader.end()), ...decoder.end());
  return events;
}

function countCut(bytes: Uint8Array, at: number, cuts: Cuts): void {
  const next = bytes[at];
  if (next === undefined) return;
  cuts.total += 1;
  // The second and later bytes of a UTF-8 sequence begin with the bits 10.
  if ((next & 0b1100_0000) === 0b1000_0000) cuts.insideCharacter += 1;
  if (bytes[at - 1] === 13 && next === 10) cuts.insideCrlf += 1;
}

function sseText({ event, data }: Frame, lineEnd: string): string {
  const lines = [...(event === null ? [] : [`event: ${event}`]), ...data.split("\n").map((line) => `data: ${line}`)];
  return `${lines.join(lineEnd)}${lineEnd}${lineEnd}`;
}

/** A generator of numbers from 0 to 1 (mulberry32). */
export function randomNumbers(seed: number): () => number {
  let state = (seed + 1) * 0x9e3779b9;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}
