// The inspection routes: what pages such as the studio read about the server, its engines and its turns. Served with the option `inspect` of the handler.
//
// What callers see
//   every caller   its own sessions; the engines that it may use; no cause, provider message or storage message, unless the handler has `records: true`
//   operators      all sessions of their tenant, the instructions of engines, the workers and sums of all tenants; the scenarios, unless the key lists engines
//
// Invariants
//   1. No response contains an API key, a header of an adapter, or the context of a caller: engines are described by name, model, instructions and tools.
//   2. A route writes nothing, except `POST /scenarios/{name}`, which starts a session in the caller's tenant.

import type { EffectDetail, EngineView, Json, JsonObject } from "../../../core/model/internal.ts";
import type { Runtime } from "../../../durable/internal.ts";
import type { ScenarioView, ServerView } from "../../contract/internal.ts";
import type { Inspection } from "../../inspect/internal.ts";
import type { Caller } from "../auth.ts";
import type { Route } from "./route.ts";
import type { AllowedOption } from "./turn-options.ts";

import { MisuseError, RuntimeError } from "../../../core/model/internal.ts";
import { HttpError, publicToolMessage, redactedRecord } from "../failure.ts";
import { checkQuery, queryParameter, wholeNumber } from "../input.ts";
import { objectSchema } from "../openapi/body-schema.ts";
import { libraryVersion } from "../openapi/openapi.ts";
import { jsonAnswer, schemaRef } from "../openapi/schemas.ts";
import { bodyRoute, json, jsonText, operatorRoute, operatorRuntime, route } from "./route.ts";
import { afterParameter, boundedPage, limitParameter, pageOptions } from "./session-routes.ts";

/** Details for the inspection routes (`inspect` of {@link HttpOptions}). */
export type InspectOptions = {
  /** The kind of storage, for example `sqlite`, as `GET /server` names it. Default: it is not named. */
  readonly storage?: string;
  /** Prepared conversations that operators can start with `POST /scenarios/{name}`. Default: none. */
  readonly scenarios?: readonly Scenario[];
};

/** A prepared conversation that shows one behaviour, and the function that starts it. */
export type Scenario = ScenarioView & {
  /** Starts the conversation in a session of the caller's tenant. An error that it throws is answered like that of a verb. */
  readonly start: (sessions: Runtime) => Promise<{ readonly sessionId: string }>;
};

/** Turns per read of the storage. A turn has the text of its answer. */
const turnsPerRead = 4;

/** The options of the handler that `GET /server` reports. */
type HandlerSettings = { readonly allow: readonly AllowedOption[]; readonly records: boolean };

/** Builds the inspection routes. Throws `MisuseError` if two scenarios have the same name. */
export function inspectionRoutes(
  reader: Inspection,
  { storage = null, scenarios = [] }: { readonly storage?: string | null; readonly scenarios?: readonly Scenario[] },
  { allow, records }: HandlerSettings,
): readonly Route[] {
  const byName = new Map(scenarios.map((scenario) => [scenario.name, scenario]));
  if (byName.size < scenarios.length) {
    throw new MisuseError("invalid_argument", "inspect: two scenarios have the same name", {
      path: ["inspect", "scenarios"],
    });
  }
  return [
    route({
      method: "GET",
      path: "/server",
      operationId: "getServer",
      summary: "Returns what the server is and what the caller may do there.",
      answers: { 200: jsonAnswer("The server.", schemaRef("ServerView")) },
      handle: async ({ caller }) => {
        const view: ServerView = {
          version: libraryVersion,
          storage,
          durability: reader.durability,
          search: reader.canSearch,
          operator: caller.operator === true,
          tenant: caller.tenant ?? "",
          allow,
          records,
          scenarios: mayStartScenarios(caller) ? scenarios.map(scenarioView) : [],
        };
        return json(view);
      },
    }),
    route({
      method: "GET",
      path: "/engines",
      operationId: "listEngines",
      summary: "Lists the engines that the caller may use, with their tools. Only operators see instructions.",
      answers: { 200: jsonAnswer("The engines.", schemaRef("EngineList")) },
      handle: async ({ caller }) => json({ items: enginesFor(reader.engines(), caller) }),
    }),
    route({
      method: "GET",
      path: "/sessions/{id}/turns",
      operationId: "listTurns",
      summary: "Lists the turns of a session, newest first.",
      query: [limitParameter, afterParameter],
      answers: { 200: jsonAnswer("A page of turns.", schemaRef("TurnPage")) },
      handle: async (call) => {
        const read = (part: ReturnType<typeof pageOptions>) => call.inspection.turns(call.param("id"), part);
        return json(await boundedPage(call, pageOptions(call), { itemsPerRead: turnsPerRead }, read));
      },
    }),
    route({
      method: "GET",
      path: "/sessions/{id}/turns/{turnId}/timeline",
      operationId: "getTimeline",
      summary:
        "Returns what a turn did and when, from its journal, also while it runs. A page has at most 500 rows; `next` is the `after` of the next page.",
      query: [
        {
          name: "after",
          description: "Only rows after this ordinal: `next` of the previous page.",
          schema: { type: "integer", minimum: 0 },
        },
        {
          name: "limit",
          description: "The maximum number of rows. Default: 500, which is the maximum.",
          schema: { type: "integer", minimum: 1 },
        },
      ],
      answers: { 200: jsonAnswer("A page of the timeline.", schemaRef("Timeline")) },
      handle: async ({ inspection, param, url, pageSlot }) => {
        checkQuery(url.searchParams, ["after", "limit"]);
        const after = queryParameter(url.searchParams, "after", wholeNumber) ?? 0;
        const limit = queryParameter(url.searchParams, "limit", wholeNumber) ?? 500;
        await pageSlot();
        const timeline = await inspection.timeline(param("id"), param("turnId"), { after, limit });
        return records ? jsonText(redactedRecord(timeline)) : json(timeline);
      },
    }),
    route({
      method: "GET",
      path: "/sessions/{id}/turns/{turnId}/effects/{ordinal}",
      operationId: "getEffect",
      summary:
        "Returns everything that is stored about one row of the journal of a turn. Causes, request bodies, environments and references to providers are part of it only if turn records may be exported.",
      answers: { 200: jsonAnswer("The row.", schemaRef("EffectDetail")) },
      handle: async ({ inspection, param, pageSlot }) => {
        const ordinal = wholeNumber.read(param("ordinal"));
        if (ordinal === null) throw noRow();
        await pageSlot();
        const detail = await inspection.effect(param("id"), param("turnId"), ordinal);
        return records ? jsonText(redactedRecord(detail)) : json(publicDetail(detail));
      },
    }),
    operatorRoute({
      method: "GET",
      path: "/workers",
      operationId: "listWorkers",
      summary: "Lists the processes that drive turns, of all tenants. Only for operators.",
      answers: { 200: jsonAnswer("The processes.", schemaRef("WorkerList")) },
      handle: async ({ pageSlot }) => {
        await pageSlot();
        return json({ items: await reader.workers() });
      },
    }),
    bodyRoute<object>({
      method: "POST",
      path: "/scenarios/{name}",
      operationId: "startScenario",
      summary: "Starts a prepared conversation of the offline model. Only for operators.",
      body: objectSchema<object>({}),
      answers: { 201: jsonAnswer("The session of the conversation.", schemaRef("ScenarioStarted")) },
      handle: async (call) => {
        if (!mayStartScenarios(call.caller)) throw new HttpError("forbidden", "only operators may start scenarios");
        const scenario = byName.get(call.param("name"));
        if (scenario === undefined) throw noScenario();
        const { sessionId } = await scenario.start(operatorRuntime(call));
        return json({ sessionId }, 201);
      },
    }),
  ];
}

/** Records that callers may read. Others hold references to work of the provider's account, or values of middleware. */
const publicRecords = /^(?:attempt|delay|child)\/|^(?:prepared|started)$/;

/**
 * The part of a row that a caller may read without `records`. Failures are redacted when it is serialised (failure.ts); this removes what is no failure: the body of a
 * request, instructions and settings of an environment, and the text of an exception that a tool threw.
 */
function publicDetail({ item, records, ...detail }: EffectDetail): EffectDetail {
  return {
    ...detail,
    item: publicItem(item),
    records: records.filter(({ name }) => publicRecords.test(name)),
  };
}

function publicItem(item: Json): Json {
  if (!isJsonObject(item) || !isJsonObject(item["response"])) return item;
  const { response } = item;
  const { environment, outcome, error } = response;
  const failure = isJsonObject(outcome) && isJsonObject(outcome["failure"]) ? outcome["failure"] : null;
  const { reason, message } = failure ?? {};
  return {
    ...item,
    response: {
      ...response,
      ...("requestBody" in response ? { requestBody: null } : {}),
      ...(isJsonObject(error) ? { error: { ...error, requestBody: null } } : {}),
      ...(isJsonObject(environment) ? { environment: { model: environment["model"] ?? null } } : {}),
      ...(typeof reason === "string" && typeof message === "string" && publicToolMessage(reason, null, "") !== ""
        ? { content: publicToolMessage(reason, null, message) }
        : {}),
      ...(response["type"] === "environment_failed" || response["type"] === "code_failed"
        ? { message: "a function of the program failed" }
        : {}),
    },
  };
}

function isJsonObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Scenarios use an engine of their own, so a key that lists engines may not start them. */
function mayStartScenarios({ operator, engines }: Caller): boolean {
  return operator === true && engines === undefined;
}

function noRow(): RuntimeError {
  return new RuntimeError("not_found", { message: "the number of a row must be a whole number" });
}

function noScenario(): RuntimeError {
  return new RuntimeError("not_found", { message: "there is no scenario of this name" });
}

function scenarioView({ name, title, description }: Scenario): ScenarioView {
  return { name, title, description };
}

/** The engines that the caller may use. Instructions are texts of the operator. */
function enginesFor(views: readonly EngineView[], { engines, operator }: Caller): readonly EngineView[] {
  const visible = engines === undefined ? views : views.filter(({ name }) => engines.includes(name));
  return operator === true ? visible : visible.map((view) => ({ ...view, instructions: null }));
}
