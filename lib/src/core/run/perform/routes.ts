// Which adapters and models a model call may go to, in order. The model of the environment comes first, then the
// fallback list.
//
// A model that answered as a fallback stays for the rest of the turn (Q7): the response names it, and the kernel makes
// it the model of the environment. Its adapter has to stay too, because another adapter may not know the model, or know
// another one by the same name. An adapter is not data, so the response cannot name it. It is found in the fallback
// list by the model of the response and, where several fallbacks have that model, by the provider in the route of the
// reply. A replayed response gives the same adapter as a fresh one.

import type { Adapter } from "../../engine/internal.ts";
import type { ModelReplied } from "../../kernel/internal.ts";
import type { ModelName } from "../../model/internal.ts";
import type { RunPlan } from "../plan/plan.ts";

import { canonicalJson } from "../../model/internal.ts";
import { isPair } from "../plan/plan.ts";

/** An adapter and the model to ask it for. */
export type Route = {
  readonly adapter: Adapter;
  readonly model: ModelName | null;
  /**
   * The model that the response names if this route answers; `null` where it is the model of the environment already.
   */
  readonly changed: ModelName | null;
};

/** The newest fallback that answered in a turn. */
export type AnsweredFallback = { readonly model: ModelName; readonly provider: string | null };

/** The fallback that a response came from; `null`: the model of the environment answered. */
export function answeredFallback({ model, reply }: ModelReplied): AnsweredFallback | null {
  return model === null ? null : { model, provider: reply.route?.provider ?? null };
}

/** The routes of a call for this model: the first one, and those tried after failures. */
export function routesOf(
  { adapter, fallback }: Pick<RunPlan, "adapter" | "fallback">,
  model: ModelName | null,
  answered: AnsweredFallback | null,
): readonly [Route, ...Route[]] {
  const others = fallback.map((entry) =>
    isPair(entry) ? { ...entry, changed: entry.model } : { adapter, model: entry, changed: entry },
  );
  // `prepareStep` may have changed the model since; the adapter of the fallback stays only for the model it answered
  // with.
  const isAnsweredModel = answered !== null && model !== null && canonicalJson(model) === canonicalJson(answered.model);
  const first = isAnsweredModel ? (findAnswered(others, answered)?.adapter ?? adapter) : adapter;
  return [{ adapter: first, model, changed: null }, ...others];
}

function findAnswered(
  routes: readonly (Route & { readonly model: ModelName })[],
  { model, provider }: AnsweredFallback,
): Route | undefined {
  const candidates = routes.filter((route) => modelId(route.model) === modelId(model));
  return candidates.find((route) => route.adapter.provider === provider) ?? candidates[0];
}

/** The id of a model. Unlike the model value it does not depend on what a catalog added to it. */
export function modelId(model: ModelName | null): string | null {
  return typeof model === "string" ? model : (model?.id ?? null);
}
