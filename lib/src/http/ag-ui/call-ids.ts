// The ids of tool calls that a client of AG-UI sees.
//
// Why they can differ from the ids of the calls
//   Providers repeat ids in later replies: servers that send none get `call_0`, `call_1`, … in each reply. A client of AG-UI finds a call by its id in the whole conversation, oldest first, so
//   the arguments of a second `call_0` would be appended to the first one. A call whose id the conversation has already gets the suffix `#2`, `#3`, ….
//
// The ids follow from the conversation that the client posts, without the messages of the turn that is sent. So a turn that is read again has the same ids.

import type { Json } from "../../model/internal.ts";

import { asFields } from "./input.ts";

/** The ids of the calls of a conversation. */
export class CallIds {
  /** All ids that the client has. */
  readonly #used = new Set<string>();
  /** The client's id of the newest call, by the id of the call. */
  readonly #newest = new Map<string, string>();

  /** `messages`: the conversation as the client has it. */
  constructor(messages: readonly Json[]) {
    for (const message of messages) {
      const calls = asFields(message)?.["toolCalls"];
      for (const call of Array.isArray(calls) ? calls : []) {
        const clientId = asFields(call)?.["id"];
        if (typeof clientId !== "string") continue;
        this.#used.add(clientId);
        this.#newest.set(clientId.replace(/#\d+$/, ""), clientId);
      }
    }
  }

  /** Returns the id for a new call. */
  begin(callId: string): string {
    let clientId = callId;
    for (let number = 2; this.#used.has(clientId); number += 1) clientId = `${callId}#${number}`;
    this.#used.add(clientId);
    this.#newest.set(callId, clientId);
    return clientId;
  }

  /** The attempt that began the newest call with this id was thrown away, and the client has removed the call. */
  withdraw(callId: string): void {
    this.#used.delete(this.of(callId));
    this.#newest.delete(callId);
  }

  /** The client's id of the newest call with this id. */
  of(callId: string): string {
    return this.#newest.get(callId) ?? callId;
  }
}

/** Whether a client's id belongs to a call with this id. */
export function isIdOf(clientId: string, callId: string): boolean {
  return clientId === callId || (clientId.startsWith(`${callId}#`) && /^\d+$/.test(clientId.slice(callId.length + 1)));
}
