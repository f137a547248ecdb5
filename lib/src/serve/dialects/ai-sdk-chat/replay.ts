// Replays a stored UI message as chunks. A client that resumes a stream has discarded what it had of the open message,
// so it is sent again from its start.

import type { UiChunk } from "./chunks.ts";
import type { UiMessage, UiToolPart } from "./parts.ts";

import { deniedChunk, requestChunk } from "./chunks.ts";
import { isToolPart } from "./parts.ts";

/**
 * The chunks of a message, or of steps of it, without its `start` and `finish`, and without the requests for approvals,
 * which follow `finish` ({@link requestChunks}). `partsBefore`: the number of parts of the steps before.
 */
export function replayChunks({ id, parts }: Pick<UiMessage, "id" | "parts">, partsBefore = 0): readonly UiChunk[] {
  const chunks: UiChunk[] = [];
  let isOpen = false;
  const finish = () => {
    if (isOpen) chunks.push({ type: "finish-step" });
    isOpen = false;
  };
  for (const [index, part] of parts.entries()) {
    if (isToolPart(part)) {
      chunks.push(...toolChunks(part));
      continue;
    }
    const block = `${id}/part/${partsBefore + index}`;
    switch (part.type) {
      case "step-start":
        finish();
        chunks.push({ type: "start-step" });
        isOpen = true;
        break;
      case "text":
        chunks.push({ type: "text-start", id: block }, { type: "text-delta", id: block, delta: part.text });
        chunks.push({ type: "text-end", id: block });
        break;
      case "reasoning":
        chunks.push({ type: "reasoning-start", id: part.id });
        chunks.push({ type: "reasoning-delta", id: part.id, delta: part.text }, { type: "reasoning-end", id: part.id });
        break;
      case "file":
        chunks.push({ type: "file", url: part.url, mediaType: part.mediaType });
        break;
      case "data-question":
      case "data-steering-message":
        chunks.push(part);
        break;
    }
  }
  finish();
  return chunks;
}

/** The requests for the approvals that parts of a message wait for. */
export function requestChunks(parts: UiMessage["parts"]): readonly UiChunk[] {
  return parts
    .filter(isToolPart)
    .flatMap((part) => (part.state === "approval-requested" ? [requestChunk(part.toolCallId, part.approval)] : []));
}

/**
 * The chunks that bring a new call to the state of the part. The SDK derives the state from them: input, then output. A
 * call that is approved is sent as running: a request without a response would ask the user again.
 */
function toolChunks(part: UiToolPart): readonly UiChunk[] {
  const { toolCallId, input, toolMetadata, providerExecuted } = part;
  const available: UiChunk = {
    type: "tool-input-available",
    toolCallId,
    toolName: part.type.slice("tool-".length),
    input,
    ...(toolMetadata === undefined ? {} : { toolMetadata }),
    ...(providerExecuted === undefined ? {} : { providerExecuted }),
  };
  switch (part.state) {
    case "input-available":
    case "approval-requested":
    case "approval-responded":
      return [available];
    case "output-available":
      return [available, { type: "tool-output-available", toolCallId, output: part.output }];
    case "output-error":
      return [available, { type: "tool-output-error", toolCallId, errorText: part.errorText }];
    case "output-denied":
      return [available, deniedChunk(toolCallId, part.approval.reason ?? null)];
  }
}
