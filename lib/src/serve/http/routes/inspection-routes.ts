// The inspection operations: what pages such as the studio read about the server, its engines and its turns. Served
// with the option `inspect` of the handler.
//
// What callers see
//   every caller   its own sessions; the engines that it may use; no cause, provider message or storage message, unless
//                  the handler has `records: true`
//   operators      all sessions of their tenant, causes, messages of providers and request ids, the instructions of
//                  engines, the workers and sums of all tenants; the scenarios, unless the key lists engines
//
// Invariants
//   1. No response contains an API key, a header of an adapter, or the context of a caller: engines are described by
//      name, model, instructions and tools.
//   2. A route writes nothing, except `POST /scenarios/{name}`, which starts a session in the caller's tenant.

import type { EffectDetail, EngineView, Json } from "../../../core/model/internal.ts";
import type { Runtime } from "../../../durable/internal.ts";
import type { inspectionOperations, ScenarioView } from "../../contract/internal.ts";
import type { Inspection } from "../../inspect/internal.ts";
import type { Caller } from "../auth.ts";
import type { Implementations } from "./operation-route.ts";
import type { AllowedOption } from "./turn-options.ts";

import { MisuseError, RuntimeError } from "../../../core/model/internal.ts";
import { isObject } from "../../../core/model/parse/reading.ts";
import { wholeNumber } from "../../contract/internal.ts";
import { reachesTenants } from "../auth.ts";
import { publicToolMessage, redactedRecord } from "../failure.ts";
import { libraryVersion } from "../openapi/openapi.ts";
import { jsonText } from "./route.ts";
import { boundedPage, operatorRuntime } from "./session-routes.ts";

/** Details for the inspection routes (`inspect` of {@link HttpOptions}). */
export type InspectOptions = {
  /** The kind of storage, for example `sqlite`, as `GET /server` names it. Default: it is not named. */
  readonly storage?: string;
  /** Prepared conversations that operators can start with `POST /scenarios/{name}`. Default: none. */
  readonly scenarios?: readonly Scenario[];
};

/** A prepared conversation that shows one behaviour, and the function that starts it. */
export type Scenario = ScenarioView & {
  /**
   * Starts the conversation in a session of the caller's tenant. An error that it throws is answered like that of a
   * verb.
   */
  readonly start: (sessions: Runtime) => Promise<{ readonly sessionId: string }>;
};

/** Turns per read of the storage. A turn has the text of its answer. */
const turnsPerRead = 4;

/** The options of the handler that `GET /server` reports. */
type HandlerSettings = { readonly allow: readonly AllowedOption[]; readonly records: boolean; readonly admin: boolean };

/** The inspection operations. Throws `MisuseError` if two scenarios have the same name. */
export function inspectionImplementations(
  reader: Inspection,
  { storage = null, scenarios = [] }: { readonly storage?: string | null; readonly scenarios?: readonly Scenario[] },
  { allow, records, admin }: HandlerSettings,
): Implementations<typeof inspectionOperations> {
  const byName = new Map(scenarios.map((scenario) => [scenario.name, scenario]));
  if (byName.size < scenarios.length) {
    throw new MisuseError("invalid_argument", "inspect: two scenarios have the same name", {
      path: ["inspect", "scenarios"],
    });
  }
  const seesCauses = ({ operator }: Caller): boolean => records || operator === true;
  return {
    server: async ({ caller }) => ({
      version: libraryVersion,
      storage,
      durability: reader.durability,
      search: reader.canSearch,
      operator: caller.operator === true,
      tenants: admin && reachesTenants(caller) && caller.engines === undefined,
      tenant: caller.tenant ?? "",
      allow,
      records,
      scenarios: mayStartScenarios(caller) ? scenarios.map(scenarioView) : [],
    }),
    engines: async ({ caller }) => ({ items: enginesFor(reader.engines(), caller) }),
    turns: (request) =>
      boundedPage(request, { itemsPerRead: turnsPerRead }, (part) =>
        request.inspection.turns(request.param("id"), part),
      ),
    timeline: async ({ caller, inspection, param, query: { after = 0, limit = 500 } }) => {
      const timeline = await inspection.timeline(param("id"), param("turnId"), { after, limit });
      return seesCauses(caller) ? jsonText(redactedRecord(timeline)) : timeline;
    },
    effect: async ({ caller, inspection, param }) => {
      const ordinal = wholeNumber.read(param("ordinal"));
      if (ordinal === null) throw noRow();
      const detail = await inspection.effect(param("id"), param("turnId"), ordinal);
      return seesCauses(caller) ? jsonText(redactedRecord(detail)) : publicDetail(detail);
    },
    workers: async () => ({ items: await reader.workers() }),
    startScenario: async (request) => {
      const scenario = byName.get(request.param("name"));
      if (scenario === undefined) throw noScenario();
      const { sessionId } = await scenario.start(operatorRuntime(request));
      return { sessionId };
    },
    // The sums are those of all callers, so only operators read them. One that names a tenant stays in it.
    overview: ({ caller: { tenant }, query }) =>
      tenant === undefined ? reader.overview({ ...query, allTenants: true }) : reader.tenant(tenant).overview(query),
    // Callers find messages of their own tenant only.
    search: async ({ inspection, query: { q = "", limit = 20 } }) => ({
      items: await inspection.search(q, { limit }),
    }),
  };
}

/** Records that callers may read. Others hold references to work of the provider's account, or values of middleware. */
const publicRecords = /^(?:attempt|delay|child)\/|^(?:prepared|started)$/;

/**
 * The part of a row that a caller may read without `records`. Failures are redacted when it is serialised (failure.ts);
 * this removes what is no failure: the body of a request, instructions and settings of an environment, and the text of
 * an exception that a tool threw.
 */
function publicDetail({ item, records, ...detail }: EffectDetail): EffectDetail {
  return { ...detail, item: publicItem(item), records: records.filter(({ name }) => publicRecords.test(name)) };
}

function publicItem(item: Json): Json {
  if (!isObject(item) || !isObject(item["response"])) return item;
  const { response } = item;
  const { environment, outcome, error } = response;
  const failure = isObject(outcome) && isObject(outcome["failure"]) ? outcome["failure"] : null;
  const { reason, message } = failure ?? {};
  return {
    ...item,
    response: {
      ...response,
      ...("requestBody" in response ? { requestBody: null } : {}),
      ...(isObject(error) ? { error: { ...error, requestBody: null } } : {}),
      ...(isObject(environment) ? { environment: { model: environment["model"] ?? null } } : {}),
      ...(typeof reason === "string" && typeof message === "string" && publicToolMessage(reason, null, "") !== ""
        ? { content: publicToolMessage(reason, null, message) }
        : {}),
      ...(response["type"] === "environment_failed" || response["type"] === "code_failed"
        ? { message: "a function of the program failed" }
        : {}),
    },
  };
}

/** Scenarios use an engine of their own, so a key that lists engines may not start them. */
function mayStartScenarios({ operator, engines }: Caller): boolean {
  return operator === true && engines === undefined;
}

export function noRow(): RuntimeError {
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
