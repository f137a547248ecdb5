// The body of routes in the formats of other libraries.

import type { JsonObject } from "../../../core/model/internal.ts";
import type { BodySchema } from "../../http/internal.ts";

import { jsonObject } from "../../../core/model/parse/reading.ts";

/** A body that is checked by ag-ui/, ai-sdk-chat/ or openai/: any JSON object. */
export const foreignBody: BodySchema<JsonObject> = { shape: jsonObject, schema: { type: "object" } };
