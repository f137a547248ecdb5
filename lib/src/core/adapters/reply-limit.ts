// Limits the size of a reply (`limits.reply`): a faulty or hostile server could otherwise stream text until the process
// has no memory left. A reply is held several times, as text, events and JSON, so that it takes about 30 times its
// size.
//
// Text, reasoning and arguments count. Images and files do not: one event and one body have limits of their own
// (`limits.line`, `limits.body`).

import type { ModelEvent } from "../model/internal.ts";

import { assistant, streamFailure } from "../model/internal.ts";

/**
 * The batches of a reply up to the limit, in characters. A longer reply ends with the failure `malformed_event`, and
 * its connection is closed.
 */
export async function* withinReplyLimit(
  batches: AsyncIterable<readonly ModelEvent[]>,
  limit: number,
  provider: string,
): AsyncGenerator<readonly ModelEvent[]> {
  let streamed = 0;
  let completed = 0;
  let hasStarted = false;
  for await (const batch of batches) {
    for (const event of batch) {
      streamed += deltaSize(event);
      completed += completedSize(event);
    }
    // A whole reply has no deltas.
    if (Math.max(streamed, completed) <= limit) {
      hasStarted ||= batch.length > 0;
      yield batch;
      continue;
    }
    const message = `${provider} sent a reply of more than ${limit} characters; set limits.reply of the adapter to accept longer ones`;
    const error = streamFailure("malformed_event", { provider, message });
    const started: readonly ModelEvent[] = hasStarted ? [] : [{ type: "message_started", message: assistant("") }];
    const usage = batch.filter(({ type }) => type === "usage" || type === "warning");
    yield [...started, ...usage, { type: "error", error }];
    return;
  }
}

function deltaSize(event: ModelEvent): number {
  if (event.type === "text_delta" || event.type === "reasoning_delta") return event.delta.length;
  return event.type === "tool_call_delta" ? event.argumentsDelta.length : 0;
}

function completedSize(event: ModelEvent): number {
  if (event.type === "text_completed" || event.type === "reasoning_completed") return event.text.length;
  if (event.type !== "tool_call_completed") return 0;
  return (event.rawArguments ?? JSON.stringify(event.arguments)).length;
}
