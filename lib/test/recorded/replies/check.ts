// Checks the codecs against recorded replies.
//
// Theory of operation
//   recording.ts    finds the replies in the files of a folder
//   read-<api>.ts   reads a reply from its JSON, without the codecs: text, reasoning, calls, results, usage, citations,
//                   log probabilities, signatures
//   decode.ts       decodes the reply with the codec: frame by frame, and from bytes that are cut at random places
//   decoded.ts      reads the same things from the decoded reply
//   compare.ts      compares the two, field by field
//   send-back.ts    encodes the decoded reply into the next request and compares that with the recording
//   accepted.ts     lists the differences that are intended
//   mutations.ts    damages decoded replies, which the comparison must notice

import type { Difference } from "./compare.ts";
import type { Cuts } from "./decode.ts";
import type { Reading } from "./reading.ts";
import type { Api, Recording } from "./recording.ts";
import type { ModelEvent } from "everturn/advanced";
import type { Violation } from "everturn/testing";

import { isEvent } from "everturn/advanced";

import { knownRefusals } from "../known-refusals.ts";
import { acceptedDifferences } from "./accepted.ts";
import { compare, describe } from "./compare.ts";
import { countEvents, decodeBytes, decodeFrames, decodeWhole } from "./decode.ts";
import { readDecoded } from "./decoded.ts";
import { mutations } from "./mutations.ts";
import { otherForm } from "./other-form.ts";
import { readAnthropicBody, readAnthropicStream } from "./read-anthropic.ts";
import { readChatBody, readChatStream } from "./read-chat.ts";
import { readGeminiBody, readGeminiStream } from "./read-gemini.ts";
import { readResponsesBody, readResponsesStream } from "./read-responses.ts";
import { objectOf } from "./reading.ts";
import { beforeDamage, eventsOf, recordingsBelow } from "./recording.ts";
import { compareSentBack, refusalsOfNextRequest } from "./send-back.ts";

/** Random ways to cut the bytes of each stream. */
const seedCount = 6;

/** The reading of a recording. */
function readRecording(recording: Recording): Reading {
  const { api } = recording;
  if (recording.form === "whole") {
    const { body } = recording;
    switch (api) {
      case "anthropic-messages":
        return readAnthropicBody(objectOf(body));
      case "openai-responses":
        return readResponsesBody(objectOf(body));
      case "openai-chat":
        return readChatBody(body);
      case "gemini":
        return readGeminiBody(body);
    }
  }
  const frames = beforeDamage(recording.frames);
  const events = frames.flatMap(eventsOf);
  switch (api) {
    case "anthropic-messages":
      return readAnthropicStream(events);
    case "openai-responses":
      return readResponsesStream(events);
    case "openai-chat":
      return readChatStream(
        events,
        frames.some(({ data }) => data.trim() === "[DONE]"),
      );
    case "gemini":
      return readGeminiStream(events);
  }
}

/** Compares decoded events with the reading of their recording: the reply, and the next request. */
function compareEvents(
  api: Api,
  expected: Reading,
  events: readonly ModelEvent[],
): { readonly fields: number; readonly differences: readonly Difference[] } {
  const { reading, sendable, problem } = readDecoded(api, events);
  const decoded = compare(expected, reading);
  const invalid = events.find((event) => !isEvent(event));
  const sent =
    expected.outcome === "completed" && sendable !== null
      ? compareSentBack(api, expected, sendable)
      : { fields: 0, differences: [] };
  const problems = [
    ...(problem === null ? [] : [problem]),
    ...(invalid === undefined ? [] : [`no valid event: ${invalid.type}`]),
  ];
  return {
    fields: decoded.fields + sent.fields,
    differences: [
      ...problems.map((text) => ({ field: "events", expected: null, actual: text })),
      ...decoded.differences,
      ...sent.differences,
    ],
  };
}

/** One way to decode a recording, and what must come of it. */
type Variant = { readonly name: string; readonly expected: Reading; readonly decode: () => readonly ModelEvent[] };

/** All ways in which a recording is decoded: as it is, from bytes in random pieces, and in its other form. */
function variantsOf(recording: Recording, seeds: number, cuts: Cuts): readonly Variant[] {
  const expected = readRecording(recording);
  const other = expected.outcome === "completed" ? otherForm(recording, 0) : null;
  return [
    { name: recording.form, expected, decode: () => decodeRecording(recording) },
    ...byteVariants(recording, expected, seeds, cuts),
    ...(other === null
      ? []
      : [
          {
            name: `converted to ${other.form === "whole" ? "a whole reply" : "a stream"}`,
            // What the reader reads from the converted reply must be what it reads from the recording, apart from the
            // deltas.
            expected: { ...expected, deltas: readRecording(other).deltas },
            decode: () => decodeRecording(other),
          },
          ...byteVariants(other, readRecording(other), seeds, cuts),
        ]),
  ];
}

function byteVariants(recording: Recording, expected: Reading, seeds: number, cuts: Cuts): readonly Variant[] {
  if (recording.form === "whole") return [];
  const { api, frames } = recording;
  return Array.from({ length: seeds }, (_, seed) => ({
    name: `stream cut with seed ${seed}`,
    expected,
    decode: () => decodeBytes(api, frames, seed, cuts),
  }));
}

function decodeRecording(recording: Recording): readonly ModelEvent[] {
  const { api } = recording;
  return recording.form === "whole" ? decodeWhole(api, recording.body) : decodeFrames(api, recording.frames);
}

/** The differences of one reply. A field that differs in several ways of decoding is one difference. */
export function compareRecording(
  recording: Recording,
  seeds: number,
  cuts: Cuts = { total: 0, insideCharacter: 0, insideCrlf: 0 },
): { readonly fields: number; readonly differences: readonly string[] } {
  const differences = new Map<string, string>();
  let fields = 0;
  for (const variant of variantsOf(recording, seeds, cuts)) {
    const result = compareEvents(recording.api, variant.expected, variant.decode());
    fields = Math.max(fields, result.fields);
    for (const difference of result.differences) {
      const text = `${recording.name} (${variant.name}): ${describe(difference)}`;
      if (!differences.has(difference.field)) differences.set(difference.field, text);
    }
  }
  return { fields, differences: [...differences.values()] };
}

type Counts = {
  replies: number;
  streamed: number;
  fields: number;
  different: number;
  readonly outcomes: { [outcome in Reading["outcome"]]: number };
};

/**
 * Checks all recordings below a folder and prints the result. Returns whether no difference was found and every
 * mutation was noticed.
 */
export function checkRecordings(folder: string): boolean {
  const { files, recordings, unreadable } = recordingsBelow(folder);
  const counts = new Map<Api, Counts>();
  const cuts: Cuts = { total: 0, insideCharacter: 0, insideCrlf: 0 };
  const lines: string[] = [];
  const events = countEvents(recordings);
  for (const recording of recordings) {
    const { fields, differences } = compareRecording(recording, seedCount, cuts);
    const count = counts.get(recording.api) ?? {
      replies: 0,
      streamed: 0,
      fields: 0,
      different: 0,
      outcomes: { completed: 0, failed: 0, interrupted: 0 },
    };
    counts.set(recording.api, count);
    count.replies += 1;
    count.streamed += recording.form === "stream" ? 1 : 0;
    count.outcomes[readRecording(recording).outcome] += 1;
    count.fields += fields;
    count.different += differences.length;
    lines.push(...differences);
  }
  const missed = checkMutations(recordings);
  const refused = recordings.flatMap((recording) =>
    refusalsOf(recording).map(({ rule, message }) => ({ rule, line: `${recording.name}: ${message}` })),
  );
  const newlyRefused = refused.filter(({ rule }) => !knownRefusals.has(rule));
  for (const line of lines) console.log(line);
  for (const { rule, line } of newlyRefused) console.log(`refused by the provider (${rule}): ${line}`);
  for (const rule of knownRefusals) {
    const count = refused.filter((each) => each.rule === rule).length;
    if (count > 0) console.log(`known defect, refused by the provider (${rule}): ${count} replies sent back`);
  }
  for (const path of unreadable) console.log(`not read: ${path} holds neither JSON nor events of a known API`);
  console.log(`${files} files, ${unreadable.length} not read, ${recordings.length} replies`);
  for (const [api, { replies, streamed, fields, different, outcomes }] of counts) {
    const kinds = `${streamed} streamed, ${outcomes.failed} with an error, ${outcomes.interrupted} cut off`;
    const result = `${fields} fields compared, ${fields - different} equal, ${different} different`;
    console.log(`${api}: ${replies} replies (${kinds}), ${result}`);
  }
  console.log(
    `streams were decoded from bytes in ${seedCount} random ways: ${cuts.total} cuts, ${cuts.insideCharacter} inside a UTF-8 sequence, ${cuts.insideCrlf} inside a CRLF`,
  );
  console.log(
    `events of streams: ${events.understood} understood, ${events.opaque} kept opaque, ${events.unknown} unknown`,
  );
  console.log("intended differences, which the readers apply:");
  for (const [name, reason] of Object.entries(acceptedDifferences)) console.log(`  ${name}: ${reason}`);
  return lines.length === 0 && missed === 0 && newlyRefused.length === 0 && recordings.length > 0;
}

/** The rules that the provider would refuse the next request for, after this reply. */
export function refusalsOf(recording: Recording): readonly Violation[] {
  const { sendable } = readDecoded(recording.api, decodeRecording(recording));
  const expected = readRecording(recording);
  const isSentBack = expected.outcome === "completed" && sendable !== null;
  return isSentBack ? refusalsOfNextRequest(recording.api, expected, sendable) : [];
}

/** How many replies a mutation changed, and in how many of them the comparison noticed it. */
export type MutationResult = { readonly name: string; readonly changed: number; readonly missed: readonly string[] };

export function tryMutations(recordings: readonly Recording[]): readonly MutationResult[] {
  const decoded = recordings.map((recording) => ({
    recording,
    expected: readRecording(recording),
    events: decodeRecording(recording),
  }));
  return Object.entries(mutations).map(([name, mutate]) => {
    const changed = decoded.flatMap(({ recording, expected, events }) => {
      const damaged = mutate(events, recording.api);
      const isChanged = JSON.stringify(damaged) !== JSON.stringify(events);
      return isChanged ? [{ name: recording.name, result: compareEvents(recording.api, expected, damaged) }] : [];
    });
    const missed = changed.filter(({ result }) => result.differences.length === 0);
    return { name, changed: changed.length, missed: missed.map((one) => one.name) };
  });
}

/** Prints the result of the mutations and returns the number of replies in which one was not noticed. */
function checkMutations(recordings: readonly Recording[]): number {
  const results = tryMutations(recordings);
  for (const { name, changed, missed } of results) {
    console.log(`mutation "${name}": noticed in ${changed - missed.length} of ${changed} replies that it changes`);
    for (const reply of missed) console.log(`  not noticed in ${reply}`);
  }
  return results.reduce((sum, { missed }) => sum + missed.length, 0);
}
