// The user messages that HTTP callers may send. They have no origin, and no file or URL that the content policy rejects
// (content-policy.ts). Other roles than `user` would let a caller write history or instructions.

import type { UserMessage } from "../../core/model/internal.ts";
import type { Shape } from "../../core/model/parse/reading.ts";
import type { BodySchema } from "../contract/internal.ts";
import type { ContentPolicy } from "./content-policy.ts";

import { messageShape } from "../../core/model/parse/reading.ts";
import { resultRef } from "../contract/internal.ts";
import { partProblem } from "./content-policy.ts";

type Reading = Parameters<Shape<unknown>>[1];

/** A user message from an HTTP caller. */
export const userMessage = (policy: ContentPolicy): BodySchema<UserMessage> => ({
  shape: (input, reading) => {
    const message = messageShape(input, reading);
    if (typeof message === "symbol") return message;
    if (message.role !== "user") return rejected(reading, ["role"], "be user: requests add user messages only");
    const problem = messageProblem(message, policy);
    return problem === null ? message : rejected(reading, problem.path, problem.must);
  },
  schema: resultRef("UserMessage").schema,
});

type Problem = { readonly path: readonly (string | number)[]; readonly must: string };

/**
 * Provider options are fields of the operator's requests: they can select other block types, files of the provider
 * account and prices. A route of the application that trusts its caller adds them itself.
 */
const noProviderOptions = "be absent: requests cannot set provider options";

function messageProblem({ origin, providerOptions, content }: UserMessage, policy: ContentPolicy): Problem | null {
  if (origin !== null) return { path: ["origin"], must: "be absent: requests cannot set the origin of a message" };
  if (providerOptions !== undefined) return { path: ["providerOptions"], must: noProviderOptions };
  const parts = typeof content === "string" ? [] : content;
  const index = parts.findIndex((part) => part.providerOptions !== undefined);
  if (index >= 0) return { path: ["content", index, "providerOptions"], must: noProviderOptions };
  for (const [position, part] of parts.entries()) {
    const must = partProblem(part, policy);
    if (must !== null) return { path: ["content", position], must };
  }
  return null;
}

/** Reports an issue below the value that is read. */
function rejected(reading: Reading, [key, ...path]: Problem["path"], must: string): ReturnType<Reading["report"]> {
  if (key === undefined) return reading.report("unknown", `must ${must}`);
  return reading.at(key, (_, inner) => rejected(inner, path, must), null);
}
