import type { Codec, WireContext } from "./codec.ts";
import type { Message } from "everturn";

import { assistant, imageFromBase64, imagePart, system, textPart, toolResult, user } from "everturn";
import { request, toolCall } from "everturn/advanced";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { reasoningPart, toolCallPart } from "../model/internal.ts";
import { anthropicMessages } from "./anthropic/codec.ts";
import { noQuirks } from "./codec.ts";
import { openaiChat } from "./openai-chat/codec.ts";
import { openaiResponses } from "./openai-responses/codec.ts";
import { bodyText } from "./sent-history.ts";

const codecs = [anthropicMessages, openaiChat, openaiResponses];

const contextOf = ({ api }: Codec): WireContext => ({
  route: { provider: "here", endpoint: `https://x.test/v1#${api}`, model: "claude-opus-4-5" },
  rawChunks: false,
  quirks: noQuirks,
});

const encode = (codec: Codec, messages: readonly Message[]) => codec.encode(request(messages), contextOf(codec));

/** A request whose messages no cache knows. */
const encodeAnew = (codec: Codec, messages: readonly Message[]) => {
  const own = structuredClone(messages);
  return codec.encode({ ...request([]), messages: own }, contextOf(codec));
};

const encodeKept = (codec: Codec, messages: readonly Message[]) =>
  codec.encode({ ...request([]), messages }, contextOf(codec));

const call = (id: string) => toolCall({ id, name: "look", arguments: { at: id } });
const png = imageFromBase64("image/png", "iVBORw0KGgo=");

/** A reply with one call, and the result of the call. */
const step = (id: string): readonly Message[] => [assistant("", { toolCalls: [call(id)] }), toolResult(id, `of ${id}`)];

const id = fc.constantFrom("a", "b", "c", "d");
const replay = (codec: Codec) => ({
  ...contextOf(codec).route,
  data: { type: "thinking", thinking: "hm", signature: "s" },
});
const piece = fc.oneof(
  { weight: 6, arbitrary: id.map(step) },
  fc
    .tuple(id, id)
    .map(([one, two]): readonly Message[] => [
      assistant("Both.", { toolCalls: [call(one), call(two)] }),
      toolResult(two, "second"),
      toolResult(one, [textPart("first"), imagePart(png)]),
    ]),
  id.map((one): readonly Message[] => [assistant("", { toolCalls: [call(one)] })]),
  id.map((one): readonly Message[] => [toolResult(one, "late")]),
  fc.constantFrom("Go on.", "").map((text): readonly Message[] => [assistant(text)]),
  fc.constant<readonly Message[]>([user("And é—?")]),
  fc.constant<readonly Message[]>([system("Be brief.")]),
  id.map((one): readonly Message[] => [
    assistant([reasoningPart("hm", { provider: replay(anthropicMessages) }), textPart("So."), toolCallPart(one)], {
      toolCalls: [call(one)],
    }),
    toolResult(one, "done"),
  ]),
  id.map((one): readonly Message[] => [
    assistant([
      toolCallPart(`p${one}`, { providerExecuted: { ...call(`p${one}`), provider: replay(anthropicMessages) } }),
    ]),
  ]),
);

describe.each(codecs.map((codec) => ({ name: codec.api, codec })))("$name", ({ codec }) => {
  test("a history that grows is encoded as if it was sent for the first time", () => {
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), fc.array(fc.nat(8), { maxLength: 4 }), (pieces, branches) => {
        const history = [user("Go."), ...pieces.flat()];
        const lengths = [
          ...history.keys(),
          history.length,
          ...branches.map((cut) => Math.min(cut + 1, history.length)),
        ];
        for (const length of lengths) {
          const messages = history.slice(0, length);
          if (messages.length === 0) continue;
          // A branch ends with another message than the history.
          const sent = length < history.length && branches.includes(length) ? [...messages, user("Other.")] : messages;
          const kept = encodeKept(codec, sent);
          const anew = encodeAnew(codec, sent);
          expect(kept.body).toEqual(anew.body);
          expect(bodyText(kept.body)).toBe(JSON.stringify(anew.body));
          expect(new Set(kept.omissions.map((omission) => JSON.stringify(omission)))).toEqual(
            new Set(anew.omissions.map((omission) => JSON.stringify(omission))),
          );
        }
      }),
      { numRuns: 100 },
    );
  });

  test("a late result is moved to its call, also if the history was sent without it", () => {
    const open = [user("Go."), assistant("", { toolCalls: [call("a")] }), user("And?")];
    encodeKept(codec, open);
    const answered = [...open, assistant("Wait."), user("Well?"), toolResult("a", "late")];
    expect(encodeKept(codec, answered).body).toEqual(encodeAnew(codec, answered).body);
  });

  test("a step of a loop encodes only what is new", () => {
    const history: Message[] = [system("Add."), user("Go.")];
    let first: unknown = null;
    for (let n = 0; n < 4; n += 1) {
      const list = Object.values(encodeKept(codec, [...history]).body).find((value) => Array.isArray(value));
      const elements: readonly unknown[] = Array.isArray(list) ? list : [];
      if (n === 1) first = elements.at(-1);
      if (n > 1) expect(elements).toContain(first);
      history.push(...step(`c${n}`));
    }
  });

  test("a kept history is not used for another model", () => {
    const history = [user("Go."), ...step("a")];
    encodeKept(codec, history);
    const context = contextOf(codec);
    const other = { ...context, route: { ...context.route, model: "other" } };
    const { body } = codec.encode({ ...request([]), messages: history }, other);
    expect(body).toEqual(codec.encode({ ...request([]), messages: structuredClone(history) }, other).body);
    expect(encode(codec, history).body).toEqual(encodeAnew(codec, history).body);
  });
});

test("a body without a kept list is written by JSON.stringify", () => {
  const body = { model: "m", list: [{ a: 1 }], nested: { b: [1, null] } };
  expect(bodyText(body)).toBe(JSON.stringify(body));
});
