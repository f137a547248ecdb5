// System messages of Anthropic's Messages API: the blocks of one message, and where messages after the first turn may
// be sent.
//
// The field `system` holds the system messages before the conversation. Newer models also take messages with the role
// `system` inside of it, without a beta header. Such a message has to follow a user message (also one with tool
// results) and has to precede an assistant message or be the last one; several in a row count as one. The API answers
// any other place, and any other model, with the status 400 ("role 'system' is not supported on this model").
// https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages

import type { JsonObject, ProviderRoute, SystemMessage } from "../../model/internal.ts";
import type { Omission } from "../codec.ts";

import { messageText, textOrPlaceholder } from "../../model/internal.ts";
import { optionsFor, withOptions } from "../provider-options.ts";

/**
 * Names of models that take system messages inside of the conversation: Opus from 4.8 on, Sonnet and Haiku from 5.5 on,
 * Fable, Mythos. Unknown names do not.
 */
const modelName = /(?:opus-(?:4-[89]|[5-9])|(?:sonnet|haiku)-(?:5-[5-9]|[6-9])|(?:fable|mythos)-[5-9])(?!\d)/;

/** Does the model take system messages inside of the conversation? */
export function takesSystemMessages(model: string): boolean {
  return modelName.test(model);
}

/**
 * The blocks of a system message: one text, or one for each part if parts have provider options. None for blank text.
 */
export function systemBlocks(message: SystemMessage, route: ProviderRoute): readonly JsonObject[] {
  const { content } = message;
  const hasPartOptions = typeof content !== "string" && content.some((part) => optionsFor(part, route) !== null);
  const texts = hasPartOptions
    ? content.map((part) => ({ text: textOrPlaceholder(part.text, part.pruneState), options: optionsFor(part, route) }))
    : [{ text: messageText(message), options: null }];
  const blocks = texts.flatMap(({ text, options }) =>
    text.trim() === "" ? [] : [withOptions({ type: "text", text }, options)],
  );
  const options = optionsFor(message, route);
  return options === null
    ? blocks
    : blocks.map((block, at) => (at === blocks.length - 1 ? withOptions(block, options) : block));
}

/** A system message that is sent one user message later. */
export function movedLater(path: string): Omission {
  const why = "the Messages API accepts system messages of a conversation only after a user message";
  return { path, reason: "repaired", message: `${path} is sent after the user message that follows it: ${why}` };
}

/** A system message that is sent in the field `system`. */
export function movedToStart(path: string, { model }: ProviderRoute): Omission {
  const why = takesSystemMessages(model)
    ? "no user message follows it, and the Messages API accepts system messages of a conversation only after one"
    : `${model} accepts no system messages inside of the conversation`;
  return {
    path,
    reason: "unsupported",
    message: `${path} is sent in the system prompt, before the conversation: ${why}`,
  };
}
