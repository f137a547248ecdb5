// Which adapters and models a model call may go to, in order. The model of the environment comes first, then the fallback list.
//
// A model that answered as a fallback stays for the rest of the turn (Q7): the response names it, and the kernel makes it the model of the environment.
// Its adapter has to stay too, because another adapter may not know the model, or know another one by the same name. An adapter is not data, so the
// response cannot name it. It is found in the fallback list by the model of the response and, where several fallbacks have that model, by the provider
// in the route of the reply. A replayed response gives the same adapter as a fresh one.

import type { Adapter } from "../../engine/internal.ts";
import type { ModelReplied } from "../../kernel/internal.ts";
import type { ModelName } from "../../model/internal.ts";
import type { RunPlan } from "../plan/plan.ts";

import { canonicalJson } from "../../model/internal.ts";
import { isPair } from "../plan/plan.ts";

export type Route = {
  readonly adapter: Adapter;
  readonly model: ModelName | null;
  /** The model that the response names if this route answers; `null` where it is the model of the environment already. */
  readonly changed: ModelName | null;
};

/** The newest fallback that answered in a turn. */
export type AnsweredFallback = { readonly model: ModelName; readonly provider: string | null };

/** The fallback that a response came from; `null`: the model of the environment answered. */
export function answeredFallback({ model, reply }: ModelReplied): AnsweredFallback | null {
  return model === null ? null : { model, provider: reply.route?.provider ?? null };
}

/** Where a call for this model goes first, and where it goes after failures. */
export function routesOf(
  { adapter, fallback }: Pick<RunPlan, "adapter" | "fallback">,
  model: ModelName | null,
  answered: AnsweredFallback | null,
): readonly [Route, ...Route[]] {
  const others = fallback.map((one) =>
    isPair(one) ? { ...one, changed: one.model } : { adapter, model: one, changed: one },
  );
  // The environment may have got another model since (`prepareStep`); that one is asked of the engine's own adapter.
  const stays = answered !== null && model !== null && canonicalJson(model) === canonicalJson(answered.model);
  const first = stays ? (findAnswered(others, answered)?.adapter ?? adapter) : adapter;
  return [{ adapter: first, model, changed: null }, ...others];
}

function findAnswered(
  routes: readonly (Route & { readonly model: ModelName })[],
  { model, provider }: AnsweredFallback,
): Route | undefined {
  const known = routes.filter((route) => modelId(route.model) === modelId(model));
  return known.find((route) => route.adapter.provider === provider) ?? known[0];
}

/** The id of a model, which is the same however much a catalog knows about it. */
export function modelId(model: ModelName | null): string | null {
  return typeof model === "string" ? model : (model?.id ?? null);
}
