// Which messages requests contain as they are, beside the summary of the others.

import { assistant, toolResult, user } from "everturn";
import { expect, test } from "vitest";

import { pinnedPositions } from "./framed-history.ts";
import { startHistory } from "./history.ts";

test("pins the newest message of the user, and not an answer that the handler of a tool has read", () => {
  const asks = { id: "c1", name: "book", arguments: {} };
  const history = startHistory([
    user("Hello."),
    user("Book a table for my birthday."),
    assistant("", { toolCalls: [asks] }),
    assistant("For how many?", { metadata: { askUser: true, toolCallId: "c1" } }),
    user("Four", { metadata: { askUserAnswer: true, toolCallId: "c1" } }),
    toolResult("c1", "booked"),
    assistant("Booked."),
  ]);
  expect(pinnedPositions(history, null, 6)).toEqual([1]);
});
