// Checks the next request: the decoded reply, encoded again, must hold the blocks of the recording with their ids,
// signatures and encrypted content, byte for byte, and the results of its calls under the ids of the recording.

import type { Difference } from "./compare.ts";
import type { Reading } from "./reading.ts";
import type { Api } from "./recording.ts";
import type { AssistantMessage, Json, JsonObject } from "everturn";
import type { Violation } from "everturn/testing";

import { imageFromBase64, imagePart, toolResult, user } from "everturn";
import { request } from "everturn/advanced";
import { violations } from "everturn/testing";

import { isEqual } from "./compare.ts";
import { codecs, contextOf } from "./decode.ts";
import { readSentChat } from "./read-chat.ts";
import { listOf, objectOf, objectsOf, only, stringOf, without } from "./reading.ts";

/** Encodes a conversation that continues the reply, and compares what it sends of the reply. */
export function compareSentBack(
  api: Api,
  expected: Reading,
  message: AssistantMessage,
): { readonly fields: number; readonly differences: readonly Difference[] } {
  if (expected.sentBack === null) return { fields: 0, differences: [] };
  const body = nextRequest(api, expected, message);
  const sent = sentOf(api, body, message.toolCalls.length);
  const callIds = expected.blocks.flatMap((block) =>
    block.type === "call" ? [api === "gemini" ? stringOf(block.replay["id"]) : block.id] : [],
  );
  const rows: (readonly [string, Json, Json])[] = [["next request: ids of results", callIds, sent.answered]];
  const count = Math.max(expected.sentBack.length, sent.blocks.length);
  for (let at = 0; at < count; at += 1) {
    const [left, right] = [expected.sentBack[at], sent.blocks[at]];
    rows.push([`next request: block ${at}`, normal(left), normal(right)]);
  }
  const differences = rows.flatMap(([field, left, right]) =>
    isEqual(left, right) ? [] : [{ field, expected: left, actual: right }],
  );
  return { fields: rows.length, differences };
}

/** The body of a request that continues the conversation after the reply. */
function nextRequest(api: Api, { isStored }: Reading, message: AssistantMessage): JsonObject {
  // The result of a computer call is a screenshot.
  const screenshot = [imagePart(imageFromBase64("iVBORw0KGgo=", "image/png"))];
  const results = message.toolCalls.map((call) =>
    toolResult(call.id, call.name === "computer" ? screenshot : "done", { name: call.name }),
  );
  // The provider continues a paused reply by itself, with calls that still run.
  const input = message.finishReason === "paused" ? [] : [user("Continue.")];
  const messages = [user("Start."), message, ...results, ...input];
  // A conversation goes on as it began. With `store: true` the Responses API resolves reasoning by its id, so that
  // unencrypted reasoning is sent back too.
  const options = api === "openai-responses" ? { store: isStored } : {};
  return codecs[api].encode(request(messages, { options }), contextOf(api)).body;
}

/** The rules of the provider that the request which continues the conversation violates. */
export function refusalsOfNextRequest(api: Api, expected: Reading, message: AssistantMessage): readonly Violation[] {
  const body = { ...requiredFields[api], ...nextRequest(api, expected, message) };
  return violations(api, { body: api === "anthropic-messages" ? withEarlierCalls(body) : body });
}

/** What a request needs apart from the conversation. */
const requiredFields: { readonly [A in Api]: JsonObject } = {
  "anthropic-messages": { max_tokens: 4096 },
  gemini: {},
  "openai-chat": {},
  "openai-responses": {},
};

/**
 * A recorded reply of Anthropic can have the result of a call of an earlier reply, which is not part of the recording.
 * Adds such calls.
 */
function withEarlierCalls(body: JsonObject): JsonObject {
  const messages = objectsOf(body["messages"]).map((message) => {
    const blocks = objectsOf(message["content"]);
    const called = blocks.flatMap(({ type, id }) => (type === "server_tool_use" ? [stringOf(id)] : []));
    const missing = blocks
      .filter(({ type }) => /[^p]_tool_result$/.test(stringOf(type)))
      .map((block) => stringOf(block["tool_use_id"]))
      .filter((id) => !called.includes(id));
    const calls = missing.map((id) => ({ type: "server_tool_use", id, name: "earlier", input: {} }));
    return missing.length === 0 ? message : { ...message, content: [...calls, ...blocks] };
  });
  return { ...body, messages };
}

/** A block without fields that are `null`: leaving them out means the same. */
function normal(block: JsonObject | undefined): Json {
  return block === undefined ? null : only(block, Object.keys(block));
}

/** What a request sends of the reply: its blocks, and the ids under which the results of its calls are sent. */
function sentOf(
  api: Api,
  body: JsonObject,
  callCount: number,
): { readonly blocks: readonly JsonObject[]; readonly answered: readonly string[] } {
  switch (api) {
    case "anthropic-messages": {
      const messages = objectsOf(body["messages"]);
      // A compaction block in the reply replaces the message before it.
      const [reply, next] = messages[0]?.["role"] === "assistant" ? messages : messages.slice(1);
      const isReply = reply?.["role"] === "assistant";
      const answers = objectsOf((isReply ? next : reply)?.["content"]).filter(({ type }) => type === "tool_result");
      return {
        blocks: [...(isReply ? objectsOf(reply["content"]) : []), ...objectsOf([only(body, ["container"])])].filter(
          (block) => Object.keys(block).length > 0,
        ),
        answered: answers.map((block) => stringOf(block["tool_use_id"])),
      };
    }
    case "gemini": {
      const contents = objectsOf(body["contents"]);
      const parts = contents.flatMap((content) => objectsOf(content["parts"]));
      const responses = parts
        .map((part) => objectOf(part["functionResponse"]))
        .filter(({ name }) => name !== undefined);
      return {
        blocks: contents.filter(({ role }) => role === "model").flatMap((content) => objectsOf(content["parts"])),
        answered: responses.map((response) => stringOf(response["id"])),
      };
    }
    case "openai-chat": {
      const messages = objectsOf(body["messages"]);
      const replies = messages.filter(({ role }) => role === "assistant");
      return {
        blocks: replies.length === 0 ? [{}] : replies.map(readSentChat),
        answered: messages.filter(({ role }) => role === "tool").map((message) => stringOf(message["tool_call_id"])),
      };
    }
    case "openai-responses": {
      const items = listOf(body["input"]).slice(0, -1).map(objectOf);
      // A compaction item in the reply replaces the message before it.
      const input = items[0]?.["role"] === "user" ? items.slice(1) : items;
      const answers = input.slice(input.length - callCount);
      return {
        blocks: input.slice(0, input.length - callCount).map((item) => without(item, [])),
        answered: answers.map((item) => stringOf(item["call_id"] ?? item["approval_request_id"])),
      };
    }
  }
}
