// The request of a model call, rebuilt from the record of its turn.

import type { Json, RequestView } from "../../core/model/internal.ts";
import type { InspectionContext } from "./context.ts";

import { isObject } from "../../core/model/parse/reading.ts";
import { rebuildRequest } from "../../durable/internal.ts";
import { exportTurn } from "./export-turn.ts";

/** Rejects with `not_found` if the row is no model call of a turn. */
export async function requestView(
  context: InspectionContext,
  id: string,
  turnId: string,
  ordinal: number,
): Promise<RequestView> {
  const record = await exportTurn(context, id, turnId);
  const { engine: name } = record.data.start;
  const engine = Object.hasOwn(context.engines, name) ? (context.engines[name] ?? null) : null;
  const { request, sent, window, differences } = await rebuildRequest(record, ordinal, engine);
  const plain: Json = JSON.parse(JSON.stringify(request));
  return { ordinal, request: isObject(plain) ? plain : {}, sent, window, differences };
}
