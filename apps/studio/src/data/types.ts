// Types of the values that the client returns. The entry point `everturn/client` exports the functions, and these names
// are derived from them.

import type { Conversation, EverturnClient } from "everturn/client";

/** A session in the list. */
export type SessionSummary = Awaited<ReturnType<EverturnClient["list"]>>["items"][number];

/** A session with its newest messages and its open turn. */
export type SessionView = NonNullable<Awaited<ReturnType<EverturnClient["get"]>>>;

/** An event of a session. */
export type RuntimeEvent = ReturnType<EverturnClient["events"]> extends AsyncIterable<infer Event> ? Event : never;

/** A call that waits for an answer or a decision. */
export type PendingCall = SessionSummary["pendingToolCalls"][number];

/** What runs if a call is approved. */
export type ShownCall = PendingCall["shown"];

/** A decision without the digest of the call, which the form adds. */
export type Decision = Parameters<Conversation["decide"]>[1];

/** A user message as `start` and `continue` accept it. */
export type UserInput = NonNullable<Parameters<EverturnClient["continue"]>[1]>;
