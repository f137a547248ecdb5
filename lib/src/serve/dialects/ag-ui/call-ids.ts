// The ids of tool calls that a client of AG-UI sees. The client finds a call by its id in the whole conversation,
// oldest first: arguments of a second `call_0` would be appended to the first one. So ids are unique in the
// conversation (core/model/tool/unique-call-ids.ts).
//
// They follow from the conversation that the client posts, without the messages of the turn that is sent. So a turn
// that is read again has the same ids.

import type { Json } from "../../../core/model/internal.ts";

import { UniqueCallIds } from "../../../core/model/internal.ts";
import { asFields } from "./input.ts";

/** The ids of the calls of a conversation, as the client has it. */
export function callIdsOf(messages: readonly Json[]): UniqueCallIds {
  const clientIds = messages.flatMap((message) => {
    const calls = asFields(message)?.["toolCalls"];
    return (Array.isArray(calls) ? calls : []).flatMap((call) => asFields(call)?.["id"] ?? []);
  });
  return new UniqueCallIds(clientIds.filter((clientId) => typeof clientId === "string"));
}
