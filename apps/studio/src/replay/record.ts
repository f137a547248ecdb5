// Reads a turn record (a file that `export` wrote) as a timeline, its messages and the stored data of each row. Pure,
// and without a server: the file is not sent anywhere. The library checks every value; a file that is no turn record,
// or is damaged, is reported with a reason.

import type { Message } from "everturn";
import type { EffectDetail } from "everturn/advanced";
import type { TurnTimeline } from "everturn/client";

import { parse } from "everturn";
import { readTurnRecord } from "everturn/http";

import { field } from "../inspector/effect-parts.ts";

type RecordedTurn = ReturnType<typeof readTurnRecord>;

/** A turn record that was read. */
export type ReplayFile = {
  readonly sessionId: string;
  readonly timeline: TurnTimeline;
  /** The messages before the turn and of the turn, as far as it was recorded. */
  readonly messages: readonly Message[];
  /** What is stored about each row, by ordinal. */
  readonly details: ReadonlyMap<number, EffectDetail>;
  /** The replay policies of the tools, by name. */
  readonly policies: ReadonlyMap<string, string>;
};

/** Why a file cannot be shown. */
export class ReplayFileError extends Error {
  override readonly name = "ReplayFileError";
}

/** Files larger than this are not read, because the page would stop to respond. */
export const maxFileBytes = 64 * 1024 * 1024;

/** Reads the text of a file. Throws {@link ReplayFileError}. */
export function readReplayFile(text: string): ReplayFile {
  const { record, timeline, details } = checkedRecord(text);
  const { sessionId, pinned } = record.data;
  return {
    sessionId,
    timeline,
    messages: messagesOf({ record, details }),
    details: new Map(details.map((detail) => [detail.ordinal, detail])),
    policies: new Map(pinned.environment.tools.map(({ name, replay }) => [name, replay])),
  };
}

function checkedRecord(text: string): RecordedTurn {
  try {
    return readTurnRecord(text);
  } catch (error) {
    throw new ReplayFileError(`The file cannot be shown: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/**
 * The messages before the turn, and those that it added in the order of its commits: input, replies, tool results,
 * steered input.
 */
function messagesOf({ record: { data }, details }: Pick<RecordedTurn, "record" | "details">): readonly Message[] {
  const added = data.rows.flatMap(({ item }, index): readonly Message[] => {
    const response = item.type === "response" ? item.response : null;
    switch (response?.type) {
      case "model_replied":
        return response.reply.message === null ? [] : [response.reply.message];
      case "tool_returned": {
        const call = field(details[index]?.effect ?? null, "call");
        const message = parse("message", {
          role: "tool",
          name: field(call, "name"),
          toolCallId: field(call, "id"),
          content: response.content,
          ...resultOf(response),
        });
        return message.ok ? [message.value] : [];
      }
      case "checkpoint_delivered":
        return response.delivery.messages;
      default:
        return [];
    }
  });
  return [...data.history, ...data.start.messages, ...added];
}

type RowItem = RecordedTurn["record"]["data"]["rows"][number]["item"];
type Response = Extract<RowItem, { readonly type: "response" }>["response"];
type Returned = Extract<Response, { readonly type: "tool_returned" }>;

/** What the message says about the run of a tool. */
function resultOf({ outcome, ranArguments }: Returned) {
  return {
    status: outcome.type === "failure" || outcome.type === "cancelled" ? outcome.type : "success",
    ...(outcome.type === "failure" ? { code: outcome.failure.code } : {}),
    ranArguments,
  };
}
