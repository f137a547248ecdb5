// The route that exports a turn as one JSON value. The record is read and sent a page at a time, whatever its length.

import type { TurnRecordPart } from "../../inspect/internal.ts";
import type { Route, RouteCall } from "./route.ts";

import { redactedRecord } from "../failure.ts";
import { LargeText } from "../large-text.ts";
import { jsonAnswer, schemaRef } from "../openapi/schemas.ts";
import { inPageSlot, releaseOnError, route } from "./route.ts";

/**
 * Exports a turn record, served only with `records: true`. A record is exact, so that it can be replayed: it contains the caller's context and
 * the messages of providers. Only the redaction hook of the program is applied (place `record`).
 */
export const recordRoute: Route = route({
  method: "GET",
  path: "/sessions/{id}/turns/{turnId}/record",
  operationId: "exportTurn",
  summary: "Exports a turn as one JSON value, which `everturn replay` replays offline.",
  answers: { 200: jsonAnswer("The record.", schemaRef("TurnRecord")) },
  handle: async (call) => {
    const slot = call.server.acquireStream(call);
    return await releaseOnError(slot.release, async () => {
      const parts = call.inspection.exportParts(call.param("id"), call.param("turnId"));
      // The first part is read before the response starts: its errors have a status.
      const first = await nextPart(call, parts);
      return slot.respondJson(recordText(call, first, parts));
    });
  },
});

/** Reads the next part of a record in a page slot: a page in memory is several times as large as its text. */
function nextPart(call: RouteCall, parts: AsyncGenerator<TurnRecordPart, void>): Promise<TurnRecordPart | null> {
  return inPageSlot(call, async () => {
    const { value } = await parts.next();
    return value ?? null;
  });
}

/** The JSON text of a record, a part at a time: `{…, "data": {…, "history": [` messages `], "rows": [` rows `]}}`. */
async function* recordText(
  call: RouteCall,
  first: TurnRecordPart | null,
  parts: AsyncGenerator<TurnRecordPart, void>,
): AsyncGenerator<string | LargeText, void> {
  let list: "history" | "rows" = "history";
  let count = 0;
  try {
    for (let part = first; part !== null; part = await nextPart(call, parts)) {
      if (part.type === "fields") {
        const { data, ...envelope } = part.record;
        const { history: _, rows: __, ...fields } = data;
        const before = `${redactedRecord(envelope).slice(0, -1)},"data":`;
        yield LargeText.of(`${before}${redactedRecord(fields).slice(0, -1)},"history":[`);
        continue;
      }
      if (part.type !== list) {
        yield '],"rows":[';
        [list, count] = [part.type, 0];
      }
      const items = redactedRecord(part.items).slice(1, -1);
      yield LargeText.of(count === 0 ? items : `,${items}`);
      count += part.items.length;
    }
    yield list === "history" ? '],"rows":[]}}' : "]}}";
  } finally {
    await parts.return();
  }
}
