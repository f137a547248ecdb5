// Checks one recorded request: converts it, encodes it with the codec, and compares the two bodies.

import type { Verdict } from "./compare.ts";
import type { Converted, RecordedApi, Recording, ReplyForm } from "./convert.ts";
import type { JsonObject } from "everturn";
import type { Violation } from "everturn/testing";

import { renderIssue, validateRequest } from "everturn/advanced";
import { violations } from "everturn/testing";

import { compare } from "./compare.ts";
import { mutations } from "./mutations.ts";

export type Checked = {
  readonly verdict: Verdict | Refused;
  readonly options: readonly string[];
  readonly providerOptions: readonly string[];
  /** Defects that were put into the encoded body, and whether the comparison found them. */
  readonly mutations: readonly { readonly name: string; readonly isFound: boolean }[];
  /** The rules of the provider that the encoded body violates. */
  readonly refusals: readonly Violation[];
};

/** The request could not be converted or encoded. */
type Refused = { readonly type: "refused"; readonly message: string };

/** Checks a request with its replies in both forms. The worse verdict counts. */
export function checkRequest(api: RecordedApi, recording: Recording): Checked {
  const [decoded, written] = [checkForm(api, recording, "decoded"), checkForm(api, recording, "written")];
  return rank(written.verdict) > rank(decoded.verdict) ? written : decoded;
}

function rank({ type }: Verdict | Refused): number {
  return ["equal", "harmless", "different", "refused"].indexOf(type);
}

function checkForm(api: RecordedApi, recording: Recording, form: ReplyForm): Checked {
  let converted: Converted;
  let sent: JsonObject;
  try {
    converted = api.convert(recording, form);
    const { body } = api.codec.encode(converted.request, converted.context);
    sent = body;
  } catch (error) {
    return refused(error instanceof Error ? error.message : String(error));
  }
  const issues = validateRequest(converted.request);
  if (!issues.ok) return refused(issues.failure.issues.map(renderIssue).join("; "));
  const rules = api.rules(recording);
  const verdict = compare({ recorded: recording.body, sent }, rules);
  const found =
    verdict.type === "different"
      ? []
      : mutations.flatMap(({ name, mutate }) => {
          const mutated = mutate(api.api, sent);
          if (mutated === null) return [];
          return [{ name, isFound: compare({ recorded: recording.body, sent: mutated }, rules).type === "different" }];
        });
  const url = recording.model === null ? {} : { url: `/models/${recording.model}:generateContent` };
  const refusals = violations(api.api, { body: sent, ...url });
  return {
    verdict,
    options: converted.options,
    providerOptions: converted.providerOptions,
    mutations: found,
    refusals,
  };
}

function refused(message: string): Checked {
  return { verdict: { type: "refused", message }, options: [], providerOptions: [], mutations: [], refusals: [] };
}
