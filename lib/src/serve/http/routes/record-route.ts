// Exports a turn as one JSON value, and shows the requests of its model calls. The record is read and sent a page at a
// time, whatever its length. It is exact, so that it can be replayed: it contains the caller's context and the messages
// of providers. Only the redaction hook of the program is applied (place `record`).

import type { recordOperations } from "../../contract/internal.ts";
import type { TurnRecordPart } from "../../inspect/internal.ts";
import type { Implementations } from "./operation-route.ts";

import { wholeNumber } from "../../contract/internal.ts";
import { redactedRecord } from "../failure.ts";
import { LargeText } from "../large-text.ts";
import { noRow } from "./inspection-routes.ts";
import { jsonText } from "./route.ts";

export const recordImplementations: Implementations<typeof recordOperations> = {
  request: async ({ inspection, param }) => {
    const ordinal = wholeNumber.read(param("ordinal"));
    if (ordinal === null) throw noRow();
    return jsonText(redactedRecord(await inspection.request(param("id"), param("turnId"), ordinal)));
  },
  export: ({ sessions, inspection, param }) =>
    audited(
      () => sessions.exported(param("id"), param("turnId")),
      recordText(inspection.exportParts(param("id"), param("turnId"))),
    ),
};

/** The parts of a record. The audit log has the export before the first part leaves the process. */
async function* audited<T>(record: () => Promise<void>, parts: AsyncGenerator<T, void>): AsyncGenerator<T, void> {
  let isRecorded = false;
  for await (const part of parts) {
    if (!isRecorded) await record();
    isRecorded = true;
    yield part;
  }
}

/** The JSON text of a record, a part at a time: `{…, "data": {…, "history": [` messages `], "rows": [` rows `]}}`. */
async function* recordText(parts: AsyncGenerator<TurnRecordPart, void>): AsyncGenerator<string | LargeText, void> {
  let list: "history" | "rows" = "history";
  let count = 0;
  for await (const part of parts) {
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
}
