// Places cache breakpoints (`cache_control`) in a request to Anthropic, by `promptCache.breakpoints`.
//
// Theory of operation
//   The API caches a prompt by prefix: tools, then the system prompt, then the messages. A breakpoint on a block caches
//   everything up to it. A later request reads the longest cached prefix that ends at one of its own breakpoints, or at
//   most about 20 blocks before one. Breakpoints are not part of the cached content, so a breakpoint that moves from
//   one message to the next does not invalidate the prefix.
//
//   `auto` places, in this order, as long as one of the four breakpoints of a request is left:
//     1. the last user message: this request writes the cache that the next step or turn reads
//     2. the system prompt: other conversations of the same agent read it
//     3. the last message before the current user turn: stays in place during the steps of the turn, however many
//        blocks the tools add
//     4. the tools: read by conversations with the same tools and another system prompt
//   `system` places 2 and 4. A place that has a breakpoint of the caller gets no other.
//
// Invariants
//   1. At most four breakpoints, those of the caller included, unless the caller alone sets more. A top-level
//      `cache_control` of the caller counts as one.
//   2. The API refuses a breakpoint of one hour after one of five minutes. The caller's breakpoints keep their
//      lifetime, so one of the library has the lifetime of `retention` unless this order requires the other.
//   3. Blocks are copied and not changed: the encoded messages are cached.

import type { JsonObject, PromptCacheSettings } from "../../model/internal.ts";
import type { WireMessage } from "./encode.ts";

import { flagAt, objectAt, objectsAt, textAt } from "../fields.ts";
import { takesOptions } from "./encode.ts";

/** The parts of a request that take breakpoints, in the order of the prompt. */
export type CacheableRequest = {
  readonly tools: readonly JsonObject[];
  readonly system: readonly JsonObject[];
  readonly messages: readonly WireMessage[];
};

/** The largest number of breakpoints in a request. */
const maxBreakpoints = 4;

/** A block by its position: the part of the request (0 tools, 1 system, 2 messages), the message, the block. */
type Place = readonly [part: number, message: number, block: number];

/**
 * The request with breakpoints. `callerFields` are the fields that the caller sets in the body. Linear in the number of
 * blocks.
 */
export function placeBreakpoints(
  request: CacheableRequest,
  { retention, breakpoints }: PromptCacheSettings,
  callerFields: JsonObject,
): CacheableRequest {
  if (breakpoints === "none") return request;
  const existing = existingBreakpoints(request);
  const occupied = new Set(existing.map(({ place }) => place.join()));
  let free = maxBreakpoints - existing.length - (objectAt(callerFields, "cache_control") === null ? 0 : 1);
  const placed = new Map<string, JsonObject>();
  for (const place of placesFor(request, breakpoints)) {
    const key = place?.join();
    if (free <= 0 || place === null || key === undefined || occupied.has(key) || placed.has(key)) continue;
    placed.set(key, cacheControl(isLongAt(place, existing, retention === "long")));
    free -= 1;
  }
  const mark = (block: JsonObject, ...place: Place): JsonObject => {
    const control = placed.get(place.join());
    return control === undefined ? block : { ...block, cache_control: control };
  };
  return {
    tools: request.tools.map((tool, index) => mark(tool, 0, 0, index)),
    system: request.system.map((block, index) => mark(block, 1, 0, index)),
    messages: request.messages.map((message, at) => ({
      role: message.role,
      content: message.content.map((block, index) => mark(block, 2, at, index)),
    })),
  };
}

/** The places for breakpoints, the most useful first. `null`: the request has no such place. */
function placesFor(request: CacheableRequest, mode: "auto" | "system"): readonly (Place | null)[] {
  const { tools, system, messages } = request;
  // The API refuses `cache_control` on tools with `defer_loading`.
  const lastTool = tools.findLastIndex((tool) => flagAt(tool, "defer_loading") !== true);
  const toolPlace: Place | null = lastTool === -1 ? null : [0, 0, lastTool];
  const systemPlace: Place | null = system.length === 0 ? null : [1, 0, system.length - 1];
  if (mode === "system") return [systemPlace, toolPlace];
  const lastUser = messages.findLastIndex(({ role }) => role === "user");
  const turnStart = messages.findLastIndex(isUserInput);
  return [blockPlace(messages, lastUser), systemPlace, blockPlace(messages, turnStart - 1), toolPlace];
}

/** Does the message have content of the user, and not only tool results? */
function isUserInput({ role, content }: WireMessage): boolean {
  return role === "user" && content.some((block) => block["type"] !== "tool_result");
}

/** The last block of a message that can have a breakpoint. */
function blockPlace(messages: readonly WireMessage[], at: number): Place | null {
  const block = messages[at]?.content.findLastIndex(takesOptions) ?? -1;
  return block === -1 ? null : [2, at, block];
}

type Breakpoint = { readonly place: Place; readonly isLong: boolean };

/** The caller's breakpoints in the order of the prompt, also those on blocks inside a tool result. */
function existingBreakpoints({ tools, system, messages }: CacheableRequest): readonly Breakpoint[] {
  const found: Breakpoint[] = [];
  const collect = (block: JsonObject, ...place: Place): void => {
    for (const inner of objectsAt(block, "content")) collect(inner, ...place);
    const control = objectAt(block, "cache_control");
    if (control !== null) found.push({ place, isLong: textAt(control, "ttl") === "1h" });
  };
  tools.forEach((tool, index) => collect(tool, 0, 0, index));
  system.forEach((block, index) => collect(block, 1, 0, index));
  messages.forEach(({ content }, at) => content.forEach((block, index) => collect(block, 2, at, index)));
  return found;
}

/** The lifetime of a breakpoint at a place (invariant 2). */
function isLongAt(place: Place, existing: readonly Breakpoint[], prefersLong: boolean): boolean {
  if (existing.some((other) => other.isLong && isBefore(place, other.place))) return true;
  return prefersLong && !existing.some((other) => !other.isLong && isBefore(other.place, place));
}

function isBefore(left: Place, right: Place): boolean {
  const differing = left.findIndex((position, index) => position !== right[index]);
  return differing !== -1 && (left[differing] ?? 0) < (right[differing] ?? 0);
}

/** A cache breakpoint: five minutes by default, one hour for `retention: "long"`. */
function cacheControl(isLong: boolean): JsonObject {
  return isLong ? { type: "ephemeral", ttl: "1h" } : { type: "ephemeral" };
}
