// Runs a session again from one of its steps, with one thing changed, in a fork. The original stays as it is.

import type { UserInput } from "../data/types.ts";
import type { Json, JsonObject, Message } from "everturn";
import type { EverturnClient, TurnOptions } from "everturn/client";

import { messageText } from "everturn";

/** What is run again. `at`: the number of messages that the fork shares with the original. */
export type Step =
  /** A user message, which is replaced. */
  | { readonly type: "message"; readonly at: number; readonly text: string }
  /** The model call that wrote a reply. */
  | { readonly type: "model"; readonly at: number }
  /** A tool call, which runs with other arguments, or gets another result. */
  | {
      readonly type: "call";
      readonly at: number;
      readonly id: string;
      readonly name: string;
      readonly arguments: JsonObject;
      readonly result: string;
    };

/** What the reader has changed. */
export type Change =
  | { readonly type: "message"; readonly text: string }
  | { readonly type: "model" }
  | { readonly type: "arguments"; readonly value: JsonObject }
  | { readonly type: "result"; readonly value: Json };

/** The steps that begin with a message of a session: the message itself, and its calls. */
export function stepsOf(
  message: Message,
  index: number,
  answerOf: (callId: string) => Message | null,
): readonly Step[] {
  if (message.role === "user") return [{ type: "message", at: index, text: messageText(message) }];
  if (message.role !== "assistant") return [];
  const calls = message.toolCalls.map(({ id, name, arguments: args }): Step => {
    const answer = answerOf(id);
    return {
      type: "call",
      at: index + 1,
      id,
      name,
      arguments: args ?? {},
      result: answer === null ? "" : messageText(answer),
    };
  });
  return [{ type: "model", at: index }, ...calls];
}

/** Forks the session at a step, runs it with the change, and returns the id of the fork. */
export async function runAgain(
  client: EverturnClient,
  sessionId: string,
  step: Step,
  change: Change,
  options: TurnOptions,
): Promise<string> {
  const redo = step.type === "call" ? { redo: step.id } : {};
  const fork = await client.fork(sessionId, { at: step.at, ...redo });
  switch (change.type) {
    case "message": {
      const message: UserInput = { role: "user", content: change.text };
      await client.send(fork, message, options);
      return fork;
    }
    case "model":
      await client.continue(fork, null, options);
      return fork;
    case "arguments": {
      const head = await client.get(fork, { messages: 0 });
      const [call] = head?.session.pendingToolCalls ?? [];
      if (call === undefined) throw new Error("the call is not pending in the fork");
      await client.decide(fork, call.id, { type: "approve", arguments: change.value, digest: call.digest });
      return fork;
    }
    case "result": {
      if (step.type === "call") await client.submitToolResults(fork, [[step.id, change.value]]);
      return fork;
    }
  }
}
